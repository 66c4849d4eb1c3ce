//! Devices that fill up or fail while the logs are open.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{as_devices, filled_logs, memory_devices, open, options, payload, sim_devices, within};
use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Device, ObservedDevice, Observer, Operation, OperationKind, SimDevice, SimOptions, Wait};
use saki_log::{LogError, Logs, Options};

/// Appends until something is refused; the last timestamp, and the refusal.
fn append_until_refused(logs: &Logs, log: usize, mut timestamp: u64) -> (u64, LogError) {
    loop {
        match logs.reserve(log, 2_000) {
            Ok(reservation) => {
                timestamp += 1;
                reservation.commit(timestamp, &payload(timestamp, 2_000));
            }
            Err(error) => return (timestamp, error),
        }
        assert!(timestamp < 100_000, "nothing is refused");
    }
}

#[test]
fn a_full_disk_refuses_and_heals_with_space() {
    let small = SimDevice::new(SimOptions { length_bytes: 0, length_bytes_max: 512 << 10, ..SimOptions::default() });
    let (logs, ..) = open(&as_devices(std::slice::from_ref(&small)), options()).unwrap();
    let (last, error) = append_until_refused(&logs, 0, 0);
    assert!(matches!(error, LogError::Full { log: 0, .. }), "{error}");
    assert!(last > 150, "the space that was there is used: {last}");
    // What was accepted becomes durable all the same, and shorter ones may still fit.
    logs.wait_durable(last).unwrap();
    assert!(matches!(logs.reserve(0, 2_000).err(), Some(LogError::Full { .. })));
    assert!(matches!(logs.try_reserve(0, 2_000), Ok(None)), "asks the device once more");
    // Cutting makes room.
    logs.cut(last);
    let (next, error) = append_until_refused(&logs, 0, last);
    assert!(next > last + 60 && matches!(error, LogError::Full { .. }), "{last}, {next}, {error}");
    logs.wait_durable(next).unwrap();
    logs.close().unwrap();
    let (_logs, report, found) = open(&as_devices(&[small]), options()).unwrap();
    assert_eq!((report.horizon, report.after), (next, last));
    assert!(found.keys().copied().eq(last + 1..=next));
}

#[test]
fn a_disk_that_was_full_at_the_opening_heals_too() {
    let device = SimDevice::new(SimOptions { length_bytes: 0, length_bytes_max: 512 << 10, ..SimOptions::default() });
    let devices = as_devices(&[device]);
    let (logs, ..) = open(&devices, options()).unwrap();
    let (last, _) = append_until_refused(&logs, 0, 0);
    logs.wait_durable(last).unwrap();
    logs.close().unwrap();
    // No extent is free for a new incarnation: the records can be read, and none added until some are cut.
    let (logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, found.len() as u64), (last, last));
    assert!(matches!(logs.reserve(0, 2_000).err(), Some(LogError::Full { .. })));
    logs.cut(last);
    logs.reserve(0, 2_000).unwrap().commit(last + 1, b"again");
    logs.wait_durable(last + 1).unwrap();
    logs.close().unwrap();
    let (_logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, found.len()), (last + 1, 1));
}

/// What recovery has found may be in a volatile cache only, and it calls it durable. Where no extent is free, nothing
/// else flushes the device.
/// As a sparse file is, where a disk is full: it has grown, and what is written to it is refused.
#[test]
fn an_extent_whose_header_has_no_room_is_refused() {
    within(Duration::from_secs(30), refuse_the_second_extent);
}

fn refuse_the_second_extent() {
    let devices = sim_devices(1, 12);
    let second = options().extent_bytes;
    devices[0].faults().fill_range(second..second + 4096);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    let (last, error) = append_until_refused(&logs, 0, 0);
    assert!(matches!(error, LogError::Full { log: 0, .. }), "{error}");
    logs.wait_durable(last).unwrap();
    devices[0].faults().heal();
    logs.reserve(0, 100_000).unwrap().commit(last + 1, &payload(last + 1, 100_000));
    logs.wait_durable(last + 1).unwrap();
}

