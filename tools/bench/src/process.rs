//! What the system knows of this process and its machine, read from `/proc`.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

/// Kernel clock ticks a second, as `/proc` counts them: 100 on every Linux that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time of this process so far, all threads: user, system. Steps of 10 ms.
pub fn cpu_time() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses, and may hold blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let time = |ticks: u64| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND);
    // Fields 14 and 15 of the whole line; the first after the name is number 3.
    (time(ticks(11)), time(ticks(12)))
}

/// The most memory this process has held at once, in MiB.
pub fn peak_mib() -> f64 {
    field_kib("/proc/self/status", "VmHWM:") / 1024.0
}

/// Cores, memory and kernel: what figures depend on and a reader may compare.
pub fn machine() -> Value {
    json!({
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_mib": (field_kib("/proc/meminfo", "MemTotal:") / 1024.0).round(),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

fn field_kib(path: &str, name: &str) -> f64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        let (user, _) = cpu_time();
        let mut sum = 0_u64;
        while cpu_time().0 == user {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time().0 > user);
        assert!(peak_mib() > 1.0);
        assert!(machine()["memory_mib"].as_f64().unwrap() > 100.0);
    }
}
