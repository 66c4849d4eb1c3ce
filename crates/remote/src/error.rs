//! What can go wrong when pages are served, or a store of another node is opened.

use std::fmt;
use std::time::Duration;

use saki_fabric::FabricError;
use saki_page::StoreError;

/// Pages of another node cannot be had, or pages cannot be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemoteError {
    /// Of the fabric below; names the peer or the address.
    Fabric(FabricError),
    /// The store that should be served opens no lane.
    Store(StoreError),
    /// There is no memory for frames.
    Memory { bytes: usize, reason: String },
    /// The owner did not say in time what it serves.
    Silent { owner: String, after: Duration, reason: String },
    /// The owner refuses, or serves what this node cannot read.
    Refused { owner: String, why: String },
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Memory { bytes, reason } => {
                write!(f, "no memory for {bytes} bytes of frames for other nodes: {reason}")
            }
            Self::Silent { owner, after, reason } => {
                write!(f, "{owner} did not say within {} ms what pages it serves: {reason}", after.as_millis())
            }
            Self::Refused { owner, why } => write!(f, "{owner} serves no pages to this node: {why}"),
        }
    }
}

impl std::error::Error for RemoteError {}
