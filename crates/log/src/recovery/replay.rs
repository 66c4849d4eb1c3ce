//! One log, from its oldest needed segment to its end: frames to records, records to the caller, the rest held back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use saki_io::DeviceError;

use super::assembler::{Assembler, FeedError, Record};
use super::plan::Plan;
use super::scan::{Scanned, SegmentAt};
use super::seen::Seen;
use super::segment_reader::SegmentReader;
use crate::error::{Damage, LogError};
use crate::format::{BLOCK_BYTES, Identity};
use crate::frame::{FrameFault, FrameHeader, FramePlace};
use crate::record::RecordKind;
use crate::report::{LogEnd, Progress};
use crate::segment::SegmentHeader;

/// Gets the records that count: log, timestamp, payload.
pub type Apply<'a> = &'a (dyn Fn(usize, u64, &[u8]) -> Result<(), LogError> + Sync);

/// No window of timestamps is wider, whatever the options were.
const WINDOW_MAX: u64 = 1 << 32;

/// What the threads of a recovery share.
pub struct Common<'a> {
    pub identity: Identity,
    pub plan: &'a Plan,
    /// The greatest durable horizon that a frame of the last run has told of so far. Relaxed: a number that only grows.
    pub proven: AtomicU64,
    /// The greatest cut that a frame has told of. Relaxed, likewise.
    pub cut: AtomicU64,
    pub seen: Mutex<Seen>,
    /// A log has failed: the others need not go on.
    pub stop: AtomicBool,
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// `None`: only look.
    pub apply: Option<Apply<'a>>,
}

/// What one log held.
pub struct Replayed {
    /// The greatest timestamp in it, whether it counts or not.
    pub newest: u64,
    /// The greatest timestamp of each of the log's segments, in their order.
    pub segments_newest: Vec<u64>,
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
    held: BinaryHeap<Reverse<(u64, Vec<u8>)>>,
}

/// Reads a log.
pub fn replay(common: &Common<'_>, scanned: &Scanned) -> Result<Replayed, LogError> {
    let log = scanned.log;
    let reader = SegmentReader::new(&scanned.device, scanned.length, scanned.segment_bytes);
    let bytes_total = common.plan.needed(scanned).len() as u64 * scanned.segment_bytes;
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
            newest: 0,
            segments_newest: scanned.segments.iter().map(|segment| segment.header.run.first - 1).collect(),
            records: 0,
            payload_bytes: 0,
            voids: 0,
            dropped: 0,
            bytes_read: 0,
            end: LogEnd { log, segment: 0, offset: 0, reason: "it is empty".into() },
            damages: Vec::new(),
            torn: None,
            held: BinaryHeap::new(),
        },
    };
    let result = replay.read_all();
    if result.is_err() {
        // Relaxed: only saves work.
        common.stop.store(true, Ordering::Relaxed);
    }
    result?;
    replay.replayed.bytes_read = replay.reader.bytes_read;
    Ok(replay.replayed)
}

struct Replay<'a> {
    common: &'a Common<'a>,
    scanned: &'a Scanned,
    reader: SegmentReader,
    assembler: Assembler,
    bytes_total: u64,
    bytes_told: u64,
    /// What the last frame of this run in this log said to be durable: later ones say no less.
    proven_before: u64,
    /// Where a segment ended before its end, and how: as it should, if nothing of the same run follows.
    pause: Option<Damage>,
    /// Of the frame being read.
    timestamps: Vec<u64>,
    replayed: Replayed,
}

