//! A log's own thread: takes what has gathered, writes it, flushes, moves the horizon.
//!
//! ```text
//!   Stream ──take──► write, write ──completed──► flush ──completed──► mark, advance, wake
//!                    (a few in flight)           (one in flight)
//! ```
//!
//! While the device is busy, records gather in the current piece; when a write ends, all of them go as the next one. So
//! groups are as large as the device is slow, and a lone transaction waits for nobody. A flush covers the writes that
//! had completed when it was submitted; frames become durable in their order, since a reader stops at the first one
//! that is not there.
//!
//! A write or a flush that fails is not the end: all that is not durable is written again once the device is quiet
//! (`healing`).
//!
//! The writer is a state machine, advanced by [`turn`](Writer::turn): a thread in production, a seed in simulation.

mod ailment;
mod extents;
mod healing;

mod filling;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saki_base::planted::{self, Fault};
use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Completion, Device, DeviceError, Lane, Operation, Wait};

use self::filling::Filling;
use crate::error::LogError;
use crate::format::frame::{FrameHeader, FramePlace};
use crate::format::{BLOCK_BYTES, whole_blocks};
use crate::shared::{Log, Shared, count};
use crate::slots::{Preparation, Slots};
use crate::stream::Piece;
use ailment::Ailment;

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
    /// What failed, until all that was not durable then is.
    ailment: Option<Ailment>,
    /// The horizon before the last wait: if it is the same after it, all is quiet.
    durable_before: u64,
    /// A first frame makes the incarnation known before anything depends on it.
    said_nothing: bool,
    completions: Vec<Completion>,
}

