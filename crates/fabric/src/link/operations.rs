//! Sends and reads: from their submission to the wire or the direct way, and what the peer answers.

use std::collections::VecDeque;

use saki_base::Buffer;

use super::core::{Link, Reading, Region, Scene, Sending};
use crate::error::FabricError;
use crate::region::RegionKey;
use crate::transport::{Asked, Grant};
use crate::wire::{Failure, Head, Kind, MESSAGE_BYTES_MAX, Open, Opened, READ_BYTES_MAX, Read};

/// Messages wait in memory of ours while so many bytes are queued on the wire.
const WIRE_BYTES_MOST: usize = 1 << 20;
/// More messages than this may not wait.
const SENDS_BYTES_MOST: usize = 16 << 20;
/// Reads that the peer has been asked for at once over a wire: their number, and their bytes.
const READS_MOST: usize = 256;
const READS_BYTES_MOST: usize = 8 << 20;
/// Regions of one peer that are open at once.
const REGIONS_MOST: usize = 1024;
/// Of a place in the list that is free. No region has the number 0.
const NOBODY: RegionKey = RegionKey { number: 0, secret: 0 };

impl Link {
    pub fn send(&mut self, token: u64, message: Vec<u8>, scene: &mut Scene<'_>) {
        let (peer, bytes) = (&self.peer, message.len());
        let error = if bytes > MESSAGE_BYTES_MAX {
            let (bytes, most) = (bytes as u64, MESSAGE_BYTES_MAX as u64);
            Some(FabricError::TooLarge { peer: peer.clone(), bytes, most })
        } else if self.sends_bytes + bytes > SENDS_BYTES_MOST {
            Some(FabricError::Busy { peer: peer.clone() })
        } else {
            None
        };
        if let Some(error) = error {
            return self.complete(token, None, Err(error), scene);
        }
        self.sends_bytes += bytes;
        let deadline = scene.now + scene.options.deadline;
        self.sends.push_back(Sending { token, message, deadline });
    }

    pub fn read(&mut self, token: u64, key: &RegionKey, offset: u64, buffer: Buffer, scene: &mut Scene<'_>) {
        let bytes = buffer.len();
        if bytes == 0 || bytes > READ_BYTES_MAX {
            let (peer, bytes, most) = (self.peer.clone(), bytes as u64, READ_BYTES_MAX as u64);
            let error = FabricError::TooLarge { peer, bytes, most };
            return self.complete(token, Some(buffer), Err(error), scene);
        }
        let deadline = scene.now + scene.options.deadline;
        self.reads.push_back(Reading { token, key: *key, offset, buffer, deadline });
    }

    /// Sets on their way what can be.
    pub fn advance(&mut self, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        if !self.is_up() {
            return Ok(());
        }
        self.advance_sends(scene)?;
        self.advance_reads(scene)
    }

    fn advance_sends(&mut self, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let mut pushed = false;
        while let Some(sending) = self.sends.front() {
            match (&mut self.direct, &mut self.stream) {
                (Some(direct), _) => {
                    if !direct.send(&sending.message)? {
                        break;
                    }
                    pushed = true;
                }
                (None, Some(stream)) => {
                    if stream.queued_bytes() > WIRE_BYTES_MOST {
                        break;
                    }
                    stream.put(Kind::Message, 0, &sending.message);
                }
                (None, None) => break,
            }
            let sending = self.sends.pop_front().expect("it is in front");
            self.sends_bytes -= sending.message.len();
            self.complete(sending.token, None, Ok(()), scene);
        }
        if pushed && self.direct.as_mut().is_some_and(|direct| direct.peer_sleeps()) {
            self.put(Kind::Knock, 0, &[]);
        }
        Ok(())
    }

    fn advance_reads(&mut self, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        while let Some(reading) = self.reads.front() {
            let (key, offset, length) = (reading.key, reading.offset, reading.buffer.len());
            let Some(region) = self.regions.iter().find(|region| region.key == key) else {
                if !self.open(key) {
                    let reading = self.reads.pop_front().expect("it is in front");
                    let error = FabricError::Busy { peer: self.peer.clone() };
                    self.complete(reading.token, Some(reading.buffer), Err(error), scene);
                    continue;
                }
                break;
            };
            let Some((handle, region_bytes)) = region.opened else { break };
            if offset.checked_add(length as u64).is_none_or(|end| end > region_bytes) {
                let (peer, length) = (self.peer.clone(), length as u64);
                let reading = self.reads.pop_front().expect("it is in front");
                let error = FabricError::OutOfRegion { peer, offset, length, region_bytes };
                self.complete(reading.token, Some(reading.buffer), Err(error), scene);
                continue;
            }
            if !self.start_read(handle, scene)? {
                break;
            }
        }
        Ok(())
    }

    /// Asks to open a region; `false` if too many are open.
    fn open(&mut self, key: RegionKey) -> bool {
        let region = Region { key, opened: None };
        let slot = match self.regions.iter().position(|region| region.key == NOBODY) {
            Some(slot) => {
                self.regions[slot] = region;
                slot
            }
            None if self.regions.len() < REGIONS_MOST => {
                self.regions.push(region);
                self.regions.len() - 1
            }
            None => return false,
        };
        self.put(Kind::Open, slot as u32, &Open { key }.encode());
        true
    }

