//! A tree in a volume, beside the map it should equal.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use saki_base::{PageSize, Random, TreeId};
use saki_io::{Device, SimDevice, SimOptions};
use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::{
    Applied, BulkLoader, CachedReader, Change, Differing, Inspect, LivePages, TreeError, TreeReader, TreeRoot,
    Verification, apply, free_all, verify,
};
use saki_volume::{Volume, VolumeOptions};

pub const TREE: TreeId = TreeId(9);

pub struct Bench {
    pub device: Arc<SimDevice>,
    pub volume: Arc<Volume>,
    pub cache: Arc<PageCache>,
    pub reader: TreeReader,
    pub root: TreeRoot,
    pub map: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Ranges that were found in memory whole.
    pub cached_ranges: u64,
}

impl Bench {
    pub fn new(page_bytes: u32, frames: u32, seed: u64) -> Self {
        let device = SimDevice::new(SimOptions { seed, length_bytes: 0, ..SimOptions::default() });
        let page_size = PageSize::new(page_bytes).expect("valid");
        let volume = Volume::create(Arc::clone(&device) as Arc<dyn Device>, VolumeOptions::new(page_size));
        let volume = volume.expect("created");
        let cache = PageCache::new(page_size, frames).expect("mapped");
        let store: Arc<dyn PageStore> = Arc::clone(&volume) as Arc<dyn PageStore>;
        let reader = TreeReader::new(&cache, &store, &IoShare::new(u32::MAX)).expect("opened");
        Self { device, volume, cache, reader, root: TreeRoot::empty(TREE), map: BTreeMap::new(), cached_ranges: 0 }
    }

    /// Builds the tree from a map.
    pub fn load(&mut self, map: BTreeMap<Vec<u8>, Vec<u8>>) {
        let publication = self.volume.begin();
        let mut loader = BulkLoader::new(publication.writer(), self.volume.page_size(), TREE);
        for (key, value) in &map {
            loader.push(key, value).expect("ascending");
        }
        let (root, writer) = loader.finish().expect("loaded");
        writer.finish().expect("finished");
        publication.commit(&root.to_bytes()).expect("committed");
        (self.root, self.map) = (root, map);
    }

    /// Applies changes and publishes the result.
    pub fn apply(&mut self, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<Applied, TreeError> {
        let list: Vec<Change<'_>> =
            changes.iter().map(|(key, value)| Change { key, value: value.as_deref() }).collect();
        let publication = self.volume.begin();
        let mut writer = publication.writer();
        let applied = apply(self.reader.fetcher(), &mut writer, &self.root, &list)?;
        writer.finish()?;
        publication.free(&applied.freed);
        publication.commit(&applied.root.to_bytes())?;
        let (mut inserted, mut replaced, mut removed) = (0, 0, 0);
        for (key, value) in changes {
            let old = match value {
                Some(value) => self.map.insert(key.clone(), value.clone()),
                None => self.map.remove(key),
            };
            match (old, value) {
                (None, Some(_)) => inserted += 1,
                (Some(_), Some(_)) => replaced += 1,
                (Some(_), None) => removed += 1,
                (None, None) => {}
            }
        }
        assert_eq!((applied.inserted, applied.replaced, applied.removed), (inserted, replaced, removed));
        self.root = applied.root;
        Ok(applied)
    }

    /// The tree equals the map, is sound, and the volume counts its pages.
    pub fn check(&mut self) {
        assert_eq!(TreeRoot::from_bytes(&self.volume.root()).unwrap_or(TreeRoot::empty(TREE)), self.root);
        let mut live = LivePages::new(self.volume.page_size());
        let mut gathered = Gather::default();
        let found = verify(self.reader.fetcher(), &self.root, &mut live, &mut gathered);
        assert_eq!(found.faults, []);
        assert_eq!(found.entries, self.map.len() as u64);
        assert_eq!(live.differences(&self.live()), []);
        assert!(gathered.entries == self.map);
        let mut scan = self.reader.scan(&self.root);
        let mut expected = self.map.iter();
        while let Some((key, value)) = scan.next().expect("read") {
            let (expected_key, expected_value) = expected.next().expect("no more than the map");
            assert!(key == expected_key && value == expected_value);
        }
        assert!(expected.next().is_none());
    }

    /// What the tree has otherwise than it had, when it was `old` with these entries. Its pages are held.
    pub fn check_difference(&mut self, old: &TreeRoot, before: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let mut expected = Vec::new();
        for key in before.keys().chain(self.map.keys().filter(|key| !before.contains_key(*key))) {
            let (old, new) = (before.get(key), self.map.get(key));
            if old != new {
                expected.push((key.clone(), old.cloned(), new.cloned()));
            }
        }
        expected.sort();
        let mut difference = self.reader.difference(old, &self.root).expect("read");
        let mut found = Vec::new();
        while let Some(Differing { key, old, new }) = difference.next().expect("read") {
            found.push((key.to_vec(), old.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec)));
        }
        assert!(found == expected, "{} keys differ, {} are expected to", found.len(), expected.len());
    }

