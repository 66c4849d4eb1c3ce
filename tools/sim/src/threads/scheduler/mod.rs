//! Who is let go next, who waits for what, and what time it is.

pub mod interruption;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use saki_base::Random;

use super::gate::Gate;
use super::library::gone;

/// The thread that began: it drives worlds, and outlives them.
const DRIVER: usize = 0;
/// A world's first thread.
const FIRST: usize = 1;
/// What asking for the time costs, in nanoseconds: so that who asks again and again sees it pass.
const LOOK: u64 = 40;
/// What giving way costs, in nanoseconds, at most.
const SWITCH_MAX: u64 = 4_000;
/// One that polls sleeps so long at least while nothing else happens, in nanoseconds.
const YIELD: u64 = 2_000;

/// Why a world ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its first thread came to its end.
    Done,
    /// The power was cut.
    Cut,
}

/// A world does not come to its end.
#[derive(Clone, Debug)]
pub struct Stuck(pub String);

/// What a thread waits for, if it cannot run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    /// Until it is woken at an address by one of these bits, or a time comes.
    Futex {
        address: usize,
        bits: u32,
        deadline: Option<u64>,
    },
    Sleeping(u64),
    Joining(usize),
    /// The driver, until the world is over.
    World,
    Ended,
    /// Of a world whose power was cut.
    Dead,
}

struct Thread {
    gate: &'static Gate,
    state: State,
    /// Whether it was woken, and not only its time has come.
    was_woken: bool,
    /// Whether it gave way between two calls of the system, maybe with something in its hands.
    is_interrupted: bool,
    /// The system's handle, by which it is joined.
    handle: u64,
}

impl Thread {
    fn new(gate: &'static Gate) -> Self {
        Self { gate, state: State::Ready, was_woken: false, is_interrupted: false, handle: 0 }
    }
}

/// How often threads are interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Interruptions {
    /// Of about how many allocations one is where another thread may go on; 0: none.
    pub allocations: u64,
    /// The same of the engine's seams (`saki_base::seam`).
    pub seams: u64,
}

struct Scheduler {
    random: Random,
    threads: Vec<Thread>,
    running: usize,
    /// Nanoseconds since the beginning.
    now: u64,
    /// When a world counts as stuck.
    limit: u64,
    /// Runs of the same seed have the same.
    fingerprint: u64,
    ending: Option<Ending>,
    stuck: Option<String>,
    /// A thread that has ended here, and not yet for the system.
    leaving: Option<i32>,
    interruptions: Interruptions,
    /// Those that were interrupted come first, and nobody else is: somebody waits for them.
    settles: bool,
}

static SCHEDULER: Mutex<Option<Scheduler>> = Mutex::new(None);
/// Whether threads are let go one at a time.
static IS_ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ME: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The scheduler, for the one thread that runs.
fn scheduler() -> MutexGuard<'static, Option<Scheduler>> {
    match SCHEDULER.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => unreachable!("one thread runs at a time"),
    }
}

fn with<T>(work: impl FnOnce(&mut Scheduler) -> T) -> T {
    work(scheduler().as_mut().expect("only asked while it is on"))
}

/// Whether the calling thread is one of those that are let go one at a time.
#[inline]
pub fn in_world() -> bool {
    IS_ON.load(Ordering::Relaxed) && ME.get() != usize::MAX
}

/// Virtual time since the beginning.
pub fn now() -> Duration {
    Duration::from_nanos(with(|scheduler| scheduler.now))
}

impl Scheduler {
    fn note(&mut self, what: u64) {
        self.fingerprint = (self.fingerprint ^ what).wrapping_mul(0x100_0000_01b3).rotate_left(17);
    }

    /// Lets go of those whose time has come.
    fn expire(&mut self) {
        let now = self.now;
        for thread in &mut self.threads {
            let deadline = match thread.state {
                State::Futex { deadline, .. } => deadline,
                State::Sleeping(until) => Some(until),
                _ => None,
            };
            if deadline.is_some_and(|deadline| deadline <= now) {
                (thread.state, thread.was_woken) = (State::Ready, false);
            }
        }
    }

    fn first_deadline(&self) -> Option<u64> {
        let deadlines = self.threads.iter().filter_map(|thread| match thread.state {
            State::Futex { deadline, .. } => deadline,
            State::Sleeping(until) => Some(until),
            _ => None,
        });
        deadlines.min()
    }

