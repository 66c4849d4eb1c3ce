//! The logs under a seed: appenders, log threads, devices and the moment of the crash are all driven by one generator,
//! in one thread, so a failure comes again from its number. Several incarnations follow one another on what each crash
//! left; on some devices writes and flushes fail now and then.
//!
//! Checked after each crash, against a model of what was appended: every timestamp that the horizon had covered is
//! recovered with its payload; exactly the commit records through the new horizon are applied, each once; void ones are
//! not; the clock is behind everything that was ever handed out and seen.
//!
//! `SAKI_SEED=n` runs one seed, `SAKI_SEEDS=n` so many.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saki_base::Random;
use saki_io::{Device, FaultRates, SimDevice, SimOptions, SimTiming};

use crate::logs::{Logs, Reservation};
use crate::options::{Options, Range};
use crate::recovery::report::RecoveryReport;
use crate::shared::Shared;
use crate::start::Started;
use crate::writer::{Turn, Writer};

/// What was appended: `None` for void. Of timestamps after the horizon of a recovery, nothing.
type Model = BTreeMap<u64, Option<Vec<u8>>>;

/// Pictures of each power loss that are looked at, besides the one that the next incarnation goes on from.
const PICTURES: usize = 2;

struct Simulation {
    seed: u64,
    random: Random,
    options: Options,
    devices: Vec<Arc<SimDevice>>,
    model: Model,
    /// The greatest horizon that anyone was told of.
    durable: u64,
    /// Everything through this is said to be durable elsewhere.
    cut: u64,
    record_bytes: u64,
    records: u64,
    extents_reused: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let block = 4096;
        let options = Options {
            extent_bytes: block * random.range(4..24),
            write_bytes_max: 4096 * random.range(1..10) as usize,
            buffer_bytes: 4096 * random.range(1..40) as usize,
            writes_in_flight: random.range(1..5) as usize,
            window: 64 << random.below(5),
            ..Options::new(seed)
        };
        let logs = random.range(1..5);
        let device = |log| {
            let timing = match seed % 3 {
                0 => SimTiming::Immediate,
                1 => SimTiming::InOrder,
                _ => SimTiming::Virtual(Duration::from_micros(20)..=Duration::from_micros(300)),
            };
            SimDevice::new(SimOptions { seed: seed << 8 | log, length_bytes: 0, timing, ..SimOptions::default() })
        };
        let record_bytes = [40, 700, 5_000, 60_000][random.below(4) as usize];
        Self {
            seed,
            devices: (0..logs).map(device).collect(),
            random,
            options,
            model: Model::new(),
            durable: 0,
            cut: 0,
            record_bytes,
            records: 0,
            extents_reused: false,
        }
    }

    /// Opens the logs and goes on from what is there.
    fn recover(&mut self) -> (Started, RecoveryReport) {
        let (started, report) = self.open(&self.devices);
        self.model.retain(|timestamp, _| *timestamp <= report.horizon);
        self.durable = report.horizon;
        (started, report)
    }

    /// Opens the logs on some devices and compares what is there with the model.
    fn open(&self, devices: &[Arc<SimDevice>]) -> (Started, RecoveryReport) {
        let devices = devices.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect();
        let found = Mutex::new(Model::new());
        let apply = |_log: usize, timestamp: u64, payload: &[u8]| {
            let before = found.lock().unwrap().insert(timestamp, Some(payload.to_vec()));
            assert!(before.is_none(), "timestamp {timestamp} was applied twice");
            Ok::<_, Infallible>(())
        };
        let known = (self.durable > 0).then_some(self.durable);
        let range = Range { after: (self.cut > 0).then_some(self.cut), known, ..Range::default() };
        let recovered = Logs::start(devices, self.options.clone(), range, &|_| {}, &apply);
        let (started, report) = recovered.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let seed = self.seed;
        assert!(report.horizon >= self.durable, "seed {seed}: {} was durable, {report:?}", self.durable);
        assert!(report.clock >= report.horizon, "seed {seed}: {report:?}");
        let expected = self.model.range(..=report.horizon);
        let expected = expected.filter(|(timestamp, payload)| **timestamp > report.after && payload.is_some());
        let found = found.into_inner().unwrap();
        let (expected, found): (Vec<_>, Vec<_>) = (expected.collect(), found.iter().collect());
        assert!(expected == found, "seed {seed}: {:?} instead of {:?}, {report:?}", keys(&found), keys(&expected));
        assert_eq!(started.shared.horizon.durable(), report.clock);
        (started, report)
    }

    /// One incarnation, up to its crash or its end.
    fn run(&mut self, turns: u64) {
        let (started, report) = self.recover();
        let Started { shared, mut writers } = started;
        self.set_faults(if self.is_failing() { 0.1 } else { 0.0 });
        let mut clock = report.clock;
        let mut taken: Vec<(u64, Reservation<'_>, usize)> = Vec::new();
        for _ in 0..turns {
            match self.random.below(10) {
                0..4 => self.append(&shared, &mut clock, &mut taken),
                4 if !taken.is_empty() => {
                    // Records come in another order than their timestamps.
                    let chosen = self.random.below(taken.len() as u64) as usize;
                    let (timestamp, reservation, length) = taken.swap_remove(chosen);
                    self.leave(timestamp, reservation, length);
                }
                5 if self.random.chance(0.1) => {
                    let through = self.random.range(0..shared.horizon.durable() + 1);
                    self.cut = shared.cut_through(through);
                }
                _ => {
                    let log = self.random.below(writers.len() as u64) as usize;
                    // A waiting poll is what moves virtual time; only where something is in flight, or real time would
                    // pass.
                    let may_wait = self.random.chance(0.5) && writers[log].is_in_flight();
                    writers[log].turn(may_wait);
                }
            }
            let durable = shared.horizon.durable();
            assert!(durable >= self.durable && durable <= clock, "seed {}: {durable} of {clock}", self.seed);
            // Before this incarnation's first commit is durable, the horizon covers what is void: nothing that could be
            // lost.
            if durable > report.clock {
                self.durable = durable;
            }
        }
        assert!(shared.failure().is_none(), "seed {}: {:?}", self.seed, shared.failure());
        if self.random.chance(0.2) {
            taken.drain(..).for_each(|(timestamp, reservation, length)| self.leave(timestamp, reservation, length));
            self.close(&shared, &mut writers);
            assert_eq!(shared.horizon.durable(), clock, "seed {}", self.seed);
            if clock > report.clock {
                self.durable = clock;
            }
        }
        self.extents_reused |= shared.logs.iter().any(|log| log.statistics().extents_free > 0);
        self.records += clock - report.clock;
        drop(taken);
        if !self.is_failing() && self.random.chance(0.3) {
            // Only the process ends. What it wrote is in the system's cache, and the next one begins with that.
            return;
        }
        // The power goes before the lanes are dropped, which would carry out what is in flight. What is found then is
        // one of many pictures, and each of them has to do.
        for _ in 0..PICTURES {
            let picture = self.power_loss();
            self.open(&picture);
        }
        self.devices = self.power_loss();
        self.set_faults(0.0);
    }

    /// Ends an incarnation as it should end.
    fn close(&self, shared: &Shared, writers: &mut [Writer]) {
        shared.logs.iter().for_each(|log| log.stream.lock().closing = true);
        // A failing device is tried again after a while of real time.
        let mut turns = 0..1_000_000;
        let mut ended = vec![false; writers.len()];
        while ended.contains(&false) {
            assert!(turns.next().is_some(), "seed {}: closing does not end", self.seed);
            for (writer, ended) in writers.iter_mut().zip(&mut ended) {
                *ended = writer.turn(writer.is_in_flight()) == Turn::Ended;
            }
        }
    }

    /// The devices as a power loss may leave them now.
    fn power_loss(&mut self) -> Vec<Arc<SimDevice>> {
        let Self { devices, random, .. } = self;
        devices.iter().map(|device| device.crash(random.next_u64())).collect()
    }

    /// Whether writes and flushes fail now and then.
    fn is_failing(&self) -> bool {
        self.seed.is_multiple_of(4)
    }

    /// `failing`: the share of writes and of flushes that fail.
    fn set_faults(&self, failing: f64) {
        let rates = FaultRates {
            torn_at_power_loss: 0.3,
            write_errors: failing,
            flush_errors: failing,
            ..FaultRates::default()
        };
        self.devices.iter().for_each(|device| device.faults().set_rates(rates.clone()));
    }

    fn append<'a>(&mut self, shared: &'a Shared, clock: &mut u64, taken: &mut Vec<(u64, Reservation<'a>, usize)>) {
        let log = self.random.below(shared.logs.len() as u64) as usize;
        let length = match self.random.below(20) {
            0 => self.random.below(self.record_bytes * 10),
            // Fills pieces to their ends exactly.
            1..4 => self.options.write_bytes_max as u64 / (1 << self.random.below(3)) - 80,
            _ => self.random.below(self.record_bytes),
        } as usize;
        let Some(reservation) =
            shared.try_reserve(log, length).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed))
        else {
            return;
        };
        if self.random.chance(0.05) {
            return;
        }
        *clock += 1;
        match self.random.chance(0.3) {
            true => taken.push((*clock, reservation, length)),
            false => self.leave(*clock, reservation, length),
        }
    }

    fn leave(&mut self, timestamp: u64, reservation: Reservation<'_>, length: usize) {
        if self.random.chance(0.1) {
            reservation.void(timestamp);
            self.model.insert(timestamp, None);
            return;
        }
        let mut payload = vec![0; length];
        self.random.fill(&mut payload);
        let (head, tail) = payload.split_at(length / 3);
        reservation.commit_pieces(timestamp, &[head, tail]);
        self.model.insert(timestamp, Some(payload));
    }
}