#[test]
fn what_was_recovered_is_durable_although_nothing_could_be_written() {
    let full = || SimOptions { length_bytes: 0, length_bytes_max: 512 << 10, ..SimOptions::default() };
    let device = SimDevice::new(full());
    let (logs, ..) = open(&as_devices(std::slice::from_ref(&device)), options()).unwrap();
    let (last, _) = append_until_refused(&logs, 0, 0);
    logs.wait_durable(last).unwrap();
    logs.close().unwrap();
    let mut bytes = AlignedBuffer::new(device.length_bytes().unwrap() as usize);
    device.peek(0, &mut bytes);
    // The same bytes, as a process leaves them that was killed before its flush.
    let copy = SimDevice::new(full());
    copy.ensure_length(bytes.len() as u64).unwrap();
    let mut lane = copy.open_lane(None).unwrap();
    lane.submit(Operation::write(0, 0, Buffer::Aligned(bytes)));
    let mut completions = Vec::new();
    while completions.is_empty() {
        lane.poll(Wait::No, &mut completions);
    }
    let (_logs, report, _) = open(&as_devices(std::slice::from_ref(&copy)), options()).unwrap();
    assert_eq!(report.horizon, last);
    for seed in 0..10 {
        let after = copy.crash(seed);
        let (_logs, report, found) = open(&as_devices(&[after]), options()).unwrap();
        assert_eq!((report.horizon, found.len() as u64), (last, last), "seed {seed}");
    }
}

/// A device fails for a moment: who waits waits a little longer, nothing is lost, and nobody has to open the logs
/// again.
#[test]
fn a_device_that_fails_for_a_moment_is_written_to_again() {
    for (kind, count) in
        [(OperationKind::Write, 1), (OperationKind::Write, 7), (OperationKind::Flush, 1), (OperationKind::Flush, 5)]
    {
        let devices = sim_devices(2, 2);
        let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
        for timestamp in 1..=20_u64 {
            let (log, length) = ((timestamp % 2) as usize, 500 * timestamp as usize);
            if timestamp % 5 == 0 {
                devices[log].faults().fail_next(kind, count);
            }
            logs.reserve(log, length).unwrap().commit(timestamp, &payload(timestamp, length));
            logs.wait_durable(timestamp).unwrap();
            // Not only told: whatever is lost with the power now, this is not.
            let after: Vec<_> = devices.iter().map(|device| device.crash(timestamp)).collect();
            let (_logs, report, found) = open(&as_devices(&after), options()).unwrap();
            assert!(report.horizon >= timestamp && found.len() as u64 >= timestamp, "{kind:?} {count}: {report:?}");
        }
        logs.close().unwrap();
    }
}

/// A record without one of the timestamps before it counts for nothing: void, whatever became of the transaction.
#[test]
fn what_is_durable_behind_a_gap_is_dropped() {
    let devices = sim_devices(2, 11);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    let queued = || logs.statistics()[1].queued_bytes;
    devices[1].faults().hold(true);
    logs.reserve(1, 10).unwrap().commit(2, b"0123456789");
    let held = queued();
    devices[1].faults().hold(false);
    // Wakes whoever waited for it.
    logs.cut(0);
    while queued() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(held, 16 + 10);
    let after: Vec<_> = devices.iter().map(|device| device.crash(1)).collect();
    let (_logs, report, found) = open(&as_devices(&after), options()).unwrap();
    assert_eq!((report.horizon, report.clock, report.dropped, found.len()), (0, 2, 1, 0), "{report:?}");
}

/// Has the first flush behind the first write fail: that of an incarnation's headers.
#[derive(Default)]
struct FirstFlush(AtomicBool);

impl Observer for FirstFlush {
    fn submitting(&self, device: &SimDevice, operation: &Operation) {
        if operation.kind == OperationKind::Write && !self.0.swap(true, Ordering::Relaxed) {
            device.faults().fail_next(OperationKind::Flush, 1);
        }
    }
}

