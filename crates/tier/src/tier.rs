//! The thread that moves what the policy chooses, and what others may ask of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, RwLock};
use saki_base::clock::Clock;
use saki_base::panics::{self, Place};
use saki_base::{CHUNK_BYTES, ChunkId, Part, TreeId, critical};
use saki_volume::{DeviceStatus, Volume, VolumeError};

use crate::book::{Book, Wish};
use crate::choose::choose;
use crate::forecast::{Assessment, Use};
use crate::places::Places;
use crate::policy::{Policy, PolicyKind, policy_of};
use crate::speed::{Reads, Speed, Speeds};

/// Between two looks, while nothing moves.
const INTERVAL: Duration = Duration::from_millis(100);
/// The same where there is no fast device.
const INTERVAL_IDLE: Duration = Duration::from_secs(1);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// Copies that are made together: more would come too late for whoever reads the first of them.
const MOVES_MAX: usize = 8;

/// What has been moved since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierStats {
    pub promoted: u64,
    pub evicted: u64,
    /// Times that a device failed or was full against expectation.
    pub failures: u64,
}

/// Moves chunks to and from the fast devices of a volume. Ends when it is dropped.
pub struct Tier {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    volume: Arc<Volume>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    speeds: RwLock<Speeds>,
    /// What devices that hold homes are taken for, whatever their profiles say.
    homes: Mutex<Option<Speed>>,
    places: Mutex<Places>,
    /// Held for a whole round, so that there is one at a time.
    moving: Mutex<()>,
    is_running: AtomicBool,
    control: Mutex<Control>,
    changed: Condvar,
}

struct State {
    book: Book,
    policy: Box<dyn Policy>,
    stats: TierStats,
}

#[derive(Default)]
struct Control {
    stops: bool,
    /// There is something new to look at.
    is_due: bool,
}

/// How a round went.
enum Round {
    Moved,
    Nothing,
    NoDevice,
    Failed,
}

impl Tier {
    /// Begins to look after a volume. Nothing moves before [`Self::start`], or but by [`Self::step`]. `homes`: what
    /// devices that hold homes are taken for; `None`: each for what its profile says.
    pub fn new(volume: Arc<Volume>, kind: PolicyKind, clock: Arc<dyn Clock>, homes: Option<Speed>) -> Self {
        let speeds = Speeds::of(&volume, homes);
        let mut book = Book::default();
        book.set_speeds(speeds.clone());
        let state = State { book, policy: policy_of(kind), stats: TierStats::default() };
        let shared = Shared {
            volume,
            clock,
            state: Mutex::new(state),
            speeds: RwLock::new(speeds),
            homes: Mutex::new(homes),
            places: Mutex::default(),
            moving: Mutex::new(()),
            is_running: AtomicBool::new(false),
            control: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Starts the thread, if it has not been. After [`Self::stop`] it is not.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            shared.is_running.store(true, Ordering::Relaxed);
            let mover = std::thread::Builder::new().name("mover".to_owned());
            *thread = Some(critical::spawn(mover, move || shared.run())?);
        }
        Ok(())
    }

