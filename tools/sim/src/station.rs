//! What a database stands on: simulated devices, what goes wrong with them, and the moment at which the power goes.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use saki_base::{CHUNK_BYTES, Random};
use saki_io::{
    Device, FaultRates, ObservedDevice, Observer, Operation, OperationKind, SimDevice, SimOptions, Survival, Wait,
};
use saki_sql::{Result, SqlError};
use saki_store::delta::LogStore;

use crate::script::{Counted, Cut, Trouble, Weather};
use crate::setup::Setup;
use crate::threads::{self, Kept};

/// Longest that a device makes wait for a transfer, if it is slow.
const SLOW_MAX: Duration = Duration::from_millis(20);
/// As probable are granules that a power cut leaves half old, half new.
const TORN: f64 = 0.2;

/// The devices of one database, through all of its restarts.
pub struct Station {
    me: Weak<Self>,
    random: Kept<Random>,
    disk: Kept<Arc<SimDevice>>,
    /// `None`: there are no logs.
    logs: Kept<Option<Vec<Arc<SimDevice>>>>,
    /// Operations submitted since the last restart.
    operations: AtomicU64,
    /// How the world ends, and after how many more of the operations that count.
    cut: Kept<Option<Cut>>,
    /// The longest that a transfer takes when nothing is wrong, in nanoseconds.
    latency: u64,
    /// The same of the logs' devices.
    log_latency: u64,
    weather: Kept<Vec<Weather>>,
    /// Whether something has gone wrong since the last restart that statements may be told of.
    has_stormed: AtomicBool,
    is_slow: AtomicBool,
    /// Whether a device may have lied about a write, in this world or an earlier one.
    is_lied_to: AtomicBool,
}