/// What a flush that fails has dropped of the first headers is not made durable by the next flush: they are written
/// again, or nothing would tell of what comes behind them.
#[test]
fn an_incarnation_that_begins_with_a_failing_flush_is_found() {
    within(Duration::from_secs(30), begin_with_a_failing_flush);
}

fn begin_with_a_failing_flush() {
    for seed in 0..20 {
        let device = sim_devices(1, 100 + seed).remove(0);
        let observed = ObservedDevice::new(&device, Arc::new(FirstFlush::default()));
        let (logs, ..) = open(&[observed as Arc<dyn Device>], options()).unwrap();
        logs.reserve(0, 10).unwrap().commit(1, b"0123456789");
        logs.wait_durable(1).unwrap();
        let after = device.crash(seed);
        let (_logs, report, found) = open(&as_devices(&[after]), options()).unwrap();
        assert_eq!((report.horizon, found.len()), (1, 1), "seed {seed}: {report:?}");
    }
}

#[test]
fn a_disk_that_is_full_for_a_moment_is_written_to_again() {
    let devices = sim_devices(1, 9);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    logs.reserve(0, 10).unwrap().commit(1, b"0123456789");
    logs.wait_durable(1).unwrap();
    devices[0].faults().set_full(true);
    logs.reserve(0, 10).unwrap().commit(2, b"0123456789");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(logs.durable(), 1);
    devices[0].faults().set_full(false);
    logs.wait_durable(2).unwrap();
    logs.close().unwrap();
    let (_logs, report, found) = open(&as_devices(&devices), options()).unwrap();
    assert_eq!((report.horizon, found.len()), (2, 2));
}

/// Who waits is not kept waiting for ever.
#[test]
fn patience_with_a_failing_device_ends() {
    let devices = sim_devices(1, 10);
    let patience = Duration::from_millis(100);
    let (logs, ..) = open(&as_devices(&devices), Options { patience, ..options() }).unwrap();
    logs.reserve(0, 10).unwrap().commit(1, b"0123456789");
    logs.wait_durable(1).unwrap();
    devices[0].faults().fail_range(0..1 << 30);
    logs.reserve(0, 10).unwrap().commit(2, b"0123456789");
    let began = std::time::Instant::now();
    assert!(matches!(logs.wait_durable(2), Err(LogError::Failed { log: 0, .. })));
    assert!(began.elapsed() >= patience);
    assert!(matches!(logs.reserve(0, 10).err(), Some(LogError::Failed { log: 0, .. })));
}

