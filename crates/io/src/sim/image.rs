//! The bytes of a simulated device: what readers see, and what a power loss would leave.
//!
//! Per 4 KiB granule:
//!
//! ```text
//!   durable ──► version ──► version ──► version = what reads return
//!      ▲           └── unflushed: any of them, or the durable one, may be found after a crash
//!      └── a flush moves everything up to the last write that had completed when it was submitted
//! ```
//!
//! A flush that fails may drop what it was to make durable, as systems do: readers see it still, and no later flush
//! makes it durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use saki_base::Random;

/// Unit in which unflushed writes survive or not.
pub(super) const GRANULE_BYTES: usize = 4096;
/// Unit that the device writes at once even when the power goes.
const SECTOR_BYTES: usize = 512;

type Bytes = Arc<[u8]>;

/// Which of the writes that were not flushed are found after a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// Of each granule any content since the last flush.
    Any,
    /// All of them, whole.
    All,
    /// None.
    None,
}

#[derive(Clone, Default)]
struct Granule {
    /// `None`: never written, zeroes.
    durable: Option<Bytes>,
    /// Unflushed contents, oldest first, with the number of the write that made each.
    versions: Vec<(u64, Bytes)>,
    /// What a failed flush dropped: read while no version is later.
    dropped: Option<Bytes>,
}

impl Granule {
    fn current(&self) -> Option<&Bytes> {
        self.versions.last().map(|(_, bytes)| bytes).or(self.dropped.as_ref()).or(self.durable.as_ref())
    }
}

/// Sparse: granules never written take no memory.
#[derive(Clone, Default)]
pub(super) struct Image {
    granules: BTreeMap<u64, Granule>,
    /// Granules with unflushed versions, so that a flush costs what it flushes.
    unflushed: BTreeSet<u64>,
    /// Writes applied so far; numbers versions.
    writes: u64,
}

impl Image {
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for (granule, within, range) in pieces(offset, out.len()) {
            let target = &mut out[range];
            match self.granules.get(&granule).and_then(Granule::current) {
                Some(bytes) => target.copy_from_slice(&bytes[within..within + target.len()]),
                None => target.fill(0),
            }
        }
    }

    /// Writes, not yet durably. Returns the write's number, for [`Self::flush`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> u64 {
        self.writes += 1;
        for (index, within, range) in pieces(offset, bytes.len()) {
            let source = &bytes[range];
            let granule = self.granules.entry(index).or_default();
            let mut content = granule.current().map_or_else(|| vec![0; GRANULE_BYTES], |bytes| bytes.to_vec());
            content[within..within + source.len()].copy_from_slice(source);
            granule.versions.push((self.writes, content.into()));
            self.unflushed.insert(index);
        }
        self.writes
    }

    /// The number of the last write.
    pub fn written(&self) -> u64 {
        self.writes
    }

    /// Makes durable all writes up to number `up_to`.
    pub fn flush(&mut self, up_to: u64) {
        self.unflushed.retain(|index| {
            let Some(granule) = self.granules.get_mut(index) else { return false };
            let durable = granule.versions.partition_point(|(number, _)| *number <= up_to);
            if let Some((_, bytes)) = granule.versions.drain(..durable).next_back() {
                granule.durable = Some(bytes);
                granule.dropped = None;
            }
            !granule.versions.is_empty()
        });
    }

    /// A flush fails: of what it was to make durable, each granule may be dropped.
    pub fn fail_flush(&mut self, up_to: u64, random: &mut Random) {
        self.unflushed.retain(|index| {
            let Some(granule) = self.granules.get_mut(index) else { return false };
            let covered = granule.versions.partition_point(|(number, _)| *number <= up_to);
            if random.chance(0.5)
                && let Some((_, bytes)) = granule.versions.drain(..covered).next_back()
            {
                granule.dropped = Some(bytes);
            }
            !granule.versions.is_empty()
        });
    }

    /// Inverts one bit of what is stored.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) {
        let granule = self.granules.entry(offset / GRANULE_BYTES as u64).or_default();
        let mut content = granule.current().map_or_else(|| vec![0; GRANULE_BYTES], |bytes| bytes.to_vec());
        content[(offset % GRANULE_BYTES as u64) as usize] ^= 1 << (bit % 8);
        match (granule.versions.last_mut(), &mut granule.dropped) {
            (Some((_, bytes)), _) | (None, Some(bytes)) => *bytes = content.into(),
            (None, None) => granule.durable = Some(content.into()),
        }
    }

    /// What is found after a power loss; where any content may be found of a granule, with probability `torn` the first
    /// sectors of one and the rest of the one before.
    pub fn after_power_loss(&self, random: &mut Random, survival: Survival, torn: f64) -> Self {
        let mut found = Self::default();
        let torn = if survival == Survival::Any { torn } else { 0.0 };
        for (index, granule) in &self.granules {
            let count = granule.versions.len();
            let survivor = match survival {
                Survival::Any => random.range(0..count as u64 + 1) as usize,
                Survival::All => count,
                Survival::None => 0,
            };
            let content = |version: usize| match version.checked_sub(1) {
                Some(position) => Some(&granule.versions[position].1),
                None => granule.durable.as_ref(),
            };
            let mut bytes = content(survivor).cloned();
            if survivor < count && random.chance(torn) {
                let sectors = random.range(1..(GRANULE_BYTES / SECTOR_BYTES) as u64) as usize;
                let mut mixed = bytes.map_or_else(|| vec![0; GRANULE_BYTES], |bytes| bytes.to_vec());
                let newer = &granule.versions[survivor].1[..sectors * SECTOR_BYTES];
                mixed[..newer.len()].copy_from_slice(newer);
                bytes = Some(mixed.into());
            }
            if bytes.is_some() {
                found.granules.insert(*index, Granule { durable: bytes, ..Granule::default() });
            }
        }
        found
    }
}

