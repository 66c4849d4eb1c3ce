//! One seed from its beginning to its end: world after world.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::run::{Phase, Run};
use crate::threads::{self, Stuck};
use crate::world;

/// Virtual time that the database may take from a restart to the next.
const WORLD_LIMIT: Duration = Duration::from_secs(1_800);
/// Restarts that do not come from the script: closing, and looking again.
const WORLDS_MAX: usize = 16;

/// How a run ended.
pub struct Outcome {
    pub failure: Option<String>,
    pub history: Vec<String>,
    pub fingerprint: u64,
}

/// Runs it in worlds of its seed, one after each power cut.
pub fn simulate(run: &Arc<Run>) -> Outcome {
    hear_panics(run);
    run.tell(&format!("{:?}, {:?}, {:?}", run.script.setup, run.script.scene, run.script.focus));
    run.tell(&format!("{:?}, {:?}", run.script.cuts, run.script.weather));
    let mut fingerprint = 0;
    for restart in 0..run.script.cuts.len() + WORLDS_MAX {
        run.restarts.store(restart, Ordering::Relaxed);
        let inside = Arc::clone(run);
        let seed = run.script.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(restart as u64);
        match threads::run(seed, WORLD_LIMIT, run.script.setup.interruptions, move || world::run(&inside)) {
            Ok((ending, so_far)) => {
                fingerprint = so_far;
                // Also where devices that failed have stopped all clients: then the process ends, and begins anew.
                run.tell(&format!("---- the world has ended: {ending:?}"));
            }
            Err(Stuck(why)) => run.fail(&format!("stuck: {why}")),
        }
        if run.has_failed() || *run.phase.lock() == Phase::Finished {
            break;
        }
    }
    if !run.has_failed() && *run.phase.lock() != Phase::Finished {
        run.fail(&format!("the work is not done after {} restarts", run.restarts.load(Ordering::Relaxed)));
    }
    let (failure, history) = run.take_findings();
    Outcome { failure, history, fingerprint }
}

/// A panic is a failure, whatever the engine makes of it.
fn hear_panics(run: &Arc<Run>) {
    let run = Arc::downgrade(run);
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let text = format!("a panic in thread {}: {panic}", thread.name().unwrap_or("?"));
        match run.upgrade() {
            Some(run) => run.fail(&text),
            None => eprintln!("{text}"),
        }
    }));
}
