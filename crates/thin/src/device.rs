//! The device, and its lanes: operations on slots that are not here wait for them.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use saki_base::Arena;
use saki_io::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Wait, Waker};

use crate::fetch::{Fetchers, Want};
use crate::piece::Pieces;
use crate::slots::Stage;
use crate::source::SourceFile;

/// Slots that are asked for ahead while all are fetched.
const AHEAD: usize = 64;

/// A device whose slots come when they are first asked for.
pub struct ThinDevice {
    fetchers: Arc<Fetchers>,
}

impl ThinDevice {
    /// Over a device that has room for all slots.
    pub fn new(device: Arc<dyn Device>, file: SourceFile, pieces: Arc<dyn Pieces>) -> Self {
        Self { fetchers: Arc::new(Fetchers::new(device, file, pieces)) }
    }

    /// Slots that have not come, of so many.
    pub fn away(&self) -> (u64, u64) {
        let slots = self.fetchers.slots();
        (slots.away(), slots.count().into())
    }

    /// Fetches all slots, and takes the source away; `progress` is told how many are here, `go_on` asked in between.
    ///
    /// # Errors
    /// Of the objects and the device, or of `go_on`. What has come stays.
    pub fn complete<E: From<DeviceError>>(
        &self,
        go_on: impl Fn() -> Result<(), E>,
        progress: impl Fn(u64),
    ) -> Result<(), E> {
        let slots = self.fetchers.slots();
        let signal = Arc::new(Signal::default());
        let waker: Arc<dyn Waker> = Arc::clone(&signal) as _;
        let mut under_way: VecDeque<Arc<Want>> = VecDeque::new();
        let mut next = 0..slots.count();
        loop {
            while under_way.len() < AHEAD
                && let Some(piece) = next.next()
            {
                under_way.extend(self.fetchers.want(piece, Stage::Here, &waker));
            }
            let Some(want) = under_way.pop_front() else { break };
            let outcome = loop {
                match want.outcome() {
                    Some(outcome) => break outcome,
                    None => signal.wait(),
                }
            };
            outcome.clone()?;
            go_on()?;
            progress(u64::from(slots.count()) - slots.away());
        }
        assert!(self.fetchers.settle()?, "all slots have been fetched");
        Ok(())
    }
}

/// Wakes one thread that waits for wants.
#[derive(Default)]
struct Signal {
    is_given: Mutex<bool>,
    given: Condvar,
}

impl Signal {
    /// Until it is given, perhaps before.
    fn wait(&self) {
        let mut is_given = self.is_given.lock();
        while !std::mem::take(&mut *is_given) {
            self.given.wait(&mut is_given);
        }
    }
}

impl Waker for Signal {
    fn wake(&self) {
        *self.is_given.lock() = true;
        self.given.notify_one();
    }
}

impl Device for ThinDevice {
    fn name(&self) -> String {
        self.fetchers.device().name()
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.fetchers.device().length_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.fetchers.device().block_bytes()
    }

    fn read_only(&self) -> bool {
        self.fetchers.device().read_only()
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.fetchers.device().ensure_length(bytes)
    }

    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let below = self.fetchers.device().open_lane(arena)?;
        let waker = below.waker();
        Ok(Box::new(ThinLane { fetchers: Arc::clone(&self.fetchers), below, waker, parked: Vec::new() }))
    }
}

/// An operation that waits for slots.
struct Parked {
    operation: Operation,
    wants: Vec<Arc<Want>>,
}

struct ThinLane {
    fetchers: Arc<Fetchers>,
    below: Box<dyn Lane>,
    waker: Arc<dyn Waker>,
    parked: Vec<Parked>,
}

impl ThinLane {
    /// What an operation has to wait for.
    fn wants(&self, operation: &Operation) -> Vec<Arc<Want>> {
        let stage = match operation.kind {
            OperationKind::Read => Stage::Here,
            OperationKind::Write => Stage::Settled,
            OperationKind::Flush => return Vec::new(),
        };
        let pieces = self.fetchers.slots().pieces(operation.offset, operation.length_bytes() as u64);
        pieces.filter_map(|piece| self.fetchers.want(piece, stage, &self.waker)).collect()
    }

    /// Lets those go on that wait for nothing any more.
    fn unpark(&mut self, completions: &mut Vec<Completion>) {
        if self.parked.is_empty() {
            return;
        }
        for Parked { operation, wants } in std::mem::take(&mut self.parked) {
            if wants.iter().any(|want| want.outcome().is_none()) {
                self.parked.push(Parked { operation, wants });
                continue;
            }
            let failed = wants.iter().find_map(|want| want.outcome()?.as_ref().err());
            match failed {
                Some(error) => {
                    let (token, buffer) = (operation.token, operation.buffer);
                    completions.push(Completion { token, buffer, result: Err(error.clone()) });
                }
                // What another has asked for may not have come as far as this one needs it.
                None => self.submit(operation),
            }
        }
    }
}

impl Lane for ThinLane {
    fn submit(&mut self, operation: Operation) {
        let wants = self.wants(&operation);
        match wants.is_empty() {
            true => self.below.submit(operation),
            false => self.parked.push(Parked { operation, wants }),
        }
    }

    fn flush_submissions(&mut self) {
        self.below.flush_submissions();
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        self.unpark(completions);
        let wait = if completions.len() > before { Wait::No } else { wait };
        self.below.poll(wait, completions);
        completions.len() - before
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight() + self.parked.len()
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker)
    }
}

impl Drop for ThinLane {
    /// Carries out what it has accepted, as lanes do.
    fn drop(&mut self) {
        let mut completions = Vec::new();
        while !self.parked.is_empty() {
            self.poll(Wait::AtMost(std::time::Duration::from_secs(1)), &mut completions);
            completions.clear();
        }
    }
}