impl Station {
    pub fn new(seed: u64, setup: &Setup) -> Arc<Self> {
        let (latency, log_latency) = (setup.latency, setup.log_latency);
        let mut random = Random::new(seed);
        let disk = sim_device(&mut random);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            random: Kept::new(random),
            disk: Kept::new(disk),
            logs: Kept::default(),
            operations: AtomicU64::new(0),
            cut: Kept::default(),
            latency,
            log_latency,
            weather: Kept::default(),
            has_stormed: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            is_lied_to: AtomicBool::new(false),
        })
    }

    /// The device of the volume.
    pub fn disk(&self) -> Arc<dyn Device> {
        self.powered(&self.disk.lock())
    }

    /// A restart: all that went wrong is well again, until the weather changes. What another process had on its way to
    /// the devices is done or not.
    pub fn restart(&self) {
        self.operations.store(0, Ordering::Relaxed);
        *self.cut.lock() = None;
        self.has_stormed.store(false, Ordering::Relaxed);
        self.replace(SimDevice::left);
        self.clear_up();
    }

    /// The weather is good from now on.
    pub fn clear_up(&self) {
        self.is_slow.store(false, Ordering::Relaxed);
        self.weather.lock().clear();
        self.each(SimDevice::calm);
    }

    /// The world ends so, counted from now on.
    pub fn expect_cut(&self, cut: Option<Cut>) {
        *self.cut.lock() = cut;
    }

    /// Troubles come at their operations, counted from now on.
    pub fn expect_weather(&self, weather: &[Weather]) {
        let now = self.operations.load(Ordering::Relaxed);
        let later = weather.iter().map(|one| Weather { from: now + one.from, until: now + one.until, ..one.clone() });
        *self.weather.lock() = later.collect();
    }

    /// Whether statements may be told of devices that failed.
    pub fn has_stormed(&self) -> bool {
        self.has_stormed.load(Ordering::Relaxed)
    }

    /// Whether a device may ever have acknowledged a write that it has not done, or has done elsewhere.
    pub fn is_lied_to(&self) -> bool {
        self.is_lied_to.load(Ordering::Relaxed)
    }

    /// Whether a statement may say this because of its devices: that they failed, that they are full, or that what is
    /// on them is not what was written.
    pub fn excuses(&self, error: &SqlError) -> bool {
        let code = error.sqlstate();
        let is_about_devices = code.starts_with("53") || code.starts_with("58") || code == "XX001";
        is_about_devices && (self.has_stormed() || self.is_lied_to())
    }

    /// A client has been told something; `is_news`: of what nobody was told before. The power may go.
    pub fn told(&self, is_news: bool) {
        let counts = |counted| counted == Counted::Answers || is_news && counted == Counted::News;
        let cut = self.is_cut(counts);
        if let Some(cut) = cut.filter(|_| threads::in_world()) {
            self.cut_power(cut)
        }
    }

    fn cut_power(&self, cut: Cut) -> ! {
        threads::settle();
        threads::held(|| {
            self.end_of_world(cut);
            threads::cut_power()
        })
    }

    /// The devices as the end of the world now would leave them, in their place.
    fn end_of_world(&self, Cut { is_kill, loses_logs, .. }: Cut) {
        let mut random = self.random.lock();
        // Devices differ: what one of them has may be newer than what another one lost.
        let mut after = |device: &SimDevice, loses_all: bool| {
            let (drawn, seed) = (random.below(4), random.next_u64());
            match (is_kill, drawn) {
                (true, _) => device.left(seed),
                _ if loses_all => device.crash_with(seed, Survival::None),
                (false, 0) => device.crash_with(seed, Survival::All),
                (false, 1) => device.crash_with(seed, Survival::None),
                (false, _) => device.crash(seed),
            }
        };
        let mut disk = self.disk.lock();
        *disk = after(&disk, false);
        if let Some(logs) = self.logs.lock().as_mut() {
            logs.iter_mut().for_each(|log| *log = after(log, loses_logs));
        }
    }

    /// Whether the world ends before this operation; how.
    fn is_cut_by(&self, device: &SimDevice, operation: &Operation) -> Option<Cut> {
        let is_log = || self.is_log(device);
        let is_flush = operation.kind == OperationKind::Flush;
        self.is_cut(|counted| match counted {
            Counted::All => true,
            Counted::Logs => is_log(),
            Counted::Flushes => is_flush,
            Counted::LogFlushes => is_flush && is_log(),
            Counted::VolumeFlushes => is_flush && !is_log(),
            Counted::Answers | Counted::News => false,
        })
    }

    /// Whether the world ends by something of which these count; how.
    fn is_cut(&self, counts: impl Fn(Counted) -> bool) -> Option<Cut> {
        let mut cut = self.cut.lock();
        let cut = cut.as_mut().filter(|cut| counts(cut.counted))?;
        cut.at = cut.at.saturating_sub(1);
        (cut.at == 0).then_some(*cut)
    }

    fn each(&self, change: impl Fn(&SimDevice)) {
        change(&self.disk.lock());
        self.logs.lock().iter().flatten().for_each(|log| change(log));
    }

    /// Each device as it is found after something, in its place.
    fn replace(&self, after: impl Fn(&SimDevice, u64) -> Arc<SimDevice>) {
        let mut random = self.random.lock();
        let mut disk = self.disk.lock();
        *disk = after(&disk, random.next_u64());
        if let Some(logs) = self.logs.lock().as_mut() {
            logs.iter_mut().for_each(|log| *log = after(log, random.next_u64()));
        }
    }

    fn powered(&self, device: &Arc<SimDevice>) -> Arc<dyn Device> {
        ObservedDevice::new(device, self.me.upgrade().expect("it is borrowed"))
    }

    fn change_weather(&self, number: u64) {
        let now: Vec<Weather> =
            self.weather.lock().iter().filter(|one| (one.from..one.until).contains(&number)).cloned().collect();
        self.each(SimDevice::calm);
        self.is_slow.store(now.iter().any(|one| one.trouble == Trouble::Slow), Ordering::Relaxed);
        for Weather { trouble, on_disk, .. } in now {
            match (on_disk, trouble) {
                // Superblocks are written over: there is room for them on a full disk too.
                (true, Trouble::Full) => self.disk.lock().faults().fill_range(CHUNK_BYTES as u64..u64::MAX),
                (true, _) => self.disk.lock().trouble(trouble),
                (false, _) => self.logs.lock().iter().flatten().for_each(|log| log.trouble(trouble)),
            }
            self.has_stormed.store(true, Ordering::Relaxed);
        }
    }

    fn is_log(&self, device: &SimDevice) -> bool {
        !std::ptr::eq(device, Arc::as_ptr(&*self.disk.lock()))
    }

    /// How long a device makes wait, if it does.
    fn delay(&self, device: &SimDevice) -> Option<Duration> {
        let most = match self.is_slow.load(Ordering::Relaxed) {
            true => SLOW_MAX.as_nanos() as u64,
            false if self.is_log(device) => self.log_latency,
            false => self.latency,
        };
        let waits = most > 0 && threads::in_world();
        waits.then(|| Duration::from_nanos(self.random.lock().below(most)))
    }
}

