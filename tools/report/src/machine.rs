//! The machine that a benchmark runs on: what figures depend on and a reader may compare.

use std::fs;

use serde_json::{Value, json};

/// Cores, memory and kernel.
pub fn machine() -> Value {
    json!({
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_mib": memory_mib().round(),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

fn memory_mib() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
