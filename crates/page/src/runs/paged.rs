//! Runs of a store that has a way to pages only, such as another node's.
//!
//! ```text
//!   run:      pages 120 … 310
//!   lane      │120│121│ … │151│            as many at once as there are frames, in order
//!   frames      └───┴─ as they come ─► copied to their place in one buffer
//! ```
//!
//! Neighbouring pages are asked for together, so whoever has them may make few requests of them. A copy of each byte
//! is the price, and it saves a memory to be registered for every run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Arena, ArenaFrame, DeviceId, PageAddress, PageSize, checksum};

use super::{BufferPool, RunLane, RunRead, RunStore};
use crate::store::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};

/// What refusals name: whoever asks for runs sees one device.
const DEVICE: DeviceId = DeviceId(0);
/// Frames of a lane at least, however large its pages.
const FRAMES_MIN: usize = 8;
/// With nothing under way, nobody tells when the store takes more: it is asked again.
const RETRY: Duration = Duration::from_micros(50);

/// A page store as a store of runs.
pub struct PagedRuns {
    pages: Arc<dyn PageStore>,
    window_bytes: usize,
}

impl PagedRuns {
    /// Runs of what `pages` has. Each lane has `window_bytes` of frames, or a few if pages are large: as much as it has
    /// under way at once.
    pub fn over(pages: Arc<dyn PageStore>, window_bytes: usize) -> Arc<Self> {
        Arc::new(Self { pages, window_bytes })
    }
}

impl RunStore for PagedRuns {
    fn page_size(&self) -> PageSize {
        self.pages.page_size()
    }

    fn open_run_lane(&self) -> Result<Box<dyn RunLane>, StoreError> {
        let page_size = self.pages.page_size();
        let frames = (self.window_bytes / page_size.bytes()).clamp(FRAMES_MIN, u32::MAX as usize);
        let (arena, free) = Arena::new(frames as u32, page_size.bytes()).map_err(|error| StoreError {
            device: "memory".into(),
            message: format!("no room for {frames} pages on their way: {error}"),
        })?;
        let lane = self.pages.open_lane(&arena)?;
        Ok(Box::new(PagedRunLane {
            pages: Arc::clone(&self.pages),
            page_size,
            lane,
            free,
            runs: Vec::new(),
            vacant: Vec::new(),
            unasked: VecDeque::new(),
            is_refused: false,
            buffers: BufferPool::new(),
            arrived: Vec::new(),
            finished: Vec::new(),
        }))
    }

    fn describe(&self, address: PageAddress) -> String {
        self.pages.describe(address)
    }
}

struct PagedRunLane {
    pages: Arc<dyn PageStore>,
    page_size: PageSize,
    lane: Box<dyn PageLane>,
    free: Vec<ArenaFrame>,
    runs: Vec<Option<Run>>,
    vacant: Vec<u32>,
    /// Runs with pages that have not been asked for, in the order of asking.
    unasked: VecDeque<u32>,
    /// The store has taken no more since the last poll.
    is_refused: bool,
    buffers: Arc<BufferPool>,
    arrived: Vec<PageRead>,
    finished: Vec<RunRead>,
}

/// A run on its way.
struct Run {
    token: u64,
    share: Arc<IoShare>,
    first: PageAddress,
    /// Bytes of the run, without what fills up its last page, and their checksum.
    bytes: usize,
    checksum: u64,
    whole: AlignedBuffer,
    pages: u32,
    asked: u32,
    under_way: u32,
    failure: Option<StoreError>,
    /// Some of it came from a copy, or by a way that may have damaged it.
    from_copy: bool,
    /// It is read a second time.
    again: bool,
}

impl Run {
    fn page(&self, number: u32) -> PageAddress {
        PageAddress(self.first.0 + u64::from(number))
    }

    /// Whether another read of the same may bring what this one has not.
    fn is_deceived(&self) -> bool {
        self.from_copy
            && !self.again
            && (self.failure.is_some() || checksum(&self.whole[..self.bytes]) != self.checksum)
    }
}

impl PagedRunLane {
    /// Asks for pages as long as there are frames and the store takes them.
    fn ask(&mut self) {
        while let Some(&index) = self.unasked.front() {
            if !self.ask_for(index) {
                return;
            }
            self.unasked.pop_front();
            self.end_if_whole(index);
        }
    }

