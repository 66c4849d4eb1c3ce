//! The governor in simulation, against models of devices it was made for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::modeled::Model;
use crate::profile::ProfilePoint;
use saki_base::Random;
use saki_base::clock::VirtualClock;

const PAGE: u64 = 4096;

/// A client that submits whatever it is allowed to, over a modelled device in virtual time.
struct Simulation {
    model: Model,
    random: Random,
    clock: Arc<VirtualClock>,
    /// Due time, submission time, share's index.
    in_flight: BinaryHeap<Reverse<(Duration, Duration, usize)>>,
}

impl Simulation {
    fn new(model: &str) -> Self {
        Self {
            model: Model::new(model.parse().unwrap(), 5),
            random: Random::new(8),
            clock: Arc::new(VirtualClock::default()),
            in_flight: BinaryHeap::new(),
        }
    }

    fn submit(&mut self, share: usize) {
        let now = self.clock.now();
        let offset = self.random.range(0..1 << 28) * PAGE;
        let due = self.model.completes_at(now, offset, PAGE);
        self.in_flight.push(Reverse((due, now, share)));
    }

    /// Advances to the next completion; returns its share and latency.
    fn complete(&mut self) -> Option<(usize, Duration)> {
        let Reverse((due, submitted, share)) = self.in_flight.pop()?;
        self.clock.advance_to(due);
        Some((share, due - submitted))
    }

    /// Completions per second of greedy shares over `seconds`.
    fn run(&mut self, shares: &[&Share], seconds: f64) -> f64 {
        let start = self.clock.now();
        let end = start + Duration::from_secs_f64(seconds);
        let mut completed = 0;
        while self.clock.now() < end {
            for (index, share) in shares.iter().enumerate() {
                while share.try_acquire() {
                    self.submit(index);
                }
            }
            let (index, latency) = self.complete().expect("a share may always have one request in flight");
            shares[index].release(latency, PAGE);
            completed += 1;
        }
        f64::from(completed) / (self.clock.now() - start).as_secs_f64()
    }

    fn finish(&mut self, shares: &[&Share]) {
        while let Some((index, latency)) = self.complete() {
            shares[index].release(latency, PAGE);
        }
    }
}

/// Throughput at a fixed depth, once steady.
fn throughput_at(model: &str, depth: usize) -> f64 {
    let mut simulation = Simulation::new(model);
    (0..depth).for_each(|_| simulation.submit(0));
    let mut completions = |count: usize| {
        let start = simulation.clock.now();
        for _ in 0..count {
            simulation.complete();
            simulation.submit(0);
        }
        count as f64 / (simulation.clock.now() - start).as_secs_f64()
    };
    completions(4 * depth);
    completions(20_000.max(8 * depth))
}

/// The best throughput and the smallest depth (to a tenth) that brings 95 % of it.
fn knee(model: &str) -> (f64, u32) {
    let best = throughput_at(model, 10_000);
    let mut depth = 1;
    while throughput_at(model, depth as usize) < 0.95 * best {
        depth += (depth / 10).max(1);
    }
    (best, depth)
}

