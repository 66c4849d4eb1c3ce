//! What a port tells its owner.

use saki_base::Buffer;

use crate::error::FabricError;

/// A link of a port: a peer that is called, or one that has called. Never used twice by one port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LinkId(pub(crate) u64);

/// Who is at the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// As it was addressed, or where it called from.
    pub address: String,
    /// Its number in the cluster.
    pub node: u64,
    /// Another one than before means that it has started again, and that what it lent before is gone.
    pub incarnation: u64,
    pub build: String,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Both sides have shown that they know the cluster's key.
    Up { link: LinkId, peer: Peer },
    /// A message came. Those of one link come in the order they were sent in, each once, unless it goes down.
    Message { link: LinkId, bytes: Vec<u8> },
    /// An operation ended: each does so exactly once.
    Completed(Completion),
    /// The link is down, and all of its operations have completed. If `again`, it is being connected again, and
    /// operations wait for that until their deadline; else the link is gone.
    Down { link: LinkId, error: FabricError, again: bool },
}

/// The end of a send or a read.
#[derive(Debug)]
pub struct Completion {
    pub link: LinkId,
    pub token: u64,
    /// The buffer of a read, whole, whether it succeeded or not; `None` of a send.
    pub buffer: Option<Buffer>,
    /// Of a read: `Ok` if the buffer is filled, which says nothing of whether the bytes are what they should be: that
    /// is for checksums. Of a send: `Ok` once the message is on its way; if the link goes down then, it may be lost.
    pub result: Result<(), Box<FabricError>>,
}
