//! A log's own thread: takes what has gathered, writes it, flushes, moves the horizon.
//!
//! ```text
//!   Stream ──take──► write, write ──completed──► flush ──completed──► mark, advance, wake
//!                    (a few in flight)           (one in flight)
//! ```
//!
//! While the device is busy, records gather in the current piece; when a write ends, all of them go as the next one. So groups
//! are as large as the device is slow, and a lone transaction waits for nobody. A flush covers the writes that had completed
//! when it was submitted; frames become durable in their order, since a reader stops at the first one that is not there.
//!
//! The writer is a state machine, advanced by [`turn`](Writer::turn): a thread in production, a seed in simulation.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Completion, Device, DeviceError, Lane, Operation, Wait};

use crate::error::LogError;
use crate::filling::Filling;
use crate::format::{BLOCK_BYTES, whole_blocks};
use crate::frame::{FrameHeader, FramePlace};
use crate::segment::SegmentHeader;
use crate::shared::{Log, Shared, count};
use crate::slots::{Preparation, Slots};
use crate::stream::Piece;

/// The high byte of a token says what it is of.
const TOKEN_FRAME: u64 = 0;
const TOKEN_HEADER: u64 = 1 << 56;
const TOKEN_FLUSH: u64 = 2 << 56;
const TOKEN_ZEROS: u64 = 3 << 56;
const TOKEN_NUMBER: u64 = TOKEN_HEADER - 1;

/// After so long a quiet time what is durable is also said on disk, so that a later loss of it would be noticed.
const QUIET: Duration = Duration::from_millis(50);
/// How long an idle thread sleeps: it is woken when there is something to do.
const IDLE: Duration = Duration::from_secs(60);

/// What a turn came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Something was submitted or completed.
    Worked,
    /// Nothing to do for now.
    Idle,
    /// Closed and drained, or failed: there will be nothing to do any more.
    Ended,
}

/// See the module's introduction.
pub struct Writer {
    shared: Arc<Shared>,
    log: usize,
    device: Arc<dyn Device>,
    lane: Box<dyn Lane>,
    slots: Slots,
    filling: Filling,
    /// A piece that zeros in flight are in the way of.
    held: Option<Piece>,
    /// Frames submitted and not durable, oldest first; the first has this number.
    frames: VecDeque<Frame>,
    first_frame: u64,
    /// Frames whose write has not completed.
    writing: usize,
    /// The flush in flight covers the frames before this number.
    flush: Option<u64>,
    /// Headers written and not flushed.
    headers_written: bool,
    /// Growth or a header was refused for want of space: tried again when asked.
    growth_refused: bool,
    /// A refusal was logged, and no growth has succeeded since.
    full_said: bool,
    /// What the last frame said.
    proven_said: u64,
    /// The greatest timestamp in a frame.
    newest_written: u64,
    cut_said: u64,
    /// The horizon before the last wait: if it is the same after it, all is quiet.
    durable_before: u64,
    /// A first frame makes the run known before anything depends on it.
    said_nothing: bool,
    completions: Vec<Completion>,
}

/// A frame that is not durable yet.
struct Frame {
    segment: u64,
    written: bool,
    timestamps: Vec<u64>,
    payload_bytes: u64,
}

impl Writer {
    pub fn new(shared: Arc<Shared>, log: usize, device: Arc<dyn Device>, lane: Box<dyn Lane>, slots: Slots) -> Self {
        let durable_before = shared.horizon.durable();
        let cut_said = shared.cut.load(Ordering::Relaxed);
        let filling = Filling::new(shared.logs[log].segment_bytes);
        Self {
            shared,
            log,
            device,
            lane,
            slots,
            filling,
            held: None,
            frames: VecDeque::new(),
            first_frame: 0,
            writing: 0,
            flush: None,
            headers_written: false,
            growth_refused: false,
            full_said: false,
            proven_said: 0,
            newest_written: 0,
            cut_said,
            durable_before,
            said_nothing: true,
            completions: Vec::new(),
        }
    }

    /// Works until the logs are closed or have failed.
    pub fn run(mut self) {
        while self.turn(true) != Turn::Ended {}
    }

    /// Starts what can be started, waits for the device or for work if it may, and answers completions.
    pub fn turn(&mut self, may_wait: bool) -> Turn {
        if self.shared.failure().is_some() {
            return Turn::Ended;
        }
        self.try_turn(may_wait).unwrap_or_else(|error| {
            self.shared.fail(LogError::Failed { log: self.log, error });
            Turn::Ended
        })
    }