    /// Ends the thread, after the chunks that it is moving.
    pub fn stop(&self) {
        self.shared.is_running.store(false, Ordering::Relaxed);
        self.shared.control.lock().stops = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    pub fn policy(&self) -> PolicyKind {
        self.shared.state.lock().policy.kind()
    }

    /// Has another policy choose from now on; copies that there are stay until it has others in their place. A static
    /// placement goes by all reads up to now.
    pub fn set_policy(&self, kind: PolicyKind) {
        let mut state = self.shared.state.lock();
        if kind == PolicyKind::Static {
            state.book.look(&self.shared.volume, self.shared.clock.now());
            state.book.end_trace();
        }
        state.policy = policy_of(kind);
        drop(state);
        self.wake();
    }

    /// What the owners of trees want, whatever the policy: where nothing is said, it chooses. `false` if that is what
    /// they wanted before.
    pub fn set_wishes(&self, wishes: HashMap<TreeId, Wish>) -> bool {
        let is_new = self.shared.state.lock().book.set_wishes(wishes);
        if is_new {
            self.wake();
        }
        is_new
    }

    /// Whether there is anything to choose copies by.
    pub fn chooses(&self) -> bool {
        let state = self.shared.state.lock();
        state.policy.kind() != PolicyKind::None || state.book.has_wishes()
    }

    /// Looks and moves once, on the calling thread; `true` if anything has moved.
    pub fn step(&self) -> bool {
        matches!(self.shared.round(), Round::Moved)
    }

    /// Whether anything moves by itself: forecasts are of use.
    pub fn is_active(&self) -> bool {
        self.shared.is_running.load(Ordering::Relaxed)
    }

    /// A statement begins that will read this. As long as the result lives, that is what copies are for, if the policy
    /// goes by plans.
    pub fn expect(&self, uses: &[Use]) -> Expected {
        let mut state = self.shared.state.lock();
        // What has been published since the last look may be what is read.
        if !state.book.is_of(self.shared.volume.generation()) {
            state.book.look(&self.shared.volume, self.shared.clock.now());
        }
        let forecast = state.book.begin(uses);
        drop(state);
        self.wake();
        Expected { forecast, shared: Arc::clone(&self.shared) }
    }

    /// What a statement that says this is expected to read of each chunk.
    pub fn foresee(&self, uses: &[Use]) -> Vec<(ChunkId, Reads)> {
        self.shared.state.lock().book.forecast(uses).reads().collect()
    }

    /// What copies would do for a statement that reads this, as things are now.
    pub fn assess(&self, uses: &[Use]) -> Assessment {
        let mut state = self.shared.state.lock();
        state.book.look(&self.shared.volume, self.shared.clock.now());
        state.book.assess(uses)
    }

    pub fn stats(&self) -> TierStats {
        self.shared.state.lock().stats
    }

    /// Seconds that a copy of each chunk would have saved, or has saved, of late.
    pub fn heats(&self) -> HashMap<ChunkId, f64> {
        let state = self.shared.state.lock();
        state.book.chunks().map(|(number, chunk)| (number, chunk.earned.heat)).collect()
    }

    /// How fast the first device is.
    pub fn speed(&self) -> Option<Speed> {
        self.shared.speeds.read().first()
    }

    /// How fast pages of some parts are read where they lie, from all their devices at once; `None` of parts that have
    /// no pages, or are not known.
    pub fn speed_of(&self, parts: &[Part]) -> Option<Speed> {
        let speeds = self.shared.speeds.read();
        if speeds.is_one() {
            return speeds.first();
        }
        let mut places = self.shared.places.lock();
        places.look(&self.shared.volume);
        speeds.of_shares(places.of(parts))
    }

    /// Has the devices looked at again: one has come or gone, or has another profile.
    pub fn devices_changed(&self) {
        let homes = *self.shared.homes.lock();
        let speeds = Speeds::of(&self.shared.volume, homes);
        self.shared.speeds.write().clone_from(&speeds);
        self.shared.state.lock().book.set_speeds(speeds);
        self.wake();
    }

    /// Takes devices that hold homes for this from now on, whatever their profiles say.
    pub fn set_homes(&self, homes: Speed) {
        *self.shared.homes.lock() = Some(homes);
        self.devices_changed();
    }

    fn wake(&self) {
        self.shared.control.lock().is_due = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A statement that runs, and what it reads.
pub struct Expected {
    forecast: u64,
    shared: Arc<Shared>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.shared.state.lock().book.end(self.forecast);
    }
}

impl Shared {
    fn run(&self) {
        loop {
            if self.control.lock().stops {
                return;
            }
            let pause = match self.round() {
                Round::Moved => continue,
                Round::Nothing => INTERVAL,
                Round::NoDevice => INTERVAL_IDLE,
                Round::Failed => PAUSE,
            };
            let mut control = self.control.lock();
            if !control.stops && !control.is_due {
                self.changed.wait_for(&mut control, pause);
            }
            control.is_due = false;
        }
    }

    fn round(&self) -> Round {
        let _moving = self.moving.lock();
        let devices: Vec<_> = self.volume.devices().into_iter().filter(takes_copies).collect();
        panics::pass(Place::Mover);
        let free = |device: &DeviceStatus| room(device);
        let Some(device) = devices.iter().max_by_key(|device| free(device)) else { return Round::NoDevice };
        let (number, free) = (device.entry.number, free(device));
        let choice = {
            let mut state = self.state.lock();
            state.book.look(&self.volume, self.clock.now());
            choose(&state.book, &*state.policy, free, MOVES_MAX)
        };
        self.evict(&choice.evict);
        if choice.promote.is_empty() {
            return Round::Nothing;
        }
        let promoted = self.volume.promote(&choice.promote, number);
        let has_copy = |chunk: &ChunkId| self.volume.has_copy(*chunk);
        let made: Vec<_> = choice.promote.iter().copied().filter(has_copy).collect();
        let mut state = self.state.lock();
        made.iter().for_each(|chunk| state.book.set_copy(*chunk, Some(number)));
        state.stats.promoted += made.len() as u64;
        match promoted {
            Ok(_) if made.is_empty() && choice.evict.is_empty() => {
                // They have gone or moved meanwhile, or are being written.
                state.book.forget_generation();
                Round::Nothing
            }
            // Slots that reads still need come free by themselves.
            Ok(_) | Err(VolumeError::Full { .. }) if !made.is_empty() => Round::Moved,
            Ok(_) | Err(VolumeError::Full { .. }) => Round::Nothing,
            Err(error) => {
                state.stats.failures += 1;
                tracing::warn!("{}: no copies are made there for {PAUSE:?}: {error}", self.volume.name_of(number));
                Round::Failed
            }
        }
    }

    fn evict(&self, chunks: &[ChunkId]) {
        if chunks.is_empty() {
            return;
        }
        let count = self.volume.evict(chunks);
        let mut state = self.state.lock();
        chunks.iter().for_each(|chunk| state.book.set_copy(*chunk, None));
        state.stats.evicted += count as u64;
    }
}

fn takes_copies(device: &DeviceStatus) -> bool {
    device.entry.role.copies && !device.entry.role.draining && device.missing.is_none()
}

/// Slots of a device that can be given out: those that are free, and those that it may grow by.
fn room(device: &DeviceStatus) -> u64 {
    let growth = device.entry.slots_max.map_or(u64::MAX, |max| max.saturating_sub(device.slots.total));
    device.slots.free.saturating_add(growth)
}

const _: () = assert!(CHUNK_BYTES * MOVES_MAX <= 8 << 20, "what is moved together takes so much memory");
