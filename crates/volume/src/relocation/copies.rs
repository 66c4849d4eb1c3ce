//! Copies of chunks on faster devices: made, dropped, remembered over a clean restart.
//!
//! Nothing names a copy but memory. Whatever it turns out to be, it is compared with what the page's parent promises
//! when it is read, and the home is there.

use saki_base::bytes::{put_u16, put_u32, put_u64, put_u128, u16_at, u32_at, u64_at, u128_at};
use saki_base::{CHUNK_BYTES, ChunkId, DeviceId, checksum};

use super::{BATCH, Move, copy_slots};
use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::map::Location;
use crate::places::label::read_labels;
use crate::volume::Volume;

/// ```text
///    0  magic "SAKICOPY"  8       32  copies, each of 32 bytes:
///    8  version           4            0  chunk      8
///   12  copies, count     4            8  slot       8
///   16  database id      16           16  attached   8   generation that first had the device
///   …   checksum          8           24  device     2   zeros up to 32
/// ```
const MAGIC: &[u8; 8] = b"SAKICOPY";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const HINT_BYTES: usize = 32;

impl Volume {
    /// Has chunks read from a device that takes copies, from when their bytes are there. Returns how many are; those
    /// that have a copy, are being written or are gone are left out.
    ///
    /// # Errors
    /// `Full` if the device is; `Refused` if it takes no copies; of the devices. What was copied before stays.
    pub fn promote(&self, chunks: &[ChunkId], device: DeviceId) -> Result<usize, VolumeError> {
        let takes = |role: crate::Role| role.copies && !role.draining;
        if !self.members.get(device).is_some_and(|member| takes(member.entry.role) && member.device.is_ok()) {
            return Err(VolumeError::Refused { what: format!("{}: takes no copies", self.name_of(device)) });
        }
        let mut count = 0;
        for batch in chunks.chunks(BATCH) {
            let (moves, full) = self.begin_copies(batch, device);
            if let Err(error) = copy_slots(&self.members, &moves) {
                self.give_back(&moves);
                return Err(error.into());
            }
            count += self.end_copies(&moves);
            full.map_or(Ok(()), Err)?;
        }
        Ok(count)
    }

    /// Slots for copies of those chunks that may have one.
    fn begin_copies(&self, chunks: &[ChunkId], device: DeviceId) -> (Vec<Move>, Option<VolumeError>) {
        let durable = self.durable.lock();
        let mut space = self.space.lock();
        let mut moves = Vec::with_capacity(chunks.len());
        space.reclaim();
        for chunk in chunks.iter().copied() {
            let Some(state) = space.chunks.get(&chunk) else { continue };
            let (from, has_copy) = (state.location, state.copy.is_some());
            let written = space.written_into(chunk);
            let is_open = durable.superblock.tails.iter().any(|tail| tail.chunk == chunk);
            // An open chunk that is not with the others is being written.
            if is_open && written.is_none() || has_copy || from.device == device {
                continue;
            }
            match space.take_slot_on(device) {
                Ok(to) => moves.push(Move { chunk, from, to, written }),
                Err(error) => return (moves, Some(error)),
            }
        }
        (moves, None)
    }

    fn end_copies(&self, moves: &[Move]) -> usize {
        let mut space = self.space.lock();
        let mut count = 0;
        for it in moves {
            let state = space.chunks.get(&it.chunk);
            // A chunk that has moved meanwhile has the same bytes; one that is gone, or was copied twice, needs none.
            let is_wanted = state.is_some_and(|state| state.copy.is_none()) && space.takes_copies(it.to.device);
            let is_whole = it.written.is_none() || it.written == space.written_into(it.chunk);
            if is_wanted && is_whole {
                space.put_copy(it.chunk, it.to);
                count += 1;
            } else {
                space.give_back(it.to);
            }
        }
        count
    }

    /// Has chunks read from their homes again. Returns how many had a copy.
    pub fn evict(&self, chunks: &[ChunkId]) -> usize {
        let mut space = self.space.lock();
        let count = chunks.iter().filter(|chunk| space.drop_copy(**chunk)).count();
        space.reclaim();
        count
    }

    /// Whether a chunk has a copy.
    pub fn has_copy(&self, chunk: ChunkId) -> bool {
        self.space.lock().chunks.get(&chunk).is_some_and(|state| state.copy.is_some())
    }

