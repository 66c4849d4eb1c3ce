//! Measures a file or block device and prints its profile as JSON.
//!
//! `cargo run --release -p saki-io --example calibrate -- FILE [MODEL]`

use std::error::Error;

use saki_io::{CalibrateOptions, DeviceOptions, ModeledDevice, calibrate, open_device};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let mut device = open_device(&path, DeviceOptions { read_only: true, ..DeviceOptions::default() })?;
    if let Some(model) = arguments.next() {
        device = ModeledDevice::new(device, model.parse()?);
    }
    let profile = calibrate(&*device, &CalibrateOptions::default(), &mut |progress| {
        eprintln!("{}/{} {}", progress.steps_done, progress.steps, progress.message);
    })?;
    println!("{}", profile.to_json());
    for bytes in [4096, 8192, 16_384] {
        eprintln!(
            "{bytes} bytes: best {:.0} IOPS, knee at depth {}, {:.3} ms alone",
            profile.best_iops(bytes),
            profile.knee_depth(bytes),
            profile.depth_one_latency(bytes) * 1e3
        );
    }
    Ok(())
}
