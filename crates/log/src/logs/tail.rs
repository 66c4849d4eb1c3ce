//! Logs followed while they are written: the records of all of them, in the order of their timestamps, once durable.
//!
//! ```text
//!   log 0   ──┬─ frames ─┬─ frames …      ┐ by timestamp       ┌───────────────────────► Tail::take
//!   log 1   ──┴─ frames ─┴─ frames …      ┴ (dense) ── waiting ┘ through the horizon
//! ```
//!
//! Whoever follows keeps the logs from being cut beyond what has been taken. What is durable when [`Tail::take`] begins
//! is on the devices, so it is found; what is not there in full yet is of a later moment, and looked for again. The
//! writers say which extents have all of their frames: the header of the next one may be there long before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saki_base::AlignedBuffer;
use saki_io::{Device, Operation};

use crate::error::{Damage, LogError};
use crate::format::frame::{FrameHeader, FramePlace};
use crate::format::record::RecordKind;
use crate::format::{BLOCK_BYTES, Identity, Incarnation};
use crate::recovery::assembler::Assembler;
use crate::recovery::extents::{scan_whole, transfer};
use crate::recovery::scan::ExtentAt;
use crate::shared::Shared;

/// Bytes that are read of a log at once, where little is new and where much is; a frame may be longer.
const WINDOW_BYTES: [u64; 2] = [64 << 10, 1 << 20];

/// A record as a log has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    pub timestamp: u64,
    /// What was committed; `None`: the timestamp is void.
    pub payload: Option<Vec<u8>>,
}

/// See the module's introduction.
pub struct Tail {
    shared: Arc<Shared>,
    logs: Vec<Follower>,
    /// The timestamp that is given next.
    next: u64,
    /// Records that were read, and those before them not yet.
    waiting: BTreeMap<u64, Option<Vec<u8>>>,
}

impl Tail {
    /// Follows logs from behind `after`.
    ///
    /// # Errors
    /// `Options` if that is before this incarnation of the logs.
    pub(crate) fn new(shared: Arc<Shared>, after: u64) -> Result<Self, LogError> {
        let incarnation = shared.incarnation;
        if after + 1 < incarnation.first {
            let message = format!("logs are followed from {after} on, and begin at {}", incarnation.first);
            return Err(LogError::Options { message });
        }
        let follower = |log: &crate::shared::Log| Follower::new(log.identity, log.extent_bytes, incarnation);
        let logs = shared.logs.iter().map(|log| follower(log)).collect();
        Ok(Self { shared, logs, next: after + 1, waiting: BTreeMap::new() })
    }

    /// Everything before this timestamp has been taken.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The next records, each once and without a gap: through that timestamp, as far as it is durable now, or until
    /// they have so many bytes. None: nothing has become durable since.
    ///
    /// # Errors
    /// `Missing` or `Corrupt` if something durable cannot be read; `Device`; `Closed`.
    pub fn take(&mut self, through: u64, bytes_max: usize) -> Result<Vec<LogRecord>, LogError> {
        let durable = self.shared.horizon.durable().min(through);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while self.next <= durable {
            if let Some(payload) = self.waiting.remove(&self.next) {
                bytes += payload.as_ref().map_or(0, Vec::len);
                taken.push(LogRecord { timestamp: self.next, payload });
                self.next += 1;
                if bytes >= bytes_max {
                    break;
                }
            } else if !self.read()? {
                return Err(self.missing(durable));
            }
        }
        Ok(taken)
    }