/// Why reading a segment ended.
enum SegmentEnd {
    /// Its last byte.
    Full,
    /// Here nothing was written.
    Unwritten,
    /// What was expected, and what is there.
    Broken(&'static str, String),
}

impl From<FrameFault> for SegmentEnd {
    fn from(fault: FrameFault) -> Self {
        match fault {
            FrameFault::Absent => Self::Unwritten,
            FrameFault::Torn => Self::Broken("a whole frame", "one whose checksum disagrees".into()),
            FrameFault::Impossible => Self::Broken("a frame", "one that contradicts itself".into()),
        }
    }
}

/// The last segment may have no frames yet; the one before it has.
const LOOK_AHEAD_SEGMENTS: usize = 2;

impl Replay<'_> {
    /// Asks the last segments' first frames what is proven, so that all before them can be applied as they are read.
    fn look_ahead(&mut self) -> Result<(), LogError> {
        let log = self.scanned.log;
        for segment in self.common.plan.needed(self.scanned).iter().rev().take(LOOK_AHEAD_SEGMENTS) {
            self.reader.open(segment.slot);
            if self.reader.left() == 0 {
                continue;
            }
            // Nothing is decided here: what is wrong is found again, and said, when its turn comes.
            if let Ok(header) = self.find_frame(segment).map_err(|error| LogError::Device { log, error })? {
                self.common.proves(segment.header.run.number, &header);
            }
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), LogError> {
        self.look_ahead()?;
        let mut before: Option<&SegmentAt> = None;
        for segment in self.common.plan.needed(self.scanned) {
            let SegmentHeader { run, sequence, .. } = segment.header;
            if let Some(SegmentAt { header: before, .. }) = before {
                if before.run != run {
                    // A run ends where its last write was: nothing is wrong with an unfinished frame there.
                    self.assembler.forget();
                    self.pause = None;
                    self.proven_before = 0;
                } else if before.sequence + 1 != sequence {
                    self.assembler.forget();
                    let expected = format!("segment {}", before.sequence + 1);
                    let damage = self.damage(segment, 0, expected, format!("segment {sequence}"));
                    self.replayed.damages.push(damage);
                }
            }
            self.read_segment(segment)?;
            before = Some(segment);
        }
        Ok(())
    }

    fn read_segment(&mut self, segment: &SegmentAt) -> Result<(), LogError> {
        self.reader.open(segment.slot);
        // Relaxed: only saves work.
        while !self.common.stop.load(Ordering::Relaxed) {
            let at = self.reader.at();
            match self.read_frame(segment)? {
                None => self.frame_was_there(segment),
                Some(end) => {
                    self.segment_ended(segment, at, end);
                    if !self.find_next_frame(segment)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks for a frame behind a broken one, block by block. A crash leaves at most a few, which were in flight together; but
    /// where rot has broken one, those behind it are there, and tell that it was durable.
    fn find_next_frame(&mut self, segment: &SegmentAt) -> Result<bool, LogError> {
        let log = self.scanned.log;
        while self.reader.left() > BLOCK_BYTES as u64 {
            self.reader.consume(BLOCK_BYTES);
            if self.find_frame(segment).map_err(|error| LogError::Device { log, error })?.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn segment_ended(&mut self, segment: &SegmentAt, at: u64, end: SegmentEnd) {
        let broken = matches!(end, SegmentEnd::Broken(..));
        let (expected, found) = match end {
            SegmentEnd::Full => return,
            SegmentEnd::Unwritten => ("the next frame", "none of this segment".into()),
            SegmentEnd::Broken(expected, found) => (expected, found),
        };
        let damage = self.damage(segment, at, expected.into(), found);
        self.assembler.forget();
        if broken {
            self.replayed.end.reason = format!("behind it, expected {expected}, found {}", damage.found);
            self.replayed.torn = Some(damage.clone());
        } else if at > BLOCK_BYTES as u64 {
            self.replayed.end.reason = "nothing was written behind it".into();
        }
        self.pause.get_or_insert(damage);
    }

    /// A frame of the same run behind a pause makes the pause damage.
    fn frame_was_there(&mut self, segment: &SegmentAt) {
        self.replayed.damages.extend(self.pause.take());
        let offset = segment.slot * self.scanned.segment_bytes + self.reader.at();
        let reason = "its last segment is full".into();
        self.replayed.end = LogEnd { log: self.scanned.log, segment: segment.header.sequence, offset, reason };
    }

    fn damage(&self, segment: &SegmentAt, at: u64, expected: String, found: String) -> Damage {
        Damage {
            log: self.scanned.log,
            device: self.scanned.device.name(),
            segment: segment.header.sequence,
            offset: segment.slot * self.scanned.segment_bytes + at,
            expected,
            found,
        }
    }

    /// Reads one frame with its records; `None` if all is well.
    fn read_frame(&mut self, segment: &SegmentAt) -> Result<Option<SegmentEnd>, LogError> {
        if self.reader.left() == 0 {
            return Ok(Some(match self.reader.is_cut_off() {
                true => SegmentEnd::Broken("the rest of the segment", "the end of the device".into()),
                false => SegmentEnd::Full,
            }));
        }
        let log = self.scanned.log;
        let header = match self.find_frame(segment).map_err(|error| LogError::Device { log, error })? {
            Ok(header) => header,
            Err(fault) => return Ok(Some(fault.into())),
        };
        let run = segment.header.run;
        if header.proven < self.proven_before.max(run.first - 1) {
            let found = format!("the durable horizon {}, and it was later before", header.proven);
            return Ok(Some(SegmentEnd::Broken("a frame", found)));
        }
        self.proven_before = header.proven;
        self.common.proves(run.number, &header);
        if let Some(fault) = self.take_records(segment, &header)? {
            return Ok(Some(SegmentEnd::Broken("records", fault)));
        }
        self.settle_frame(segment)?;
        self.reader.consume(header.frame_bytes());
        self.tell_progress();
        Ok(None)
    }

    /// Reads the frame that should be next, and checks its bytes.
    fn find_frame(&mut self, segment: &SegmentAt) -> Result<Result<FrameHeader, FrameFault>, DeviceError> {
        let place = FramePlace {
            identity: Identity { log: self.scanned.log as u32, ..self.common.identity },
            run: segment.header.run.number,
            segment: segment.header.sequence,
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
    fn take_records(&mut self, segment: &SegmentAt, header: &FrameHeader) -> Result<Option<String>, LogError> {
        let Self { reader, assembler, common, scanned, replayed, timestamps, .. } = self;
        let run = segment.header.run;
        let bounds = Bounds {
            first: run.first,
            through: common.plan.run_ends(run.number),
            is_last: common.plan.is_last(run.number),
            latest: header.proven.saturating_add(WINDOW_MAX),
        };
        timestamps.clear();
        let index_of = |sequence: u64| {
            let found = scanned.segments.binary_search_by_key(&sequence, |segment| segment.header.sequence);
            found.expect("records begin in segments that were read")
        };
        let sequence = segment.header.sequence;
        let here = index_of(sequence);
        let payload = header.payload(reader.bytes());
        let fed = assembler.feed(sequence, payload, header.continued_bytes as usize, |record| {
            replayed.take(common, scanned.log, &bounds, record, timestamps)?;
            let newest = &mut replayed.segments_newest[index_of(record.begins_in)..=here];
            newest.iter_mut().for_each(|newest| *newest = (*newest).max(record.timestamp));
            Ok(())
        });
        match fed {
            Ok(()) => Ok(None),
            Err(FeedError::Fault(fault) | FeedError::Refused(RecordError::Fault(fault))) => Ok(Some(fault)),
            Err(FeedError::Refused(RecordError::Log(error))) => Err(error),
        }
    }

    /// Enters the frame's timestamps into the common set, and applies what is proven by now.
    fn settle_frame(&mut self, segment: &SegmentAt) -> Result<(), LogError> {
        let twice = {
            let mut seen = self.common.seen.lock();
            self.timestamps.iter().find(|timestamp| !seen.insert(**timestamp)).copied()
        };
        if let Some(timestamp) = twice {
            return Err(LogError::Inconsistent {
                log: self.scanned.log,
                device: self.scanned.device.name(),
                segment: segment.header.sequence,
                offset: segment.slot * self.scanned.segment_bytes + self.reader.at(),
                expected: "each timestamp once".into(),
                found: format!("another record of timestamp {timestamp}"),
            });
        }
        let proven = self.common.proven.load(Ordering::Relaxed);
        self.replayed.apply_through(self.common, self.scanned.log, proven)
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

/// What timestamps of a run may be.
struct Bounds {
    first: u64,
    /// Later ones do not count.
    through: u64,
    is_last: bool,
    /// No transaction was given a later one when this frame was written.
    latest: u64,
}

enum RecordError {
    Fault(String),
    Log(LogError),
}

impl Common<'_> {
    /// Takes in what a frame of a run says of all logs.
    fn proves(&self, run: u32, header: &FrameHeader) {
        // Relaxed: numbers that only grow, read as they are.
        if self.plan.is_last(run) {
            self.proven.fetch_max(header.proven, Ordering::Relaxed);
        }
        self.cut.fetch_max(header.cut, Ordering::Relaxed);
    }
}

impl Replayed {
    /// Judges a record: applied, held back, or left out.
    fn take(
        &mut self,
        common: &Common<'_>,
        log: usize,
        bounds: &Bounds,
        record: Record<'_>,
        timestamps: &mut Vec<u64>,
    ) -> Result<(), RecordError> {
        let timestamp = record.timestamp;
        if timestamp < bounds.first || timestamp > bounds.latest {
            return Err(RecordError::Fault(format!(
                "a record of timestamp {timestamp} in a run from {}",
                bounds.first
            )));
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
                self.apply(common, log, timestamp, record.payload).map_err(RecordError::Log)?;
            }
            RecordKind::Commit => {
                let payload = if common.apply.is_some() { record.payload.to_vec() } else { Vec::new() };
                self.held.push(Reverse((timestamp, payload)));
            }
        }
        Ok(())
    }

    fn apply(&mut self, common: &Common<'_>, log: usize, timestamp: u64, payload: &[u8]) -> Result<(), LogError> {
        self.records += 1;
        self.payload_bytes += payload.len() as u64;
        common.apply.map_or(Ok(()), |apply| apply(log, timestamp, payload))
    }

    /// Applies what was held back, through `horizon`.
    pub fn apply_through(&mut self, common: &Common<'_>, log: usize, horizon: u64) -> Result<(), LogError> {
        while self.held.peek().is_some_and(|Reverse((timestamp, _))| *timestamp <= horizon) {
            let Reverse((timestamp, payload)) = self.held.pop().expect("just seen");
            self.apply(common, log, timestamp, &payload)?;
        }
        Ok(())
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