#[test]
fn a_failing_write_fails_all_who_wait() {
    for kind in [OperationKind::Write, OperationKind::Flush] {
        let devices = sim_devices(2, 2);
        let impatient = Options { patience: Duration::ZERO, ..options() };
        let (logs, ..) = open(&as_devices(&devices), impatient).unwrap();
        logs.reserve(0, 10).unwrap().commit(1, b"0123456789");
        logs.wait_durable(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        logs.on_durable(3, Box::new(move |answer| sender.send(answer).unwrap()));
        // Had before the failure: the log's thread may be about to write something else, and meet it first.
        let reservation = logs.reserve(1, 10).unwrap();
        devices[1].faults().fail_next(kind, 1);
        reservation.commit(2, b"0123456789");
        let error = logs.wait_durable(2).unwrap_err();
        assert!(matches!(error, LogError::Failed { log: 1, .. }), "{error}");
        assert!(matches!(receiver.recv().unwrap(), Err(LogError::Failed { log: 1, .. })));
        // Latched, for every log, although the device is well again.
        assert!(matches!(logs.reserve(0, 10).err(), Some(LogError::Failed { log: 1, .. })));
        assert!(logs.wait_durable(1).is_ok() && logs.durable() == 1);
        assert!(matches!(logs.close(), Err(LogError::Failed { log: 1, .. })));
        let (_logs, report, found) = open(&as_devices(&devices), options()).unwrap();
        assert!(report.horizon >= 1 && found.contains_key(&1));
    }
}

#[test]
fn a_device_that_refuses_to_grow_has_failed() {
    let devices = sim_devices(1, 8);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    logs.reserve(0, 10).unwrap().commit(1, b"0123456789");
    logs.wait_durable(1).unwrap();
    devices[0].faults().set_read_only(true);
    let error = logs.reserve(0, 500_000).unwrap_err();
    assert!(matches!(error, LogError::Failed { log: 0, .. }), "{error}");
    drop(logs);
    devices[0].faults().heal();
    let (_logs, report, found) = open(&as_devices(&devices), options()).unwrap();
    assert_eq!((report.horizon, found.len()), (1, 1));
}

#[test]
fn a_failing_read_is_an_error_of_the_opening() {
    let devices = sim_devices(1, 3);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    logs.reserve(0, 10).unwrap().commit(1, b"0123456789");
    logs.close().unwrap();
    for range in [0..4096, 4096..8192] {
        devices[0].faults().fail_range(range);
        let error = open(&as_devices(&devices), options()).err();
        assert!(matches!(error, Some(LogError::Device { log: 0, .. })), "{error:?}");
        devices[0].faults().heal();
    }
    assert!(open(&as_devices(&devices), options()).is_ok());
}

/// It may be in a cache only.
#[test]
fn what_cannot_be_made_durable_is_not_opened() {
    let (devices, expected) = filled_logs(2, 14, 20);
    devices[1].faults().fail_next(OperationKind::Flush, 1);
    match open(&as_devices(&devices), options()).err() {
        Some(LogError::Device { log: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    let (_logs, _, found) = open(&as_devices(&devices), options()).unwrap();
    assert!(found == expected);
}

#[test]
fn a_slow_device_holds_back_and_loses_nothing() {
    let devices = sim_devices(1, 4);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    devices[0].faults().hold(true);
    let mut last = 0;
    while let Some(reservation) = logs.try_reserve(0, 1_000).unwrap() {
        last += 1;
        reservation.commit(last, &payload(last, 1_000));
    }
    let bytes = logs.statistics()[0].queued_bytes;
    assert!(bytes <= options().buffer_bytes as u64, "{bytes}");
    assert!(logs.durable() == 0 && last > 10);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| logs.reserve(0, 1_000).map(drop));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished(), "there is no room");
        devices[0].faults().hold(false);
        // The simulated device does not wake a lane when it is let go; a cut does.
        while !waiter.is_finished() {
            logs.cut(0);
            std::thread::yield_now();
        }
        waiter.join().unwrap().unwrap();
    });
    logs.wait_durable(last).unwrap();
}

#[test]
fn the_window_of_timestamps_holds_back() {
    let devices = memory_devices(2, 5);
    let (logs, ..) = open(&devices, Options { window: 64, ..options() }).unwrap();
    // 1 is taken and late: others go on for half a window and no further.
    let late = logs.reserve(0, 10).unwrap();
    let mut last = 1;
    while let Some(reservation) = logs.try_reserve(1, 10).unwrap() {
        last += 1;
        reservation.commit(last, b"0123456789");
        assert!(last <= 64);
    }
    assert!(last > 30);
    late.commit(1, b"0123456789");
    logs.wait_durable(last).unwrap();
    assert!(logs.reserve(1, 10).is_ok());
}

#[test]
fn a_panicking_callback_is_latched() {
    let devices = memory_devices(1, 6);
    let (logs, ..) = open(&devices, options()).unwrap();
    logs.on_durable(1, Box::new(|_| panic!("a callback's mistake")));
    logs.reserve(0, 1).unwrap().commit(1, b"1");
    let error = logs.wait_durable(2).unwrap_err();
    assert!(matches!(&error, LogError::Internal { message, .. } if message.contains("mistake")), "{error}");
}

#[test]
fn logs_may_be_dropped_by_a_callback() {
    let devices = memory_devices(1, 7);
    let (logs, ..) = open(&devices, options()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let clone = logs.clone();
    let reservation = logs.reserve(0, 1).unwrap();
    logs.on_durable(
        1,
        Box::new(move |_| {
            // Waits until this is the last clone, then ends it.
            receiver.recv().unwrap();
            drop(clone);
        }),
    );
    reservation.commit(1, b"1");
    drop(logs);
    sender.send(()).unwrap();
}