    /// Reads on in one of the logs; `false` if there is nothing more in any.
    fn read(&mut self) -> Result<bool, LogError> {
        let Self { shared, logs, next, waiting } = self;
        let mut order: Vec<usize> = (0..logs.len()).collect();
        // The others' records would wait for those of the one that is behind.
        order.sort_by_key(|log| logs[*log].newest);
        for log in order {
            let (follower, log) = (&mut logs[log], &shared.logs[log]);
            let device = log.storage.upgrade().ok_or(LogError::Closed)?;
            // Before anything is read.
            let reached = log.durable_extent.load(Ordering::Acquire);
            if follower.read(&device, *next, waiting)? || follower.go_on(&device, reached)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn missing(&self, proven: u64) -> LogError {
        let ends = self.logs.iter().map(|log| log.damage("more".into(), "the end".into()));
        LogError::Missing { timestamp: self.next, proven, logs: ends.collect() }
    }
}

/// One log, up to where it was read.
struct Follower {
    identity: Identity,
    extent_bytes: u64,
    incarnation: Incarnation,
    /// The extent that is read, and the byte of it that comes next.
    extent: Option<ExtentAt>,
    offset: u64,
    /// Of what is read next.
    window_bytes: u64,
    /// The greatest timestamp that was read.
    newest: u64,
    assembler: Assembler,
}

impl Follower {
    fn new(identity: Identity, extent_bytes: u64, incarnation: Incarnation) -> Self {
        let assembler = Assembler::new(u64::from(u32::MAX));
        let window_bytes = WINDOW_BYTES[0];
        Self { identity, extent_bytes, incarnation, extent: None, offset: 0, window_bytes, newest: 0, assembler }
    }

    /// Reads what lies next, a window at most; whether there was anything.
    fn read(
        &mut self,
        device: &Arc<dyn Device>,
        next: u64,
        waiting: &mut BTreeMap<u64, Option<Vec<u8>>>,
    ) -> Result<bool, LogError> {
        let Some(extent) = self.extent.filter(|_| self.offset < self.extent_bytes) else { return Ok(false) };
        let begin = self.offset;
        let mut window = self.window(device, &extent, self.window_bytes)?;
        if let Some(Err(frame_bytes)) = self.frame(&extent, &window) {
            window = self.window(device, &extent, frame_bytes as u64)?;
        }
        while let Some(Ok(header)) = self.frame(&extent, &window[(self.offset - begin) as usize..]) {
            let frame = &window[(self.offset - begin) as usize..];
            self.take_records(&extent, &header, frame, next, waiting)?;
            self.offset += header.frame_bytes() as u64;
        }
        let is_much = self.offset - begin >= WINDOW_BYTES[0] / 2;
        self.window_bytes = WINDOW_BYTES[usize::from(is_much)];
        Ok(self.offset > begin)
    }

    /// Goes on to the next extent, or to the first, if one that is `reached` by durable frames lies behind this one:
    /// then this one has no more frames than were read. Whether it has.
    fn go_on(&mut self, device: &Arc<dyn Device>, reached: u64) -> Result<bool, LogError> {
        if self.extent.is_some_and(|extent| extent.header.sequence >= reached) {
            return Ok(false);
        }
        let scanned = scan_whole(device, self.identity, self.extent_bytes)?;
        let after = self.extent.map_or(scanned.oldest().saturating_sub(1), |extent| extent.header.sequence);
        let is_next =
            |at: &&ExtentAt| at.header.sequence > after && at.header.incarnation.number == self.incarnation.number;
        let Some(next) = scanned.extents.iter().find(is_next).filter(|next| next.header.sequence <= reached) else {
            return Ok(false);
        };
        // Extents that had been cut when following began may have gone meanwhile, and beginnings of records with them.
        if next.header.sequence != after + 1 || self.extent.is_some_and(|extent| !scanned.extents.contains(&extent)) {
            self.assembler.forget();
        }
        (self.extent, self.offset) = (Some(*next), BLOCK_BYTES as u64);
        Ok(true)
    }

    /// Bytes of the extent from `offset` on.
    fn window(&self, device: &Arc<dyn Device>, extent: &ExtentAt, bytes: u64) -> Result<AlignedBuffer, LogError> {
        let bytes = bytes.min(self.extent_bytes - self.offset) as usize;
        let at = extent.slot * self.extent_bytes + self.offset;
        let read = transfer(device, |buffer| Operation::read(0, at, buffer), AlignedBuffer::new(bytes));
        read.map_err(|error| LogError::Device { log: self.identity.log as usize, error })
    }

    /// The frame at `offset`, where `bytes` begin: its header, or how many bytes it has if these are too few. `None`:
    /// it is not there, or not yet in full.
    fn frame(&self, extent: &ExtentAt, bytes: &[u8]) -> Option<Result<FrameHeader, usize>> {
        let place = FramePlace {
            identity: self.identity,
            incarnation: self.incarnation.number,
            extent: extent.header.sequence,
            block: (self.offset / BLOCK_BYTES as u64) as u32,
        };
        let left = (self.extent_bytes - self.offset) as usize;
        let header = FrameHeader::peek(&place, bytes.get(..BLOCK_BYTES)?, left).ok()?;
        match bytes.get(..header.frame_bytes()) {
            None => Some(Err(header.frame_bytes())),
            Some(frame) => header.verify(frame).ok().map(|()| Ok(header)),
        }
    }

    fn take_records(
        &mut self,
        extent: &ExtentAt,
        header: &FrameHeader,
        frame: &[u8],
        next: u64,
        waiting: &mut BTreeMap<u64, Option<Vec<u8>>>,
    ) -> Result<(), LogError> {
        let payload = header.payload(frame);
        let mut newest = self.newest;
        let taken = self.assembler.feed(extent.header.sequence, payload, header.continued_bytes as usize, |record| {
            newest = newest.max(record.timestamp);
            if record.timestamp < next {
                return Ok(());
            }
            let payload = (record.kind == RecordKind::Commit).then(|| record.payload.to_vec());
            match waiting.insert(record.timestamp, payload) {
                None => Ok(()),
                Some(_) => Err(format!("another record of timestamp {}", record.timestamp)),
            }
        });
        self.newest = newest;
        taken.map_err(|found| {
            let damage = self.damage("records".into(), found);
            LogError::Corrupt { timestamp: next, proven: header.proven, damage }
        })
    }

    fn damage(&self, expected: String, found: String) -> Damage {
        let extent = self.extent.map_or(0, |extent| extent.header.sequence);
        let offset = self.extent.map_or(0, |extent| extent.slot * self.extent_bytes) + self.offset;
        let log = self.identity.log as usize;
        Damage { log, device: format!("log {log}"), extent, offset, expected, found }
    }
}
