//! How fast records are appended and become durable, on a real file.
//!
//! ```text
//! cargo run --release -p saki-log --example append -- DIRECTORY [seconds per line]
//! ```
//!
//! Per line: producers, logs, record bytes, options; records and megabytes a second through the durable horizon while producers
//! append as fast as they can; then, apart, the latency from commit to durable of one producer that waits for every record.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use saki_io::{Device, DeviceOptions, open_device};
use saki_log::{LogStatistics, Logs, Options, Range};

#[derive(Clone, Copy, Debug)]
struct Case {
    producers: usize,
    logs: usize,
    record_bytes: usize,
    writes_in_flight: usize,
    flush: bool,
    /// Whether the segments have been written before: the second round of their use, and all later ones.
    reused: bool,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("usage: append DIRECTORY [SECONDS]");
    let seconds = arguments.next().map_or(2.0, |text| text.parse().expect("seconds"));
    let time = Duration::from_secs_f64(seconds);
    let base = Case { producers: 1, logs: 1, record_bytes: 1200, writes_in_flight: 2, flush: true, reused: true };
    let mut cases = Vec::new();
    for writes_in_flight in [1, 2, 4] {
        cases.push(Case { writes_in_flight, ..base });
        cases.push(Case { writes_in_flight, reused: false, ..base });
        cases.push(Case { writes_in_flight, flush: false, ..base });
    }
    for record_bytes in [100, 1200, 4096] {
        cases.push(Case { record_bytes, producers: 2, logs: 2, ..base });
        cases.push(Case { record_bytes, producers: 2, logs: 1, ..base });
        cases.push(Case { record_bytes, ..base });
    }
    println!(
        "prod logs bytes flight flush reused |  records/s    MB/s  KiB/write  waits/s | durable us: p50    p99   max"
    );
    for case in cases {
        measure(Path::new(&directory), case, time);
    }
}

fn measure(directory: &Path, case: Case, time: Duration) {
    let devices = open_files(directory, case);
    if case.reused {
        // Once over the whole of what will be used, then cut.
        let logs = open(&devices, case);
        run(&logs, case, Duration::from_millis(500));
        logs.close().expect("closes");
    }
    let logs = open(&devices, case);
    let before = sum(&logs);
    let (records, elapsed) = run(&logs, case, time);
    let after = sum(&logs);
    let mut latencies = latencies(&logs, case, time / 4);
    logs.close().expect("closes");
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_micros();
    let seconds = elapsed.as_secs_f64();
    println!(
        "{:4} {:4} {:5} {:6} {:5} {:6} | {:10.0} {:7.0} {:10.1} {:8.0} | {:15} {:6} {:5}",
        case.producers,
        case.logs,
        case.record_bytes,
        case.writes_in_flight,
        case.flush,
        case.reused,
        records as f64 / seconds,
        records as f64 * case.record_bytes as f64 / seconds / 1e6,
        (after.written_bytes - before.written_bytes) as f64 / (after.writes - before.writes).max(1) as f64 / 1024.0,
        (after.waits - before.waits) as f64 / seconds,
        at(0.5),
        at(0.99),
        at(1.0),
    );
}

fn open_files(directory: &Path, case: Case) -> Vec<Arc<dyn Device>> {
    let open = |log| {
        let path = directory.join(format!("append-{log}.log"));
        let _ = std::fs::remove_file(&path);
        open_device(&path, DeviceOptions { create: true, ..DeviceOptions::default() }).expect("a file")
    };
    (0..case.logs).map(open).collect()
}

fn open(devices: &[Arc<dyn Device>], case: Case) -> Logs {
    let options = Options { writes_in_flight: case.writes_in_flight, flush: case.flush, ..Options::new(7) };
    let apply = |_: usize, _: u64, _: &[u8]| Ok::<_, Infallible>(());
    Logs::recover(devices.to_vec(), options, Range::default(), &|_| {}, &apply).expect("opens").0
}

/// Appends as fast as it goes; records that became durable, and the time until the last one was.
fn run(logs: &Logs, case: Case, time: Duration) -> (u64, Duration) {
    let start = logs.durable();
    let clock = AtomicU64::new(start);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for producer in 0..case.producers {
            let (clock, stop) = (&clock, &stop);
            scope.spawn(move || {
                let payload = vec![producer as u8; case.record_bytes];
                while !stop.load(Ordering::Relaxed) {
                    let reservation = logs.reserve(producer % case.logs, payload.len()).expect("room");
                    reservation.commit(clock.fetch_add(1, Ordering::Relaxed) + 1, &payload);
                }
            });
        }
        while began.elapsed() < time {
            std::thread::sleep(Duration::from_millis(20));
            logs.cut(logs.durable());
        }
        stop.store(true, Ordering::Relaxed);
    });
    let last = clock.load(Ordering::Relaxed);
    logs.wait_durable(last).expect("durable");
    (last - start, began.elapsed())
}

fn latencies(logs: &Logs, case: Case, time: Duration) -> Vec<Duration> {
    let mut clock = logs.durable();
    let payload = vec![1; case.record_bytes];
    let (began, mut found) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let reservation = logs.reserve(0, payload.len()).expect("room");
        clock += 1;
        let committed = Instant::now();
        reservation.commit(clock, &payload);
        logs.wait_durable(clock).expect("durable");
        found.push(committed.elapsed());
    }
    found
}

fn sum(logs: &Logs) -> LogStatistics {
    logs.statistics().into_iter().fold(LogStatistics::default(), |sum, log| LogStatistics {
        writes: sum.writes + log.writes,
        written_bytes: sum.written_bytes + log.written_bytes,
        waits: sum.waits + log.waits,
        ..sum
    })
}