impl Observer for Station {
    /// The power may go before any operation of a device, and the weather change; and others may go on.
    fn submitting(&self, device: &SimDevice, operation: &Operation) {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        threads::note(operation.offset << 2 | operation.kind as u64);
        if let Some(cut) = self.is_cut_by(device, operation).filter(|_| threads::in_world()) {
            self.cut_power(cut)
        }
        let rates = device.faults().rates();
        if operation.kind == OperationKind::Write && rates.lost_writes + rates.misdirected_writes > 0.0 {
            self.is_lied_to.store(true, Ordering::Relaxed);
        }
        let changes = self.weather.lock().iter().any(|one| one.from == number || one.until == number);
        if changes {
            self.change_weather(number);
        }
        threads::switch_point();
    }

    fn polling(&self, device: &SimDevice, in_flight: usize, wait: Wait) {
        if in_flight > 0 && wait != Wait::No {
            match self.delay(device) {
                Some(delay) => std::thread::sleep(delay),
                None => threads::switch_point(),
            }
        }
    }
}

fn sim_device(random: &mut Random) -> Arc<SimDevice> {
    let device = SimDevice::new(SimOptions { seed: random.next_u64(), length_bytes: 0, ..SimOptions::default() });
    device.calm();
    device
}

/// What goes wrong with a device.
trait Behaviour {
    /// Only what always happens: late and split transfers, and granules torn by a power cut.
    fn calm(&self);
    fn trouble(&self, trouble: Trouble);
}

fn always() -> FaultRates {
    FaultRates { late: 0.1, short: 0.1, torn_at_power_loss: TORN, ..FaultRates::default() }
}

impl Behaviour for SimDevice {
    fn calm(&self) {
        self.faults().heal();
        self.faults().set_rates(always());
    }

    fn trouble(&self, trouble: Trouble) {
        let rate = 0.05;
        self.faults().set_rates(match trouble {
            Trouble::Full => {
                self.faults().set_full(true);
                return;
            }
            Trouble::Slow => return,
            Trouble::Reads => FaultRates { read_errors: rate, ..always() },
            Trouble::Writes => FaultRates { write_errors: rate, ..always() },
            Trouble::Flushes => FaultRates { flush_errors: 0.2, ..always() },
            Trouble::Flips => FaultRates { bit_flips: rate, ..always() },
            Trouble::Lost => FaultRates { lost_writes: 2.0 * rate, ..always() },
            Trouble::Misdirected => FaultRates { misdirected_writes: 2.0 * rate, ..always() },
        });
    }
}

impl LogStore for Station {
    fn name(&self) -> String {
        "simulated logs".into()
    }

    fn exists(&self) -> bool {
        self.logs.lock().is_some()
    }

    fn clear(&self) -> Result<()> {
        *self.logs.lock() = Some(Vec::new());
        Ok(())
    }

    fn open(&self, count: usize) -> Result<Vec<Arc<dyn Device>>> {
        let mut logs = self.logs.lock();
        let logs = logs.get_or_insert_default();
        while logs.len() < count {
            logs.push(sim_device(&mut self.random.lock()));
        }
        Ok(logs.iter().take(count).map(|log| self.powered(log)).collect())
    }

    fn open_to_read(&self, count: usize) -> Result<Vec<Arc<dyn Device>>> {
        let logs = self.logs.lock();
        let logs = logs.as_ref().filter(|logs| logs.len() >= count);
        let logs = logs.ok_or_else(|| SqlError::storage("the logs are not there"))?;
        Ok(logs.iter().take(count).map(|log| self.powered(log)).collect())
    }

    fn remove(&self) -> Result<()> {
        *self.logs.lock() = None;
        Ok(())
    }
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Station").finish_non_exhaustive()
    }
}
