//! One log, from its oldest needed segment to its end: frames to records, records to the caller, the rest held back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::assembler::{Assembler, Record};
use super::plan::Plan;
use super::scan::{Scanned, SegmentAt};
use super::seen::Seen;
use super::segment_reader::SegmentReader;
use crate::error::{Damage, LogError};
use crate::format::{BLOCK_BYTES, Identity};
use crate::frame::{FrameFault, FrameHeader, FramePlace};
use crate::record::RecordKind;
use crate::report::{LogEnd, Progress};

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
    let reader = SegmentReader::new(&scanned.device, scanned.segment_bytes);
    let mut replay = Replay {
        common,
        scanned,
        reader: reader.map_err(|error| LogError::Device { log, error })?,
        assembler: Assembler::default(),
        bytes_total: common.plan.needed(scanned).len() as u64 * scanned.segment_bytes,
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
    /// What the last frame of this run in this log said to be durable: later ones say no less.
    proven_before: u64,
    /// Where the last segment ended before its end, and how: right if nothing of the same run follows.
    pause: Option<Damage>,
    /// Of the frame being read.
    timestamps: Vec<u64>,
    replayed: Replayed,
}

/// Why reading a segment ended.
enum SegmentEnd {
    /// Its last byte, or where nothing was written any more.
    Full,
    Fault(FrameFault),
    Records(String),
}

