//! What a hostile peer may send, for fuzzing: a link that hears any bytes, and a ring that holds any. Nothing here
//! panics, hangs, or takes memory without a bound.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Arena, Buffer, VirtualClock};
use saki_io::{Wait, Waker};

use crate::error::FabricError;
use crate::event::{Event, LinkId};
use crate::options::PortOptions;
use crate::port::Port;
use crate::region::{RegionKey, Regions};
use crate::secret::{ClusterKey, SeededEntropy};
use crate::system::{Mapping, Piece, Ring, ring_bytes};
use crate::transport::{Attachment, Direct, LISTENER, Transport, Wire};

/// Pieces in which bytes arrive.
const PIECE_BYTES: usize = 97;

/// A peer that says what is in a script, whatever it hears.
struct Script {
    bytes: VecDeque<u8>,
}

impl Wire for Script {
    fn write(&mut self, pieces: &[Piece<'_>], _: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let length = |piece: &Piece<'_>| match piece {
            Piece::Owned(bytes) => bytes.len(),
            Piece::Lent(lent, from) => lent.len() - from,
        };
        Ok(pieces.iter().map(length).sum())
    }

    fn read(&mut self, first: &mut [u8], rest: &mut [u8], _: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let into = if first.is_empty() { rest } else { first };
        let count = into.len().min(PIECE_BYTES).min(self.bytes.len());
        into.iter_mut().zip(self.bytes.drain(..count)).for_each(|(to, from)| *to = from);
        Ok(count)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Nobody;

impl Waker for Nobody {
    fn wake(&self) {}
}

/// One caller.
struct Scripted {
    caller: Option<Script>,
    watched: Vec<u64>,
}

impl Transport for Scripted {
    fn name(&self) -> &'static str {
        "script"
    }

    fn number(&self) -> u8 {
        1
    }

    fn listen(&mut self, address: &str) -> Result<String, FabricError> {
        Ok(address.into())
    }

    fn connect(&mut self, address: &str) -> Result<Box<dyn Wire>, FabricError> {
        Err(FabricError::Unreachable { peer: address.into(), reason: "nobody is there".into() })
    }

    fn accept(&mut self) -> Option<Box<dyn Wire>> {
        Some(Box::new(self.caller.take()?))
    }

    fn attach(&mut self, _: &dyn Wire, _: Option<&Arc<Arena>>) -> Result<Option<Box<dyn Attachment>>, FabricError> {
        Ok(None)
    }

    fn attach_to(
        &mut self,
        peer: &str,
        _: &[u8],
        _: Option<OwnedFd>,
        _: Option<&Arc<Arena>>,
    ) -> Result<(Vec<u8>, Box<dyn Direct>), FabricError> {
        Err(FabricError::corrupt(peer, "there is no direct way"))
    }

    fn watch(&mut self, _: &dyn Wire, name: u64) -> Result<(), FabricError> {
        self.watched.push(name);
        Ok(())
    }

    fn watch_writes(&mut self, _: &dyn Wire, _: u64, _: bool) -> Result<(), FabricError> {
        Ok(())
    }

    fn wait(&mut self, _: Duration, ready: &mut Vec<u64>) {
        ready.push(LISTENER);
        ready.extend(&self.watched);
    }

    fn sleep_most(&self) -> Duration {
        Duration::MAX
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::new(Nobody)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn options() -> PortOptions {
    let key = ClusterKey::new(&[3; 32]).expect("the key is long enough");
    let mut options = PortOptions::new(1, key);
    options.entropy = Arc::new(SeededEntropy::new(1));
    options.clock = Arc::new(VirtualClock::default());
    options.regions = Regions::new(Arc::clone(&options.entropy));
    options
}

/// The key of the one region that [`hear`] lends and reads.
pub fn region_key() -> RegionKey {
    let (arena, _) = Arena::new(1, 4096).expect("memory for a page");
    options().regions.lend(&arena)
}

/// A caller says `bytes` and hangs up. If `known`, the link was up before, lends a page, and waits for another.
/// Returns the events; the link is down at their end, and a read of ours has ended.
pub fn hear(bytes: &[u8], known: bool) -> Vec<Event> {
    let options = options();
    let (arena, _frames) = Arena::new(1, 4096).expect("memory for a page");
    let key = options.regions.lend(&arena);
    let transport = Scripted { caller: Some(Script { bytes: bytes.to_vec().into() }), watched: Vec::new() };
    let mut port = Port::new(Box::new(transport), options);
    let mut events = Vec::new();
    port.poll(Wait::No, &mut events);
    if known {
        port.assume_up(LinkId(1));
        port.read(LinkId(1), 1, &key, 0, Buffer::Aligned(AlignedBuffer::new(512)));
    }
    for _ in 0..bytes.len() / PIECE_BYTES * 2 + 8 {
        port.poll(Wait::No, &mut events);
    }
    assert_eq!(port.in_flight(), 0, "a caller that has gone leaves nothing");
    assert!(matches!(events.last(), Some(Event::Down { again: false, .. })), "a caller that has gone is told");
    events
}

/// A ring with any bytes in it, read and then written to.
pub fn ring(bytes: &[u8]) {
    const SIZE: usize = 1024;
    let memory = Mapping::private(ring_bytes(SIZE)).expect("memory for a ring");
    let (mut sender, mut receiver) = (Ring::new(0, SIZE, 5, 200), Ring::new(0, SIZE, 5, 200));
    for number in 0..3_u8 {
        let _ = sender.push(&memory, &[number; 100]);
    }
    // Damage: places and what is there then.
    for edit in bytes.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (ring_bytes(SIZE) - 2);
        memory.write(at, &edit[2..4]);
    }
    for _ in 0..8 {
        match receiver.pop(&memory) {
            Ok(Some(message)) => assert!(message.len() <= 200, "a message longer than may be"),
            Ok(None) | Err(_) => break,
        }
    }
    for _ in 0..16 {
        if !matches!(sender.push(&memory, &[9; 150]), Ok(Some(_))) {
            break;
        }
    }
}
