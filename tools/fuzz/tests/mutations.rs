//! Every fuzz body over its seeds and over seeded damage to them.
//!
//! `SAKI_FUZZ_ROUNDS` sets the number of damaged inputs per target; a failure prints the round's
//! seed, and `SAKI_FUZZ_SEED` repeats that one alone.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use saki_base::Random;
use saki_fuzz::{TARGETS, Target, mutate::mutate};

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run(name: &str, rounds: u64) {
    let target: &Target = TARGETS.iter().find(|target| target.name == name).expect("a known target");
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    for seed in &seeds {
        (target.body)(seed);
    }
    let rounds = setting("SAKI_FUZZ_ROUNDS").unwrap_or(rounds);
    let range = setting("SAKI_FUZZ_SEED").map_or(0..rounds, |seed| seed..seed + 1);
    for round in range {
        let mut random = Random::new(round);
        let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
        mutate(&mut bytes, &mut random);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.body)(&bytes))) {
            eprintln!(
                "target {name}: repeat with SAKI_FUZZ_SEED={round}; input {:?}",
                String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
            );
            resume_unwind(panic);
        }
    }
}

macro_rules! targets {
    ($($name:ident $rounds:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), $rounds);
        })*

        /// A body that nobody runs would rot.
        #[test]
        fn every_target_is_run() {
            let run = [$(stringify!($name)),*];
            assert!(TARGETS.iter().all(|target| run.contains(&target.name)));
        }
    };
}

targets! {
    leaf 6_000,
    inner 6_000,
    overflow 3_000,
    volume 1_500,
    log 400,
    record 30_000,
    records 30_000,
    shape 30_000,
    row 30_000,
    key 30_000,
    column 1_500,
    segment 30_000,
    frontend 30_000,
    text 30_000,
    fabric_frames 30_000,
    fabric_ring 30_000,
    fabric_wire 30_000,
    remote 30_000,
}
