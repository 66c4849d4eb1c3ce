//! Wants and those who see to them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use saki_base::{AlignedBuffer, Buffer, critical};
use saki_io::{Completion, Device, DeviceError, Lane, Operation, Wait, Waker};

use crate::piece::Pieces;
use crate::slots::{SLOT_BYTES, Slots, Stage};
use crate::source::SourceFile;

/// Objects that are read at the same time: one takes some tens of milliseconds to answer, and has 1 MiB at most.
const FETCHERS_MAX: usize = 32;
/// So many slots that are here are settled together, without being asked for.
const SETTLED_TOGETHER: usize = 256;
const PATIENCE: Wait = Wait::AtMost(Duration::from_secs(1));

/// A slot that somebody waits for.
pub struct Want {
    piece: u32,
    /// How far it has to come.
    stage: Stage,
    outcome: OnceLock<Result<(), DeviceError>>,
    waiting: Mutex<Vec<Arc<dyn Waker>>>,
}

impl Want {
    /// How it went; `None`: it is under way.
    pub fn outcome(&self) -> Option<&Result<(), DeviceError>> {
        self.outcome.get()
    }
}

#[derive(Default)]
struct Work {
    queue: VecDeque<Arc<Want>>,
    /// Those queued and those under way: of a slot there is one.
    wanted: HashMap<u32, Arc<Want>>,
    idle: usize,
    closed: bool,
}

struct Settling {
    file: SourceFile,
    /// Here, and not settled.
    here: Vec<u32>,
    /// Whether the file has been taken away.
    is_gone: bool,
}

/// What fetchers and lanes share.
struct Shared {
    device: Arc<dyn Device>,
    pieces: Arc<dyn Pieces>,
    slots: Slots,
    settling: Mutex<Settling>,
    work: Mutex<Work>,
    arrived: Condvar,
}

/// Owns the fetchers: held by the device and its lanes, closed when the last of them goes.
pub struct Fetchers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Fetchers {
    pub fn new(device: Arc<dyn Device>, file: SourceFile, pieces: Arc<dyn Pieces>) -> Self {
        let settled = (0..file.source().pieces.len()).map(|piece| file.is_settled(piece));
        let slots = Slots::new(settled);
        let settling = Mutex::new(Settling { file, here: Vec::new(), is_gone: false });
        let shared = Shared { device, pieces, slots, settling, work: Mutex::default(), arrived: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    pub fn slots(&self) -> &Slots {
        &self.shared.slots
    }

    pub fn device(&self) -> &Arc<dyn Device> {
        &self.shared.device
    }

    /// Asks for a slot, and has `waker` called when it is decided; `None`: it has come so far already. A slot that
    /// somebody else asks for may not come as far: ask again when that is decided.
    pub fn want(&self, piece: u32, stage: Stage, waker: &Arc<dyn Waker>) -> Option<Arc<Want>> {
        if self.shared.slots.stage(piece) >= stage {
            return None;
        }
        let (want, threads_wanted) = {
            let mut work = self.shared.work.lock();
            // It may have come before the lock was had.
            if self.shared.slots.stage(piece) >= stage {
                return None;
            }
            let Work { queue, wanted, idle, .. } = &mut *work;
            let want = wanted.entry(piece).or_insert_with(|| {
                let want = Want { piece, stage, outcome: OnceLock::new(), waiting: Mutex::default() };
                let want = Arc::new(want);
                queue.push_back(Arc::clone(&want));
                want
            });
            let want = Arc::clone(want);
            want.waiting.lock().push(Arc::clone(waker));
            self.shared.arrived.notify_one();
            (want, queue.len().saturating_sub(*idle))
        };
        if threads_wanted > 0 {
            self.spawn();
        }
        Some(want)
    }

    /// Starts one more fetcher, if there may be one.
    fn spawn(&self) {
        let mut threads = self.threads.lock();
        if threads.len() >= FETCHERS_MAX {
            return;
        }
        let shared = Arc::clone(&self.shared);
        match critical::spawn(std::thread::Builder::new().name("saki-thin".into()), move || shared.run()) {
            Ok(thread) => threads.push(thread),
            Err(error) if threads.is_empty() => self.shared.refuse(&error),
            Err(error) => tracing::warn!("no more fetchers than {}: {error}", threads.len()),
        }
    }

    /// Settles all slots that are here. Returns whether all are, and takes the source away then.
    ///
    /// # Errors
    /// Of the device and the source.
    pub fn settle(&self) -> Result<bool, DeviceError> {
        self.shared.settle(&mut *self.shared.device.open_lane(None)?)?;
        let mut settling = self.shared.settling.lock();
        if self.shared.slots.away() > 0 || !settling.here.is_empty() {
            return Ok(false);
        }
        if !settling.is_gone {
            settling.file.remove().map_err(|error| self.shared.failed("remove the source of", 0, error.to_string()))?;
            settling.is_gone = true;
        }
        Ok(true)
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        self.shared.work.lock().closed = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            // A panic of one would have ended the process.
            let _ = thread.join();
        }
        if let Err(error) = self.settle() {
            tracing::warn!("what has come will come again: {error}");
        }
    }
}

impl Shared {
    /// A fetcher's life: wants until there are no lanes any more.
    fn run(&self) {
        let mut lane = None;
        loop {
            let want = {
                let mut work = self.work.lock();
                loop {
                    // Nobody waits for what is queued when it is closed.
                    if work.closed {
                        return;
                    }
                    if let Some(want) = work.queue.pop_front() {
                        break want;
                    }
                    work.idle += 1;
                    self.arrived.wait(&mut work);
                    work.idle -= 1;
                }
            };
            let outcome = self.see_to(&want, &mut lane);
            self.decide(&want, outcome);
        }
    }