    fn live(&self) -> Vec<(saki_base::ChunkId, u32)> {
        self.volume.live_pages().into_iter().filter(|(_, pages)| *pages > 0).collect()
    }

    pub fn verify(&mut self) -> Verification {
        self.cache.clear();
        let mut live = LivePages::new(self.volume.page_size());
        verify(self.reader.fetcher(), &self.root, &mut live, &mut Gather::default())
    }

    /// Compares a range and some lookups with the map.
    pub fn check_range(&mut self, low: Bound<&[u8]>, high: Bound<&[u8]>) {
        let mut range = self.reader.range(&self.root, low, high);
        let mut found = Vec::new();
        while let Some((key, value)) = range.next().expect("read") {
            found.push((key.to_vec(), value.to_vec()));
        }
        let inside = |key: &[u8]| {
            (match low {
                Bound::Included(low) => key >= low,
                Bound::Excluded(low) => key > low,
                Bound::Unbounded => true,
            }) && match high {
                Bound::Included(high) => key <= high,
                Bound::Excluded(high) => key < high,
                Bound::Unbounded => true,
            }
        };
        let expected: Vec<_> =
            self.map.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        assert!(found == expected);
        self.check_cached_range((low, high), expected);
    }

    /// What is in memory is the same from either end; whatever the order, it ends where the visitor does.
    fn check_cached_range(&mut self, bounds: (Bound<&[u8]>, Bound<&[u8]>), mut expected: Vec<(Vec<u8>, Vec<u8>)>) {
        let cached = CachedReader::new(&self.cache, self.volume.page_size());
        for is_reverse in [false, true] {
            for most in [usize::MAX, 3] {
                let mut found = Vec::new();
                let is_there = cached.range(&self.root, bounds, is_reverse, |key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                if is_there.expect("sound pages") {
                    self.cached_ranges += 1;
                    assert!(found == expected[..expected.len().min(most)]);
                }
            }
            expected.reverse();
        }
    }

    /// Drops the tree: not a page is left.
    pub fn drop_tree(&mut self) {
        let listed = free_all(self.reader.fetcher(), &self.root);
        assert!(listed.unreadable.is_empty());
        assert_eq!(listed.pages.len() as u64, self.root.pages());
        let publication = self.volume.begin();
        publication.free(&listed.pages);
        publication.commit(&[]).expect("committed");
        (self.root, self.map) = (TreeRoot::empty(TREE), BTreeMap::new());
        assert_eq!(self.volume.stats().live_pages, 0);
    }
}

#[derive(Default)]
pub struct Gather {
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Inspect for Gather {
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        match self.entries.insert(key.to_vec(), value.to_vec()) {
            None => Ok(()),
            Some(_) => Err("comes twice".to_owned()),
        }
    }
}

/// Bytes of which neighbours share a prefix, from a space of `space` keys.
pub fn key(random: &mut Random, space: u64) -> Vec<u8> {
    let number = random.range(0..space);
    let mut key = format!("key/{:06}", number / 3).into_bytes();
    key.extend(std::iter::repeat_n(b'x', (number % 3 * number % 40) as usize));
    key
}

/// A value: mostly small, sometimes large, rarely several pages.
pub fn value(random: &mut Random, page_bytes: u32) -> Vec<u8> {
    let page = u64::from(page_bytes);
    let length = match random.range(0..40) {
        0 => random.range(page..page * 6),
        1 => random.range(page / 8..page),
        2..8 => 0,
        _ => random.range(1..60),
    };
    let seed = random.next_u64();
    (0..length).map(|index| (seed.wrapping_mul(index | 1) >> 56) as u8).collect()
}
