//! `saki calibrate`

use std::io;
use std::path::{Path, PathBuf};

use saki::{Database, OpenOptions};
use saki_io::{CalibrateOptions, CalibrateProgress, DeviceOptions, DeviceProfile};

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, open};
use crate::cli::output::{Align, Grid};
use crate::cli::{progress, size};

/// Measure what a device can do; a database keeps the answer and plans by it
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A database (it stores the profile), or any file or block device (nothing is written)
    #[arg(value_name = "DB|PATH")]
    path: PathBuf,

    #[command(flatten)]
    open: OpenArgs,
}

pub fn run(args: &Args) -> Outcome {
    let is_database = open(&args.path, OpenOptions { base_only: true, ..args.open.options(true) }).is_ok();
    let profile = if is_database {
        let database = open(&args.path, args.open.options(false))?;
        measure_database(&database, &args.path)?
    } else {
        with_bar(|report| measure(&args.path, report))?
    };
    print(&profile)?;
    match (is_database, &args.open.model) {
        (true, None) => say!("stored in {}", args.path.display()),
        (true, Some(_)) => say!("not stored: a model was measured, not the device"),
        (false, _) => say!("not stored: {} is not a database", args.path.display()),
    }
    Ok(())
}

/// Measures a database's device under a progress bar; the database keeps the profile.
pub fn measure_database(database: &Database, path: &Path) -> Outcome<DeviceProfile> {
    with_bar(|report| database.calibrate(report).map_err(|error| Failure::at(path, &error)))
}

fn with_bar<T>(work: impl FnOnce(&mut dyn FnMut(&CalibrateProgress)) -> T) -> T {
    let bar = progress::steps("measuring the disk", 1);
    let result = work(&mut |at| {
        bar.set_length(at.steps as u64);
        bar.set_position(at.steps_done as u64);
        bar.set_message(at.message.clone());
    });
    bar.finish_and_clear();
    result
}

fn measure(path: &Path, report: &mut dyn FnMut(&CalibrateProgress)) -> Outcome<DeviceProfile> {
    let options = DeviceOptions { read_only: true, ..DeviceOptions::default() };
    let device = saki_io::open_device(path, options).map_err(|error| Failure::at(path, &error))?;
    saki_io::calibrate(device.as_ref(), &CalibrateOptions::default(), report).map_err(|error| Failure::at(path, &error))
}

fn print(profile: &DeviceProfile) -> Outcome {
    say!("{}", profile.device);
    let mut grid = Grid::new([
        ("size", Align::Right),
        ("in flight", Align::Right),
        ("reads/s", Align::Right),
        ("MB/s", Align::Right),
        ("mean", Align::Right),
        ("99 %", Align::Right),
    ]);
    for point in profile.points() {
        grid.row([
            size::display(u64::from(point.bytes)),
            point.depth.to_string(),
            progress::short(point.iops),
            progress::short(point.iops * f64::from(point.bytes) / 1e6),
            progress::seconds(point.latency_mean),
            progress::seconds(point.latency_p99),
        ]);
    }
    grid.write(&mut io::stdout().lock())?;
    let bytes = 4096;
    say!(
        "\nOne read of 4 KiB takes {}; {} in flight bring {} reads/s, {:.0} times one at a time.",
        progress::seconds(profile.depth_one_latency(bytes)),
        profile.knee_depth(bytes),
        progress::short(profile.best_iops(bytes)),
        profile.best_iops(bytes) * profile.depth_one_latency(bytes)
    );
    say!("Long reads: {} MB/s.", progress::short(profile.sequential_bandwidth() / 1e6));
    Ok(())
}