    fn decide(&self, want: &Want, outcome: Result<(), DeviceError>) {
        want.outcome.set(outcome).expect("one fetcher sees to a want");
        // Whoever finds it there has left a waker, or sees the outcome.
        self.work.lock().wanted.remove(&want.piece);
        std::mem::take(&mut *want.waiting.lock()).iter().for_each(|waker| waker.wake());
    }

    /// Not one thread is to be had.
    fn refuse(&self, error: &std::io::Error) {
        let queue = std::mem::take(&mut self.work.lock().queue);
        for want in queue {
            let why = format!("no thread can be started to fetch it: {error}");
            self.decide(&want, Err(self.failed("read", (u64::from(want.piece) + 1) * SLOT_BYTES, why)));
        }
    }

    fn see_to(&self, want: &Want, lane: &mut Option<Box<dyn Lane>>) -> Result<(), DeviceError> {
        let lane = match lane {
            Some(lane) => lane,
            none => none.insert(self.device.open_lane(None)?),
        };
        if self.slots.stage(want.piece) == Stage::Away {
            self.fetch(want.piece, &mut **lane)?;
        }
        if want.stage == Stage::Settled && self.slots.stage(want.piece) < Stage::Settled {
            return self.settle(&mut **lane);
        }
        let is_much = self.settling.lock().here.len() >= SETTLED_TOGETHER;
        // The want has been met, whatever becomes of that.
        if is_much && let Err(error) = self.settle(&mut **lane) {
            tracing::warn!("what has come cannot be noted: {error}");
        }
        Ok(())
    }

    /// Puts a piece into its slot.
    fn fetch(&self, piece: u32, lane: &mut dyn Lane) -> Result<(), DeviceError> {
        let offset = (u64::from(piece) + 1) * SLOT_BYTES;
        let wanted = self.settling.lock().file.source().pieces[piece as usize];
        let bytes = self.pieces.read(&wanted).map_err(|what| self.failed("read", offset, what))?;
        if bytes.len() as u64 > SLOT_BYTES {
            return Err(self.failed("read", offset, format!("a piece of {} bytes is no slot's", bytes.len())));
        }
        let mut slot = AlignedBuffer::new(SLOT_BYTES as usize);
        slot[..bytes.len()].copy_from_slice(&bytes);
        carry_out(lane, Operation::write(0, offset, Buffer::Aligned(slot)))?;
        let mut settling = self.settling.lock();
        self.slots.reach(piece, Stage::Here);
        settling.here.push(piece);
        Ok(())
    }

    /// Settles all slots that are here.
    fn settle(&self, lane: &mut dyn Lane) -> Result<(), DeviceError> {
        let mut settling = self.settling.lock();
        if settling.here.is_empty() {
            return Ok(());
        }
        // What is here has been written before this flush.
        carry_out(lane, Operation::flush(0))?;
        let Settling { file, here, .. } = &mut *settling;
        file.settle(here).map_err(|error| self.failed("note in the source of", 0, error.to_string()))?;
        here.drain(..).for_each(|piece| self.slots.reach(piece, Stage::Settled));
        Ok(())
    }

    fn failed(&self, action: &'static str, offset: u64, message: String) -> DeviceError {
        DeviceError::Failed { device: self.device.name(), action, offset, message, errno: None }
    }
}

/// One operation, to its end.
fn carry_out(lane: &mut dyn Lane, operation: Operation) -> Result<(), DeviceError> {
    let mut completions: Vec<Completion> = Vec::new();
    lane.submit(operation);
    while completions.is_empty() {
        lane.poll(PATIENCE, &mut completions);
    }
    completions.pop().expect("just seen").result
}
