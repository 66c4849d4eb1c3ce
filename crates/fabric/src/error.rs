//! What can go wrong between two nodes, by what the caller may do about it.

use std::fmt;
use std::time::Duration;

/// The end of a connection or of an operation that did not succeed. Each names the peer as it was addressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricError {
    /// Nobody could be reached there, again and again until the operation's deadline.
    Unreachable { peer: String, reason: String },
    /// The peer did not do in time what it has to: answer, take messages, or give a sign of life.
    Timeout { peer: String, what: &'static str, after: Duration },
    /// The connection ended. What was in flight may have reached the peer or not.
    Disconnected { peer: String, reason: String },
    /// The peer speaks another version of the protocol.
    Version { peer: String, ours: u16, theirs: u16, build: String },
    /// The peer does not know the cluster's key, or says that we do not.
    Unauthenticated { peer: String },
    /// No region is lent by this key: it is wrong, the region was taken back, or its owner started again.
    UnknownRegion { peer: String },
    /// A read that does not lie within its region.
    OutOfRegion { peer: String, offset: u64, length: u64, region_bytes: u64 },
    /// A message longer than [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX), or a read of no bytes or of more than
    /// [`READ_BYTES_MAX`](crate::READ_BYTES_MAX).
    TooLarge { peer: String, bytes: u64, most: u64 },
    /// The peer sent what no node of this version sends; the connection was ended.
    Corrupt { peer: String, what: String },
    /// More is waiting to be sent on this link than may wait; nothing was sent.
    Busy { peer: String },
    /// The link was closed by this side.
    Closed { peer: String },
    /// The machine refused something: memory, descriptors, an address in use, no such device.
    System { what: String, reason: String },
}

impl FabricError {
    pub(crate) fn corrupt(peer: &str, what: impl Into<String>) -> Self {
        Self::Corrupt { peer: peer.into(), what: what.into() }
    }

    pub(crate) fn system(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::System { what: what.into(), reason: error.to_string() }
    }

    pub(crate) fn disconnected(peer: &str, reason: impl Into<String>) -> Self {
        Self::Disconnected { peer: peer.into(), reason: reason.into() }
    }

    /// Whether connecting again could help.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Version { .. } | Self::Unauthenticated { .. } | Self::Closed { .. })
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { peer, reason } => write!(f, "node {peer} cannot be reached: {reason}"),
            Self::Timeout { peer, what, after } => {
                write!(f, "node {peer} did not {what} within {} ms", after.as_millis())
            }
            Self::Disconnected { peer, reason } => write!(f, "the connection with node {peer} ended: {reason}"),
            Self::Version { peer, ours, theirs, build } => write!(
                f,
                "node {peer} (build {build}) speaks version {theirs} of the protocol between nodes, this one {ours}: \
                 run the same release on both"
            ),
            Self::Unauthenticated { peer } => {
                write!(f, "node {peer} and this one do not have the same cluster key: compare the key files")
            }
            Self::UnknownRegion { peer } => write!(
                f,
                "node {peer} lends no region by this key: it is wrong, was taken back, or is from before a restart"
            ),
            Self::OutOfRegion { peer, offset, length, region_bytes } => write!(
                f,
                "{length} bytes at {offset} do not lie within the region of {region_bytes} bytes that node {peer} lends"
            ),
            Self::TooLarge { peer, bytes, most } => {
                write!(f, "{bytes} bytes for or from node {peer} at once; from 1 to {most} are possible")
            }
            Self::Corrupt { peer, what } => write!(f, "node {peer} sent what cannot be right ({what})"),
            Self::Busy { peer } => write!(f, "too much is waiting to be sent to node {peer}: wait for completions"),
            Self::Closed { peer } => write!(f, "the link with node {peer} was closed"),
            Self::System { what, reason } => write!(f, "{what}: {reason}"),
        }
    }
}

impl std::error::Error for FabricError {}