/// Cuts a transfer at granules: granule's index, start within it, range of the transfer.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let position = offset + done as u64;
        let within = (position % GRANULE_BYTES as u64) as usize;
        let piece = (GRANULE_BYTES - within).min(length - done);
        let range = done..done + piece;
        done += piece;
        Some((position / GRANULE_BYTES as u64, within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_byte(image: &Image, offset: u64) -> u8 {
        let mut sector = [0; 512];
        image.read(offset, &mut sector);
        sector[0]
    }

    #[test]
    fn flushed_writes_survive_and_others_may() {
        let mut image = Image::default();
        let flushed = image.write(0, &[1; 4096]);
        image.flush(flushed);
        image.write(0, &[2; 4096]);
        image.write(4096, &[3; 4096]);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let found = image.after_power_loss(&mut Random::new(seed), Survival::Any, 0.0);
            seen.insert((first_byte(&found, 0), first_byte(&found, 4096)));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(1, 0), (1, 3), (2, 0), (2, 3)]);
        for (survival, expected) in [(Survival::All, (2, 3)), (Survival::None, (1, 0))] {
            let found = image.after_power_loss(&mut Random::new(1), survival, 1.0);
            assert_eq!((first_byte(&found, 0), first_byte(&found, 4096)), expected);
        }
    }

    /// As after a failed fsync: the next one succeeds, and what was dropped is gone with the power all the same.
    #[test]
    fn what_a_failed_flush_dropped_is_read_and_not_durable() {
        let mut lost = 0;
        for seed in 0..32 {
            let mut image = Image::default();
            let written = image.write(0, &[1; 4096]);
            image.fail_flush(written, &mut Random::new(seed));
            image.flush(written);
            assert_eq!(first_byte(&image, 0), 1);
            lost += u32::from(first_byte(&image.after_power_loss(&mut Random::new(1), Survival::All, 0.0), 0) == 0);
            let again = image.write(0, &[1; 4096]);
            image.flush(again);
            assert_eq!(first_byte(&image.after_power_loss(&mut Random::new(1), Survival::All, 0.0), 0), 1);
        }
        assert!((1..32).contains(&lost), "{lost}");
    }

    #[test]
    fn torn_granules_mix_two_contents_at_a_sector() {
        let mut image = Image::default();
        let flushed = image.write(0, &[1; 4096]);
        image.flush(flushed);
        image.write(0, &[2; 4096]);
        let torn = (0..64).any(|seed| {
            let found = image.after_power_loss(&mut Random::new(seed), Survival::Any, 1.0);
            let mut bytes = [0; 4096];
            found.read(0, &mut bytes);
            bytes[0] == 2 && bytes[4095] == 1
        });
        assert!(torn);
    }

    #[test]
    fn transfers_across_granules_round_trip() {
        let mut image = Image::default();
        let bytes: Vec<u8> = (0..10_240).map(|index| (index % 251) as u8).collect();
        image.write(512 * 5, &bytes);
        let mut back = vec![0; bytes.len()];
        image.read(512 * 5, &mut back);
        assert_eq!(bytes, back);
    }
}
