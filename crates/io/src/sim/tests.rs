//! The simulated device against the contract, and each of its faults.

use super::*;
use crate::contract::{self, drain, filled};

fn options() -> SimOptions {
    SimOptions { length_bytes: contract::DEVICE_BYTES, ..SimOptions::default() }
}

fn write(device: &SimDevice, offset: u64, seed: u64) -> Result<(), DeviceError> {
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::write(0, offset, filled(4096, seed)));
    drain(&mut *lane).remove(0).result
}

fn holds(device: &SimDevice, offset: u64, seed: u64) -> bool {
    let mut bytes = vec![0; 4096];
    device.peek(offset, &mut bytes);
    bytes == *filled(4096, seed)
}

#[test]
fn passes_the_contract_with_every_timing() {
    let slow = Duration::from_millis(1)..=Duration::from_millis(30);
    for timing in [SimTiming::Immediate, SimTiming::InOrder, SimTiming::Virtual(slow)] {
        contract::run_all(&*SimDevice::new(SimOptions { timing, ..options() }));
    }
}

#[test]
fn passes_the_contract_late_and_in_two_steps() {
    let device = SimDevice::new(options());
    device.faults().set_rates(FaultRates { late: 0.2, short: 0.5, ..FaultRates::default() });
    contract::run_all(&*device);
}

#[test]
fn one_seed_gives_one_order_and_another_a_different_one() {
    let order = |seed| {
        let device = SimDevice::new(SimOptions { seed, ..options() });
        let mut lane = device.open_lane(None).unwrap();
        for token in 0..50 {
            lane.submit(Operation::read(token, token * 4096, filled(4096, 0)));
        }
        drain(&mut *lane).iter().map(|completion| completion.token).collect::<Vec<_>>()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

#[test]
fn flushed_writes_survive_every_crash_and_unflushed_ones_only_some() {
    let device = SimDevice::new(options());
    write(&device, 0, 1).unwrap();
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::flush(0));
    drain(&mut *lane);
    write(&device, 4096, 2).unwrap();
    let found: Vec<_> = (0..32).map(|seed| device.crash(seed)).collect();
    assert!(found.iter().all(|device| holds(device, 0, 1)));
    let survived = found.iter().filter(|device| holds(device, 4096, 2)).count();
    assert!((1..32).contains(&survived), "{survived} of 32");
}

#[test]
fn a_flush_covers_only_writes_returned_before_it() {
    let device = SimDevice::new(options());
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::flush(0));
    lane.submit(Operation::write(1, 0, filled(4096, 9)));
    drain(&mut *lane);
    assert!((0..32).any(|seed| !holds(&device.crash(seed), 0, 9)));
}

#[test]
fn writes_in_flight_may_be_found_after_a_crash() {
    let device = SimDevice::new(options());
    device.faults().hold(true);
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::write(0, 8192, filled(4096, 5)));
    assert_eq!(lane.poll(Wait::No, &mut Vec::new()), 0);
    let survived = (0..32).filter(|seed| holds(&device.crash(*seed), 8192, 5)).count();
    assert!((1..32).contains(&survived), "{survived} of 32");
    device.faults().hold(false);
    drain(&mut *lane);
    assert!(holds(&device, 8192, 5));
}

#[test]
fn errors_come_as_asked_for_and_stop_when_healed() {
    let device = SimDevice::new(options());
    device.faults().fail_next(OperationKind::Write, 1);
    assert!(matches!(write(&device, 0, 1), Err(DeviceError::Failed { errno: Some(libc::EIO), .. })));
    write(&device, 0, 1).unwrap();
    device.faults().fail_range(100..200);
    // A failed write may have been done in part.
    assert!(write(&device, 0, 2).is_err());
    write(&device, 4096, 2).unwrap();
    device.faults().heal();
    write(&device, 0, 1).unwrap();
    device.faults().set_full(true);
    assert!(matches!(write(&device, 0, 3), Err(DeviceError::Full { .. })));
    assert!(matches!(device.ensure_length(1 << 30), Err(DeviceError::Full { .. })));
    device.faults().heal();
    device.faults().set_read_only(true);
    assert!(matches!(write(&device, 0, 3), Err(DeviceError::ReadOnly { .. })));
    device.faults().heal();
    assert!(holds(&device, 0, 1));
    device.ensure_length(1 << 30).unwrap();
    assert!(matches!(device.ensure_length(u64::MAX / 2), Err(DeviceError::Full { .. })));
}

