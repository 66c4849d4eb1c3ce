//! The reads of one lane, by small numbers that the owner sends back and that are not to be trusted then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{ArenaFrame, DeviceId, PageAddress};
use saki_page::IoShare;

use crate::wire::Ask;

/// The one device that all pages of another node are on, to those who count what is in flight.
pub const DEVICE: DeviceId = DeviceId(0);

/// How far a read is.
pub enum Stage {
    /// The owner is to be asked.
    Waiting(ArenaFrame),
    /// The owner was asked.
    Asked(ArenaFrame),
    /// The page is read from this frame of the owner's; the memory is the fabric's meanwhile.
    Reading { frame: u32 },
    /// It has failed here, and the owner was asked: its answer is for nobody.
    Forgotten,
}

/// A read under way.
pub struct Read {
    pub token: u64,
    pub address: PageAddress,
    pub until: Duration,
    /// What came the first time was not what it should be.
    pub again: bool,
    pub share: Arc<IoShare>,
    pub stage: Stage,
}

/// The reads of a lane.
#[derive(Default)]
pub struct Reads {
    slots: Vec<Option<Read>>,
    vacant: Vec<u32>,
    /// Those that are [`Stage::Waiting`].
    waiting: VecDeque<u32>,
    forgotten: usize,
}

impl Reads {
    /// All, those that are forgotten too.
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Those that somebody waits for.
    pub fn in_flight(&self) -> usize {
        self.len() - self.forgotten
    }

    /// Adds a read that waits.
    pub fn add(&mut self, read: Read) {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[id as usize] = Some(read);
        self.waiting.push_back(id);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Makes the first of those that wait ones that were asked for, and gives them.
    pub fn ask(&mut self, most: usize) -> Vec<Ask> {
        let count = self.waiting.len().min(most);
        let mut asks = Vec::with_capacity(count);
        for id in self.waiting.drain(..count) {
            let read = self.slots[id as usize].as_mut().expect("what waits is there");
            if let Stage::Waiting(memory) = std::mem::replace(&mut read.stage, Stage::Forgotten) {
                read.stage = Stage::Asked(memory);
            }
            asks.push(Ask { id, from_home: read.again, address: read.address });
        }
        asks
    }

    pub fn get(&mut self, id: u32) -> Option<&mut Read> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    pub fn stage(&self, id: u32) -> Option<&Stage> {
        Some(&self.slots.get(id as usize)?.as_ref()?.stage)
    }

    /// The page that was asked for is in this frame: gives the memory to read it into.
    pub fn start(&mut self, id: u32, frame: u32) -> ArenaFrame {
        let read = self.slots[id as usize].as_mut().expect("what was asked for is there");
        match std::mem::replace(&mut read.stage, Stage::Reading { frame }) {
            Stage::Asked(memory) => memory,
            _ => unreachable!("only what was asked for has come"),
        }
    }

    /// Ends a read that does not wait.
    pub fn remove(&mut self, id: u32) -> Option<Read> {
        let read = self.slots.get_mut(id as usize)?.take()?;
        self.forgotten -= usize::from(matches!(read.stage, Stage::Forgotten));
        self.vacant.push(id);
        Some(read)
    }

    /// A read whose memory has come back is to be asked for once more.
    pub fn wait_again(&mut self, id: u32, memory: ArenaFrame) {
        if let Some(read) = self.get(id) {
            read.stage = Stage::Waiting(memory);
            self.waiting.push_back(id);
        }
    }

    /// The owner knows nothing of them any more: they wait again, and those that are for nobody end.
    pub fn lose_all(&mut self) {
        for id in 0..self.slots.len() as u32 {
            let Some(read) = self.get(id) else { continue };
            match std::mem::replace(&mut read.stage, Stage::Forgotten) {
                Stage::Asked(memory) => self.wait_again(id, memory),
                Stage::Forgotten => drop(self.remove(id)),
                stage => read.stage = stage,
            }
        }
    }

    /// Takes out those that have to end: with their memory, those whose memory is ours; `true` if there are others.
    pub fn expire(&mut self, is_due: impl Fn(&Read) -> bool, ended: &mut Vec<(Ended, ArenaFrame)>) -> bool {
        let mut are_others = false;
        for id in 0..self.slots.len() as u32 {
            let Some(read) = self.get(id).filter(|read| is_due(read)) else { continue };
            match std::mem::replace(&mut read.stage, Stage::Forgotten) {
                Stage::Asked(memory) => {
                    ended.push((Ended::of(read), memory));
                    self.forgotten += 1;
                }
                Stage::Waiting(memory) => {
                    ended.push((Ended::of(read), memory));
                    self.forgotten += 1;
                    self.remove(id);
                    self.waiting.retain(|waiting| *waiting != id);
                }
                stage => {
                    are_others |= matches!(stage, Stage::Reading { .. });
                    read.stage = stage;
                }
            }
        }
        are_others
    }

    /// The shares of reads that nobody will end.
    pub fn drain(&mut self) -> impl Iterator<Item = Arc<IoShare>> {
        self.vacant.clear();
        let reads = std::mem::take(&mut self.slots).into_iter().flatten();
        reads.filter(|read| !matches!(read.stage, Stage::Forgotten)).map(|read| read.share)
    }
}

/// What is left of a read that ends.
pub struct Ended {
    pub token: u64,
    pub address: PageAddress,
    pub share: Arc<IoShare>,
}

impl Ended {
    pub fn of(read: &Read) -> Self {
        Self { token: read.token, address: read.address, share: Arc::clone(&read.share) }
    }
}
