//! How much of the machine a merge takes while queries want it too.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use saki_page::IoShare;

/// Work between two pauses: short enough that a query waits for no longer.
const STRETCH: Duration = Duration::from_millis(10);
/// A pause at most: after a long stretch without a chance to rest, a merge does not sleep for as long again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a merge may take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Of the merge's threads, 0 (none) to 19: where there are not enough processors, queries go first.
    pub niceness: u8,
    /// Reads in flight at most, besides what the device's governor allows.
    pub reads_in_flight_max: u32,
    /// Threads that encode column segments at once.
    pub threads: usize,
    /// The part of the time in which each thread works, above 0 and up to 1.
    pub duty: f64,
}

impl Pace {
    /// All that the machine gives: for a statement that somebody waits for.
    pub fn full() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self { niceness: 0, reads_in_flight_max: u32::MAX, threads, duty: 1.0 }
    }

    /// In the background: behind queries on the processors, a few reads at a time, with pauses.
    pub fn beside_queries() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
        Self { niceness: 10, reads_in_flight_max: 64, threads, duty: 0.7 }
    }

    /// Whether several threads may work at once where one would do.
    pub fn has_threads_to_spare(&self) -> bool {
        self.duty >= 1.0 && self.threads > 1
    }
}

/// One thread's steps at a [`Pace`].
pub struct Pacer {
    pace: Pace,
    /// What all reads of the merge count on.
    pub share: Arc<IoShare>,
    since: Cell<Instant>,
}

impl Pacer {
    pub fn new(pace: Pace, share: &Arc<IoShare>) -> Self {
        Self { pace, share: Arc::clone(share), since: Cell::new(Instant::now()) }
    }

    /// Makes the calling thread a merge's own for as long as it lives: it gives way to others.
    pub fn settle_in(&self) {
        if self.pace.niceness > 0
            && let Err(error) = saki_io::give_way(self.pace.niceness)
        {
            tracing::warn!("a merge runs at the priority of queries: {error}");
        }
        self.since.set(Instant::now());
    }

    /// Between two steps of work: pauses if it is time.
    pub fn step(&self) {
        if let Some(pause) = self.pause_at(Instant::now()) {
            thread::sleep(pause);
            self.begin();
        }
    }

    /// How long to pause now, if it is time.
    fn pause_at(&self, now: Instant) -> Option<Duration> {
        let worked = now.saturating_duration_since(self.since.get());
        if self.pace.duty >= 1.0 || worked < STRETCH {
            return None;
        }
        let pause = worked.as_secs_f64() * (1.0 / self.pace.duty.max(0.01) - 1.0);
        Some(Duration::from_secs_f64(pause).min(PAUSE_MAX))
    }

    /// Work begins now: what came before was waiting.
    pub fn begin(&self) {
        self.since.set(Instant::now());
    }

    pub fn threads(&self) -> usize {
        self.pace.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(duty: f64) -> Pacer {
        Pacer::new(Pace { duty, ..Pace::full() }, &IoShare::new(u32::MAX))
    }

    #[test]
    fn a_merge_that_somebody_waits_for_does_not_rest() {
        let pacer = pacer(1.0);
        assert_eq!(pacer.pause_at(pacer.since.get() + 100 * STRETCH), None);
        assert!(!Pace::beside_queries().has_threads_to_spare());
    }

    #[test]
    fn a_merge_in_the_background_rests_after_each_stretch() {
        let pacer = pacer(0.5);
        let since = pacer.since.get();
        assert_eq!(pacer.pause_at(since + STRETCH / 2), None, "a stretch has just begun");
        assert_eq!(pacer.pause_at(since + STRETCH), Some(STRETCH), "as long as it has worked");
        assert_eq!(pacer.pause_at(since + 10 * PAUSE_MAX), Some(PAUSE_MAX));
        thread::sleep(STRETCH);
        let began = Instant::now();
        pacer.step();
        assert!(began.elapsed() >= STRETCH, "it has rested");
        assert!(pacer.since.get() > began, "and begins anew");
    }

    #[test]
    fn waiting_is_not_work() {
        let pacer = pacer(0.5);
        let waiting = pacer.since.get();
        thread::sleep(STRETCH);
        pacer.begin();
        assert!(pacer.since.get() >= waiting + STRETCH);
    }
}
