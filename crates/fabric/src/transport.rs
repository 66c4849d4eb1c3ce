//! What a transport is to the rest: a source of connections, and for each connection a wire of bytes and perhaps a
//! direct way beside it.
//!
//! Every connection has a wire, on which both sides find out who they are. If the transport reaches the peer's memory
//! itself, a [`Direct`] way is attached then: messages go through its rings, and regions are read without the peer.
//! The wire stays for what is rare: opening regions, signs of life, wakes, farewells.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, Buffer};
use saki_io::Waker;

use crate::error::FabricError;
use crate::system::Piece;

/// What [`Transport::wait`] names when it was woken; wires have names below.
pub const WAKER: u64 = u64::MAX;
/// What it names when there is somebody to accept.
pub const LISTENER: u64 = u64::MAX - 1;

/// A stream of bytes to a peer; never blocks, and says [`io::ErrorKind::WouldBlock`] instead.
pub trait Wire: Send {
    /// Takes some of the bytes; `descriptor` goes beside the first.
    fn write(&mut self, pieces: &[Piece<'_>], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize>;
    /// Gives bytes into `first`, and what it has no room for into `rest`; 0 is the end.
    fn read(&mut self, first: &mut [u8], rest: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize>;
    /// What to wait on; `None` if the transport knows by itself.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Which connection it is, to a transport that knows by itself.
    fn connection(&self) -> u64 {
        0
    }
}

/// What became of a read that was asked for.
#[derive(Debug)]
pub enum Asked {
    /// The bytes are in the buffer.
    Done,
    /// [`Direct::reap`] will tell. Until then, or until the direct way is dropped, the buffer's memory is the device's.
    Pending,
    /// As many are under way as can be.
    Full,
}

/// How a region is reached, as its owner told.
pub struct Grant<'g> {
    pub handle: u32,
    pub region_bytes: u64,
    pub bytes: &'g [u8],
    pub descriptor: Option<OwnedFd>,
}

/// Rings of messages, and one-sided reads.
pub trait Direct: Send {
    /// Puts a message into the peer's ring; `false` if there is no room yet.
    fn send(&mut self, message: &[u8]) -> Result<bool, FabricError>;
    /// The next message of ours.
    fn receive(&mut self) -> Result<Option<Vec<u8>>, FabricError>;
    /// Makes a region that the peer lends readable.
    fn open(&mut self, grant: Grant<'_>) -> Result<(), FabricError>;
    /// Forgets a region.
    fn forget(&mut self, handle: u32);
    /// Reads from an opened region; the range lies within it. The caller keeps the buffer where it is and does not
    /// touch it while the read is pending.
    fn read(&mut self, handle: u32, offset: u64, slot: u32, buffer: &mut Buffer) -> Result<Asked, FabricError>;
    /// Appends the slots of pending reads that ended well. An error ends the connection.
    fn reap(&mut self, done: &mut Vec<u32>) -> Result<(), FabricError>;
    /// Announces that this side is about to sleep, so that the peer knocks. `false`: there is something to do first.
    fn before_sleep(&mut self) -> bool;
    /// Whether the peer sleeps and has to be knocked at for what was sent; says so once.
    fn peer_sleeps(&mut self) -> bool;
    /// What the peer needs to read an arena of ours: bytes, and perhaps the arena's own file. `None` if it cannot.
    fn grant(&mut self, handle: u32, arena: &Arc<Arena>) -> Option<(Vec<u8>, bool)>;
    /// An arena granted by this handle is no longer lent.
    fn revoke(&mut self, handle: u32);
}

/// One side of an attachment, before it has heard of the other.
pub trait Attachment: Send {
    /// What the peer needs to attach its side.
    fn offer(&self) -> (Vec<u8>, Option<BorrowedFd<'_>>);
    /// Completes this side with what the peer told.
    fn complete(self: Box<Self>, peer: &str, told: &[u8]) -> Result<Box<dyn Direct>, FabricError>;
}

/// A way to other nodes, used by one port.
pub trait Transport: Send {
    fn name(&self) -> &'static str;
    /// Its number in the handshake.
    fn number(&self) -> u8;
    /// Accepts connections at `address`; gives the address that peers use.
    fn listen(&mut self, address: &str) -> Result<String, FabricError>;
    /// Begins to connect. Whether it succeeds shows in the wire's first write or read.
    fn connect(&mut self, address: &str) -> Result<Box<dyn Wire>, FabricError>;
    /// A connection that a peer has begun.
    fn accept(&mut self) -> Option<Box<dyn Wire>>;
    /// Makes the called side's half of a direct way beside the wire; `None` if the transport has none.
    fn attach(
        &mut self,
        wire: &dyn Wire,
        arena: Option<&Arc<Arena>>,
    ) -> Result<Option<Box<dyn Attachment>>, FabricError>;
    /// Makes the caller's half for what the called side offers; gives what the called side needs to know.
    fn attach_to(
        &mut self,
        peer: &str,
        offer: &[u8],
        descriptor: Option<OwnedFd>,
        arena: Option<&Arc<Arena>>,
    ) -> Result<(Vec<u8>, Box<dyn Direct>), FabricError>;
    /// Tells of a wire from now on by `name`, of room to write as well: a connection shows by it that it is made.
    fn watch(&mut self, wire: &dyn Wire, name: u64) -> Result<(), FabricError>;
    /// Tells of room to write as well, or no longer does.
    fn watch_writes(&mut self, wire: &dyn Wire, name: u64, writable: bool) -> Result<(), FabricError>;
    /// Appends the names of wires with something to do; waits for the first, for a wake or a connection to accept.
    fn wait(&mut self, time: Duration, ready: &mut Vec<u64>);
    /// Longest sleep while direct ways are attached, if they cannot always wake a sleeper.
    fn sleep_most(&self) -> Duration;
    fn waker(&self) -> Arc<dyn Waker>;
    /// Becomes readable when something is to be done, for whoever waits for other things as well.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
