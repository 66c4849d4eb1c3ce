//! One log, from its oldest needed extent to its end: frames to records, records to the caller, the rest held back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use saki_io::DeviceError;

use super::assembler::{Assembler, Record};
use super::extent_reader::ExtentReader;
use super::plan::Plan;
use super::scan::{ExtentAt, Scanned};
use super::seen::Seen;
use crate::error::{Damage, LogError, Refusal};
use crate::format::extent::ExtentHeader;
use crate::format::frame::{FrameFault, FrameHeader, FramePlace};
use crate::format::record::RecordKind;
use crate::format::{BLOCK_BYTES, Identity};
use crate::recovery::report::{LogEnd, Progress};

/// Gets the records that count: log, timestamp, payload.
pub type Apply<'a> = &'a (dyn Fn(usize, u64, &[u8]) -> Result<(), Refusal> + Sync);

/// No window of timestamps is wider, whatever the options were.
const WINDOW_MAX: u64 = 1 << 32;

/// What the threads of a recovery share.
pub struct Common<'a> {
    pub identity: Identity,
    pub plan: &'a Plan,
    /// The greatest durable horizon that a frame of the last incarnation has told of so far. Relaxed: a number that
    /// only grows.
    pub proven: AtomicU64,
    /// The greatest cut that a frame has told of. Relaxed, likewise.
    pub cut: AtomicU64,
    pub seen: Mutex<Seen>,
    pub refused: Refused,
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// `None`: only look.
    pub apply: Option<Apply<'a>>,
}

/// What the caller has refused. Logs are read side by side, so which refusal comes first is chance; the one that is
/// told is that of the least timestamp, and every log goes on until it is known.
pub struct Refused {
    /// Later records need not be applied any more. Relaxed: only saves work.
    least: AtomicU64,
    first: Mutex<Option<(u64, LogError)>>,
}

impl Default for Refused {
    fn default() -> Self {
        Self { least: AtomicU64::new(u64::MAX), first: Mutex::default() }
    }
}

impl Refused {
    fn note(&self, timestamp: u64, error: LogError) {
        let mut first = self.first.lock();
        if first.as_ref().is_none_or(|(earlier, _)| timestamp < *earlier) {
            self.least.store(timestamp, Ordering::Relaxed);
            *first = Some((timestamp, error));
        }
    }

    /// The refusal to be told, if there was one.
    pub fn into_result(self) -> Result<(), LogError> {
        self.first.into_inner().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Where a record ends: the number of the extent, and the byte of the frame on the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    extent: u64,
    offset: u64,
}

/// What one log held.
pub struct Replayed {
    log: usize,
    device: String,
    /// The greatest timestamp in it, whether it counts or not.
    pub newest: u64,
    /// The greatest timestamp of each of the log's extents, in their order.
    pub extents_newest: Vec<u64>,
    pub records: u64,
    pub payload_bytes: u64,
    pub voids: u64,
    pub dropped: u64,
    pub bytes_read: u64,
    pub end: LogEnd,
    pub damages: Vec<Damage>,
    /// What the log ended with, if it was a broken frame: a write cut off by a crash, or damage.
    torn: Option<Damage>,
    /// Records that nothing has proven yet.
    held: BinaryHeap<Reverse<(u64, Place, Vec<u8>)>>,
}

/// Reads a log.
pub fn replay(common: &Common<'_>, scanned: &Scanned) -> Result<Replayed, LogError> {
    let log = scanned.log;
    let reader = ExtentReader::new(&scanned.device, scanned.length, scanned.extent_bytes);
    let bytes_total = common.plan.needed(scanned).len() as u64 * scanned.extent_bytes;
    let mut replay = Replay {
        common,
        scanned,
        reader: reader.map_err(|error| LogError::Device { log, error })?,
        assembler: Assembler::new(bytes_total),
        bytes_total,
        bytes_told: 0,
        proven_before: 0,
        pause: None,
        timestamps: Vec::new(),
        replayed: Replayed {
            log,
            device: scanned.device.name(),
            newest: 0,
            extents_newest: scanned.extents.iter().map(|extent| extent.header.incarnation.first - 1).collect(),
            records: 0,
            payload_bytes: 0,
            voids: 0,
            dropped: 0,
            bytes_read: 0,
            end: LogEnd { log, extent: 0, offset: 0, reason: "it is empty".into() },
            damages: Vec::new(),
            torn: None,
            held: BinaryHeap::new(),
        },
    };
    replay.read_all()?;
    replay.replayed.bytes_read = replay.reader.bytes_read;
    Ok(replay.replayed)
}

struct Replay<'a> {
    common: &'a Common<'a>,
    scanned: &'a Scanned,
    reader: ExtentReader,
    assembler: Assembler,
    bytes_total: u64,
    bytes_told: u64,
    /// What the last frame of this incarnation in this log said to be durable: later ones say no less.
    proven_before: u64,
    /// Where an extent ended before its end, and how: as it should, if nothing of the same incarnation follows.
    pause: Option<Damage>,
    /// Of the frame being read.
    timestamps: Vec<u64>,
    replayed: Replayed,
}

