//! The writer's extents: freed once they are cut, made ready ahead of the frames.

use std::sync::atomic::Ordering;

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{DeviceError, Operation};

use super::{TOKEN_HEADER, TOKEN_NUMBER, Writer};
use crate::format::BLOCK_BYTES;
use crate::format::extent::ExtentHeader;
use crate::slots::Preparation;

impl Writer {
    /// Frees what has been cut.
    pub(super) fn free_extents(&mut self) {
        let cut = self.shared.cut.load(Ordering::Relaxed);
        if !self.slots.has_cut(cut) {
            return;
        }
        // A slot is not reused under a frame that is still being written, even one without records.
        let held = self.held.as_ref().map(|piece| piece.extent);
        let taken = self.frames.front().map(|frame| frame.extent).or(held);
        let before = taken.unwrap_or_else(|| self.log().stream.lock().oldest_extent());
        if self.slots.free_through(cut, before) {
            self.growth_refused = false;
            self.publish_counts();
        }
    }

    /// Keeps one extent ready ahead, and makes as many as are waited for.
    pub(super) fn prepare_extents(&mut self) -> Result<(), DeviceError> {
        let (due_through, wanted) = {
            let stream = self.log().stream.lock();
            (stream.extents_due(), stream.extents_wanted() > 0)
        };
        if self.growth_refused && !wanted {
            if self.ailment.is_some() {
                self.submit_headers();
            }
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

    /// Makes the device one extent longer; `false` if there is no space.
    fn grow(&mut self) -> Result<bool, DeviceError> {
        let grown = match (self.slots.count() + 1).checked_mul(self.log().extent_bytes) {
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
            Err(error) => self.ails(error).map(|()| false),
        }
    }

    /// There is no space: those who wait for it are told, and it is tried again when they come back.
    fn refuse(&mut self, error: &DeviceError) {
        self.growth_refused = true;
        if !std::mem::replace(&mut self.full_said, true) {
            tracing::warn!("log {}: no new extent: {error}", self.log);
        }
        let log = self.log();
        log.stream.lock().refuse();
        log.room.notify_all();
    }

    fn submit_headers(&mut self) {
        let first_prepared = self.first_prepared();
        let oldest = self.slots.oldest_or(first_prepared);
        let extent_bytes = self.log().extent_bytes;
        let cut = self.shared.cut.load(Ordering::Relaxed);
        for prepared in self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Due) {
            prepared.state = Preparation::Writing;
            let header = ExtentHeader {
                identity: self.shared.logs[self.log].identity,
                incarnation: self.shared.incarnation,
                extent_bytes,
                sequence: prepared.sequence,
                cut,
                oldest,
            };
            let mut block = AlignedBuffer::new(BLOCK_BYTES);
            header.encode(&mut block);
            let token = TOKEN_HEADER | prepared.sequence & TOKEN_NUMBER;
            self.lane.submit(Operation::write(token, prepared.slot * extent_bytes, Buffer::Aligned(block)));
        }
    }

    fn first_prepared(&mut self) -> u64 {
        let next = self.slots.next_sequence();
        self.slots.prepared_mut().next().map_or(next, |prepared| prepared.sequence)
    }

    pub(super) fn header_written(&mut self, number: u64, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        let prepared = self.slots.prepared_mut().find(|prepared| prepared.sequence & TOKEN_NUMBER == number);
        let prepared = prepared.expect("an extent whose header is being written is not used yet");
        match result {
            Ok(()) => {
                prepared.state = Preparation::Written;
                self.headers_written = true;
                Ok(())
            }
            Err(error) => {
                prepared.state = Preparation::Due;
                if matches!(error, DeviceError::Full { .. }) && self.ailment.is_none() {
                    self.refuse(&error);
                    return Ok(());
                }
                self.ails(error)
            }
        }
    }

    /// Headers that a flush has covered may be relied on.
    pub(super) fn headers_durable(&mut self) {
        let flushed = self.slots.prepared_mut().filter(|prepared| prepared.state == Preparation::Flushing);
        flushed.for_each(|prepared| prepared.state = Preparation::Durable);
        if let Some(extent) = self.slots.ready_through() {
            self.shared.becomes_known();
            let log = self.log();
            log.stream.lock().ready(extent);
            log.room.notify_all();
        }
        self.publish_counts();
    }

    fn publish_counts(&self) {
        let (live, prepared, free) = self.slots.counts();
        let counters = &self.log().counters;
        // Relaxed: numbers to look at.
        counters.extents_live.store(live, Ordering::Relaxed);
        counters.extents_ready.store(prepared, Ordering::Relaxed);
        counters.extents_free.store(free, Ordering::Relaxed);
    }
}
