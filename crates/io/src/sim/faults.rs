//! What may be made to go wrong with a simulated device, at any time and from any thread.

use std::ops::Range;

use parking_lot::Mutex;

use crate::device::{DeviceError, Operation, OperationKind};
use saki_base::Random;

/// Probabilities per operation, all 0 at first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultRates {
    /// Reads that fail with an I/O error.
    pub read_errors: f64,
    /// Writes that fail with an I/O error; none, some or all of their bytes are written.
    pub write_errors: f64,
    /// Flushes that fail; nothing becomes durable, and some of what should have is not made durable by later ones
    /// either.
    pub flush_errors: f64,
    /// Reads that return one wrong bit, although the stored bytes are right.
    pub bit_flips: f64,
    /// Writes that report success after writing only their first sectors.
    pub torn_writes: f64,
    /// Writes that report success and are not done at all.
    pub lost_writes: f64,
    /// Writes that report success and land one block-aligned neighbour away.
    pub misdirected_writes: f64,
    /// Operations a hundred times as late as others (with a virtual clock), or last of all (without).
    pub late: f64,
    /// Transfers carried out in two steps, so that another operation may see the first half only.
    pub short: f64,
    /// Granules that a power loss leaves half old, half new.
    pub torn_at_power_loss: f64,
}

/// The switchboard of a [`SimDevice`](super::SimDevice).
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rates: FaultRates,
    fail_next: [u32; 3],
    bad_ranges: Vec<Range<u64>>,
    full_ranges: Vec<Range<u64>>,
    full: bool,
    read_only: bool,
    holding: bool,
}

/// What becomes of a write whose turn has come.
pub(super) enum WriteFate {
    Whole,
    /// Success is reported, so many bytes are written.
    Torn(usize),
    Misdirected,
    Error(DeviceError, usize),
}

impl Faults {
    /// Replaces all probabilities.
    pub fn set_rates(&self, rates: FaultRates) {
        self.state.lock().rates = rates;
    }

    pub fn rates(&self) -> FaultRates {
        self.state.lock().rates.clone()
    }

    /// The next `count` operations of this kind fail, and write nothing.
    pub fn fail_next(&self, kind: OperationKind, count: u32) {
        self.state.lock().fail_next[kind as usize] = count;
    }

    /// Every transfer that touches these bytes fails until [`Self::heal`].
    pub fn fail_range(&self, bytes: Range<u64>) {
        self.state.lock().bad_ranges.push(bytes);
    }

    /// Writes to these bytes answer `Full`, and write nothing, until [`Self::heal`]: a sparse file's on a full disk.
    pub fn fill_range(&self, bytes: Range<u64>) {
        self.state.lock().full_ranges.push(bytes);
    }

    /// Writes and growth answer `Full` while set.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// Writes answer `ReadOnly` while set, as when a file system is remounted after an error.
    pub fn set_read_only(&self, read_only: bool) {
        self.state.lock().read_only = read_only;
    }

    /// While set, nothing completes: operations pile up in flight.
    pub fn hold(&self, holding: bool) {
        self.state.lock().holding = holding;
    }

    /// Switches everything off.
    pub fn heal(&self) {
        *self.state.lock() = State::default();
    }

    pub(super) fn holding(&self) -> bool {
        self.state.lock().holding
    }

    pub(super) fn refuses_growth(&self, device: &str) -> Option<DeviceError> {
        let state = self.state.lock();
        if state.read_only {
            return Some(DeviceError::ReadOnly { device: device.into() });
        }
        state.full.then(|| DeviceError::Full { device: device.into() })
    }

    /// Whether a read or flush fails.
    pub(super) fn error(&self, operation: &Operation, device: &str, random: &mut Random) -> Option<DeviceError> {
        let mut state = self.state.lock();
        let rate = match operation.kind {
            OperationKind::Read => state.rates.read_errors,
            OperationKind::Write => state.rates.write_errors,
            OperationKind::Flush => state.rates.flush_errors,
        };
        let end = operation.offset + operation.length_bytes() as u64;
        let bad = state.bad_ranges.iter().any(|range| range.start < end && operation.offset < range.end);
        let next = &mut state.fail_next[operation.kind as usize];
        let chosen = *next > 0;
        *next = next.saturating_sub(1);
        (chosen || bad || random.chance(rate)).then(|| DeviceError::Failed {
            device: device.into(),
            action: operation.kind.action(),
            offset: operation.offset,
            message: "injected fault".into(),
            errno: Some(libc::EIO),
        })
    }

    pub(super) fn write_fate(&self, operation: &Operation, device: &str, random: &mut Random) -> WriteFate {
        if let Some(error) = self.refuses_growth(device) {
            return WriteFate::Error(error, 0);
        }
        let end = operation.offset + operation.length_bytes() as u64;
        if self.state.lock().full_ranges.iter().any(|range| range.start < end && operation.offset < range.end) {
            return WriteFate::Error(DeviceError::Full { device: device.into() }, 0);
        }
        let sectors = (operation.length_bytes() / 512) as u64;
        let forced = self.state.lock().fail_next[OperationKind::Write as usize] > 0;
        if let Some(error) = self.error(operation, device, random) {
            let written = if forced { 0 } else { random.range(0..sectors + 1) as usize * 512 };
            return WriteFate::Error(error, written);
        }
        let rates = self.rates();
        if random.chance(rates.lost_writes) {
            WriteFate::Torn(0)
        } else if random.chance(rates.torn_writes) {
            WriteFate::Torn(random.range(1..sectors.max(2)) as usize * 512)
        } else if random.chance(rates.misdirected_writes) {
            WriteFate::Misdirected
        } else {
            WriteFate::Whole
        }
    }
}
