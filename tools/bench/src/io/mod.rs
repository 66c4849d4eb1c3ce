//! Random reads over depth and size, with the ways to the device side by side.
//!
//! Each lane reads the same sample file at every depth and size. What arrives is
//! checked against what was written there: 256 reads of each lane and size before
//! it is measured, and afterwards the last read of every buffer. With `--fio` the
//! best point of the uring lane is measured again, in turns with fio.

mod fio;
mod samples;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use saki_base::{AlignedBuffer, Arena, BUFFER_ALIGNMENT, Buffer, Random};
use saki_io::{
    Backend, Device, DeviceOptions, Lane, Measurement, ModeledDevice, Operation, Wait, open_device, random_reads_into,
};
use serde_json::json;

use saki::plot::{Axis, Chart, Series};

use crate::plot::save;
use saki_report::{Common, Report, figure};

#[derive(Args)]
pub struct Options {
    /// Sample file to read; made if it is not there
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Size of the sample file: larger than any cache in the device
    #[arg(long, default_value_t = 8192)]
    file_mib: u64,
    /// Ways to the device: uring, threads, threads:<n>, modeled:<model>
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = ["uring", "threads", "modeled:cloud-volume"].map(String::from)
    )]
    lanes: Vec<String>,
    /// Bytes of a read
    #[arg(long, value_delimiter = ',', default_values_t = [512, 4096, 8192, 16384, 65536, 131_072])]
    sizes: Vec<usize>,
    /// Reads in flight at once
    #[arg(long, value_delimiter = ',', default_values_t = (0..=12).map(|power| 1 << power))]
    depths: Vec<usize>,
    /// Length of each measurement
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Compare the uring lane with fio (io_uring, direct), in turns on the same file
    #[arg(long)]
    fio: bool,
    /// Bytes of a read in the comparison with fio
    #[arg(long, default_value_t = 4096)]
    fio_size: usize,
}

/// One measured point.
struct Point {
    lane: String,
    bytes: usize,
    depth: usize,
    iops: f64,
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("io", common);
    let file = options.file.clone().unwrap_or_else(|| common.data.join("io-sample"));
    let file_mib = if common.small { options.file_mib.min(64) } else { options.file_mib };
    let seconds = if common.small { options.seconds.min(0.02) } else { options.seconds };
    let keep = |value: &&usize| !common.small || [512, 1, 4096, 32, 131_072].contains(*value);
    let (sizes, depths): (Vec<_>, Vec<_>) =
        (options.sizes.iter().filter(keep).collect(), options.depths.iter().filter(keep).collect());
    samples::prepare(&file, file_mib << 20).map_err(|error| format!("{}: {error}", file.display()))?;
    report.configure("file_mib", file_mib);
    report.configure("seconds_per_point", seconds);

    let mut points = Vec::new();
    for name in &options.lanes {
        let device = match open(name, &file) {
            Ok(device) => device,
            Err(error) => {
                report.note(format!("lane {name} left out: {error}"));
                continue;
            }
        };
        println!(
            "\n{}\n{:>8}{:>7}{:>12}{:>10}{:>10}{:>10}",
            device.name(),
            "bytes",
            "depth",
            "IOPS",
            "MB/s",
            "p50 us",
            "p99 us"
        );
        for &&bytes in &sizes {
            if bytes % device.block_bytes() != 0 {
                report.note(format!("{name}: no reads of {bytes} bytes, its blocks are of {}", device.block_bytes()));
                continue;
            }
            verify_reads(&*device, bytes, common.seed, &mut report)?;
            for &&depth in &depths {
                let (measured, whole) = measure(&*device, bytes, depth, seconds, common.seed)?;
                report.check(whole, || format!("{name}: a read of {bytes} bytes at depth {depth} brought other data"));
                print_point(bytes, depth, &measured);
                points.push(Point { lane: name.clone(), bytes, depth, iops: measured.iops() });
                report.row(json!({
                    "lane": name, "device": device.name(), "bytes": bytes, "depth": depth, "iops": measured.iops(),
                    "mb_per_second": measured.bytes_per_second() / 1e6, "latency_seconds": measured.latency,
                }));
            }
        }
    }
    summarise(&points, &mut report);
    if options.fio {
        compare_with_fio(&file, file_mib, options.fio_size, seconds.max(2.0), &points, common, &mut report)?;
    }
    if let Some(path) = &common.plot {
        plot(path, &points)?;
    }
    Ok(report)
}