/// A frame that is not durable yet.
struct Frame {
    extent: u64,
    /// Of the device, in bytes.
    offset: u64,
    state: FrameState,
    /// The frame's bytes, except while they are being written: kept for as long as they may have to be written again.
    buffer: Option<AlignedBuffer>,
    timestamps: Vec<u64>,
    payload_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameState {
    /// To be written, or written again.
    Due,
    Writing,
    Written,
}

impl Writer {
    pub fn new(shared: Arc<Shared>, log: usize, device: Arc<dyn Device>, lane: Box<dyn Lane>, slots: Slots) -> Self {
        let durable_before = shared.horizon.durable();
        let cut_said = shared.cut.load(Ordering::Relaxed);
        let filling = Filling::new(shared.logs[log].extent_bytes);
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
            ailment: None,
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
        self.free_extents();
        let mut worked = self.may_submit() && self.submit()?;
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

    /// Hands to the device what there is; tells whether there was any.
    fn submit(&mut self) -> Result<bool, DeviceError> {
        self.prepare_extents()?;
        let mut any = self.submit_due_frames();
        if self.ailment.is_none() {
            any |= self.submit_frames();
            any |= self.submit_zeros();
        }
        any |= self.submit_flush();
        if self.lane.in_flight() == 0 {
            self.heals();
        }
        Ok(any)
    }

    /// The device has operations of this log to complete.
    #[cfg(all(test, not(saki_loom)))]
    pub fn is_in_flight(&self) -> bool {
        self.lane.in_flight() > 0
    }

    fn log(&self) -> &Log {
        &self.shared.logs[self.log]
    }

    /// How long this turn may wait. Decided under the lock that workers append under: either their records are seen
    /// here, or they see that this thread sleeps.
    fn wait(&mut self) -> Wait {
        if let Some(pause) = self.pause() {
            return pause;
        }
        let can_take = self.writing < self.shared.options.writes_in_flight && self.held.is_none();
        let busy = self.lane.in_flight() > 0;
        let log = &self.shared.logs[self.log];
        let mut stream = log.stream.lock();
        let wanted = stream.extents_wanted() > 0;
        let prepares = self.slots.next_sequence() <= stream.extents_due() && (wanted || !self.growth_refused);
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

    // Frames.

    /// Hands over what there is. While the device is busy with this log, records gather to the next write, unless they
    /// fill one already: what is written now would only wait for the next flush, and each write costs the processor as
    /// much as ten transactions.
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
            let slot = self.slots.frame_goes_to(piece.extent, piece.newest);
            if self.filling.is_in_the_way(slot, &bytes_of(&piece)) {
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

    /// Whether a frame without records is worth its block: the incarnation's beginning; a cut; the end; and after a
    /// quiet time what is durable.
    fn has_something_to_say(&mut self) -> bool {
        if !self.frames.is_empty() {
            return false;
        }
        let durable = self.shared.horizon.durable();
        let cut = self.shared.cut.load(Ordering::Relaxed) > self.cut_said;
        let settled = durable == self.durable_before || self.log().stream.lock().is_drained();
        self.said_nothing || cut || (settled && self.has_unsaid(durable))
    }

    /// The horizon has moved since the last frame, and not only for others: of several logs, the last one with records
    /// tells of all.
    fn has_unsaid(&self, durable: u64) -> bool {
        durable > self.proven_said && self.newest_written > self.proven_said
    }

    fn submit_frame(&mut self, piece: Piece, slot: u64) {
        self.filling.used(slot, bytes_of(&piece));
        let extent_bytes = self.log().extent_bytes;
        // The cut first: it follows the horizon, which may move between the two, and what is cut is durable.
        let cut = self.shared.cut.load(Ordering::Relaxed);
        let ahead = if planted::is(Fault::HeaderAhead) { piece.newest } else { 0 };
        let header = FrameHeader {
            payload_bytes: piece.payload_bytes() as u32,
            proven: self.shared.horizon.durable().max(cut).max(ahead),
            cut,
            continued_bytes: piece.continued_bytes,
        };
        assert!(header.continued_bytes <= header.payload_bytes, "{header:?} continues more than it has");
        assert!(header.proven >= self.proven_said, "the horizon went back to {}", header.proven);
        assert!(header.cut >= self.cut_said, "the cut went back to {}", header.cut);
        let place = FramePlace {
            identity: self.log().identity,
            incarnation: self.shared.incarnation.number,
            extent: piece.extent,
            block: (piece.offset / BLOCK_BYTES as u64) as u32,
        };
        (self.proven_said, self.cut_said, self.said_nothing) = (header.proven, header.cut, false);
        self.newest_written = self.newest_written.max(piece.newest);
        let (mut buffer, payload_bytes) = (piece.buffer, header.payload_bytes.into());
        buffer.set_length(whole_blocks(piece.used));
        header.seal(&place, &mut buffer);
        assert!(piece.offset + buffer.len() as u64 <= extent_bytes, "a frame would end beyond its extent");
        self.frames.push_back(Frame {
            extent: piece.extent,
            offset: slot * extent_bytes + piece.offset,
            state: FrameState::Due,
            buffer: Some(buffer),
            timestamps: piece.timestamps,
            payload_bytes,
        });
        self.write_frame(self.frames.len() - 1);
    }

    /// Submits frames that are to be written again, in their order.
    fn submit_due_frames(&mut self) -> bool {
        let mut any = false;
        while self.writing < self.shared.options.writes_in_flight
            && let Some(index) = self.frames.iter().position(|frame| frame.state == FrameState::Due)
        {
            self.write_frame(index);
            any = true;
        }
        any
    }

    fn write_frame(&mut self, index: usize) {
        let frame = &mut self.frames[index];
        let buffer = frame.buffer.take().expect("a frame that is due has its bytes");
        frame.state = FrameState::Writing;
        let counters = &self.shared.logs[self.log].counters;
        count(&counters.writes, 1);
        count(&counters.written_bytes, buffer.len() as u64);
        self.writing += 1;
        let token = TOKEN_FRAME | (self.first_frame + index as u64);
        self.lane.submit(Operation::write(token, frame.offset, Buffer::Aligned(buffer)));
    }

    fn frame_written(
        &mut self,
        number: u64,
        buffer: Option<Buffer>,
        result: Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        assert!(self.writing > 0, "frame {number} was written, and none was on its way");
        self.writing -= 1;
        let frame = &mut self.frames[(number - self.first_frame) as usize];
        assert_eq!(frame.state, FrameState::Writing, "frame {number} was written twice");
        let Some(Buffer::Aligned(buffer)) = buffer else { unreachable!("a lane returns the buffer it was given") };
        frame.buffer = Some(buffer);
        match result {
            Ok(()) => {
                frame.state = FrameState::Written;
                Ok(())
            }
            Err(error) => {
                frame.state = FrameState::Due;
                self.ails(error)
            }
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

    /// Without its zeros a slot is slower and no less sound: whatever is wrong, frames will find out for themselves.
    fn zeros_written(&mut self, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => self.filling.arrived(),
            Err(_) => self.filling.refused(),
        }
    }

    // Durability.

    /// The number after the last frame that is written, with all before it.
    fn written_before(&self) -> u64 {
        self.first_frame + self.frames.iter().take_while(|frame| frame.state == FrameState::Written).count() as u64
    }

    /// Flushes what has completed, if nothing is being flushed.
    fn submit_flush(&mut self) -> bool {
        let covers = self.written_before();
        // What is being written again is flushed when all of it is written.
        let is_whole = self.ailment.is_none() || covers == self.first_frame + self.frames.len() as u64;
        let needed = is_whole && (covers > self.first_frame || self.headers_written);
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

    fn flushed(&mut self, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        let before = self.flush.take().expect("a flush was in flight");
        if let Err(error) = result {
            return self.flush_failed(error);
        }
        self.headers_durable();
        self.frames_durable(before);
        self.heals();
        Ok(())
    }

    /// Without flushes, what is written is durable.
    fn settle_without_flush(&mut self) {
        if self.shared.options.flush {
            return;
        }
        let headers = std::mem::take(&mut self.headers_written);
        if headers {
            let written = self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Written);
            written.for_each(|prepared| prepared.state = Preparation::Flushing);
            self.headers_durable();
        }
        let before = self.written_before();
        if headers || before > self.first_frame {
            self.frames_durable(before);
            self.heals();
        }
    }

    /// Marks the timestamps of the frames before `before`, moves the horizon, and wakes those it reaches.
    fn frames_durable(&mut self, before: u64) {
        assert!(before >= self.first_frame, "frame {before} was durable before");
        assert!(before <= self.written_before(), "frame {before} is durable, and not written");
        if before == self.first_frame {
            return;
        }
        let durable: Vec<Frame> = self.frames.drain(..(before - self.first_frame) as usize).collect();
        self.first_frame = before;
        let last = durable.last().map_or(0, |frame| frame.extent);
        self.log().durable_extent.store(last, Ordering::Release);
        durable.iter().for_each(|frame| self.shared.horizon.mark(&frame.timestamps));
        let log = self.log();
        {
            let mut stream = log.stream.lock();
            for Frame { buffer, timestamps, payload_bytes, .. } in durable {
                stream.settled(payload_bytes, buffer.expect("a frame that is written has its bytes"));
                stream.marked(timestamps);
            }
            if stream.waiting > 0 {
                log.room.notify_all();
            }
        }
        self.shared.horizon.advance();
        self.shared.waiters.wake(self.shared.horizon.durable());
    }

    fn answer(&mut self, completion: Completion) -> Result<(), DeviceError> {
        let Completion { token, buffer, result } = completion;
        match token & !TOKEN_NUMBER {
            TOKEN_HEADER => self.header_written(token & TOKEN_NUMBER, result),
            TOKEN_FLUSH => self.flushed(result),
            TOKEN_ZEROS => {
                self.zeros_written(result);
                Ok(())
            }
            _ => self.frame_written(token, buffer, result),
        }
    }
}

/// The bytes of its extent that a piece takes.
fn bytes_of(piece: &Piece) -> Range<u64> {
    piece.offset..piece.offset + whole_blocks(piece.used) as u64
}
