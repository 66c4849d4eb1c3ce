//! The 1 MiB slots of one device: which are free, and making more.

use std::collections::BTreeSet;
use std::sync::Arc;

use saki_base::CHUNK_BYTES;
use saki_io::{Device, DeviceError};

use crate::error::VolumeError;
use crate::map::SLOTS_MAX;

/// Slots that only the journal may take where there is one, so that a full device can still publish the DROP that
/// frees it.
const RESERVED_SLOTS: u64 = 2;
/// The device grows by as much as it has, within these bounds: extending a file is
/// slow, so it happens rarely, and preallocation wastes at most 1 GiB.
const GROWTH_SLOTS_MIN: u64 = 64;
const GROWTH_SLOTS_MAX: u64 = 1024;

/// Who asks for a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Data,
    Journal,
}

pub(crate) struct Slots {
    device: Arc<dyn Device>,
    /// Free slots below `fresh`; the lowest is taken first, which keeps the device dense.
    free: BTreeSet<u32>,
    /// Slots from here to `end` have not been used since the volume was opened.
    fresh: u64,
    /// Slots the device has room for.
    end: u64,
    /// It is not made longer than this.
    end_max: u64,
    /// Slots that only the journal may take.
    reserved: u64,
}

impl Slots {
    /// All of a device's, free. Slot 0 is never given out. `slots_max`: it has no more, however long it is.
    /// `has_journal`: some are kept for the journal.
    pub fn new(device: &Arc<dyn Device>, slots_max: Option<u64>, has_journal: bool) -> Result<Self, VolumeError> {
        let end_max = slots_max.unwrap_or(SLOTS_MAX).min(SLOTS_MAX);
        let end = (device.length_bytes()? / CHUNK_BYTES as u64).min(end_max).max(1);
        let reserved = if has_journal { RESERVED_SLOTS } else { 0 };
        Ok(Self { device: Arc::clone(device), free: BTreeSet::new(), fresh: 1, end, end_max, reserved })
    }

    /// A slot is in use; told of each in ascending order, before any is given out.
    pub fn mark_used(&mut self, slot: u32) {
        assert!(u64::from(slot) >= self.fresh, "used slots are not told in order");
        self.free.extend(self.fresh as u32..slot);
        self.fresh = u64::from(slot) + 1;
        self.end = self.end.max(self.fresh);
    }

    /// Takes this very slot. `false` if it is not free.
    pub fn claim(&mut self, slot: u32) -> bool {
        if u64::from(slot) >= self.fresh && u64::from(slot) < self.end {
            self.mark_used(slot);
            return true;
        }
        self.free.remove(&slot)
    }

    /// Slots that are not free, slot 0 among them.
    pub fn used(&self) -> u64 {
        self.end - self.available()
    }

    pub fn available(&self) -> u64 {
        self.free.len() as u64 + (self.end - self.fresh)
    }

    /// Slots the device has room for, slot 0 included.
    pub fn total(&self) -> u64 {
        self.end
    }

    pub fn take(&mut self, purpose: Purpose) -> Result<u32, VolumeError> {
        let kept = if purpose == Purpose::Data { self.reserved } else { 0 };
        if self.available() <= kept {
            self.grow()?;
            if self.available() <= kept {
                return Err(self.full());
            }
        }
        if let Some(slot) = self.free.pop_first() {
            return Ok(slot);
        }
        assert!(self.fresh < self.end, "slot {} is taken, the device has {}", self.fresh, self.end);
        let slot = self.fresh as u32;
        self.fresh += 1;
        Ok(slot)
    }

    pub fn give_back(&mut self, slot: u32) {
        assert!(slot != 0 && u64::from(slot) < self.fresh, "slot {slot} freed, which was never given out");
        let was_taken = self.free.insert(slot);
        assert!(was_taken, "slot {slot} freed twice");
    }

    fn full(&self) -> VolumeError {
        VolumeError::Full { device: self.device.name() }
    }

    /// Lengthens the device, by less if there is not room for the usual step.
    fn grow(&mut self) -> Result<(), VolumeError> {
        let mut step = self.end.clamp(GROWTH_SLOTS_MIN, GROWTH_SLOTS_MAX).min(self.end_max.saturating_sub(self.end));
        while step > 0 {
            match self.device.ensure_length((self.end + step) * CHUNK_BYTES as u64) {
                Ok(()) => {
                    self.end += step;
                    assert!(self.end <= SLOTS_MAX, "{} slots, more than locations can name", self.end);
                    return Ok(());
                }
                Err(DeviceError::Full { .. }) => step /= 2,
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.full())
    }
}
