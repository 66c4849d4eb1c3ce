//! Chunks that move while they are read: homes from device to device, copies to and from faster ones; and devices that
//! come and go.
//!
//! A chunk's bytes are copied to a free slot first. Then a home's new place is published, and a copy's only noted; from
//! there on it is read there. Its old slot is given out again when the older superblock does not name it any more and
//! no read that was looked up before is under way. So a crash at any instant leaves the home before or the one after,
//! whole; and a copy that is lost has never mattered.
//!
//! The home of a chunk that is still being written (a tail) stays where it is. Its copy is dropped before more is
//! written, as reads of that must not go there.

mod copies;
mod devices;

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{AlignedBuffer, Buffer, CHUNK_BYTES, ChunkId, Critical, DeviceId};
use saki_io::{Completion, DeviceError, Operation, Wait};
use saki_page::IoShare;

use crate::device::gates::Gates;
use crate::device::{DeviceLanes, Members};
use crate::durable::Durable;
use crate::error::VolumeError;
use crate::format::journal::Records;
use crate::map::Location;
use crate::volume::Volume;

/// Chunks on their way at once: enough to keep two devices busy, and 8 MiB of memory.
const IN_FLIGHT_MAX: u32 = 8;
/// Chunks whose new homes are published together.
const BATCH: usize = 64;
/// How long is waited before the governor is asked again.
const RETRY: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(1);

/// A chunk that is to lie elsewhere.
#[derive(Clone, Copy)]
struct Move {
    chunk: ChunkId,
    from: Location,
    to: Location,
    /// Pages that had been written, if more may follow.
    written: Option<u32>,
}

impl Volume {
    /// Gives chunks that are at home on a device another home. Returns how many have moved; those that were freed
    /// meanwhile have not.
    fn move_homes(&self, chunks: &[(ChunkId, Location)]) -> Result<usize, VolumeError> {
        let failed_flushes = self.members.failed_flushes();
        let mut moves: Vec<Move> = Vec::with_capacity(chunks.len());
        for (chunk, from) in chunks.iter().copied() {
            match self.allocate(|space| space.take_slot()) {
                Ok(to) => moves.push(Move { chunk, from, to, written: None }),
                Err(error) => {
                    self.give_back(&moves);
                    return Err(error);
                }
            }
        }
        if let Err(error) = copy_slots(&self.members, &moves) {
            self.give_back(&moves);
            return Err(error.into());
        }
        self.publish_moves(&mut self.durable.lock(), moves, failed_flushes)
    }

    fn give_back(&self, moves: &[Move]) {
        let mut space = self.space.lock();
        moves.iter().for_each(|it| space.give_back(it.to));
    }

    /// Publishes new homes, copied since so many flushes had failed.
    fn publish_moves(
        &self,
        durable: &mut Durable,
        mut moves: Vec<Move>,
        failed_flushes: u64,
    ) -> Result<usize, VolumeError> {
        let mut records = Records::default();
        {
            let mut space = self.space.lock();
            moves.retain(|it| {
                let is_there = space.chunks.get(&it.chunk).is_some_and(|state| state.location == it.from);
                if !is_there {
                    space.give_back(it.to);
                }
                is_there
            });
        }
        moves.sort_unstable_by_key(|it| it.chunk);
        moves.iter().for_each(|it| records.moved(it.chunk, it.to));
        let devices = durable.superblock.devices.clone();
        // Until memory looks for the chunks where they are.
        let _critical = Critical::enter("giving chunks new homes");
        let generation = match self.publish_records(durable, records, devices, failed_flushes) {
            Ok(generation) => generation,
            Err(error) => {
                // Nobody knows which home the device has: then both stay as they are.
                if !matches!(error, VolumeError::PublishOutcomeUnknown { .. }) {
                    self.give_back(&moves);
                }
                return Err(error);
            }
        };
        let mut space = self.space.lock();
        moves.iter().for_each(|it| space.move_home(it.chunk, it.to, generation));
        space.reclaim();
        Ok(moves.len())
    }

    /// Chunks at home on a device that may be moved, at most `limit`, in chunk order.
    fn homes_on(&self, number: DeviceId, limit: usize) -> Vec<(ChunkId, Location)> {
        let durable = self.durable.lock();
        let is_open = |chunk: &ChunkId| durable.superblock.tails.iter().any(|tail| tail.chunk == *chunk);
        let space = self.space.lock();
        let there = space.chunks.iter().filter(|(_, state)| state.location.device == number);
        let mut homes: Vec<_> = there.map(|(chunk, state)| (*chunk, state.location)).collect();
        homes.retain(|(chunk, _)| !is_open(chunk));
        homes.sort_unstable();
        homes.truncate(limit);
        homes
    }
}

/// Copies slots, several at a time, as far as the governors of the devices that are read let it. What is read beside
/// is not held back: this is one share of many.
///
/// # Errors
/// The first of a device; what has been written by then is of no account.
fn copy_slots(members: &Arc<Members>, moves: &[Move]) -> Result<(), DeviceError> {
    let mut copier = Copier {
        lanes: DeviceLanes::open(members, None)?,
        gates: Gates::new(members),
        share: IoShare::new(IN_FLIGHT_MAX),
        started: vec![None; moves.len()],
    };
    let (mut next, mut failure) = (0, None);
    let mut completions: Vec<Completion> = Vec::new();
    while next < moves.len() && failure.is_none() || copier.lanes.in_flight() > 0 {
        let mut is_refused = false;
        while next < moves.len() && failure.is_none() && copier.lanes.in_flight() < IN_FLIGHT_MAX as usize {
            if !copier.read(next, &moves[next]) {
                is_refused = true;
                break;
            }
            next += 1;
        }
        let wait = if is_refused { RETRY } else { PATIENCE };
        copier.lanes.poll(Wait::AtMost(wait), &mut completions);
        for completion in completions.drain(..) {
            if let Err(error) = copier.complete(completion, moves, members) {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

struct Copier {
    lanes: DeviceLanes,
    gates: Gates,
    share: Arc<IoShare>,
    /// By move, while it is read.
    started: Vec<Option<Instant>>,
}

impl Copier {
    /// Begins to read a chunk. `false`: the governor does not allow it now.
    fn read(&mut self, index: usize, it: &Move) -> bool {
        if self.gates.of(it.from.device).is_some_and(|gate| !gate.try_acquire(&self.share)) {
            return false;
        }
        self.started[index] = Some(Instant::now());
        let buffer = Buffer::Aligned(AlignedBuffer::new(CHUNK_BYTES));
        self.lanes.submit(it.from.device, Operation::read(index as u64, it.from.offset(), buffer));
        true
    }

    /// What has been read is written; what has been written is there.
    fn complete(&mut self, completion: Completion, moves: &[Move], members: &Members) -> Result<(), DeviceError> {
        let it = &moves[completion.token as usize];
        let Some(started) = self.started[completion.token as usize].take() else { return completion.result };
        if let Some(gate) = self.gates.of(it.from.device) {
            gate.release(&self.share, started.elapsed(), CHUNK_BYTES as u64);
        }
        completion.result?;
        let buffer = completion.buffer.expect("a lane returns the buffer it was given");
        members.written(it.to.device, CHUNK_BYTES as u64);
        self.lanes.submit(it.to.device, Operation::write(completion.token, it.to.offset(), buffer));
        Ok(())
    }
}
