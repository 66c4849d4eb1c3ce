//! Random reads from a file or block device at several depths.
//!
//! `cargo run --release -p saki-io --example random_reads -- FILE [uring|threads] [BYTES] [SECONDS] [MODEL or ""]
//! [DEPTH]`

use std::error::Error;
use std::time::Duration;

use saki_base::{Arena, Buffer};
use saki_io::{Backend, DeviceOptions, ModeledDevice, THREADS_DEFAULT, open_device, random_reads_into};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let backend = match arguments.next().as_deref() {
        Some("threads") => Backend::Threads(THREADS_DEFAULT),
        Some("uring") => Backend::Uring,
        _ => Backend::Auto,
    };
    let bytes = arguments.next().map_or(Ok(4096), |text| text.parse())?;
    let seconds = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let mut device = open_device(&path, DeviceOptions { backend, read_only: true, ..DeviceOptions::default() })?;
    if let Some(model) = arguments.next().filter(|text| !text.is_empty()) {
        device = ModeledDevice::new(device, model.parse()?);
    }
    println!("{}, {bytes} bytes", device.name());
    let only = arguments.next().and_then(|text| text.parse::<u32>().ok());
    for depth in [1, 4, 16, 64, 128, 256, 1024] {
        if only.is_some_and(|only| only != depth) {
            continue;
        }
        let (arena, frames) = Arena::new(depth, bytes)?;
        let mut lane = device.open_lane(Some(&arena))?;
        let buffers = frames.into_iter().map(Buffer::Frame).collect();
        let duration = Duration::from_secs_f64(seconds);
        let (measured, _) = random_reads_into(&*device, &mut *lane, buffers, duration, u64::from(depth))?;
        let latency = measured.latency;
        println!(
            "depth {depth:5}: {:8.0} IOPS, mean {:.3} ms, p99 {:.3} ms",
            measured.iops(),
            latency.mean * 1e3,
            latency.p99 * 1e3
        );
    }
    Ok(())
}
