//! Finding the knee by trying: hill climbing over windows of completions.
//!
//! ```text
//!   Start: double while throughput rises by 5 %
//!     │
//!     ▼            every few windows            better by 2 %: stay there
//!   Hold ───────────────────────────► Probe 2x ────────────────────────────► Hold
//!     ▲ └───────────────────────────► Probe ½x ── worse by less than 1 % ──────┘
//!     └──────────── otherwise go back, and wait twice as long before the next ──┘
//! ```
//!
//! - The two thresholds differ so that no pair of depths is left both ways.
//!   With 2 % per doubling, a curve as gentle as that of an array under
//!   random imbalance is climbed to over 95 % of its asymptote.
//! - A window is judged only if the limit was *binding*: something was
//!   refused, and by Little's law (sum of latencies over time) the depth was
//!   near the limit. Bursts have gaps and tails; windows that contain them say
//!   nothing about the device. They are dropped, and the next is shorter.
//! - After a change one generation of requests passes unjudged: those were
//!   admitted under the old limit.
//! - Windows are whole generations long, because requests admitted together
//!   often complete together: a fraction of a lump would count for too much.
//! - Product of time over depth is not used to find the knee (as congestion control does
//!   with the bandwidth-delay product): under random imbalance the knee is several times it.

use std::time::Duration;

use super::DEPTH_MAX;

/// Doubling goes on while it brings at least this.
const START_GAIN: f64 = 1.05;
/// A doubled depth has to bring this.
const UP_GAIN: f64 = 1.02;
/// A halved depth may cost this.
const DOWN_LOSS: f64 = 0.99;
/// The share of the limit that the mean depth has to reach for a window to count.
const BINDING_SHARE: f64 = 0.85;
/// A window's length in time, as far as the following bounds allow.
const WINDOW_SECONDS: f64 = 0.5;
/// Fewer completions say too little; more than the upper bound say no more (1 % noise at worst).
const WINDOW_COMPLETIONS: std::ops::RangeInclusive<u64> = 128..=8192;
/// Windows between probes that keep failing.
const PROBE_WAIT_MAX: u32 = 64;
/// Windows dropped in a row before a probe is given up.
const PROBE_PATIENCE: u32 = 4;
/// A change of throughput at the same depth that means: another load or another device now.
const UPHEAVAL: f64 = 1.3;

/// Readings of the governor's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub completed: u64,
    pub work: u64,
    /// Sum of latencies.
    pub busy: Duration,
    pub now: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Goal {
    /// Doubling; the throughput at half the depth, once measured.
    Start { before: Option<f64> },
    /// Working at the knee; the throughput of the last window.
    Hold { rate: Option<f64> },
    /// Trying another depth; the one to return to and its throughput.
    Probe { home: u32, home_rate: f64, dropped: u32 },
}

/// Windows to wait before a probe: doubled by failure.
#[derive(Clone, Copy, Debug)]
struct Patience {
    wait: u32,
    left: u32,
}

impl Patience {
    fn new(wait: u32) -> Self {
        Self { wait, left: wait }
    }

    fn failed(&mut self) {
        *self = Self::new((self.wait * 2).min(PROBE_WAIT_MAX));
    }
}

pub(super) struct Climber {
    limit: u32,
    goal: Goal,
    /// The window that is running began here.
    begun: Totals,
    /// The generation admitted under the old limit is still passing.
    settling: bool,
    /// Halvings of the window's length, for loads in short bursts.
    shortened: u32,
    /// Completions per second, last seen.
    pace: f64,
    up: Patience,
    down: Patience,
}

impl Climber {
    /// Begins at `limit`; also returns where the first window ends.
    pub fn new(limit: u32, now: Duration) -> (Self, u64) {
        let climber = Self {
            limit,
            goal: Goal::Start { before: None },
            begun: Totals { now, ..Totals::default() },
            settling: true,
            shortened: 0,
            pace: 0.0,
            up: Patience::new(2),
            down: Patience::new(2),
        };
        (climber, u64::from(limit))
    }

    /// Ends a window: returns the limit from now on, and the number of completions that ends the next.
    pub fn end_window(&mut self, totals: Totals, refused: bool) -> (u32, u64) {
        let before = self.limit;
        if !std::mem::take(&mut self.settling) {
            match self.judge(&totals, refused) {
                Some(rate) => {
                    self.shortened = self.shortened.saturating_sub(1);
                    self.decide(rate);
                }
                None => self.drop_window(),
            }
        }
        self.settling = self.limit != before;
        self.begun = totals;
        let length = if self.settling { u64::from(before.max(self.limit)) } else { self.window_length() };
        (self.limit, totals.completed + length)
    }