    /// Chunks that have a copy, and where it lies, in chunk order.
    pub fn copies(&self) -> Vec<(ChunkId, Location)> {
        let mut copies: Vec<_> = self.space.lock().copies().collect();
        copies.sort_unstable();
        copies
    }

    pub(super) fn drop_copies_on(&self, device: DeviceId) {
        let on_device = self.space.lock().copied_to(device);
        self.evict(&on_device);
    }

    /// Which copies there are, for [`Self::adopt_copies`] when the volume is opened again. Makes them durable first.
    pub fn copy_hints(&self) -> Result<Vec<u8>, VolumeError> {
        let copies = self.copies();
        let mut devices: Vec<_> = copies.iter().map(|(_, location)| location.device).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let mut io = BlockingIo::open(&self.members.device(device)?)?;
            self.members.flush(|| io.flush())?;
        }
        let mut bytes = vec![0; HEADER_BYTES + copies.len() * HINT_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, copies.len() as u32);
        put_u128(&mut bytes, 16, self.database_id());
        for ((chunk, location), hint) in copies.iter().zip(bytes[HEADER_BYTES..].chunks_exact_mut(HINT_BYTES)) {
            let attached = self.members.get(location.device).map_or(0, |member| member.entry.attached.0);
            put_u64(hint, 0, chunk.0);
            put_u64(hint, 8, location.slot);
            put_u64(hint, 16, attached);
            put_u16(hint, 24, location.device.0);
        }
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    /// Takes up copies that were there when the volume was closed. Hints that do not fit are left out, and whether a
    /// copy is what it should be is found when it is read. Returns how many were taken up.
    pub fn adopt_copies(&self, hints: &[u8]) -> usize {
        let Some(hints) = self.decode_hints(hints) else { return 0 };
        let mut space = self.space.lock();
        let mut count = 0;
        for (chunk, location) in hints {
            let fits =
                |state: &crate::space::ChunkState| state.copy.is_none() && state.location.device != location.device;
            let is_fitting = space.chunks.get(&chunk).is_some_and(fits) && space.takes_copies(location.device);
            if is_fitting && space.claim_slot(location) {
                space.put_copy(chunk, location);
                count += 1;
            }
        }
        count
    }

    /// `None` if they are not whole, or another database's.
    fn decode_hints(&self, bytes: &[u8]) -> Option<Vec<(ChunkId, Location)>> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        let is_ours = body.get(..8)? == MAGIC
            && u32_at(body, 8)? == VERSION
            && u128_at(body, 16)? == self.database_id()
            && sum == checksum(body).to_le_bytes()
            && body.len() == HEADER_BYTES + u32_at(body, 12)? as usize * HINT_BYTES;
        if !is_ours {
            return None;
        }
        let hint = |hint: &[u8]| {
            let device = DeviceId(u16_at(hint, 24)?);
            let is_same = self.members.get(device)?.entry.attached.0 == u64_at(hint, 16)?;
            let location = Location { device, slot: u64_at(hint, 8)? };
            is_same.then_some((ChunkId(u64_at(hint, 0)?), location))
        };
        Some(body[HEADER_BYTES..].chunks_exact(HINT_BYTES).filter_map(hint).collect())
    }

    /// Compares every copy with its home, and every device's labels with the table. Calls `fault` with what differs.
    ///
    /// # Errors
    /// Of a device, by name.
    pub fn check_devices(&self, mut fault: impl FnMut(String)) -> Result<(), VolumeError> {
        for (chunk, copy) in self.copies() {
            let home = self.space.lock().chunks.get(&chunk).map(|state| state.location);
            let Some(home) = home else { continue };
            let read = |location: Location| {
                BlockingIo::open(&self.members.device(location.device)?)?.read(location.offset(), CHUNK_BYTES)
            };
            let differs = read(copy)?[..] != read(home)?[..];
            // If it has not moved or gone meanwhile.
            let is_same =
                self.space.lock().chunks.get(&chunk).map(|it| (it.location, it.copy)) == Some((home, Some(copy)));
            if differs && is_same {
                fault(format!("{}: the copy of {chunk} differs from its home", self.name_of(copy.device)));
            }
        }
        for member in self.members.all() {
            match &member.device {
                Err(reason) => fault(format!("{}: the device is missing: {reason}", member.entry.label)),
                Ok(device) => read_labels(device, &member.entry, self.database_id(), &mut fault)?,
            }
        }
        Ok(())
    }
}
