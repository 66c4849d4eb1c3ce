//! A model of a volume's content, and pages whose bytes can be told from their number.

use std::collections::BTreeMap;
use std::sync::Arc;

use saki_base::{
    CHUNK_BYTES, ChunkId, DeviceId, PageAddress, PageRef, PageSize, Part, PartKind, Random, TreeId, VolumeNumber,
    checksum,
};
use saki_io::{Device, SimDevice, SimOptions};
use saki_volume::{PageWriter, Volume, VolumeOptions};

pub fn device(seed: u64) -> Arc<SimDevice> {
    SimDevice::new(SimOptions { seed, length_bytes: 0, ..SimOptions::default() })
}

pub fn create(device: &Arc<SimDevice>, page_bytes: u32) -> Arc<Volume> {
    let page_size = PageSize::new(page_bytes).expect("valid");
    // A small journal, so that tests see it begun anew.
    let options = VolumeOptions {
        journal_bytes_max: 16 << 10,
        database_id: Some(7),
        number: number(page_bytes),
        ..VolumeOptions::new(page_size)
    };
    Volume::create(Arc::clone(device) as Arc<dyn Device>, options).expect("created")
}

/// Volumes with small pages are the last one, so that addresses are as long as can be.
pub fn number(page_bytes: u32) -> VolumeNumber {
    VolumeNumber(if page_bytes == 4096 { u16::MAX } else { 0 })
}

pub fn open(device: &Arc<SimDevice>) -> Result<Arc<Volume>, saki_volume::VolumeError> {
    Volume::open(Arc::clone(device) as Arc<dyn Device>)
}

/// A page of random bytes.
pub fn page(random: &mut Random, page_size: PageSize) -> Vec<u8> {
    let mut page = vec![0; page_size.bytes()];
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
    page
}

/// What tests write that are not about parts.
pub const PART: Part = Part::new(TreeId(1), PartKind::Leaves);
/// What pages of a model are of.
const PARTS: [Part; 3] = [PART, Part::new(TreeId(1), PartKind::Inner), Part::new(TreeId(2), PartKind::Column(5))];

/// Pages a generation refers to.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Model {
    pub pages: BTreeMap<PageAddress, PageRef>,
    /// What each page is of that was ever appended.
    pub parts: BTreeMap<PageAddress, Part>,
}

impl Model {
    /// Appends `count` pages of some part through `writer`.
    pub fn append(&mut self, writer: &mut PageWriter, random: &mut Random, page_size: PageSize, count: u64) {
        let part = PARTS[random.below(PARTS.len() as u64) as usize];
        for _ in 0..count {
            let page = writer.append(part, &page(random, page_size)).expect("appended");
            self.parts.insert(page.address, part);
            assert!(self.pages.insert(page.address, page).is_none(), "{} given out twice", page.address);
        }
    }

    /// Takes about `share` of the pages out.
    pub fn take(&mut self, random: &mut Random, share: f64) -> Vec<PageAddress> {
        let gone: Vec<_> = self.pages.keys().copied().filter(|_| random.chance(share)).collect();
        self.pages.retain(|page, _| gone.binary_search(page).is_err());
        gone
    }

    /// As [`Self::check_pages`]; also, the volume's books are right.
    pub fn check(&self, volume: &Volume, device: &SimDevice) {
        self.check_books(volume, 1);
        self.check_pages(volume, device);
    }

    /// Live pages are right, and every slot of so many devices is accounted for.
    pub fn check_books(&self, volume: &Volume, devices: u64) {
        let mut counts: BTreeMap<ChunkId, u32> = BTreeMap::new();
        for page in self.pages.keys() {
            *counts.entry(volume.page_size().chunk_of(*page)).or_default() += 1;
        }
        let live = volume.live_pages().into_iter().filter(|(_, pages)| *pages > 0);
        assert_eq!(live.collect::<BTreeMap<_, _>>(), counts);
        let parts: BTreeMap<_, _> = volume.published_chunks().into_iter().map(|it| (it.chunk, it.parts)).collect();
        for page in self.pages.keys() {
            let found = &parts[&volume.page_size().chunk_of(*page)];
            let part = self.parts.get(page).unwrap_or(&PART);
            assert!(found.contains(part), "{page} is of {part}, its chunk of {found:?}");
        }
        let stats = volume.stats();
        assert_eq!(stats.live_pages, self.pages.len() as u64);
        let known = stats.chunks + stats.free_slots + stats.pending_slots + stats.scratch_slots + stats.journal_slots;
        let copies = volume.copies().len() as u64;
        assert_eq!(stats.total_slots, known + copies + devices, "every slot is accounted for: {stats:?}");
    }

    /// Every page is where the volume says, with the bytes it had.
    pub fn check_pages(&self, volume: &Volume, device: &SimDevice) {
        self.check_pages_on(volume, |_| device);
    }

    /// The same on several devices, by number.
    pub fn check_pages_on<'d>(&self, volume: &Volume, device: impl Fn(DeviceId) -> &'d SimDevice) {
        let page_size = volume.page_size();
        let mut bytes = vec![0; page_size.bytes()];
        for page in self.pages.values() {
            let location = volume.locate(page.address).unwrap_or_else(|| panic!("{} is not mapped", page.address));
            device(location.device)
                .peek(location.offset() + page_size.offset_in_chunk(page.address) as u64, &mut bytes);
            assert_eq!(checksum(&bytes), page.checksum, "{} has other bytes", page.address);
        }
    }
}

/// Bytes of a slot, as a device offset.
pub fn slots(count: u64) -> u64 {
    count * CHUNK_BYTES as u64
}