/// The device that a lane's name stands for, over `file`.
pub fn open(name: &str, file: &Path) -> Result<Arc<dyn Device>, String> {
    let open = |backend| {
        let options = DeviceOptions { backend, read_only: true, ..DeviceOptions::default() };
        open_device(file, options).map_err(|error| error.to_string())
    };
    match name.split_once(':') {
        None if name == "uring" => open(Backend::Uring),
        None if name == "threads" => open(Backend::Threads(saki_io::THREADS_DEFAULT)),
        Some(("threads", count)) => match count.parse() {
            Ok(count) if count > 0 => open(Backend::Threads(count)),
            _ => Err(format!("{count} is not a number of threads")),
        },
        Some(("modeled", model)) => {
            let model = model.parse().map_err(|error| format!("{error}"))?;
            Ok(ModeledDevice::new(open(Backend::Auto)?, model))
        }
        _ => Err(format!("{name} is none of uring, threads, threads:<n>, modeled:<model>")),
    }
}

/// Random reads at one depth; whether the last read of each buffer brought a sample file's data.
fn measure(
    device: &dyn Device,
    bytes: usize,
    depth: usize,
    seconds: f64,
    seed: u64,
) -> Result<(Measurement, bool), String> {
    let (mut lane, buffers) = lane_with_buffers(device, bytes, depth)?;
    let duration = Duration::from_secs_f64(seconds);
    let (measured, buffers) =
        random_reads_into(device, &mut *lane, buffers, duration, seed).map_err(|error| error.to_string())?;
    let whole = buffers.iter().all(|buffer| samples::is_whole(buffer));
    Ok((measured, whole))
}

/// Buffers that the lane has registered, where their size allows it: so does the engine's cache.
fn lane_with_buffers(device: &dyn Device, bytes: usize, depth: usize) -> Result<(Box<dyn Lane>, Vec<Buffer>), String> {
    let arena = match bytes.is_multiple_of(BUFFER_ALIGNMENT) {
        true => Some(Arena::new(depth as u32, bytes).map_err(|error| error.to_string())?),
        false => None,
    };
    let lane = device.open_lane(arena.as_ref().map(|(arena, _)| arena)).map_err(|error| error.to_string())?;
    let buffers = match arena {
        Some((_, frames)) => frames.into_iter().map(Buffer::Frame).collect(),
        None => (0..depth).map(|_| Buffer::Aligned(AlignedBuffer::new(bytes))).collect(),
    };
    Ok((lane, buffers))
}

/// Reads 256 random places and compares each with what was written there.
fn verify_reads(device: &dyn Device, bytes: usize, seed: u64, report: &mut Report) -> Result<(), String> {
    const COUNT: usize = 256;
    let (mut lane, buffers) = lane_with_buffers(device, bytes, COUNT)?;
    let positions = device.length_bytes().map_err(|error| error.to_string())? / bytes as u64;
    let mut random = Random::new(seed);
    for buffer in buffers {
        let offset = random.below(positions) * bytes as u64;
        lane.submit(Operation::read(offset, offset, buffer));
    }
    let mut completions = Vec::new();
    while lane.in_flight() > 0 {
        lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
    }
    report.check(completions.len() == COUNT, || format!("{} of {COUNT} reads ended", completions.len()));
    for completion in &completions {
        let right = completion.result.is_ok()
            && completion.buffer.as_ref().is_some_and(|read| samples::is_from(read, completion.token));
        report.check(right, || format!("{}: wrong data at byte {}", device.name(), completion.token));
    }
    Ok(())
}

