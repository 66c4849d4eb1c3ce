//! How fast records are appended and become durable, on a real file.
//!
//! ```text
//! cargo run --release -p saki-log --example append -- DIRECTORY [seconds per line]
//! ```
//!
//! Three parts, each with its own columns: producers append as fast as they can, until what they appended is durable;
//! one producer waits for every record; producers append at a steady rate, and every 64th record tells when it is
//! durable. The last part also gives the processor time of the whole process per record.

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
    /// Whether the extents have been written before: the second round of their use, and all later ones.
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
    println!("{:35}|               fastest                |  one waits us  |      100 k/s, us        |", "");
    let columns = [
        "prod logs bytes flight flush reuse",
        "records/s   MB/s KiB/write cpu/rec.",
        "   p50     p99",
        "   p50     p99 cpu/rec.",
    ];
    println!("{} | KiB/write", columns.join(" | "));
    for case in cases {
        measure(Path::new(&directory), case, time);
    }
    for logs in [1, 2] {
        recover(Path::new(&directory), Case { producers: 2, logs, ..base }, time);
    }
}

/// Appends without a cut, closes, and opens again.
fn recover(directory: &Path, case: Case, time: Duration) {
    let devices = open_files(directory, case);
    let logs = open(&devices, case);
    append(&logs, case, time / 2, false);
    logs.close().expect("closes");
    let found = AtomicU64::new(0);
    let apply = |_: usize, timestamp: u64, payload: &[u8]| {
        assert_eq!(payload.len(), case.record_bytes);
        found.fetch_add(timestamp, Ordering::Relaxed);
        Ok::<_, Infallible>(())
    };
    let (_logs, report) = Logs::recover(devices, Options::new(7), Range::default(), &|_| {}, &apply).expect("opens");
    assert_eq!(found.into_inner(), report.horizon * (report.horizon + 1) / 2, "each record once");
    println!(
        "recovery of {} logs: {} records, {:.0} MB read, {:.2} s, {:.0} MB/s, {:.0} records/s",
        case.logs,
        report.records,
        report.bytes_read as f64 / 1e6,
        report.duration.as_secs_f64(),
        report.bytes_read as f64 / 1e6 / report.duration.as_secs_f64(),
        report.records as f64 / report.duration.as_secs_f64()
    );
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
    let busy = processor_micros();
    let (records, elapsed) = run(&logs, case, time);
    let busy = (processor_micros() - busy) as f64 / records as f64;
    let after = sum(&logs);
    let alone = latencies(&logs, case, time / 2);
    let before_paced = sum(&logs);
    let (paced, processor) = paced(&logs, case, time);
    let after_paced = sum(&logs);
    logs.close().expect("closes");
    let seconds = elapsed.as_secs_f64();
    println!(
        "{:4} {:4} {:5} {:6} {:5} {:5} | {:9.0} {:6.0} {:9.0} {:8.2} | {:6} {:7} | {:6} {:7} {:8.2} | {:9.0}",
        case.producers,
        case.logs,
        case.record_bytes,
        case.writes_in_flight,
        case.flush,
        case.reused,
        records as f64 / seconds,
        records as f64 * case.record_bytes as f64 / seconds / 1e6,
        kib_per_write(&before, &after),
        busy,
        at(&alone, 0.5),
        at(&alone, 0.99),
        at(&paced, 0.5),
        at(&paced, 0.99),
        processor,
        kib_per_write(&before_paced, &after_paced),
    );
}

fn at(sorted: &[Duration], share: f64) -> u128 {
    sorted[((sorted.len() - 1) as f64 * share) as usize].as_micros()
}

fn kib_per_write(before: &LogStatistics, after: &LogStatistics) -> f64 {
    (after.written_bytes - before.written_bytes) as f64 / (after.writes - before.writes).max(1) as f64 / 1024.0
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
    append(logs, case, time, true)
}

fn append(logs: &Logs, case: Case, time: Duration, cut: bool) -> (u64, Duration) {
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
            if cut {
                logs.cut(logs.durable());
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let last = clock.load(Ordering::Relaxed);
    logs.wait_durable(last).expect("durable");
    (last - start, began.elapsed())
}

/// Latencies, sorted, of a producer that waits for each record.
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
    found.sort_unstable();
    found
}

/// Records a second, of all producers together, in the part at a steady rate; appended in bursts of so many.
const RATE: u64 = 100_000;
const BURST: u64 = 20;

/// Latencies, sorted, of every 64th record, and microseconds of processor time per record.
fn paced(logs: &Logs, case: Case, time: Duration) -> (Vec<Duration>, f64) {
    let start = logs.durable();
    let clock = AtomicU64::new(start);
    let (sender, receiver) = std::sync::mpsc::channel();
    let (began, processor) = (Instant::now(), processor_micros());
    std::thread::scope(|scope| {
        for producer in 0..case.producers {
            let (clock, sender) = (&clock, sender.clone());
            scope.spawn(move || {
                let payload = vec![producer as u8; case.record_bytes];
                let pause = Duration::from_secs_f64((BURST * case.producers as u64) as f64 / RATE as f64);
                let mut next = began;
                while began.elapsed() < time {
                    for _ in 0..BURST {
                        let reservation = logs.reserve(producer % case.logs, payload.len()).expect("room");
                        let timestamp = clock.fetch_add(1, Ordering::Relaxed) + 1;
                        let committed = Instant::now();
                        reservation.commit(timestamp, &payload);
                        if timestamp % 64 == 0 {
                            let sender = sender.clone();
                            let told = move |_| sender.send(committed.elapsed()).expect("somebody counts");
                            logs.on_durable(timestamp, Box::new(told));
                        }
                    }
                    if producer == 0 {
                        logs.cut(logs.durable());
                    }
                    next += pause;
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            });
        }
    });
    let last = clock.load(Ordering::Relaxed);
    logs.wait_durable(last).expect("durable");
    drop(sender);
    let processor = (processor_micros() - processor) as f64 / (last - start) as f64;
    let mut found: Vec<Duration> = receiver.iter().collect();
    found.sort_unstable();
    (found, processor)
}

/// Processor time of this process, from the system's ticks of 10 ms.
fn processor_micros() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    (ticks(11) + ticks(12)) * 10_000
}

fn sum(logs: &Logs) -> LogStatistics {
    logs.statistics().into_iter().fold(LogStatistics::default(), |sum, log| LogStatistics {
        writes: sum.writes + log.writes,
        written_bytes: sum.written_bytes + log.written_bytes,
        ..sum
    })
}