    fn try_turn(&mut self, may_wait: bool) -> Result<Turn, DeviceError> {
        self.free_segments();
        self.prepare_segments()?;
        let mut worked = self.submit_frames();
        worked |= self.submit_flush();
        worked |= self.submit_zeros();
        if self.is_finished() {
            return Ok(Turn::Ended);
        }
        let wait = if may_wait { self.wait() } else { Wait::No };
        let mut completions = std::mem::take(&mut self.completions);
        worked |= self.lane.poll(wait, &mut completions) > 0;
        self.log().stream.lock().sleeping = false;
        completions.drain(..).try_for_each(|completion| self.answer(completion))?;
        self.completions = completions;
        self.settle_without_flush();
        Ok(if worked { Turn::Worked } else { Turn::Idle })
    }

    /// The device has operations of this log to complete.
    #[cfg(test)]
    pub fn is_in_flight(&self) -> bool {
        self.lane.in_flight() > 0
    }

    fn log(&self) -> &Log {
        &self.shared.logs[self.log]
    }

    /// How long this turn may wait. Decided under the lock that workers append under: either their records are seen here, or
    /// they see that this thread sleeps.
    fn wait(&mut self) -> Wait {
        let can_take = self.writing < self.shared.options.writes_in_flight && self.held.is_none();
        let busy = self.lane.in_flight() > 0;
        let log = &self.shared.logs[self.log];
        let mut stream = log.stream.lock();
        let wanted = stream.segments_wanted() > 0;
        let prepares = self.slots.next_sequence() <= stream.segments_due() && (wanted || !self.growth_refused);
        if prepares || (can_take && stream.has_piece(self.is_busy())) {
            return Wait::No;
        }
        // While the device is busy, its completion is what wakes.
        stream.sleeping = can_take && !self.is_busy();
        drop(stream);
        self.durable_before = self.shared.horizon.durable();
        let unsaid = !busy && self.has_unsaid(self.durable_before);
        Wait::AtMost(if unsaid { QUIET } else { IDLE })
    }

    /// Nothing is left to do, now and ever.
    fn is_finished(&mut self) -> bool {
        let idle = self.lane.in_flight() == 0 && self.frames.is_empty();
        idle && self.log().stream.lock().is_drained()
    }

    // Segments.

    /// Frees what has been cut.
    fn free_segments(&mut self) {
        let cut = self.shared.cut.load(Ordering::Relaxed);
        if !self.slots.has_cut(cut) {
            return;
        }
        // A slot is not reused under a frame that is still being written, even one without records.
        let held = self.held.as_ref().map(|piece| piece.segment);
        let taken = self.frames.front().map(|frame| frame.segment).or(held);
        let before = taken.unwrap_or_else(|| self.log().stream.lock().oldest_segment());
        if self.slots.free_through(cut, before) {
            self.growth_refused = false;
            self.publish_counts();
        }
    }

    /// Keeps one segment ready ahead, and makes as many as are waited for.
    fn prepare_segments(&mut self) -> Result<(), DeviceError> {
        let (due_through, wanted) = {
            let stream = self.log().stream.lock();
            (stream.segments_due(), stream.segments_wanted() > 0)
        };
        if self.growth_refused && !wanted {
            return Ok(());
        }
        self.growth_refused = false;
        while self.slots.next_sequence() <= due_through {
            if !self.slots.prepare() && !self.grow()? {
                break;
            }
        }
        self.submit_headers();
        Ok(())
    }

