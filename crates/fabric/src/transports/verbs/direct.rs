//! Rings that the peer's device writes, and regions that ours reads.

use std::collections::HashMap;
use std::sync::Arc;

use saki_base::bytes::ByteReader;
use saki_base::{Arena, Buffer};

use super::device::{Device, Pair, PairAddress, Registered};
use super::library::{ACCESS_LOCAL_WRITE, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE};
use crate::error::FabricError;
use crate::system::{Mapping, Ring, ring_bytes};
use crate::transport::{Asked, Attachment, Direct, Grant};
use crate::wire::MESSAGE_BYTES_MAX;

/// Bytes of each ring.
const RING_BYTES: usize = 1 << 20;
/// A ring for each way; the one we send in is the mirror of the peer's.
const MEMORY_BYTES: usize = 2 * ring_bytes(RING_BYTES);
/// Transfers kept free for messages and heads while reads are posted.
const ROOM_FOR_RINGS: usize = 16;
/// What a transfer was for, above the number of a read's slot.
const OF_RECORD: u64 = 1 << 32;
const OF_HEAD: u64 = 2 << 32;

/// What each side tells the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    pub pair: PairAddress,
    /// Of the memory with both rings.
    pub memory: (u64, u32),
}

impl Told {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.pair.gid.to_vec();
        for number in [self.pair.number, self.pair.sequence, self.pair.mtu, self.memory.1] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.memory.0.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let gid = *reader.take(16)?.first_chunk()?;
        let (number, sequence, mtu, key) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        let memory = (reader.u64()?, key);
        // Sizes of packets are told by numbers from 1 (256 bytes) to 5 (4 096).
        let sane = reader.rest().is_empty() && (1..=5).contains(&mtu);
        sane.then_some(Self { pair: PairAddress { gid, number, sequence, mtu }, memory })
    }
}

/// One side before it has heard of the other.
pub struct Half {
    pair: Pair,
    memory: Registered<Mapping>,
    arena: Option<Arc<Registered<Arc<Arena>>>>,
    device: Arc<Device>,
}

impl Half {
    pub fn new(
        device: &Arc<Device>,
        sequence: u32,
        arena: Option<Arc<Registered<Arc<Arena>>>>,
    ) -> Result<Self, String> {
        let mapping = Mapping::private(MEMORY_BYTES).map_err(|error| error.to_string())?;
        let start = mapping.pointer();
        // SAFETY: the mapping is kept, and its bytes are reached by copies and atomic operations only.
        let memory =
            unsafe { Registered::new(device, start, MEMORY_BYTES, ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE, mapping)? };
        Ok(Self { pair: Pair::new(device, sequence)?, memory, arena, device: Arc::clone(device) })
    }

    pub fn told(&self) -> Told {
        Told { pair: self.pair.address(), memory: self.memory.remote() }
    }

    pub fn connect(mut self, peer: &str, told: &[u8], calls: bool) -> Result<VerbsDirect, FabricError> {
        let wrong = || FabricError::corrupt(peer, "a queue pair without sense");
        let told = Told::decode(told).ok_or_else(wrong)?;
        let connected = self.pair.connect(&told.pair);
        connected.map_err(|reason| FabricError::System { what: format!("connecting with node {peer}"), reason })?;
        let ring =
            |index: usize| Ring::new(index * ring_bytes(RING_BYTES), RING_BYTES, index as u64 + 1, MESSAGE_BYTES_MAX);
        let (outgoing, incoming) = if calls { (0, 1) } else { (1, 0) };
        Ok(VerbsDirect {
            pair: self.pair,
            memory: self.memory,
            arena: self.arena,
            device: self.device,
            outgoing: ring(outgoing),
            incoming: ring(incoming),
            incoming_base: incoming * ring_bytes(RING_BYTES),
            told_head: 0,
            head_posted: false,
            peer_memory: told.memory,
            regions: HashMap::new(),
            granted: HashMap::new(),
            passing: HashMap::new(),
            completed: Vec::new(),
            peer: peer.into(),
        })
    }
}

impl Attachment for Half {
    fn offer(&self) -> (Vec<u8>, Option<std::os::fd::BorrowedFd<'_>>) {
        (self.told().encode(), None)
    }

    fn complete(self: Box<Self>, peer: &str, told: &[u8]) -> Result<Box<dyn Direct>, FabricError> {
        Ok(Box::new(self.connect(peer, told, false)?))
    }
}

/// Both sides have told each other.
pub struct VerbsDirect {
    // First, so that nothing is transferred any more when the memory goes.
    pair: Pair,
    memory: Registered<Mapping>,
    arena: Option<Arc<Registered<Arc<Arena>>>>,
    /// Buffers that are no frames of the arena, registered for one read.
    passing: HashMap<u32, Registered<()>>,
    granted: HashMap<u32, Registered<Arc<Arena>>>,
    device: Arc<Device>,
    outgoing: Ring,
    incoming: Ring,
    incoming_base: usize,
    /// The head that the peer was told of last.
    told_head: u64,
    head_posted: bool,
    peer_memory: (u64, u32),
    regions: HashMap<u32, (u64, u32)>,
    completed: Vec<u64>,
    peer: String,
}

impl VerbsDirect {
    fn lost(&self, reason: String) -> FabricError {
        FabricError::disconnected(&self.peer, reason)
    }

    fn remote(&self, at: usize) -> (u64, u32) {
        (self.peer_memory.0.wrapping_add(at as u64), self.peer_memory.1)
    }