    /// Starts the first of the reads that wait; `false` if it has to wait still.
    fn start_read(&mut self, handle: u32, scene: &mut Scene<'_>) -> Result<bool, FabricError> {
        let Some(reading) = self.reads.pop_front() else { return Ok(false) };
        let (offset, length) = (reading.offset, reading.buffer.len());
        let full = self.under_way.slots.len() >= READS_MOST || self.under_way.bytes + length > READS_BYTES_MOST;
        if self.direct.is_none() && full {
            self.reads.push_front(reading);
            return Ok(false);
        }
        let slot = self.under_way.slots.insert(reading);
        self.under_way.bytes += length;
        let Some(direct) = &mut self.direct else {
            self.put(Kind::Read, slot, &Read { handle, length: length as u32, offset }.encode());
            return Ok(true);
        };
        let reading = self.under_way.slots.get(slot).expect("it was just put there");
        match direct.read(handle, offset, slot, &mut reading.buffer)? {
            Asked::Done => self.read_ended(slot, Ok(()), scene)?,
            Asked::Pending => {}
            Asked::Full => {
                self.under_way.bytes -= length;
                let reading = self.under_way.slots.remove(slot).expect("it was just put there");
                self.reads.push_front(reading);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A read has its bytes, or will not get them.
    pub fn read_ended(
        &mut self,
        slot: u32,
        result: Result<(), FabricError>,
        scene: &mut Scene<'_>,
    ) -> Result<(), FabricError> {
        let Some(reading) = self.under_way.slots.remove(slot) else {
            return Err(FabricError::corrupt(&self.peer, "the end of a read that was not asked for"));
        };
        self.under_way.bytes -= reading.buffer.len();
        self.complete(reading.token, Some(reading.buffer), result, scene);
        Ok(())
    }

    /// The peer has opened a region.
    pub fn opened(&mut self, head: Head, body: &[u8], scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let wrong = |what: &str| FabricError::corrupt(&self.peer, what);
        let opened = Opened::decode(body).ok_or_else(|| wrong("an opened region without sense"))?;
        let region = self.regions.get_mut(head.slot as usize).filter(|region| region.opened.is_none());
        let region = region.ok_or_else(|| wrong("a region that was not asked for"))?;
        if opened.region_bytes > i64::MAX as u64 {
            return Err(wrong("a region longer than can be"));
        }
        region.opened = Some((opened.handle, opened.region_bytes));
        if let (Some(direct), Some(stream)) = (&mut self.direct, &mut self.stream) {
            let Opened { handle, region_bytes, grant: bytes } = opened;
            direct.open(Grant { handle, region_bytes, bytes, descriptor: stream.descriptor() })?;
        }
        self.advance(scene)
    }

    /// The peer refuses to read.
    pub fn not_read(&mut self, slot: u32, failure: Failure, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let Some(reading) = self.under_way.slots.get(slot).filter(|_| self.direct.is_none()) else {
            return Err(FabricError::corrupt(&self.peer, "a refusal of what was not asked for"));
        };
        let (offset, length) = (reading.offset, reading.buffer.len() as u64);
        let error = self.error_of(failure, offset, length);
        self.read_ended(slot, Err(error), scene)
    }

    /// The peer refuses to open a region: who waits for it is told.
    pub fn not_opened(&mut self, slot: u32, failure: Failure, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let waits = |region: &&mut Region| region.opened.is_none();
        let Some(region) = self.regions.get_mut(slot as usize).filter(waits) else {
            return Err(FabricError::corrupt(&self.peer, "a refusal of what was not asked for"));
        };
        let key = region.key;
        self.forget(slot as usize);
        let reads = std::mem::take(&mut self.reads).into_iter();
        let (those, others): (VecDeque<_>, VecDeque<_>) = reads.partition(|reading| reading.key == key);
        self.reads = others;
        for reading in those {
            let error = self.error_of(failure, reading.offset, reading.buffer.len() as u64);
            self.complete(reading.token, Some(reading.buffer), Err(error), scene);
        }
        self.advance(scene)
    }

    /// A region of the peer's was taken back.
    pub fn taken_back(&mut self, handle: u32) {
        let of_handle = |region: &Region| region.opened.is_some_and(|(found, _)| found == handle);
        if let Some(index) = self.regions.iter().position(of_handle) {
            self.forget(index);
        }
        if let Some(direct) = &mut self.direct {
            direct.forget(handle);
        }
    }

    /// Slots of openings are places in the list: the place stays, for the next.
    fn forget(&mut self, index: usize) {
        self.regions[index] = Region { key: NOBODY, opened: Some((u32::MAX, 0)) };
    }

    fn error_of(&self, failure: Failure, offset: u64, length: u64) -> FabricError {
        let peer = self.peer.clone();
        match failure {
            Failure::UnknownRegion => FabricError::UnknownRegion { peer },
            Failure::OutOfRegion => FabricError::OutOfRegion { peer, offset, length, region_bytes: 0 },
            Failure::Unreachable => {
                let what = format!("a region of node {peer} is read");
                FabricError::System { what, reason: "its arena was not made to be shared (Arena::shared)".into() }
            }
        }
    }
}
