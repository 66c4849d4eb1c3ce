//! Finding the knee by trying: hill climbing over windows of completions.
//!
//! ```text
//!   Start: double while throughput rises by 10 %
//!     │
//!     ▼            every few windows            better by 2 %: stay there
//!   Hold ───────────────────────────► Probe 2x ────────────────────────────► Hold
//!     ▲ └───────────────────────────► Probe ½x ── worse by under 1.8 % ───────┘
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
//! - Real devices are shared and noisy: the scatter of throughput between windows at one depth is
//!   measured, and a gain has to stand out of it. What noise hides is not worth queueing for, so a
//!   loss within it is accepted on the way down.
//! - The product of best throughput and least latency, by which congestion
//!   control finds a network's knee, is not used: under random imbalance an
//!   array's knee is several times that.

use std::time::Duration;

/// No limit is ever higher.
pub const DEPTH_MAX: u32 = 16_384;

/// Doubling goes on while it brings at least this: below the knee it brings nearly 2. An array under
/// random imbalance still gains a tenth at four times its number of disks; less is left to probes, which are patient.
const START_GAIN: f64 = 1.1;
/// A doubled depth has to bring this, and more than chance does: see [`Window::up_gain`].
const UP_GAIN: f64 = 1.02;
/// A halved depth may cost so much, or what chance takes.
const DOWN_LOSS: f64 = 0.982;
/// The share of the limit that the mean depth has to reach for a window to count.
const BINDING_SHARE: f64 = 0.85;
/// A window's length in time, as far as the following bounds allow.
const WINDOW_SECONDS: f64 = 1.0;
/// No generation is waited for longer.
const PATIENCE_SECONDS: f64 = 2.0;
/// Fewer completions say too little. The upper bound leaves half a percent
/// where many servers finish at once and a window ends with a lump of them.
const WINDOW_COMPLETIONS: std::ops::RangeInclusive<u64> = 128..=32_768;
/// A probe that loses more than this at first glance is not worth a whole window.
const GLANCE_LOSS: f64 = 0.9;
/// A glance is this fraction of a window.
const GLANCE_DIVISOR: u64 = 8;
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
    /// At this moment, not a total.
    pub in_flight: u32,
    pub now: Duration,
}

/// How many times its usual scatter a difference has to be.
const SCATTERS: f64 = 2.0;
/// The weight of the newest window in the scatter.
const SCATTER_WEIGHT: f64 = 0.2;
/// Scatter beyond this is a change of load rather than noise.
const SCATTER_MAX: f64 = 0.25;

/// A window that was judged.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Work per second.
    rate: f64,
    completions: u64,
    /// How far throughput strays between windows at one depth, as a share of it.
    scatter: f64,
}

impl Window {
    /// What makes this window count as better than another. Throughputs of n
    /// completions scatter by some 0.3 / sqrt(n) for a disk's spread of
    /// latencies: an improvement has to exceed twice that of a difference.
    /// Otherwise a slow disk's limit would drift upwards by luck.
    fn up_gain(&self) -> f64 {
        UP_GAIN.max(1.0 + 1.0 / (self.completions as f64).sqrt()).max(1.0 + SCATTERS * self.scatter)
    }

    /// What makes this window count as no worse than another: less than one such scatter lost.
    fn down_loss(&self) -> f64 {
        DOWN_LOSS.min(1.0 - 0.3 / (self.completions as f64).sqrt()).min(1.0 - self.scatter)
    }
}

#[derive(Clone, Copy, Debug)]
enum Goal {
    /// Doubling; the throughput at half the depth, once measured.
    Start { before: Option<f64> },
    /// Working at the knee; the throughput of the last windows.
    Hold { rate: Option<f64> },
    /// Trying another depth, at first only for a glance; the depth to return to and its throughput.
    Probe { home: u32, home_rate: f64, glance: bool, dropped: u32 },
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
    /// See [`Window::scatter`].
    scatter: f64,
    up: Patience,
    down: Patience,
}

impl Climber {
    /// Begins at `limit`; also returns where the first window ends.
    pub fn new(limit: u32, begun: Totals) -> (Self, u64) {
        let climber = Self {
            limit,
            goal: Goal::Start { before: None },
            begun,
            settling: true,
            shortened: 0,
            pace: 0.0,
            scatter: 0.0,
            up: Patience::new(2),
            down: Patience::new(2),
        };
        (climber, begun.completed + u64::from(limit).min(*WINDOW_COMPLETIONS.start()))
    }

    /// Ends a window: returns the limit from now on, and the number of completions that ends the next.
    pub fn end_window(&mut self, totals: Totals, refused: bool) -> (u32, u64) {
        let before = self.limit;
        if !std::mem::take(&mut self.settling) {
            match self.judge(&totals, refused) {
                Some(window) => {
                    self.shortened = self.shortened.saturating_sub(1);
                    self.decide(window);
                }
                None => self.drop_window(),
            }
        }
        self.settling = self.limit != before;
        self.begun = totals;
        let length = if self.settling { self.settling_length(before) } else { self.window_length() };
        (self.limit, totals.completed + length)
    }