#[test]
fn silent_faults_report_success() {
    let torn = FaultRates { torn_writes: 1.0, ..FaultRates::default() };
    let lost = FaultRates { lost_writes: 1.0, ..FaultRates::default() };
    let misdirected = FaultRates { misdirected_writes: 1.0, ..FaultRates::default() };
    for rates in [torn, lost, misdirected] {
        let device = SimDevice::new(options());
        write(&device, 0, 1).unwrap();
        device.faults().set_rates(rates.clone());
        write(&device, 0, 2).unwrap();
        assert!(!holds(&device, 0, 2), "{rates:?}");
        assert_eq!(holds(&device, 4096, 2), rates.misdirected_writes > 0.0);
    }
    let device = SimDevice::new(options());
    write(&device, 0, 1).unwrap();
    device.flip_bit(77, 3);
    assert!(!holds(&device, 0, 1));
}

#[test]
fn flipped_bits_are_read_but_not_stored() {
    let device = SimDevice::new(options());
    write(&device, 0, 1).unwrap();
    device.faults().set_rates(FaultRates { bit_flips: 1.0, ..FaultRates::default() });
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::read(0, 0, filled(4096, 0)));
    let buffer = drain(&mut *lane).remove(0).buffer.unwrap();
    let expected = filled(4096, 1);
    let wrong: u32 = buffer.iter().zip(&*expected).map(|(left, right)| (left ^ right).count_ones()).sum();
    assert_eq!(wrong, 1);
    assert!(holds(&device, 0, 1));
}

#[test]
fn virtual_time_costs_no_real_time() {
    let hour = Duration::from_secs(3600);
    let device = SimDevice::new(SimOptions { timing: SimTiming::Virtual(hour..=hour), ..options() });
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::read(0, 0, filled(4096, 0)));
    let started = Instant::now();
    assert_eq!(lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut Vec::new()), 0);
    assert_eq!(device.clock().now(), Duration::from_secs(1));
    assert_eq!(lane.poll(Wait::AtMost(hour), &mut Vec::new()), 1);
    assert_eq!(device.clock().now(), hour);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_a_killed_program_left_is_read_and_may_be_lost_still() {
    let device = SimDevice::new(options());
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::write(0, 0, filled(4096, 1)));
    drain(&mut *lane);
    lane.submit(Operation::write(1, 4096, filled(4096, 2)));
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..32 {
        let left = device.left(seed);
        assert!(holds(&left, 0, 1), "it was done");
        let cut = left.crash(1_000 + seed);
        outcomes.insert((holds(&left, 4096, 2), holds(&cut, 0, 1)));
    }
    assert_eq!(outcomes.len(), 4, "what was on its way is there or not, what was done may be lost: {outcomes:?}");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write { granule: u64, granules: usize },
        Flush,
        Crash,
        Kill,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..16_u64, 1..4_usize).prop_map(|(granule, granules)| Step::Write { granule, granules }),
            2 => Just(Step::Flush),
            1 => Just(Step::Crash),
            1 => Just(Step::Kill),
        ]
    }

    proptest! {
        /// Against a model that keeps, per granule, every content a crash may leave.
        #[test]
        fn a_granule_always_holds_an_allowed_content(seed: u64, steps in prop::collection::vec(step(), 1..60)) {
            let mut device = SimDevice::new(SimOptions { seed, ..options() });
            // First the durable content's seed, then the unflushed ones; `None` for zeroes.
            let mut allowed: Vec<Vec<Option<u64>>> = vec![vec![None]; 20];
            for (number, step) in (0_u64..).zip(steps) {
                let mut lane = device.open_lane(None).unwrap();
                match step {
                    Step::Write { granule, granules } => {
                        for index in granule..granule + granules as u64 {
                            lane.submit(Operation::write(index, index * 4096, filled(4096, number)));
                            allowed[index as usize].push(Some(number));
                        }
                        drain(&mut *lane);
                    }
                    Step::Flush => {
                        lane.submit(Operation::flush(0));
                        drain(&mut *lane);
                        allowed.iter_mut().for_each(|contents| _ = contents.drain(..contents.len() - 1));
                    }
                    Step::Crash => {
                        drop(lane);
                        device = device.crash(seed ^ number);
                        for (index, contents) in (0_u64..).zip(&mut allowed) {
                            let found = contents.iter().copied().find(|content| found_at(&device, index, *content));
                            prop_assert!(found.is_some(), "granule {index} holds none of {contents:?}");
                            *contents = vec![found.flatten()];
                        }
                    }
                    Step::Kill => {
                        drop(lane);
                        device = device.left(seed ^ number);
                    }
                }
                for (index, contents) in (0_u64..).zip(&allowed) {
                    prop_assert!(found_at(&device, index, *contents.last().unwrap()));
                }
            }
        }
    }

    fn found_at(device: &SimDevice, granule: u64, content: Option<u64>) -> bool {
        match content {
            Some(seed) => holds(device, granule * 4096, seed),
            None => {
                let mut bytes = vec![1; 4096];
                device.peek(granule * 4096, &mut bytes);
                bytes.iter().all(|byte| *byte == 0)
            }
        }
    }
}