fn keys(records: &[(&u64, &Option<Vec<u8>>)]) -> Vec<u64> {
    records.iter().map(|(timestamp, _)| **timestamp).collect()
}

/// Several incarnations and crashes from one seed; the timestamps handed out.
fn simulate(seed: u64) -> (u64, bool) {
    let mut simulation = Simulation::new(seed);
    for _ in 0..6 {
        let turns = 1 << simulation.random.range(2..11);
        simulation.run(turns);
    }
    simulation.recover();
    (simulation.records, simulation.extents_reused)
}

#[test]
fn what_was_durable_survives_every_crash() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SAKI_SEED");
    let seeds = first.map_or(1..=number("SAKI_SEEDS").unwrap_or(120), |seed| seed..=seed);
    let (mut records, mut reused) = (0, 0);
    for seed in seeds {
        // The panics of helpers without a seed in their text are found by it.
        let guard = Seed(seed);
        let (more, again) = simulate(seed);
        records += more;
        reused += u64::from(again);
        std::mem::forget(guard);
    }
    assert!(
        first.is_some() || (records > 10_000 && reused > 20),
        "{records} records, {reused} incarnations with reuse"
    );
}

/// Names the seed when a test panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        eprintln!("failed with SAKI_SEED={}", self.0);
    }
}
