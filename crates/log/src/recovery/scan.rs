//! The first blocks of all slots of a device: which extents there are, and whether this is the log it should be.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Completion, Device, Operation, Wait};

use crate::error::{Damage, LogError};
use crate::format::extent::{ExtentHeader, HeaderFound};
use crate::format::{BLOCK_BYTES, FORMAT_VERSION, Identity};

/// An extent and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentAt {
    pub slot: u64,
    pub header: ExtentHeader,
}

/// What the first blocks of a device's slots say.
pub struct Scanned {
    pub log: usize,
    pub device: Arc<dyn Device>,
    pub extent_bytes: u64,
    pub length: u64,
    /// Slots of the device; the last one may be cut off.
    pub slots: u64,
    /// In the order of sequence numbers.
    pub extents: Vec<ExtentAt>,
    /// Slots whose header is not one, and what is wrong with each.
    pub nameless: Vec<u64>,
    pub damages: Vec<Damage>,
}

/// Reads first blocks, so many at a time.
const READS_IN_FLIGHT: usize = 32;

/// Scans the device of log `identity.log`.
pub fn scan(device: Arc<dyn Device>, identity: Identity, extent_bytes: u64) -> Result<Scanned, LogError> {
    let log = identity.log as usize;
    let failed = |error| LogError::Device { log, error };
    let length = device.length_bytes().map_err(failed)?;
    // A log keeps the extent size it was made with: that of its first slot, if that one can be read.
    let first =
        read_blocks(&*device, log, &[0].into_iter().filter(|_| length >= BLOCK_BYTES as u64).collect::<Vec<_>>())?;
    let extent_bytes = match first.first().map(|block| ExtentHeader::decode(block)) {
        Some(HeaderFound::Header(header)) => header.extent_bytes,
        _ => extent_bytes,
    };
    // Whole blocks: what is behind them was never written.
    let length = length - length % BLOCK_BYTES as u64;
    let slots = length.div_ceil(extent_bytes);
    let offsets: Vec<u64> = (0..slots).map(|slot| slot * extent_bytes).collect();
    let mut scanned = Scanned {
        log,
        device,
        extent_bytes,
        length,
        slots,
        extents: Vec::new(),
        nameless: Vec::new(),
        damages: Vec::new(),
    };
    let mut foreign = false;
    let blocks = read_blocks(&*scanned.device, log, &offsets)?;
    for (slot, block) in (0..).zip(&blocks) {
        foreign |= scanned.add(slot, identity, ExtentHeader::decode(block))?;
    }
    if foreign && scanned.extents.is_empty() {
        return Err(LogError::NotALog { log, device: scanned.device.name() });
    }
    scanned.sort()?;
    Ok(scanned)
}

impl Scanned {
    /// Takes a slot's header in; `true` if it is of nothing we know.
    fn add(&mut self, slot: u64, identity: Identity, found: HeaderFound) -> Result<bool, LogError> {
        let (log, device) = (self.log, self.device.name());
        if !matches!(found, HeaderFound::Empty | HeaderFound::Header(_)) {
            self.nameless.push(slot);
        }
        let damage = |found: String| Damage {
            log,
            device: device.clone(),
            extent: 0,
            offset: slot * self.extent_bytes,
            expected: "the header of an extent".into(),
            found,
        };
        match found {
            HeaderFound::Empty => {}
            HeaderFound::Header(header) => {
                self.check(slot, identity, &header)?;
                self.extents.push(ExtentAt { slot, header });
            }
            HeaderFound::Version(found) => {
                return Err(LogError::OtherVersion { log, device, expected: FORMAT_VERSION, found });
            }
            HeaderFound::Damaged => self.damages.push(damage("one whose checksum disagrees".into())),
            HeaderFound::Impossible(fault) => self.damages.push(damage(fault)),
            HeaderFound::Foreign => {
                self.damages.push(damage("something else".into()));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check(&self, slot: u64, expected: Identity, header: &ExtentHeader) -> Result<(), LogError> {
        let (log, device, found) = (self.log, self.device.name(), header.identity);
        if found.database != expected.database {
            let (expected, found) = (expected.database, found.database);
            return Err(LogError::OtherDatabase { log, device, expected, found });
        }
        if found.logs != expected.logs {
            return Err(LogError::OtherCount { log, device, expected: expected.logs, found: found.logs });
        }
        if found.log != expected.log {
            return Err(LogError::OtherLog { log, device, found: found.log });
        }
        if header.extent_bytes != self.extent_bytes {
            let expected = format!("extents of {} bytes", self.extent_bytes);
            return Err(self.inconsistent(slot, header.sequence, expected, format!("one of {}", header.extent_bytes)));
        }
        Ok(())
    }

    pub fn inconsistent(&self, slot: u64, sequence: u64, expected: String, found: String) -> LogError {
        LogError::Inconsistent {
            log: self.log,
            device: self.device.name(),
            extent: sequence,
            offset: slot * self.extent_bytes,
            expected,
            found,
        }
    }

    /// By sequence number, which are all different, and later ones of later incarnations.
    pub fn sort(&mut self) -> Result<(), LogError> {
        self.extents.sort_by_key(|extent| extent.header.sequence);
        for pair in self.extents.windows(2) {
            let (before, ExtentAt { slot, header }) = (&pair[0], &pair[1]);
            if before.header.sequence == header.sequence {
                let found = format!("another extent {}", header.sequence);
                return Err(self.inconsistent(
                    *slot,
                    header.sequence,
                    format!("extent {} once", header.sequence),
                    found,
                ));
            }
            if before.header.incarnation.number > header.incarnation.number {
                let expected = format!("incarnation {} or later", before.header.incarnation.number);
                return Err(self.inconsistent(
                    *slot,
                    header.sequence,
                    expected,
                    format!("incarnation {}", header.incarnation.number),
                ));
            }
        }
        Ok(())
    }

    /// The first extent that is needed, by what the headers say.
    pub fn oldest(&self) -> u64 {
        self.extents.iter().map(|extent| extent.header.oldest).max().unwrap_or(1)
    }
}

/// Reads blocks, in the order of `offsets`.
fn read_blocks(device: &dyn Device, log: usize, offsets: &[u64]) -> Result<Vec<Buffer>, LogError> {
    let failed = |error| LogError::Device { log, error };
    let mut lane = device.open_lane(None).map_err(failed)?;
    let mut blocks: Vec<Option<Buffer>> = offsets.iter().map(|_| None).collect();
    let mut completions: Vec<Completion> = Vec::new();
    let (mut next, mut done) = (0, 0);
    while done < offsets.len() {
        while next < offsets.len() && next - done < READS_IN_FLIGHT {
            let buffer = Buffer::Aligned(AlignedBuffer::new(BLOCK_BYTES));
            lane.submit(Operation::read(next as u64, offsets[next], buffer));
            next += 1;
        }
        lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
        for Completion { token, buffer, result } in completions.drain(..) {
            result.map_err(failed)?;
            blocks[token as usize] = buffer;
            done += 1;
        }
    }
    Ok(blocks.into_iter().flatten().collect())
}