/// Why reading an extent ended.
enum ExtentEnd {
    /// Its last byte.
    Full,
    /// Here nothing was written.
    Unwritten,
    /// What was expected, and what is there.
    Broken(&'static str, String),
}

impl From<FrameFault> for ExtentEnd {
    fn from(fault: FrameFault) -> Self {
        match fault {
            FrameFault::Absent => Self::Unwritten,
            FrameFault::Torn => Self::Broken("a whole frame", "one whose checksum disagrees".into()),
            FrameFault::Impossible => Self::Broken("a frame", "one that contradicts itself".into()),
        }
    }
}

/// The last extent may have no frames yet; the one before it has.
const LOOK_AHEAD_EXTENTS: usize = 2;

impl Replay<'_> {
    /// Asks the last extents' first frames what is proven, so that all before them can be applied as they are read.
    fn look_ahead(&mut self) -> Result<(), LogError> {
        let log = self.scanned.log;
        for extent in self.common.plan.needed(self.scanned).iter().rev().take(LOOK_AHEAD_EXTENTS) {
            self.reader.open(extent.slot);
            if self.reader.left() == 0 {
                continue;
            }
            // Nothing is decided here: what is wrong is found again, and said, when its turn comes.
            if let Ok(header) = self.find_frame(extent).map_err(|error| LogError::Device { log, error })? {
                self.common.proves(extent.header.incarnation.number, &header);
            }
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), LogError> {
        self.look_ahead()?;
        let mut before: Option<&ExtentAt> = None;
        for extent in self.common.plan.needed(self.scanned) {
            let ExtentHeader { incarnation, sequence, .. } = extent.header;
            if let Some(ExtentAt { header: before, .. }) = before {
                if before.incarnation != incarnation {
                    // An incarnation ends where its last write was: nothing is wrong with an unfinished frame there.
                    self.assembler.forget();
                    self.pause = None;
                    self.proven_before = 0;
                } else if before.sequence + 1 != sequence {
                    self.assembler.forget();
                    let expected = format!("extent {}", before.sequence + 1);
                    let damage = self.damage(extent, 0, expected, format!("extent {sequence}"));
                    self.replayed.damages.push(damage);
                }
            }
            self.read_extent(extent)?;
            before = Some(extent);
        }
        Ok(())
    }

    fn read_extent(&mut self, extent: &ExtentAt) -> Result<(), LogError> {
        self.reader.open(extent.slot);
        loop {
            let at = self.reader.at();
            match self.read_frame(extent)? {
                None => self.frame_was_there(extent),
                Some(end) => {
                    self.extent_ended(extent, at, end);
                    if !self.find_next_frame(extent)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Looks for a frame behind a broken one, block by block. A crash leaves at most a few, which were in flight
    /// together; but where rot has broken one, those behind it are there, and tell that it was durable.
    fn find_next_frame(&mut self, extent: &ExtentAt) -> Result<bool, LogError> {
        let log = self.scanned.log;
        while self.reader.left() > BLOCK_BYTES as u64 {
            self.reader.consume(BLOCK_BYTES);
            if self.find_frame(extent).map_err(|error| LogError::Device { log, error })?.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn extent_ended(&mut self, extent: &ExtentAt, at: u64, end: ExtentEnd) {
        let broken = matches!(end, ExtentEnd::Broken(..));
        let (expected, found) = match end {
            ExtentEnd::Full => return,
            ExtentEnd::Unwritten => ("the next frame", "none of this extent".into()),
            ExtentEnd::Broken(expected, found) => (expected, found),
        };
        let damage = self.damage(extent, at, expected.into(), found);
        self.assembler.forget();
        if broken {
            self.replayed.end.reason = format!("behind it, expected {expected}, found {}", damage.found);
            self.replayed.torn = Some(damage.clone());
        } else if at > BLOCK_BYTES as u64 {
            self.replayed.end.reason = "nothing was written behind it".into();
        }
        self.pause.get_or_insert(damage);
    }

    /// A frame of the same incarnation behind a pause makes the pause damage.
    fn frame_was_there(&mut self, extent: &ExtentAt) {
        self.replayed.damages.extend(self.pause.take());
        let offset = extent.slot * self.scanned.extent_bytes + self.reader.at();
        let reason = "its last extent is full".into();
        self.replayed.end = LogEnd { log: self.scanned.log, extent: extent.header.sequence, offset, reason };
    }

    fn damage(&self, extent: &ExtentAt, at: u64, expected: String, found: String) -> Damage {
        Damage {
            log: self.scanned.log,
            device: self.scanned.device.name(),
            extent: extent.header.sequence,
            offset: extent.slot * self.scanned.extent_bytes + at,
            expected,
            found,
        }
    }

    /// Reads one frame with its records; `None` if all is well.
    fn read_frame(&mut self, extent: &ExtentAt) -> Result<Option<ExtentEnd>, LogError> {
        if self.reader.left() == 0 {
            return Ok(Some(match self.reader.is_cut_off() {
                true => ExtentEnd::Broken("the rest of the extent", "the end of the device".into()),
                false => ExtentEnd::Full,
            }));
        }
        let log = self.scanned.log;
        let header = match self.find_frame(extent).map_err(|error| LogError::Device { log, error })? {
            Ok(header) => header,
            Err(fault) => return Ok(Some(fault.into())),
        };
        let incarnation = extent.header.incarnation;
        if header.proven < self.proven_before.max(incarnation.first - 1) {
            let found = format!("the durable horizon {}, and it was later before", header.proven);
            return Ok(Some(ExtentEnd::Broken("a frame", found)));
        }
        self.proven_before = header.proven;
        self.common.proves(incarnation.number, &header);
        if let Err(fault) = self.take_records(extent, &header) {
            return Ok(Some(ExtentEnd::Broken("records", fault)));
        }
        self.settle_frame(extent)?;
        self.reader.consume(header.frame_bytes());
        self.tell_progress();
        Ok(None)
    }

    /// Reads the frame that should be next, and checks its bytes.
    fn find_frame(&mut self, extent: &ExtentAt) -> Result<Result<FrameHeader, FrameFault>, DeviceError> {
        let place = FramePlace {
            identity: Identity { log: self.scanned.log as u32, ..self.common.identity },
            incarnation: extent.header.incarnation.number,
            extent: extent.header.sequence,
            block: (self.reader.at() / BLOCK_BYTES as u64) as u32,
        };
        self.reader.ensure(BLOCK_BYTES)?;
        let left = self.reader.left().min(usize::MAX as u64) as usize;
        let header = match FrameHeader::peek(&place, self.reader.bytes(), left) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        self.reader.ensure(header.frame_bytes())?;
        Ok(header.verify(self.reader.bytes()).map(|()| header))
    }

    /// Judges the records that end in the frame; says what is wrong with them.
    fn take_records(&mut self, extent: &ExtentAt, header: &FrameHeader) -> Result<(), String> {
        let Self { reader, assembler, common, scanned, replayed, timestamps, .. } = self;
        let incarnation = extent.header.incarnation;
        let bounds = Bounds {
            first: incarnation.first,
            through: common.plan.incarnation_ends(incarnation.number),
            is_last: common.plan.is_last(incarnation.number),
            latest: header.proven.saturating_add(WINDOW_MAX),
        };
        timestamps.clear();
        let index_of = |sequence: u64| {
            let found = scanned.extents.binary_search_by_key(&sequence, |extent| extent.header.sequence);
            found.expect("records begin in extents that were read")
        };
        let sequence = extent.header.sequence;
        let here = index_of(sequence);
        let place = Place { extent: sequence, offset: extent.slot * scanned.extent_bytes + reader.at() };
        let payload = header.payload(reader.bytes());
        assembler.feed(sequence, payload, header.continued_bytes as usize, |record| {
            replayed.take(common, &bounds, record, place, timestamps)?;
            let newest = &mut replayed.extents_newest[index_of(record.begins_in)..=here];
            newest.iter_mut().for_each(|newest| *newest = (*newest).max(record.timestamp));
            Ok(())
        })
    }

    /// Enters the frame's timestamps into the common set, and applies what is proven by now.
    fn settle_frame(&mut self, extent: &ExtentAt) -> Result<(), LogError> {
        let twice = {
            let mut seen = self.common.seen.lock();
            self.timestamps.iter().find(|timestamp| !seen.insert(**timestamp)).copied()
        };
        if let Some(timestamp) = twice {
            return Err(LogError::Inconsistent {
                log: self.scanned.log,
                device: self.scanned.device.name(),
                extent: extent.header.sequence,
                offset: extent.slot * self.scanned.extent_bytes + self.reader.at(),
                expected: "each timestamp once".into(),
                found: format!("another record of timestamp {timestamp}"),
            });
        }
        let proven = self.common.proven.load(Ordering::Relaxed);
        self.replayed.apply_through(self.common, proven);
        Ok(())
    }

    /// Says how far reading has come, now and then.
    fn tell_progress(&mut self) {
        let bytes_read = self.reader.bytes_read;
        if bytes_read != self.bytes_told {
            self.bytes_told = bytes_read;
            let (log, bytes_total, records) = (self.scanned.log, self.bytes_total, self.replayed.records);
            (self.common.progress)(Progress { log, bytes_read, bytes_total, records });
        }
    }
}

/// What timestamps of an incarnation may be.
struct Bounds {
    first: u64,
    /// Later ones do not count.
    through: u64,
    is_last: bool,
    /// No transaction was given a later one when this frame was written.
    latest: u64,
}

impl Common<'_> {
    /// Takes in what a frame of an incarnation says of all logs.
    fn proves(&self, incarnation: u32, header: &FrameHeader) {
        // Relaxed: numbers that only grow, read as they are.
        if self.plan.is_last(incarnation) {
            self.proven.fetch_max(header.proven, Ordering::Relaxed);
        }
        self.cut.fetch_max(header.cut, Ordering::Relaxed);
    }
}

impl Replayed {
    /// Judges a record: applied, held back, or left out; says what is wrong with it.
    fn take(
        &mut self,
        common: &Common<'_>,
        bounds: &Bounds,
        record: Record<'_>,
        place: Place,
        timestamps: &mut Vec<u64>,
    ) -> Result<(), String> {
        let timestamp = record.timestamp;
        if timestamp < bounds.first || timestamp > bounds.latest {
            return Err(format!("a record of timestamp {timestamp} in an incarnation from {}", bounds.first));
        }
        self.newest = self.newest.max(timestamp);
        if timestamp <= common.plan.after {
            return Ok(());
        }
        if timestamp > bounds.through {
            self.dropped += 1;
            return Ok(());
        }
        timestamps.push(timestamp);
        match record.kind {
            RecordKind::Void => self.voids += 1,
            RecordKind::Commit if !bounds.is_last || timestamp <= common.proven.load(Ordering::Relaxed) => {
                self.apply(common, timestamp, place, record.payload);
            }
            RecordKind::Commit => {
                let payload = if common.apply.is_some() { record.payload.to_vec() } else { Vec::new() };
                self.held.push(Reverse((timestamp, place, payload)));
            }
        }
        Ok(())
    }

    fn apply(&mut self, common: &Common<'_>, timestamp: u64, place: Place, payload: &[u8]) {
        self.records += 1;
        self.payload_bytes += payload.len() as u64;
        let Some(apply) = common.apply.filter(|_| timestamp < common.refused.least.load(Ordering::Relaxed)) else {
            return;
        };
        if let Err(error) = apply(self.log, timestamp, payload) {
            let Place { extent, offset } = place;
            let (log, device) = (self.log, self.device.clone());
            common.refused.note(timestamp, LogError::Refused { log, device, extent, offset, timestamp, error });
        }
    }

    /// Applies what was held back, through `horizon`.
    pub fn apply_through(&mut self, common: &Common<'_>, horizon: u64) {
        while self.held.peek().is_some_and(|Reverse((timestamp, ..))| *timestamp <= horizon) {
            let Reverse((timestamp, place, payload)) = self.held.pop().expect("just seen");
            self.apply(common, timestamp, place, &payload);
        }
    }

    /// Where the log ended, if not as a log ends.
    pub fn torn_end(&self) -> Option<Damage> {
        self.torn.clone()
    }

    /// What is held back still does not count.
    pub fn drop_held(&mut self) {
        self.dropped += self.held.len() as u64;
        self.held.clear();
    }
}
