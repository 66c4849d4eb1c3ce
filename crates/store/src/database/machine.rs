//! What the machine has: how much memory.

use std::fs::read_to_string;

/// What is assumed where the system does not tell: 4 GiB.
const BYTES_ASSUMED: u64 = 4 << 30;

/// Bytes of memory of the machine, or what this process's group may have of it.
pub fn memory_bytes() -> u64 {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min().unwrap_or(BYTES_ASSUMED)
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_memory_is_read() {
        assert_eq!(total("MemTotal:       24590212 kB\nMemFree: 1 kB\n"), Some(24_590_212 << 10));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(memory_bytes() > 64 << 20);
    }
}
