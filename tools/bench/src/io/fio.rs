//! fio as a yardstick: the same reads by the tool that everybody measures disks with.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The command that measures what `random_read_iops` returns.
pub fn command(file: &Path, file_mib: u64, bytes: usize, depth: usize, seconds: f64) -> Vec<String> {
    // Registered file and buffers and batched submission: what the uring lane has too.
    let batch = (depth / 4).clamp(1, 64);
    [
        "fio --name=read --ioengine=io_uring --direct=1 --rw=randread --norandommap --randrepeat=0 --thread",
        "--time_based --readonly --fixedbufs --registerfiles --group_reporting --output-format=json",
    ]
    .iter()
    .flat_map(|text| text.split(' ').map(String::from))
    .chain([
        format!("--filename={}", file.display()),
        format!("--size={file_mib}M"),
        format!("--bs={bytes}"),
        format!("--iodepth={depth}"),
        format!("--iodepth_batch_submit={batch}"),
        format!("--iodepth_batch_complete_max={batch}"),
        format!("--runtime={}", seconds.ceil()),
    ])
    .collect()
}

/// Random reads a second that fio reaches.
pub fn random_read_iops(file: &Path, file_mib: u64, bytes: usize, depth: usize, seconds: f64) -> Result<f64, String> {
    let words = command(file, file_mib, bytes, depth, seconds);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .map_err(|error| format!("fio cannot be run ({error}); install Debian's package fio"))?;
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Warnings come before the JSON.
    let answer: Value =
        serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).map_err(|error| format!("fio: {error}"))?;
    answer["jobs"][0]["read"]["iops"].as_f64().ok_or_else(|| "fio reported no IOPS".into())
}
