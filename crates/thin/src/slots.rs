//! How far each slot has come.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = saki_base::CHUNK_BYTES as u64;

/// How far a slot has come. It goes forward only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Its piece lies in an object.
    Away = 0,
    /// Its piece is on the device: it may be read.
    Here = 1,
    /// That is durable: it may be written.
    Settled = 2,
}

/// The stages of all slots that have pieces.
pub struct Slots {
    stages: Vec<AtomicU8>,
    away: AtomicU64,
}

impl Slots {
    pub fn new(settled: impl Iterator<Item = bool>) -> Self {
        let stage = |settled| AtomicU8::new(if settled { Stage::Settled } else { Stage::Away } as u8);
        let stages: Vec<AtomicU8> = settled.map(stage).collect();
        let away = stages.iter().filter(|stage| stage.load(Ordering::Relaxed) == Stage::Away as u8).count();
        Self { stages, away: AtomicU64::new(away as u64) }
    }

    pub fn count(&self) -> u32 {
        self.stages.len() as u32
    }

    /// Slots that have not come.
    pub fn away(&self) -> u64 {
        self.away.load(Ordering::Relaxed)
    }

    /// The pieces of the slots that some bytes of the device lie in. The first slot has none, nor have those behind the
    /// last piece.
    pub fn pieces(&self, offset: u64, length: u64) -> RangeInclusive<u32> {
        let first = (offset / SLOT_BYTES).max(1) - 1;
        let last = (offset.saturating_add(length.max(1)) - 1) / SLOT_BYTES;
        let end = last.min(self.stages.len() as u64);
        // Empty where it ends before it begins.
        if end == 0 || first >= end {
            return RangeInclusive::new(1, 0);
        }
        first as u32..=(end - 1) as u32
    }

    pub fn stage(&self, piece: u32) -> Stage {
        // Pairs with the release below: who sees a stage sees what was done before it.
        match self.stages[piece as usize].load(Ordering::Acquire) {
            0 => Stage::Away,
            1 => Stage::Here,
            _ => Stage::Settled,
        }
    }

    /// A slot has come so far.
    pub fn reach(&self, piece: u32, stage: Stage) {
        let before = self.stages[piece as usize].swap(stage as u8, Ordering::Release);
        assert!(before < stage as u8, "slot {} goes from stage {before} to {stage:?}", piece + 1);
        if before == Stage::Away as u8 {
            self.away.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_in_slots_and_slots_have_pieces() {
        let slots = Slots::new([true, false, false].into_iter());
        assert_eq!((slots.count(), slots.away()), (3, 2));
        let pieces = |offset: u64, length: u64| -> Vec<u32> { slots.pieces(offset, length).collect() };
        assert!(pieces(0, 4096).is_empty(), "superblocks have no piece");
        assert_eq!(pieces(SLOT_BYTES - 4096, 8192), [0]);
        assert_eq!(pieces(SLOT_BYTES, 1), [0]);
        assert_eq!(pieces(SLOT_BYTES * 2 - 1, 2), [0, 1]);
        assert_eq!(pieces(0, SLOT_BYTES * 9), [0, 1, 2]);
        assert_eq!(pieces(SLOT_BYTES * 3, SLOT_BYTES * 2), [2], "behind the last piece there is none");
        assert!(pieces(SLOT_BYTES * 4, 4096).is_empty());
        assert!(pieces(u64::MAX - 1, u64::MAX).is_empty());
        assert_eq!(Slots::new([].into_iter()).pieces(SLOT_BYTES, 4096).count(), 0);
    }

    #[test]
    fn slots_go_forward() {
        let slots = Slots::new([false, false].into_iter());
        slots.reach(1, Stage::Here);
        assert_eq!((slots.stage(1), slots.stage(0), slots.away()), (Stage::Here, Stage::Away, 1));
        slots.reach(1, Stage::Settled);
        slots.reach(0, Stage::Settled);
        assert_eq!((slots.stage(1), slots.away()), (Stage::Settled, 0));
    }
}
