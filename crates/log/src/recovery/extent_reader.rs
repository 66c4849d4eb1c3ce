//! The bytes of one extent after the other, read in large pieces with several in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Completion, Device, DeviceError, Lane, Operation, Wait};

use crate::format::BLOCK_BYTES;

const PIECE_BYTES: u64 = 1 << 20;
const PIECES_IN_FLIGHT: usize = 4;

/// A window onto an extent's bytes that only moves forward.
pub struct ExtentReader {
    lane: Box<dyn Lane>,
    extent_bytes: u64,
    device_bytes: u64,
    /// Bytes of this extent: fewer if the device ends before it does.
    end: u64,
    /// Where the extent begins on the device.
    start: u64,
    /// What is read, from `at` on; the rest is consumed.
    window: Vec<u8>,
    consumed: usize,
    /// Byte in the extent that the window's unconsumed part begins with.
    at: u64,
    /// Bytes of the extent asked for.
    asked: u64,
    /// Completed pieces that wait for one before them, by where they begin on the device.
    arrived: BTreeMap<u64, Buffer>,
    /// Reads of an earlier extent are recognised by a smaller number in their token.
    number: u32,
    spare: Vec<AlignedBuffer>,
    pub bytes_read: u64,
}

impl ExtentReader {
    pub fn new(device: &Arc<dyn Device>, device_bytes: u64, extent_bytes: u64) -> Result<Self, DeviceError> {
        Ok(Self {
            lane: device.open_lane(None)?,
            extent_bytes,
            device_bytes,
            end: extent_bytes,
            start: 0,
            window: Vec::new(),
            consumed: 0,
            at: extent_bytes,
            asked: extent_bytes,
            arrived: BTreeMap::new(),
            number: 0,
            spare: Vec::new(),
            bytes_read: 0,
        })
    }

    /// Goes to the first frame of the extent in `slot`.
    pub fn open(&mut self, slot: u64) {
        self.start = slot * self.extent_bytes;
        self.end = self.extent_bytes.min(self.device_bytes - self.start);
        self.window.clear();
        self.consumed = 0;
        self.at = BLOCK_BYTES as u64;
        self.asked = self.at;
        self.arrived.clear();
        self.number += 1;
    }

    /// Byte in the extent of the next unconsumed one.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The device ends before the extent does.
    pub fn is_cut_off(&self) -> bool {
        self.end < self.extent_bytes
    }

    /// Bytes from there to the extent's end.
    pub fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Reads the next `bytes` bytes, no more than are left.
    pub fn ensure(&mut self, bytes: usize) -> Result<(), DeviceError> {
        debug_assert!(bytes as u64 <= self.left());
        while self.window.len() - self.consumed < bytes {
            self.read_more()?;
        }
        Ok(())
    }

    /// What is read and not consumed: at least what was asked for.
    pub fn bytes(&self) -> &[u8] {
        &self.window[self.consumed..]
    }

    /// Steps over bytes that were read.
    pub fn consume(&mut self, bytes: usize) {
        self.consumed += bytes;
        self.at += bytes as u64;
        // So rarely that all of it is moved about once.
        if self.consumed >= PIECE_BYTES as usize && self.consumed * 2 >= self.window.len() {
            self.window.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    fn read_more(&mut self) -> Result<(), DeviceError> {
        while self.lane.in_flight() < PIECES_IN_FLIGHT && self.asked < self.end {
            let length = PIECE_BYTES.min(self.end - self.asked) as usize;
            let mut buffer = self.spare.pop().unwrap_or_else(|| AlignedBuffer::new(PIECE_BYTES as usize));
            buffer.set_length(length);
            let token = (u64::from(self.number) << 32) | (self.asked / BLOCK_BYTES as u64);
            self.lane.submit(Operation::read(token, self.start + self.asked, Buffer::Aligned(buffer)));
            self.asked += length as u64;
        }
        let mut completions = Vec::new();
        self.lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
        for completion in completions {
            self.arrive(completion)?;
        }
        // In order, as far as they follow the window.
        while let Some(entry) = self.arrived.first_entry() {
            let end = self.at + (self.window.len() - self.consumed) as u64;
            if *entry.key() != end {
                break;
            }
            let buffer = entry.remove();
            self.window.extend_from_slice(&buffer);
            self.bytes_read += buffer.len() as u64;
            if let Buffer::Aligned(buffer) = buffer {
                self.spare.push(buffer);
            }
        }
        Ok(())
    }

    fn arrive(&mut self, completion: Completion) -> Result<(), DeviceError> {
        let Completion { token, buffer, result } = completion;
        let buffer = buffer.expect("a read gives its buffer back");
        if token >> 32 == u64::from(self.number) {
            result?;
            self.arrived.insert((token & u64::from(u32::MAX)) * BLOCK_BYTES as u64, buffer);
        } else if let Buffer::Aligned(mut buffer) = buffer {
            buffer.set_length(buffer.capacity());
            self.spare.push(buffer);
        }
        Ok(())
    }
}