    /// Makes the device one segment longer; `false` if there is no space.
    fn grow(&mut self) -> Result<bool, DeviceError> {
        let grown = match (self.slots.count() + 1).checked_mul(self.log().segment_bytes) {
            Some(bytes) => self.device.ensure_length(bytes),
            None => Err(DeviceError::Full { device: self.device.name() }),
        };
        match grown {
            Ok(()) => {
                if self.shared.options.flush {
                    self.filling.grown(self.slots.count());
                }
                self.slots.grown();
                self.full_said = false;
                Ok(true)
            }
            Err(error @ DeviceError::Full { .. }) => {
                self.refuse(&error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// There is no space: those who wait for it are told, and it is tried again when they come back.
    fn refuse(&mut self, error: &DeviceError) {
        self.growth_refused = true;
        if !std::mem::replace(&mut self.full_said, true) {
            tracing::warn!("log {}: no new segment: {error}", self.log);
        }
        let log = self.log();
        log.stream.lock().refuse();
        log.room.notify_all();
    }

    fn submit_headers(&mut self) {
        let first_prepared = self.first_prepared();
        let oldest = self.slots.oldest_or(first_prepared);
        let segment_bytes = self.log().segment_bytes;
        let cut = self.shared.cut.load(Ordering::Relaxed);
        for prepared in self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Due) {
            prepared.state = Preparation::Writing;
            let header = SegmentHeader {
                identity: self.shared.logs[self.log].identity,
                run: self.shared.run,
                segment_bytes,
                sequence: prepared.sequence,
                cut,
                oldest,
            };
            let mut block = AlignedBuffer::new(BLOCK_BYTES);
            header.encode(&mut block);
            let token = TOKEN_HEADER | prepared.sequence & TOKEN_NUMBER;
            self.lane.submit(Operation::write(token, prepared.slot * segment_bytes, Buffer::Aligned(block)));
        }
    }

    fn first_prepared(&mut self) -> u64 {
        let next = self.slots.next_sequence();
        self.slots.prepared_mut().next().map_or(next, |prepared| prepared.sequence)
    }

    fn header_written(&mut self, number: u64, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        let prepared = self.slots.prepared_mut().find(|prepared| prepared.sequence & TOKEN_NUMBER == number);
        let prepared = prepared.expect("a segment whose header is being written is not used yet");
        match result {
            Ok(()) => {
                prepared.state = Preparation::Written;
                self.headers_written = true;
                Ok(())
            }
            Err(error @ DeviceError::Full { .. }) => {
                prepared.state = Preparation::Due;
                self.refuse(&error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Headers that a flush has covered may be relied on.
    fn headers_durable(&mut self) {
        let flushed = self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Flushing);
        flushed.for_each(|prepared| prepared.state = Preparation::Durable);
        if let Some(segment) = self.slots.ready_through() {
            self.shared.becomes_known();
            let log = self.log();
            log.stream.lock().ready(segment);
            log.room.notify_all();
        }
        self.publish_counts();
    }

    fn publish_counts(&self) {
        let (live, prepared, free) = self.slots.counts();
        let counters = &self.log().counters;
        // Relaxed: numbers to look at.
        counters.segments_live.store(live, Ordering::Relaxed);
        counters.segments_ready.store(prepared, Ordering::Relaxed);
        counters.segments_free.store(free, Ordering::Relaxed);
    }

    // Frames.

    /// Hands over what there is. While the device is busy with this log, records gather to the next write, unless they fill one
    /// already: what is written now would only wait for the next flush, and each write costs the processor as much as ten
    /// transactions.
    fn submit_frames(&mut self) -> bool {
        let mut any = false;
        while self.writing < self.shared.options.writes_in_flight {
            let piece = match self.held.take() {
                Some(piece) => piece,
                None => {
                    let say = self.has_something_to_say();
                    let Some(piece) = self.log().stream.lock().take(self.is_busy(), say) else { break };
                    piece
                }
            };
            let slot = self.slots.frame_goes_to(piece.segment, piece.newest);
            if self.filling.is_in_the_way(slot, &extent(&piece)) {
                self.held = Some(piece);
                break;
            }
            self.submit_frame(piece, slot);
            any = true;
        }
        any
    }

    fn is_busy(&self) -> bool {
        self.writing > 0 || self.flush.is_some()
    }

    /// Whether a frame without records is worth its block: the run's beginning; a cut; the end; and after a quiet time what is
    /// durable.
    fn has_something_to_say(&mut self) -> bool {
        if !self.frames.is_empty() {
            return false;
        }
        let durable = self.shared.horizon.durable();
        let cut = self.shared.cut.load(Ordering::Relaxed) > self.cut_said;
        let settled = durable == self.durable_before || self.log().stream.lock().is_drained();
        self.said_nothing || cut || (settled && self.has_unsaid(durable))
    }

    /// The horizon has moved since the last frame, and not only for others: of several logs, the last one with records tells of
    /// all.
    fn has_unsaid(&self, durable: u64) -> bool {
        durable > self.proven_said && self.newest_written > self.proven_said
    }

    fn submit_frame(&mut self, piece: Piece, slot: u64) {
        self.filling.used(slot, extent(&piece));
        let segment_bytes = self.log().segment_bytes;
        let header = FrameHeader {
            payload_bytes: piece.payload_bytes() as u32,
            proven: self.shared.horizon.durable(),
            cut: self.shared.cut.load(Ordering::Relaxed),
            continued_bytes: piece.continued_bytes,
        };
        let place = FramePlace {
            identity: self.log().identity,
            run: self.shared.run.number,
            segment: piece.segment,
            block: (piece.offset / BLOCK_BYTES as u64) as u32,
        };
        (self.proven_said, self.cut_said, self.said_nothing) = (header.proven, header.cut, false);
        self.newest_written = self.newest_written.max(piece.newest);
        let (mut buffer, payload_bytes) = (piece.buffer, header.payload_bytes.into());
        buffer.set_length(whole_blocks(piece.used));
        header.seal(&place, &mut buffer);
        let counters = &self.log().counters;
        count(&counters.writes, 1);
        count(&counters.written_bytes, buffer.len() as u64);
        let number = self.first_frame + self.frames.len() as u64;
        let frame = Frame { segment: piece.segment, written: false, timestamps: piece.timestamps, payload_bytes };
        self.frames.push_back(frame);
        self.writing += 1;
        let offset = slot * segment_bytes + piece.offset;
        self.lane.submit(Operation::write(TOKEN_FRAME | number, offset, Buffer::Aligned(buffer)));
    }

    fn frame_written(&mut self, number: u64, buffer: Option<Buffer>) {
        self.writing -= 1;
        let frame = &mut self.frames[(number - self.first_frame) as usize];
        frame.written = true;
        let payload_bytes = frame.payload_bytes;
        let log = self.log();
        let mut stream = log.stream.lock();
        if let Some(Buffer::Aligned(buffer)) = buffer {
            stream.written(payload_bytes, buffer);
        }
        if stream.waiting > 0 {
            log.room.notify_all();
        }
    }

    /// Fills new slots ahead of their frames.
    fn submit_zeros(&mut self) -> bool {
        if self.log().stream.lock().is_drained() {
            return false;
        }
        let Some(zeros) = self.filling.next() else { return false };
        let bytes = (zeros.end - zeros.start) as usize;
        self.lane.submit(Operation::write(TOKEN_ZEROS, zeros.start, Buffer::Aligned(AlignedBuffer::new(bytes))));
        true
    }

    fn zeros_written(&mut self, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        match result {
            Ok(()) => self.filling.arrived(),
            Err(DeviceError::Full { .. }) => self.filling.refused(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    // Durability.

    /// The number after the last frame that is written, with all before it.
    fn written_before(&self) -> u64 {
        self.first_frame + self.frames.iter().take_while(|frame| frame.written).count() as u64
    }

    /// Flushes what has completed, if nothing is being flushed.
    fn submit_flush(&mut self) -> bool {
        let covers = self.written_before();
        let needed = covers > self.first_frame || self.headers_written;
        if !self.shared.options.flush || self.flush.is_some() || !needed {
            return false;
        }
        self.flush = Some(covers);
        self.headers_written = false;
        // Headers written while this flush is in flight wait for the next: they are told apart by their state.
        for prepared in self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Written) {
            prepared.state = Preparation::Flushing;
        }
        count(&self.log().counters.flushes, 1);
        self.lane.submit(Operation::flush(TOKEN_FLUSH));
        true
    }

    fn flushed(&mut self) {
        let before = self.flush.take().expect("a flush was in flight");
        self.headers_durable();
        self.frames_durable(before);
    }

    /// Without flushes, what is written is durable.
    fn settle_without_flush(&mut self) {
        if self.shared.options.flush {
            return;
        }
        if std::mem::take(&mut self.headers_written) {
            let written = self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Written);
            written.for_each(|prepared| prepared.state = Preparation::Flushing);
            self.headers_durable();
        }
        self.frames_durable(self.written_before());
    }

    /// Marks the timestamps of the frames before `before`, moves the horizon, and wakes those it reaches.
    fn frames_durable(&mut self, before: u64) {
        if before == self.first_frame {
            return;
        }
        let mut durable: Vec<Vec<u64>> = Vec::new();
        while self.first_frame < before {
            let frame = self.frames.pop_front().expect("frames up to here were submitted");
            self.first_frame += 1;
            self.shared.horizon.mark(&frame.timestamps);
            durable.push(frame.timestamps);
        }
        {
            let mut stream = self.log().stream.lock();
            durable.into_iter().for_each(|timestamps| stream.marked(timestamps));
        }
        self.shared.horizon.advance();
        self.shared.waiters.wake(self.shared.horizon.durable());
    }

    fn answer(&mut self, completion: Completion) -> Result<(), DeviceError> {
        let Completion { token, buffer, result } = completion;
        match token & !TOKEN_NUMBER {
            TOKEN_HEADER => self.header_written(token & TOKEN_NUMBER, result),
            TOKEN_FLUSH => result.map(|()| self.flushed()),
            TOKEN_ZEROS => self.zeros_written(result),
            _ => result.map(|()| self.frame_written(token, buffer)),
        }
    }
}

/// The bytes of its segment that a piece takes.
fn extent(piece: &Piece) -> Range<u64> {
    piece.offset..piece.offset + whole_blocks(piece.used) as u64
}