    /// The next to run.
    fn choose(&mut self) -> usize {
        self.now += self.random.below(SWITCH_MAX);
        self.expire();
        if self.now > self.limit && self.ending.is_none() {
            self.give_up("no end in sight");
        }
        loop {
            let settles = self.settles && self.is_any_interrupted();
            let is_ready = |thread: &Thread| thread.state == State::Ready && (thread.is_interrupted || !settles);
            let ready = self.threads.iter().filter(|thread| is_ready(thread)).count();
            if ready > 0 {
                let nth = self.random.below(ready as u64) as usize;
                let mut all = self.threads.iter().enumerate().filter(|(_, thread)| is_ready(thread));
                let (chosen, _) = all.nth(nth).expect("counted");
                self.note(chosen as u64 ^ self.now << 8);
                self.running = chosen;
                return chosen;
            }
            match self.first_deadline() {
                Some(deadline) => {
                    self.now = self.now.max(deadline);
                    self.expire();
                }
                None => self.give_up("all threads wait for each other"),
            }
        }
    }

    /// Has the driver say that the world is stuck.
    fn give_up(&mut self, why: &str) {
        let waiting = |(index, thread): (usize, &Thread)| match thread.state {
            State::Ended | State::Dead => None,
            state => Some(format!("  thread {index} ({}): {state:?}", thread.gate.name())),
        };
        let all: Vec<String> = self.threads.iter().enumerate().filter_map(waiting).collect();
        self.stuck = Some(format!("{why} after {} virtual seconds\n{}", self.now / 1_000_000_000, all.join("\n")));
        self.end(Ending::Cut);
    }

    /// Ends the world for all of its threads.
    fn end(&mut self, ending: Ending) {
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if index != DRIVER && thread.state != State::Ended {
                thread.state = State::Dead;
            }
        }
        self.threads[DRIVER].state = State::Ready;
        self.ending = Some(ending);
    }
}

/// Lets the next thread go and waits for its own turn, in which it says whether it was woken.
fn give_way() -> bool {
    let me = ME.get();
    let (next, own) = with(|scheduler| {
        let next = scheduler.choose();
        (scheduler.threads[next].gate, scheduler.threads[me].gate)
    });
    if !std::ptr::eq(next, own) {
        next.open();
        own.pass();
        await_the_leaving();
    }
    with(|scheduler| scheduler.threads[me].was_woken)
}

/// One that has ended here is still ending for the system: its stack and its memory are given back meanwhile.
fn await_the_leaving() {
    if let Some(thread) = with(|scheduler| scheduler.leaving.take()) {
        gone(thread);
    }
}

/// A point at which another thread may go on instead.
pub fn switch_point() {
    if in_world() {
        give_way();
    }
}

/// Lets all that were interrupted come to where they call the system next: then nobody has anything in its hands that
/// outlives the world.
pub fn settle() {
    loop {
        let waits = with(|scheduler| {
            scheduler.wake_interrupted();
            scheduler.settles = scheduler.is_any_interrupted();
            scheduler.settles
        });
        if !waits {
            return;
        }
        give_way();
    }
}

/// Gives way, and time passes.
pub fn yielded() {
    with(|scheduler| scheduler.now += YIELD);
    give_way();
}

pub fn sleep(nanoseconds: u64) {
    with(|scheduler| {
        let until = scheduler.now.saturating_add(nanoseconds.max(1));
        let me = scheduler.running;
        scheduler.threads[me].state = State::Sleeping(until);
    });
    give_way();
}

/// The time, which passes by being asked for.
pub fn look_at_clock() -> u64 {
    with(|scheduler| {
        scheduler.now += LOOK;
        scheduler.now
    })
}

/// Waits at an address; `false` if the time came first.
pub fn wait(address: usize, bits: u32, deadline: Option<u64>) -> bool {
    with(|scheduler| {
        let me = scheduler.running;
        scheduler.threads[me].state = State::Futex { address, bits, deadline };
        scheduler.threads[me].was_woken = false;
    });
    give_way()
}

/// Wakes up to `count` of those that wait at an address; how many.
pub fn wake(address: usize, bits: u32, count: usize) -> usize {
    let woken = with(|scheduler| {
        let waits = |thread: &Thread| match thread.state {
            State::Futex { address: at, bits: of, .. } => at == address && of & bits != 0,
            _ => false,
        };
        let mut woken = 0;
        while woken < count {
            let waiting: Vec<usize> =
                (0..scheduler.threads.len()).filter(|index| waits(&scheduler.threads[*index])).collect();
            if waiting.is_empty() {
                break;
            }
            let chosen = waiting[scheduler.random.below(waiting.len() as u64) as usize];
            let thread = &mut scheduler.threads[chosen];
            (thread.state, thread.was_woken) = (State::Ready, true);
            woken += 1;
        }
        woken
    });
    if woken > 0 {
        give_way();
    }
    woken
}

/// Makes something part of what a run is known by.
pub fn note(what: u64) {
    if in_world() {
        with(|scheduler| scheduler.note(what));
    }
}

