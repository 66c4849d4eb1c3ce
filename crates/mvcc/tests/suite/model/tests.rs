use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use saki_mvcc::Sabotage;

use super::operation::operation;
use super::world::{SESSIONS, Step, World};
use crate::suite::support::scaled;

fn step(with_restarts: bool) -> impl Strategy<Value = Step> {
    let restarts = u32::from(with_restarts);
    prop_oneof![
        60 => (0..SESSIONS, operation()).prop_map(|(runner, operation)| Step::Do(runner, operation)),
        9 => (0..SESSIONS).prop_map(Step::Commit),
        4 => (0..SESSIONS).prop_map(Step::Abort),
        4 => (0..SESSIONS).prop_map(Step::Reclaim),
        1 => Just(Step::BeginCut),
        2 * restarts => Just(Step::Restart),
        2 * restarts => any::<u64>().prop_map(Step::PowerLoss),
        3 * restarts => any::<bool>().prop_map(Step::Hold),
    ]
}

fn run(cases: u64, with_restarts: bool, sabotage: Option<Sabotage>) -> Result<(), String> {
    let max_shrink_iters = if sabotage.is_some() { 0 } else { 4_000 };
    let config = Config { cases: cases as u32, failure_persistence: None, max_shrink_iters, ..Config::default() };
    let steps = prop::collection::vec(step(with_restarts), 1..250);
    let outcome = TestRunner::new(config).run(&(any::<u32>(), steps), |(seed, steps)| {
        let mut world = World::new(seed.into(), sabotage);
        steps.iter().for_each(|step| world.step(step));
        world.check();
        Ok(())
    });
    outcome.map_err(|error| error.to_string())
}

/// `SAKI_MODELS` says how many sequences, of up to 250 steps each.
#[test]
fn runners_do_what_the_model_does() {
    run(scaled("SAKI_MODELS", 300), false, None).unwrap_or_else(|error| panic!("{error}"));
}

/// The same, with orderly restarts and power losses at any moment.
#[test]
fn after_restarts_and_power_losses_all_is_as_in_the_model() {
    run(scaled("SAKI_MODELS", 150), true, None).unwrap_or_else(|error| panic!("{error}"));
}

/// The test of the test: validation that forgets something is found out.
#[test]
fn the_model_notices_what_is_not_validated() {
    for sabotage in [Sabotage::IgnoreRows, Sabotage::IgnoreRanges] {
        let found = run(2_000, false, Some(sabotage)).expect_err("a mistake that nobody notices");
        assert!(found.contains("run alone"), "{sabotage:?} shows otherwise: {found}");
    }
}
