//! A volume with a fast device, pages of some parts, and reads of them.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, ChunkId, DeviceId, PageRef, PageSize, Part, PartKind, TreeId, VirtualClock};
use saki_io::{Device, SimDevice, SimOptions, SimTiming};
use saki_page::{IoShare, PageStore};
use saki_tier::{PolicyKind, Tier};
use saki_volume::{Class, NewDevice, Role, Volume, VolumeOptions};

pub const PAGE_BYTES: u32 = 8192;
/// Pages in a chunk.
pub const FULL: u64 = 128;
pub const FAST: DeviceId = DeviceId(1);

pub const fn leaves(tree: u32) -> Part {
    Part::new(TreeId(tree), PartKind::Leaves)
}

pub struct Bench {
    pub fast: Arc<SimDevice>,
    pub volume: Arc<Volume>,
    pub clock: Arc<VirtualClock>,
}

fn device(seed: u64) -> Arc<SimDevice> {
    let timing = SimTiming::Immediate;
    SimDevice::new(SimOptions { seed, length_bytes: 0, timing, ..SimOptions::default() })
}

impl Bench {
    /// With room for so many copies.
    pub fn new(copies_max: u64) -> Self {
        let (home, fast) = (device(1), device(2));
        let options = VolumeOptions::new(PageSize::new(PAGE_BYTES).expect("valid"));
        let volume = Volume::create(home as Arc<dyn Device>, options).expect("created");
        let offered = NewDevice::new(Arc::clone(&fast) as Arc<dyn Device>, "fast");
        // Slot 0 is not for copies.
        let (class, role, slots_max) = (Class::Fast, Role::COPIES, Some(copies_max + 1));
        let number = volume.add_device(NewDevice { class, role, slots_max, ..offered }).expect("added");
        assert_eq!(number, FAST);
        Self { fast, volume, clock: Arc::new(VirtualClock::default()) }
    }

    pub fn tier(&self, kind: PolicyKind) -> Tier {
        Tier::new(Arc::clone(&self.volume), kind, Arc::clone(&self.clock) as _, None)
    }

    /// Publishes so many pages of a part, and frees others.
    pub fn publish(&self, part: Part, pages: u64, freed: &[PageRef]) -> Vec<PageRef> {
        let publication = self.volume.begin();
        let mut writer = publication.writer();
        let page = vec![7; PAGE_BYTES as usize];
        let written = (0..pages).map(|_| writer.append(part, &page).expect("appended")).collect();
        writer.finish().expect("finished");
        publication.free(&freed.iter().map(|page| page.address).collect::<Vec<_>>());
        publication.commit(b"root").expect("committed");
        written
    }

    pub fn chunk_of(&self, page: &PageRef) -> ChunkId {
        self.volume.page_size().chunk_of(page.address)
    }

    /// Chunks of pages, each once, in order.
    pub fn chunks_of(&self, pages: &[PageRef]) -> Vec<ChunkId> {
        let mut chunks: Vec<_> = pages.iter().map(|page| self.chunk_of(page)).collect();
        chunks.dedup();
        chunks
    }

    /// Reads each page so often.
    pub fn read(&self, pages: &[PageRef], times: usize) {
        let (arena, mut frames) = Arena::new(1, PAGE_BYTES as usize).expect("mapped");
        let mut lane = self.volume.open_lane(&arena).expect("opened");
        let mut frame = frames.pop();
        let (share, mut finished) = (IoShare::new(1), Vec::new());
        for page in pages.iter().cycle().take(times * pages.len()) {
            let memory = frame.take().expect("given back");
            assert!(lane.try_read(&share, page.address, memory, 0).is_ok());
            while finished.is_empty() {
                lane.poll(Some(Duration::from_secs(1)), &mut finished);
            }
            let read = finished.pop().expect("just seen");
            read.result.expect("readable");
            frame = Some(read.memory);
        }
    }

    /// Chunks with copies.
    pub fn copies(&self) -> Vec<ChunkId> {
        self.volume.copies().into_iter().map(|(chunk, _)| chunk).collect()
    }

    pub fn pass(&self, seconds: u64) {
        use saki_base::Clock;
        self.clock.advance_to(self.clock.now() + Duration::from_secs(seconds));
    }
}

/// Lets a tier move until it wants nothing more.
pub fn settle(tier: &Tier) {
    for _ in 0..100 {
        if !tier.step() {
            return;
        }
    }
    panic!("it moves without end");
}