fn print_point(bytes: usize, depth: usize, measured: &Measurement) {
    println!(
        "{bytes:>8}{depth:>7}{:>12.0}{:>10.1}{:>10.0}{:>10.0}",
        measured.iops(),
        measured.bytes_per_second() / 1e6,
        measured.latency.p50 * 1e6,
        measured.latency.p99 * 1e6
    );
}

/// Of each lane and size: the best, and what depth brought; of the lanes: their ratio.
fn summarise(points: &[Point], report: &mut Report) {
    let of = |lane: &str, bytes: usize| {
        points.iter().filter(|point| point.lane == lane && point.bytes == bytes).collect::<Vec<_>>()
    };
    let best = |points: &[&Point]| points.iter().map(|point| point.iops).fold(0.0, f64::max);
    for bytes in distinct(points.iter().map(|point| point.bytes)) {
        for lane in distinct(points.iter().map(|point| point.lane.as_str())) {
            let points = of(lane, bytes);
            let one = points.iter().find(|point| point.depth == 1).map(|point| point.iops);
            report.summarise(format!("{lane}_{bytes}_best_iops"), best(&points));
            if let Some(one) = one.filter(|one| *one > 0.0) {
                report.summarise(format!("{lane}_{bytes}_best_over_depth_1"), best(&points) / one);
            }
        }
        let (uring, threads) = (best(&of("uring", bytes)), best(&of("threads", bytes)));
        if uring > 0.0 && threads > 0.0 {
            report.summarise(format!("uring_over_threads_{bytes}"), uring / threads);
        }
    }
}

fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Three turns of each, one after the other, because a shared disk's speed drifts; the medians are compared.
fn compare_with_fio(
    file: &Path,
    file_mib: u64,
    bytes: usize,
    seconds: f64,
    points: &[Point],
    common: &Common,
    report: &mut Report,
) -> Result<(), String> {
    let uring = points.iter().filter(|point| point.lane == "uring" && point.bytes == bytes);
    let best = uring.max_by(|left, right| left.iops.total_cmp(&right.iops));
    let depth = best.map_or(256, |point| point.depth.clamp(64, 1024));
    let device = open("uring", file)?;
    println!("\nin turns, {bytes} bytes, depth {depth}\n{:>12}{:>12}{:>10}", "uring", "fio", "ratio");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..3 {
        let uring = measure(&*device, bytes, depth, seconds, common.seed + turn)?.0.iops();
        let fio = fio::random_read_iops(file, file_mib, bytes, depth, seconds)?;
        println!("{:>12}{:>12}{:>10}", figure(uring), figure(fio), figure(uring / fio));
        report.row(json!({
            "lane": "uring in turns with fio", "device": device.name(), "bytes": bytes, "depth": depth,
            "iops": uring, "fio_iops": fio,
        }));
        ours.push(uring);
        theirs.push(fio);
    }
    report.configure("fio", fio::command(file, file_mib, bytes, depth, seconds).join(" "));
    report.summarise("uring_over_fio", median(&mut ours) / median(&mut theirs));
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// IOPS over depth, a line for each lane, at the size nearest to a page of the engine.
fn plot(path: &Path, points: &[Point]) -> Result<(), String> {
    let page_bytes = saki_sql::PAGE_BYTES_DEFAULT as usize;
    let Some(bytes) =
        distinct(points.iter().map(|point| point.bytes)).into_iter().min_by_key(|bytes| bytes.abs_diff(page_bytes))
    else {
        return Ok(());
    };
    let mut chart = Chart::new("Random reads by requests in flight")
        .subtitle(format!("{bytes} bytes a read, O_DIRECT, one lane"))
        .x(Axis::log("requests in flight"))
        .y(Axis::log("reads per second"));
    for lane in distinct(points.iter().map(|point| point.lane.as_str())) {
        let of = points.iter().filter(|point| point.lane == lane && point.bytes == bytes);
        chart = chart.series(Series::new(lane, of.map(|point| (point.depth as f64, point.iops)).collect()));
    }
    save(&chart, path)
}