    /// The window's throughput in work per second, if the limit was what held it back.
    fn judge(&mut self, totals: &Totals, refused: bool) -> Option<f64> {
        let elapsed = (totals.now - self.begun.now).as_secs_f64();
        if elapsed <= 0.0 {
            return None;
        }
        let depth = (totals.busy.saturating_sub(self.begun.busy)).as_secs_f64() / elapsed;
        if !refused || depth < BINDING_SHARE * f64::from(self.limit) {
            return None;
        }
        self.pace = (totals.completed - self.begun.completed) as f64 / elapsed;
        Some((totals.work - self.begun.work) as f64 / elapsed)
    }

    fn decide(&mut self, rate: f64) {
        match self.goal {
            Goal::Start { before } => self.start(before, rate),
            Goal::Hold { rate: last } => self.hold(last, rate),
            Goal::Probe { home, home_rate, .. } => self.end_probe(home, home_rate, rate),
        }
    }

    fn start(&mut self, before: Option<f64>, rate: f64) {
        let gain = before.map_or(f64::INFINITY, |before| rate / before);
        if gain >= START_GAIN && self.limit < DEPTH_MAX {
            self.goal = Goal::Start { before: Some(rate) };
            self.limit = (self.limit * 2).min(DEPTH_MAX);
            return;
        }
        if gain < UP_GAIN {
            self.limit = (self.limit / 2).max(1);
        }
        self.goal = Goal::Hold { rate: None };
    }

    fn hold(&mut self, last: Option<f64>, rate: f64) {
        let change = last.map_or(1.0, |last| (rate / last).max(last / rate));
        if change > UPHEAVAL {
            (self.up, self.down) = (Patience::new(1), Patience::new(1));
        }
        self.up.left = self.up.left.saturating_sub(1);
        self.down.left = self.down.left.saturating_sub(1);
        let target = if self.up.left == 0 && self.limit < DEPTH_MAX {
            (self.limit * 2).min(DEPTH_MAX)
        } else if self.down.left == 0 && self.limit > 1 {
            self.limit / 2
        } else {
            self.goal = Goal::Hold { rate: Some(rate) };
            return;
        };
        self.goal = Goal::Probe { home: self.limit, home_rate: rate, dropped: 0 };
        self.limit = target;
    }

    fn end_probe(&mut self, home: u32, home_rate: f64, rate: f64) {
        let upwards = self.limit > home;
        let wanted = if upwards { UP_GAIN } else { DOWN_LOSS };
        let (direction, opposite) =
            if upwards { (&mut self.up, &mut self.down) } else { (&mut self.down, &mut self.up) };
        if rate >= wanted * home_rate {
            // More of the same is likely; the way back was just found wanting.
            *direction = Patience::new(1);
            *opposite = Patience::new(opposite.wait.max(4));
            self.goal = Goal::Hold { rate: Some(rate) };
        } else {
            direction.failed();
            self.limit = home;
            self.goal = Goal::Hold { rate: Some(home_rate) };
        }
    }

    fn drop_window(&mut self) {
        self.shortened = (self.shortened + 1).min(6);
        if let Goal::Probe { home, home_rate, dropped } = &mut self.goal {
            *dropped += 1;
            if *dropped >= PROBE_PATIENCE {
                let (home, rate) = (*home, *home_rate);
                self.limit = home;
                self.goal = Goal::Hold { rate: Some(rate) };
                self.up.left = self.up.wait;
                self.down.left = self.down.wait;
            }
        }
    }

    /// Completions until the next judgement.
    fn window_length(&self) -> u64 {
        let generation = u64::from(self.limit);
        let wanted = match self.goal {
            // Speed matters more here: the differences looked for are large.
            Goal::Start { .. } => 64,
            _ => {
                let in_time = (self.pace * WINDOW_SECONDS) as u64;
                in_time.clamp(*WINDOW_COMPLETIONS.start(), *WINDOW_COMPLETIONS.end()) >> self.shortened
            }
        };
        wanted.max(2 * generation).next_multiple_of(generation)
    }
}