impl Replay<'_> {
    fn read_all(&mut self) -> Result<(), LogError> {
        let needed = self.common.plan.needed(self.scanned);
        let mut before: Option<SegmentAt> = None;
        for segment in needed {
            let header = &segment.header;
            if before.is_some_and(|before| before.header.run.number != header.run.number) {
                self.assembler.forget();
                self.pause = None;
                self.proven_before = 0;
            }
            if let Some(before) = before.filter(|before| before.header.sequence + 1 != header.sequence) {
                self.assembler.forget();
                let found = format!("segment {}", header.sequence);
                let damage = self.damage(segment, 0, format!("segment {}", before.header.sequence + 1), found);
                self.replayed.damages.push(damage);
            }
            self.read_segment(segment)?;
            before = Some(*segment);
        }
        Ok(())
    }

    fn read_segment(&mut self, segment: &SegmentAt) -> Result<(), LogError> {
        self.reader.open(segment.slot);
        loop {
            if self.common.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let at = self.reader.at();
            let end = self.read_frame(segment)?;
            let (expected, found) = match end {
                None => {
                    self.frame_was_there(segment);
                    continue;
                }
                Some(SegmentEnd::Full) => ("", String::new()),
                Some(SegmentEnd::Fault(FrameFault::Absent)) => ("the next frame", "something else".into()),
                Some(SegmentEnd::Fault(FrameFault::Torn)) => ("a whole frame", "one whose checksum disagrees".into()),
                Some(SegmentEnd::Fault(FrameFault::Impossible)) => ("a frame", "one that contradicts itself".into()),
                Some(SegmentEnd::Records(fault)) => ("records", fault),
            };
            if expected.is_empty() {
                return Ok(());
            }
            let damage = self.damage(segment, at, expected.into(), found);
            if at > BLOCK_BYTES as u64 || expected != "the next frame" {
                self.replayed.end.reason = match expected {
                    "the next frame" => "nothing was written behind it".into(),
                    _ => format!("expected {expected}, found {}", damage.found),
                };
            }
            if expected != "the next frame" {
                self.replayed.torn = Some(damage.clone());
            }
            if self.pause.is_none() {
                self.pause = Some(damage);
            }
            return Ok(());
        }
    }

    /// A frame of the same run behind a pause makes the pause damage.
    fn frame_was_there(&mut self, segment: &SegmentAt) {
        if let Some(damage) = self.pause.take() {
            self.replayed.damages.push(damage);
        }
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

    /// Reads one frame; `None` if it is good.
    fn read_frame(&mut self, segment: &SegmentAt) -> Result<Option<SegmentEnd>, LogError> {
        let log = self.scanned.log;
        let failed = |error| LogError::Device { log, error };
        if self.reader.left() == 0 {
            return Ok(Some(SegmentEnd::Full));
        }
        let place = FramePlace {
            identity: self.common.identity_of(log),
            run: segment.header.run.number,
            segment: segment.header.sequence,
            block: (self.reader.at() / BLOCK_BYTES as u64) as u32,
        };
        let left = self.reader.left().min(usize::MAX as u64) as usize;
        let header = match FrameHeader::peek(&place, self.reader.peek(BLOCK_BYTES).map_err(failed)?, left) {
            Ok(header) => header,
            Err(fault) => return Ok(Some(SegmentEnd::Fault(fault))),
        };
        let frame_bytes = header.frame_bytes();
        self.reader.peek(frame_bytes).map_err(failed)?;
        let bytes_read = self.reader.bytes_read;
        let Self { reader, assembler, common, replayed, timestamps, proven_before, bytes_total, .. } = self;
        let payload = match header.verify(reader.peek(frame_bytes).map_err(failed)?) {
            Ok(payload) => payload,
            Err(fault) => return Ok(Some(SegmentEnd::Fault(fault))),
        };
        let run = segment.header.run;
        if header.proven < *proven_before || header.proven < run.first - 1 {
            return Ok(Some(SegmentEnd::Records(format!(
                "a durable horizon of {}, which was later before",
                header.proven
            ))));
        }
        *proven_before = header.proven;
        let bounds = Bounds {
            first: run.first,
            through: common.plan.run_ends(run.number),
            is_last: common.plan.is_last(run.number),
            latest: header.proven.saturating_add(WINDOW_MAX),
        };
        if bounds.is_last {
            common.proven.fetch_max(header.proven, Ordering::Relaxed);
        }
        common.cut.fetch_max(header.cut, Ordering::Relaxed);
        timestamps.clear();
        let sequence = segment.header.sequence;
        let first_sequence = |begins_in: u64| {
            let found = self.scanned.segments.binary_search_by_key(&begins_in, |segment| segment.header.sequence);
            found.expect("it was read")
        };
        let here = first_sequence(sequence);
        let fed = assembler.feed(
            sequence,
            payload,
            header.continued_bytes as usize,
            *bytes_total,
            |record| -> Result<(), RecordError> {
                replayed.take(common, log, &bounds, record, timestamps)?;
                let newest = &mut replayed.segments_newest[first_sequence(record.begins_in)..=here];
                newest.iter_mut().for_each(|newest| *newest = (*newest).max(record.timestamp));
                Ok(())
            },
        );
        match fed {
            Ok(Ok(())) => {}
            Ok(Err(fault)) | Err(RecordError::Fault(fault)) => return Ok(Some(SegmentEnd::Records(fault))),
            Err(RecordError::Log(error)) => return Err(error),
        }
        reader.consume(frame_bytes);
        let twice = {
            let mut seen = common.seen.lock();
            timestamps.iter().find(|timestamp| !seen.insert(**timestamp)).copied()
        };
        if let Some(timestamp) = twice {
            return Err(LogError::Inconsistent {
                log,
                device: self.scanned.device.name(),
                segment: sequence,
                offset: segment.slot * self.scanned.segment_bytes + u64::from(place.block) * BLOCK_BYTES as u64,
                expected: "each timestamp once".into(),
                found: format!("another record of timestamp {timestamp}"),
            });
        }
        replayed.apply_proven(common, log)?;
        if reader.bytes_read != bytes_read || replayed.records == 0 {
            let (bytes_read, records) = (reader.bytes_read, replayed.records);
            (common.progress)(Progress { log, bytes_read, bytes_total: *bytes_total, records });
        }
        Ok(None)
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
    fn identity_of(&self, log: usize) -> Identity {
        Identity { log: log as u32, ..self.identity }
    }

    /// Records of the last run up to here are proven.
    fn proven(&self) -> u64 {
        self.proven.load(Ordering::Relaxed)
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
            RecordKind::Commit if !bounds.is_last || timestamp <= common.proven() => {
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

    /// Applies what was held back and is proven now.
    fn apply_proven(&mut self, common: &Common<'_>, log: usize) -> Result<(), LogError> {
        let proven = common.proven();
        self.apply_through(common, log, proven)
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