    /// The window that ends here, if the limit was what held it back.
    fn judge(&mut self, totals: &Totals, refused: bool) -> Option<Window> {
        let elapsed = (totals.now - self.begun.now).as_secs_f64();
        if elapsed <= 0.0 {
            return None;
        }
        // Little's law looks back by one latency. Where that is too long to wait for, the present depth has to do.
        let depth = match self.generation_is_patient() {
            true => totals.busy.saturating_sub(self.begun.busy).as_secs_f64() / elapsed,
            false => f64::from(totals.in_flight),
        };
        if !refused || depth < BINDING_SHARE * f64::from(self.limit) {
            return None;
        }
        let completions = totals.completed - self.begun.completed;
        self.pace = completions as f64 / elapsed;
        let rate = (totals.work - self.begun.work) as f64 / elapsed;
        Some(Window { rate, completions, scatter: self.scatter })
    }

    fn decide(&mut self, window: Window) {
        match self.goal {
            Goal::Start { before } => self.start(before, window),
            Goal::Hold { rate: last } => self.hold(last, window.rate),
            Goal::Probe { home, home_rate, glance: true, .. } if window.rate >= GLANCE_LOSS * home_rate => {
                self.goal = Goal::Probe { home, home_rate, glance: false, dropped: 0 };
            }
            Goal::Probe { home, home_rate, .. } => self.end_probe(home, home_rate, window),
        }
    }

    fn start(&mut self, before: Option<f64>, window: Window) {
        let gain = before.map_or(f64::INFINITY, |before| window.rate / before);
        if gain >= window.up_gain().max(START_GAIN) && self.limit < DEPTH_MAX {
            self.goal = Goal::Start { before: Some(window.rate) };
            self.limit = (self.limit * 2).min(DEPTH_MAX);
            return;
        }
        if gain < window.up_gain() {
            self.limit = (self.limit / 2).max(1);
        }
        self.goal = Goal::Hold { rate: None };
    }

    fn hold(&mut self, last: Option<f64>, rate: f64) {
        let change = last.map_or(1.0, |last| (rate / last).max(last / rate));
        // Averaged over windows, so that one lucky or unlucky window decides less.
        let mut steady = last.map_or(rate, |last| 0.7 * last + 0.3 * rate);
        if last.is_some() {
            let strayed = (change - 1.0).min(SCATTER_MAX);
            self.scatter += SCATTER_WEIGHT * (strayed - self.scatter);
        }
        if change > UPHEAVAL {
            (self.up, self.down) = (Patience::new(1), Patience::new(1));
            steady = rate;
        }
        self.up.left = self.up.left.saturating_sub(1);
        self.down.left = self.down.left.saturating_sub(1);
        let target = if self.up.left == 0 && self.limit < DEPTH_MAX {
            (self.limit * 2).min(DEPTH_MAX)
        } else if self.down.left == 0 && self.limit > 1 {
            self.limit / 2
        } else {
            self.goal = Goal::Hold { rate: Some(steady) };
            return;
        };
        self.goal = Goal::Probe { home: self.limit, home_rate: steady, glance: true, dropped: 0 };
        self.limit = target;
    }

    fn end_probe(&mut self, home: u32, home_rate: f64, window: Window) {
        let rate = window.rate;
        let upwards = self.limit > home;
        let wanted = if upwards { window.up_gain() } else { window.down_loss() };
        let (direction, opposite) =
            if upwards { (&mut self.up, &mut self.down) } else { (&mut self.down, &mut self.up) };
        if rate >= wanted * home_rate {
            // More of the same is likely. What was luck is found out soon after.
            *direction = Patience::new(1);
            *opposite = Patience::new(4);
            self.goal = Goal::Hold { rate: Some(rate) };
        } else {
            direction.failed();
            self.limit = home;
            self.goal = Goal::Hold { rate: Some(home_rate) };
        }
    }

    fn drop_window(&mut self) {
        self.shortened = (self.shortened + 1).min(6);
        if let Goal::Probe { home, home_rate, dropped, .. } = &mut self.goal {
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

    /// A generation at the new depth; on the way down, after the surplus has drained.
    fn settling_length(&self, before: u32) -> u64 {
        let surplus = before.saturating_sub(self.limit);
        u64::from(surplus) + u64::from(self.limit).min(self.completions_in_patience())
    }

    /// Where a generation takes seconds, it is queueing and not the
    /// device that takes them: then half a generation tells as much as a whole.
    fn completions_in_patience(&self) -> u64 {
        if self.pace > 0.0 {
            ((self.pace * PATIENCE_SECONDS) as u64).max(*WINDOW_COMPLETIONS.start())
        } else {
            u64::MAX
        }
    }

    /// Whether two generations pass in time for a window to be made of them.
    fn generation_is_patient(&self) -> bool {
        2 * u64::from(self.limit) <= self.completions_in_patience()
    }

    /// Completions until the next judgement.
    fn window_length(&self) -> u64 {
        let generation = u64::from(self.limit);
        let wanted = match self.goal {
            // Speed matters more here: the differences looked for are large.
            Goal::Start { .. } => 64,
            _ => {
                let in_time = (self.pace * WINDOW_SECONDS) as u64;
                let whole = in_time.clamp(*WINDOW_COMPLETIONS.start(), *WINDOW_COMPLETIONS.end()) >> self.shortened;
                if matches!(self.goal, Goal::Probe { glance: true, .. }) { whole / GLANCE_DIVISOR } else { whole }
            }
        };
        if !self.generation_is_patient() {
            return self.completions_in_patience();
        }
        wanted.max(2 * generation).next_multiple_of(generation)
    }
}