    /// Whether all pages of a run have been asked for, or need not be.
    fn ask_for(&mut self, index: u32) -> bool {
        let run = self.runs[index as usize].as_mut().expect("a run lives as long as its pages");
        while run.failure.is_none() && run.asked < run.pages {
            let Some(frame) = self.free.pop() else { return false };
            let token = u64::from(index) << 32 | u64::from(run.asked);
            match self.lane.try_read(&run.share, run.page(run.asked), frame, token) {
                Ok(()) => (run.asked, run.under_way) = (run.asked + 1, run.under_way + 1),
                Err((frame, refusal)) => {
                    self.free.push(frame);
                    if let Refusal::Busy(_) = refusal {
                        self.is_refused = true;
                        return false;
                    }
                    let device = self.pages.describe(run.page(run.asked));
                    run.failure =
                        Some(StoreError { device, message: format!("{} is not mapped", run.page(run.asked)) });
                }
            }
        }
        true
    }

    fn take(&mut self, PageRead { token, memory, result, from_copy }: PageRead) {
        let (index, number) = ((token >> 32) as u32, token as u32);
        let run = self.runs[index as usize].as_mut().expect("a run lives as long as its pages");
        assert!(run.under_way > 0, "more pages have come than were asked for");
        run.under_way -= 1;
        run.from_copy |= from_copy;
        match result {
            Ok(()) => {
                let bytes = self.page_size.bytes();
                run.whole[number as usize * bytes..][..bytes].copy_from_slice(&memory);
            }
            Err(error) => drop(run.failure.get_or_insert(error)),
        }
        self.free.push(memory);
        let is_asked = run.asked == run.pages || run.failure.is_some();
        if is_asked && !self.unasked.contains(&index) {
            self.end_if_whole(index);
        }
    }

    /// Gives out a run of which nothing is missing or under way; once more it is read if it was deceived.
    fn end_if_whole(&mut self, index: u32) {
        let place = &mut self.runs[index as usize];
        if place.as_ref().is_none_or(|run| run.under_way > 0) {
            return;
        }
        let mut run = place.take().expect("just seen");
        if run.is_deceived() {
            (0..run.pages).for_each(|number| self.pages.distrust_copy(run.page(number)));
            (run.asked, run.failure, run.again) = (0, None, true);
            *place = Some(run);
            self.unasked.push_back(index);
            return;
        }
        self.vacant.push(index);
        let result = match run.failure {
            None => Ok(run.whole),
            Some(failure) => {
                self.buffers.give_back(run.whole);
                Err(failure)
            }
        };
        self.finished.push(RunRead { token: run.token, result });
    }
}

impl RunLane for PagedRunLane {
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        first: PageAddress,
        bytes: usize,
        checksum: u64,
        token: u64,
    ) -> Result<(), Refusal> {
        self.ask();
        if !self.unasked.is_empty() {
            return Err(Refusal::Busy(DEVICE));
        }
        let length = bytes.max(1).next_multiple_of(self.page_size.bytes());
        let pages = u32::try_from(length / self.page_size.bytes()).map_err(|_| Refusal::Unmapped)?;
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.runs.push(None);
            (self.runs.len() - 1) as u32
        });
        let run = Run {
            token,
            share: Arc::clone(share),
            first,
            bytes,
            checksum,
            whole: self.buffers.take(length),
            pages,
            asked: 0,
            under_way: 0,
            failure: None,
            from_copy: false,
            again: false,
        };
        let before = self.runs[index as usize].replace(run);
        assert!(before.is_none(), "run {index} is vacant, and under way");
        self.unasked.push_back(index);
        self.ask();
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<RunRead>) {
        self.ask();
        let is_alone = std::mem::take(&mut self.is_refused) && self.lane.in_flight() == 0;
        let wait = match wait {
            Some(_) if !self.finished.is_empty() => None,
            Some(wait) if is_alone => Some(wait.min(RETRY)),
            wait => wait,
        };
        let mut arrived = std::mem::take(&mut self.arrived);
        self.lane.poll(wait, &mut arrived);
        if !arrived.is_empty() {
            arrived.drain(..).for_each(|read| self.take(read));
            // Into the frames that have become free; they are on their way while others work on what has come.
            self.ask();
            self.lane.poll(None, &mut arrived);
            arrived.drain(..).for_each(|read| self.take(read));
        }
        self.arrived = arrived;
        finished.append(&mut self.finished);
    }

    fn device_of(&mut self, _first: PageAddress) -> Option<DeviceId> {
        Some(DEVICE)
    }

    fn buffers(&self) -> &Arc<BufferPool> {
        &self.buffers
    }

    fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        self.lane.waker()
    }
}