/// From any start, the knee is found within `seconds` and kept.
fn finds_the_knee(model: &str, starts: [u32; 3], seconds: f64) {
    let (best, smallest) = knee(model);
    for start in starts {
        let mut simulation = Simulation::new(model);
        let governor = Governor::with_clock(start, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
        let share = governor.share(u32::MAX);
        simulation.run(&[&share], seconds);
        let mut weighted = 0.0;
        let mut total = 0.0;
        const STRETCHES: u32 = 50;
        for _ in 0..STRETCHES {
            total += simulation.run(&[&share], seconds / 20.0);
            weighted += f64::from(governor.limit());
        }
        let (throughput, depth) = (total / f64::from(STRETCHES), weighted / f64::from(STRETCHES));
        eprintln!(
            "{model}, from {start}: {:.1} % of {best:.0}/s at depth {depth:.0}; the smallest is {smallest}",
            100.0 * throughput / best
        );
        assert!(throughput >= 0.95 * best, "{model} from {start}: {throughput:.0} of {best:.0} at {depth}");
        assert!(depth <= 4.0 * f64::from(smallest), "{model} from {start}: depth {depth}, smallest {smallest}");
        simulation.finish(&[&share]);
    }
}

#[test]
fn finds_the_knee_of_a_single_disk() {
    // A queue of 256 takes such a disk two seconds, so every trial does; nobody starts it at 1024.
    finds_the_knee("hdd", [1, 32, 256], 60.0);
}

#[test]
fn finds_the_knee_of_an_array_of_disks() {
    finds_the_knee("disk-array", [1, 32, 1024], 20.0);
}

#[test]
fn finds_the_knee_of_a_small_array() {
    finds_the_knee("latency=4ms..12ms,servers=8", [1, 32, 256], 60.0);
}

#[test]
fn finds_the_knee_of_a_cloud_volume() {
    finds_the_knee("cloud-volume", [1, 32, 1024], 5.0);
}

#[test]
fn finds_the_knee_of_a_local_drive() {
    finds_the_knee("latency=48us,iops=95000", [1, 32, 1024], 5.0);
}

#[test]
fn finds_the_knee_of_an_object_store() {
    finds_the_knee("object-store", [1, 32, 1024], 5.0);
}

#[test]
fn long_latency_is_answered_quickly() {
    let mut simulation = Simulation::new("object-store");
    let governor = Governor::with_clock(32, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
    let share = governor.share(u32::MAX);
    simulation.run(&[&share], 1.0);
    assert!(governor.limit() > 1000, "after a second the limit is {}", governor.limit());
    simulation.finish(&[&share]);
}

#[test]
fn bursts_with_gaps_find_the_knee_too() {
    let (best, smallest) = knee("cloud-volume");
    let mut simulation = Simulation::new("cloud-volume");
    let governor = Governor::with_clock(8, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
    let share = governor.share(u32::MAX);
    let burst = |simulation: &mut Simulation| {
        let start = simulation.clock.now();
        let mut left = 5000;
        loop {
            while left > 0 && share.try_acquire() {
                simulation.submit(0);
                left -= 1;
            }
            let Some((_, latency)) = simulation.complete() else { break };
            share.release(latency, PAGE);
        }
        let took = simulation.clock.now() - start;
        simulation.clock.advance_to(simulation.clock.now() + Duration::from_millis(80));
        5000.0 / took.as_secs_f64()
    };
    (0..50).for_each(|_| _ = burst(&mut simulation));
    let mean = (0..50).map(|_| burst(&mut simulation)).sum::<f64>() / 50.0;
    // A burst of 50 ms has a head and a tail of 1 ms each.
    assert!(mean > 0.92 * best, "bursts ran at {mean:.0} of {best:.0} per second, limit {}", governor.limit());
    assert!(governor.limit() <= 4 * smallest);
}

#[test]
fn an_idle_or_light_load_leaves_the_limit_alone() {
    let mut simulation = Simulation::new("cloud-volume");
    let governor = Governor::with_clock(64, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
    let share = governor.share(4);
    simulation.run(&[&share], 2.0);
    assert_eq!(governor.limit(), 64);
    simulation.finish(&[&share]);
}

#[test]
fn a_device_that_changes_is_followed() {
    let mut simulation = Simulation::new("cloud-volume");
    let governor = Governor::with_clock(32, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
    let share = governor.share(u32::MAX);
    simulation.run(&[&share], 5.0);
    assert!((95..=400).contains(&governor.limit()), "{}", governor.limit());
    // The volume is given ten times the latency: the knee moves to a thousand.
    simulation.model = Model::new("latency=10ms,iops=100000".parse().unwrap(), 5);
    simulation.clock.advance_to(simulation.clock.now());
    simulation.finish(&[&share]);
    simulation.run(&[&share], 20.0);
    assert!((900..=4000).contains(&governor.limit()), "{}", governor.limit());
    simulation.finish(&[&share]);
}

#[test]
fn shares_are_fair_and_an_idle_one_is_used_by_others() {
    let mut simulation = Simulation::new("latency=10ms,servers=64");
    let governor = Governor::with_clock(64, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
    let (first, second) = (governor.share(u32::MAX), governor.share(u32::MAX));
    // The second is idle: the first has the device to itself.
    simulation.run(&[&first], 0.05);
    assert!(first.in_flight() >= governor.limit() - 1, "{} of {}", first.in_flight(), governor.limit());
    // Both want all: half each, although the first asks first.
    simulation.run(&[&first, &second], 5.0);
    let ratio = f64::from(first.in_flight()) / f64::from(second.in_flight());
    assert!((0.8..=1.25).contains(&ratio), "{} against {}", first.in_flight(), second.in_flight());
    simulation.finish(&[&first, &second]);
}

#[test]
fn a_share_keeps_its_own_bound_and_nobody_starves() {
    let governor = Governor::with_clock(1, Arc::new(VirtualClock::default()));
    let shares: Vec<Share> = (0..5).map(|_| governor.share(3)).collect();
    for share in &shares {
        assert!(share.try_acquire(), "every share may have one request in flight");
        assert!(!share.try_acquire());
    }
    assert_eq!(governor.in_flight(), 5);
    shares.iter().for_each(|share| share.release(Duration::from_millis(1), PAGE));
    let wide = Governor::with_clock(100, Arc::new(VirtualClock::default()));
    let share = wide.share(3);
    assert_eq!((0..10).filter(|_| share.try_acquire()).count(), 3);
    (0..3).for_each(|_| share.release(Duration::from_millis(1), PAGE));
    assert_eq!((wide.in_flight(), governor.in_flight()), (0, 0));
}

#[test]
fn threads_never_lose_a_count() {
    let governor = Governor::with_clock(16, Arc::new(SystemClock::default()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let share = governor.share(u32::MAX);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    if share.try_acquire() {
                        share.release(Duration::from_micros(10), PAGE);
                    }
                }
            });
        }
    });
    assert_eq!(governor.in_flight(), 0);
}

#[test]
fn a_device_that_has_been_measured_starts_at_its_knee() {
    let mut simulation = Simulation::new("cloud-volume");
    let governor = Governor::with_clock(2, Arc::clone(&simulation.clock) as Arc<dyn Clock>);
    let share = governor.share(u32::MAX);
    let slow = simulation.run(&[&share], 0.05);
    let point = |depth: u32| ProfilePoint {
        bytes: 4096,
        depth,
        iops: f64::from(depth) * 1000.0,
        latency_mean: 1e-3,
        latency_p99: 1e-3,
    };
    let profile = DeviceProfile::from_points("measured".to_owned(), vec![point(1), point(256)], 1e9).unwrap();
    governor.restart(&profile, 4096);
    assert_eq!(governor.limit(), profile.knee_depth(4096));
    let quick = simulation.run(&[&share], 0.05);
    simulation.finish(&[&share]);
    assert!(quick > 5.0 * slow, "{quick} a second after {slow}");
}
