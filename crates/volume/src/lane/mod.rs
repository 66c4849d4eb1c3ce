//! Pages for the cache: one thread's way from page address through the chunk map to the device.

mod ends;
mod run;
mod run_lane;

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{Arena, ArenaFrame, Buffer, PageAddress, PageSize};
use saki_io::{Completion, DeviceError, Operation, Wait, Waker};
use saki_page::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};

use crate::device::gates::Gates;
use crate::device::{DeviceLanes, Members};
use crate::lane::ends::Ends;
use crate::lane::run::Run;
use crate::map::{MapReader, Place, count_read};
use crate::volume::Volume;

pub use run_lane::VolumeRunLane;

impl PageStore for Volume {
    fn page_size(&self) -> PageSize {
        Volume::page_size(self)
    }

    fn open_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        self.page_lane(Some(arena))
    }

    fn open_brief_lane(&self, _arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        self.page_lane(None)
    }

    fn describe(&self, address: PageAddress) -> String {
        match self.locate(address) {
            Some(location) => {
                let offset = location.offset() + Volume::page_size(self).offset_in_chunk(address) as u64;
                format!("{} at byte {offset}", self.name_of(location.device))
            }
            None => format!("{} (not mapped)", self.device_name()),
        }
    }

    fn devices(&self) -> usize {
        self.members.count()
    }

    fn distrust_copy(&self, address: PageAddress) {
        self.space.lock().distrust_copy(Volume::page_size(self).chunk_of(address));
    }
}

impl Volume {
    /// `arena` is registered.
    fn page_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn PageLane>, StoreError> {
        let lanes = DeviceLanes::open(&self.members, arena);
        Ok(Box::new(VolumeLane {
            page_size: Volume::page_size(self),
            members: Arc::clone(&self.members),
            lanes: lanes.map_err(|error| store_error(&self.device_name(), error))?,
            map: MapReader::new(&self.map),
            gates: Gates::new(&self.members),
            ends: Ends::default(),
            run: Run::default(),
            reads: Vec::new(),
            vacant: Vec::new(),
            completions: Vec::new(),
        }))
    }
}

pub(crate) fn store_error(device: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError { device: device.to_owned(), message: error.to_string() }
}

pub(crate) fn failed_read(members: &Members, place: Place, error: DeviceError) -> StoreError {
    let name = members.get(place.location.device).map_or_else(|| "a device".to_owned(), |member| member.name());
    store_error(&name, error)
}

/// A read under way.
struct Read {
    token: u64,
    share: Arc<IoShare>,
    started: Instant,
    place: Place,
    epoch: u64,
    /// One request with the read before it, which was let in for both.
    rides: bool,
}

struct VolumeLane {
    page_size: PageSize,
    members: Arc<Members>,
    /// Before `map`: no read is under way when its epoch is left.
    lanes: DeviceLanes,
    map: MapReader,
    gates: Gates,
    ends: Ends,
    run: Run,
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
    fn release(&mut self, index: u64) -> Read {
        let read = self.reads[index as usize].take().expect("a completion for each operation, once");
        self.vacant.push(index as u32);
        self.map.leave(read.epoch);
        let gate = self.gates.of(read.place.location.device).expect("the read was let in there");
        let bytes = self.page_size.bytes() as u64;
        match read.rides {
            true => gate.alight(&read.share, bytes),
            false => gate.release(&read.share, read.started.elapsed(), bytes),
        }
        read
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
        let epoch = self.map.enter();
        let Some((place, reads)) = self.map.locate(self.page_size.chunk_of(address)) else {
            self.map.leave(epoch);
            return Err((memory, Refusal::Unmapped));
        };
        let device = place.location.device;
        let (offset, bytes) = (self.page_size.offset_in_chunk(address) as u64, memory.len());
        let on_device = place.location.offset() + offset;
        let rides = self.run.takes(device, share, on_device, bytes);
        let gate = self.gates.of(device).expect("a device has nothing any more when it is removed");
        let is_let_in = match rides {
            true => gate.try_ride(share),
            false => gate.try_acquire(share),
        };
        if !is_let_in {
            self.map.leave(epoch);
            return Err((memory, Refusal::Busy(device)));
        }
        // Each chunk is sought once at least.
        count_read(reads, u64::from(!self.ends.goes_on(address) || offset == 0), 1);
        self.run.queued(device, share, on_device, bytes, rides);
        let index = self.occupy(Read { token, share: Arc::clone(share), started: Instant::now(), place, epoch, rides });
        self.lanes.submit(device, Operation::read(index, on_device, Buffer::Frame(memory)));
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        self.run.end();
        let mut completions = std::mem::take(&mut self.completions);
        self.lanes.poll(wait.map_or(Wait::No, Wait::AtMost), &mut completions);
        let count = completions.len();
        for completion in completions.drain(..) {
            let Read { token, place, .. } = self.release(completion.token);
            let Some(Buffer::Frame(memory)) = completion.buffer else {
                unreachable!("a lane returns the buffer it was given");
            };
            let result = completion.result.map_err(|error| failed_read(&self.members, place, error));
            finished.push(PageRead { token, memory, result, from_copy: place.is_copy });
        }
        self.completions = completions;
        count
    }

    fn in_flight(&self) -> usize {
        self.lanes.in_flight()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(LaneWaker(self.lanes.waker()))
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
