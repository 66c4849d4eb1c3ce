//! Pages for the cache: one thread's way from page address through the chunk map to the device.

mod pool;
mod run_lane;

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{Arena, ArenaFrame, Buffer, PageAddress, PageSize};
use saki_io::{Completion, Lane, Operation, OperationKind, Wait, Waker};
use saki_page::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};

use crate::admission::Gate;
use crate::map::MapReader;
use crate::volume::Volume;

pub use pool::BufferPool;
pub use run_lane::{RunLane, RunRead};

impl PageStore for Volume {
    fn page_size(&self) -> PageSize {
        Volume::page_size(self)
    }

    fn open_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        let device = self.device.name();
        let lane = self.device.open_lane(Some(arena)).map_err(|error| store_error(&device, error))?;
        Ok(Box::new(VolumeLane {
            page_size: Volume::page_size(self),
            device,
            lane,
            map: MapReader::new(&self.map),
            gate: Gate::new(&self.admission),
            reads: Vec::new(),
            vacant: Vec::new(),
            completions: Vec::new(),
        }))
    }

    fn describe(&self, address: PageAddress) -> String {
        let device = self.device.name();
        match self.locate(address) {
            Some(location) => {
                let offset = location.offset() + Volume::page_size(self).offset_in_chunk(address) as u64;
                format!("{device} at byte {offset}")
            }
            None => format!("{device} (not mapped)"),
        }
    }
}

pub(crate) fn store_error(device: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError { device: device.to_owned(), message: error.to_string() }
}

/// A read under way.
struct Read {
    token: u64,
    share: Arc<IoShare>,
    started: Instant,
}

struct VolumeLane {
    page_size: PageSize,
    device: String,
    lane: Box<dyn Lane>,
    map: MapReader,
    gate: Gate,
    /// By operation token; entries are reused through `vacant`, so that a read allocates nothing.
    reads: Vec<Option<Read>>,
    vacant: Vec<u32>,
    completions: Vec<Completion>,
}

impl VolumeLane {
    fn occupy(&mut self, read: Read) -> u64 {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.reads.push(None);
            (self.reads.len() - 1) as u32
        });
        let before = self.reads[index as usize].replace(read);
        assert!(before.is_none(), "read {index} is vacant, and under way");
        u64::from(index)
    }

    /// Ends the count of a read on device and share.
    fn release(&mut self, index: u64) -> u64 {
        let read = self.reads[index as usize].take().expect("a completion for each operation, once");
        self.vacant.push(index as u32);
        self.gate.release(&read.share, read.started.elapsed(), self.page_size.bytes() as u64);
        read.token
    }
}

impl PageLane for VolumeLane {
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        assert_eq!(memory.len(), self.page_size.bytes(), "{address} would be read into memory of another size");
        if !self.gate.try_acquire(share) {
            return Err((memory, Refusal::Busy));
        }
        let read = Read { token, share: Arc::clone(share), started: Instant::now() };
        let index = self.occupy(read);
        let Some(location) = self.map.locate_for_read(self.page_size.chunk_of(address)) else {
            self.release(index);
            return Err((memory, Refusal::Unmapped));
        };
        let offset = location.offset() + self.page_size.offset_in_chunk(address) as u64;
        let buffer = Some(Buffer::Frame(memory));
        self.lane.submit(Operation { kind: OperationKind::Read, token: index, offset, buffer });
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        let mut completions = std::mem::take(&mut self.completions);
        self.lane.poll(wait.map_or(Wait::No, Wait::AtMost), &mut completions);
        let count = completions.len();
        for completion in completions.drain(..) {
            let token = self.release(completion.token);
            let Some(Buffer::Frame(memory)) = completion.buffer else {
                unreachable!("a lane returns the buffer it was given");
            };
            let result = completion.result.map_err(|error| store_error(&self.device, error));
            finished.push(PageRead { token, memory, result });
        }
        self.completions = completions;
        count
    }

    fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(LaneWaker(self.lane.waker()))
    }
}

impl Drop for VolumeLane {
    /// The device lane drains itself; what it read for counts no longer.
    fn drop(&mut self) {
        for index in 0..self.reads.len() {
            if self.reads[index].is_some() {
                self.release(index as u64);
            }
        }
    }
}

pub(crate) struct LaneWaker(pub Arc<dyn Waker>);

impl PageWaker for LaneWaker {
    fn wake(&self) {
        self.0.wake();
    }
}