/// Random bytes of the seed.
pub fn fill_randomly(bytes: &mut [u8]) {
    with(|scheduler| scheduler.random.fill(bytes));
}

/// Makes a place for a thread that is about to be started.
pub fn register(gate: &'static Gate) -> usize {
    with(|scheduler| {
        scheduler.threads.push(Thread::new(gate));
        scheduler.threads.len() - 1
    })
}

/// The thread was started, or could not be.
pub fn started(thread: usize, handle: Option<u64>) {
    with(|scheduler| match handle {
        Some(handle) => scheduler.threads[thread].handle = handle,
        None => scheduler.threads[thread].state = State::Ended,
    });
}

/// The first thing that a new thread does.
pub fn enter(thread: usize, gate: &'static Gate) {
    ME.set(thread);
    gate.pass();
    await_the_leaving();
}

/// The last thing that a thread does.
pub fn leave(kernel_thread: i32) {
    let me = ME.get();
    let next = with(|scheduler| {
        scheduler.threads[me].state = State::Ended;
        scheduler.leaving = Some(kernel_thread);
        for thread in &mut scheduler.threads {
            match thread.state {
                State::Joining(of) if of == me => thread.state = State::Ready,
                State::World if me == FIRST => thread.state = State::Ready,
                _ => {}
            }
        }
        let next = scheduler.choose();
        scheduler.threads[next].gate
    });
    ME.set(usize::MAX);
    next.open();
}

/// Waits until a thread has ended, for whoever joins it by its handle.
pub fn await_end_of(handle: u64) {
    let waits = with(|scheduler| {
        let of = scheduler.threads.iter().rposition(|thread| thread.handle == handle);
        let me = scheduler.running;
        let of = of.filter(|of| scheduler.threads[*of].state != State::Ended);
        of.inspect(|of| scheduler.threads[me].state = State::Joining(*of)).is_some()
    });
    if waits {
        give_way();
    }
}

/// Ends the world that the calling thread is part of: nobody in it ever runs again, nor does the caller.
pub fn cut_power() -> ! {
    let driver = with(|scheduler| {
        scheduler.end(Ending::Cut);
        scheduler.running = DRIVER;
        (scheduler.threads[DRIVER].gate, scheduler.threads[ME.get()].gate)
    });
    driver.0.open();
    loop {
        driver.1.pass();
    }
}

/// Runs a world: `first` on a thread of its own, and all threads that come of it, in an order of the seed's. A world
/// may take `limit` of virtual time.
///
/// The calling thread is the driver: the same one for all worlds of a process, which share one clock.
///
/// # Errors
/// If the world does not come to an end.
pub fn run(
    seed: u64,
    limit: Duration,
    interruptions: Interruptions,
    first: impl FnOnce() + Send + 'static,
) -> Result<(Ending, u64), Stuck> {
    begin(seed, limit, interruptions);
    let thread = std::thread::Builder::new().name("world".into()).spawn(first).expect("a thread");
    let goes_on = with(|scheduler| {
        let goes_on = scheduler.ending.is_none() && scheduler.threads[FIRST].state != State::Ended;
        if goes_on {
            scheduler.threads[DRIVER].state = State::World;
        }
        goes_on
    });
    if goes_on {
        give_way();
    }
    settle();
    let (ending, stuck, fingerprint) =
        with(|scheduler| (scheduler.ending.take(), scheduler.stuck.take(), scheduler.fingerprint));
    if let Some(stuck) = stuck {
        return Err(Stuck(stuck));
    }
    match ending {
        Some(ending) => {
            std::mem::forget(thread);
            Ok((ending, fingerprint))
        }
        None => {
            // Its panic was told where it happened.
            let _ = thread.join();
            Ok((Ending::Done, fingerprint))
        }
    }
}

fn begin(seed: u64, limit: Duration, interruptions: Interruptions) {
    let mut scheduler = scheduler();
    let before = scheduler.take();
    before.as_ref().and_then(|before| before.leaving).into_iter().for_each(gone);
    let gate = before.as_ref().map_or_else(Gate::new, |before| before.threads[DRIVER].gate);
    let (now, fingerprint) = before.map_or((0, 0), |before| (before.now, before.fingerprint));
    let mut next = Scheduler {
        random: Random::new(seed),
        threads: vec![Thread::new(gate)],
        running: DRIVER,
        now,
        limit: now + limit.as_nanos() as u64,
        fingerprint,
        ending: None,
        stuck: None,
        leaving: None,
        interruptions,
        settles: false,
    };
    next.draw_interruption();
    *scheduler = Some(next);
    ME.set(DRIVER);
    IS_ON.store(true, Ordering::Relaxed);
}