    /// Tells the sender how far its ring is read: once an eighth of it has been, or when there is nothing more.
    fn tell_head(&mut self, idle: bool) -> Result<(), FabricError> {
        let head = self.incoming.position();
        let enough = if idle { 1 } else { RING_BYTES as u64 / 8 };
        if self.head_posted || head - self.told_head < enough || self.pair.room() == 0 {
            return Ok(());
        }
        let (at, remote) = (self.incoming_base, self.remote(self.incoming_base));
        self.pair.write(OF_HEAD, &self.memory, at, 8, remote).map_err(|reason| self.lost(reason))?;
        (self.head_posted, self.told_head) = (true, head);
        Ok(())
    }
}

impl Direct for VerbsDirect {
    fn send(&mut self, message: &[u8]) -> Result<bool, FabricError> {
        if self.pair.room() < 2 {
            return Ok(false);
        }
        let pushed = self.outgoing.push(&self.memory.keep, message);
        let pushed = pushed.map_err(|what| FabricError::corrupt(&self.peer, what))?;
        let Some(ranges) = pushed else { return Ok(false) };
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            let (at, length) = (range.start, range.len());
            let remote = self.remote(at);
            let posted = self.pair.write(OF_RECORD, &self.memory, at, length, remote);
            posted.map_err(|reason| self.lost(reason))?;
        }
        Ok(true)
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, FabricError> {
        let message = self.incoming.pop(&self.memory.keep).map_err(|what| FabricError::corrupt(&self.peer, what))?;
        self.tell_head(message.is_none())?;
        Ok(message)
    }

    fn open(&mut self, grant: Grant<'_>) -> Result<(), FabricError> {
        let mut reader = ByteReader::new(grant.bytes);
        let (Some(address), Some(key), []) = (reader.u64(), reader.u32(), reader.rest()) else {
            return Err(FabricError::corrupt(&self.peer, "a region without its place"));
        };
        if address.checked_add(grant.region_bytes).is_none() {
            return Err(FabricError::corrupt(&self.peer, "a region beyond all memory"));
        }
        self.regions.insert(grant.handle, (address, key));
        Ok(())
    }

    fn forget(&mut self, handle: u32) {
        self.regions.remove(&handle);
    }

    fn read(&mut self, handle: u32, offset: u64, slot: u32, buffer: &mut Buffer) -> Result<Asked, FabricError> {
        if self.pair.room() <= ROOM_FOR_RINGS {
            return Ok(Asked::Full);
        }
        let (address, key) = *self.regions.get(&handle).expect("the link reads from open regions");
        let (remote, length) = ((address + offset, key), buffer.len());
        let (start, id) = (buffer.as_mut_ptr(), u64::from(slot));
        let frame = self.arena.as_ref().and_then(|arena| Some((arena, arena.place_of(start, length)?)));
        let posted = if let Some((arena, at)) = frame {
            self.pair.read(id, arena, at, length, remote)
        } else {
            // SAFETY: the link keeps the buffer, untouched, until the read has ended or this is dropped.
            let passing = unsafe { Registered::new(&self.device, start, length, ACCESS_LOCAL_WRITE, ()) };
            passing.and_then(|passing| {
                self.pair.read(id, &passing, 0, length, remote)?;
                self.passing.insert(slot, passing);
                Ok(())
            })
        };
        posted.map_err(|reason| self.lost(reason))?;
        Ok(Asked::Pending)
    }

    fn reap(&mut self, done: &mut Vec<u32>) -> Result<(), FabricError> {
        let mut completed = std::mem::take(&mut self.completed);
        let outcome = self.pair.completed(&mut completed);
        for id in completed.drain(..) {
            match id {
                OF_RECORD => {}
                OF_HEAD => self.head_posted = false,
                slot => {
                    self.passing.remove(&(slot as u32));
                    done.push(slot as u32);
                }
            }
        }
        self.completed = completed;
        outcome.map_err(|reason| self.lost(reason))
    }

    fn before_sleep(&mut self) -> bool {
        // A device does not knock: sleeps are short instead.
        self.pair.is_idle() && self.incoming.before_sleep(&self.memory.keep)
    }

    fn peer_sleeps(&mut self) -> bool {
        false
    }

    fn grant(&mut self, handle: u32, arena: &Arc<Arena>) -> Option<(Vec<u8>, bool)> {
        let (start, bytes) = arena.region();
        // SAFETY: the arena is kept; peers only read it.
        let registered = unsafe { Registered::new(&self.device, start, bytes, ACCESS_REMOTE_READ, Arc::clone(arena)) };
        let registered = registered.inspect_err(|error| tracing::warn!("a region is not lent: {error}")).ok()?;
        let (address, key) = registered.remote();
        self.granted.insert(handle, registered);
        Some(([&address.to_le_bytes()[..], &key.to_le_bytes()].concat(), false))
    }

    fn revoke(&mut self, handle: u32) {
        self.granted.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        let pair = PairAddress { gid: [3; 16], number: 7, sequence: 9, mtu: 3 };
        let told = Told { pair, memory: (1 << 40, 77) };
        assert_eq!(Told::decode(&told.encode()), Some(told));
        assert_eq!(Told::decode(&told.encode()[..39]), None);
        let senseless = Told { pair: PairAddress { mtu: 6, ..pair }, ..told };
        assert_eq!(Told::decode(&senseless.encode()), None);
    }
}
