//! What a connection goes through, and between which two ends.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite};

/// What bytes go through: a socket, or TLS over one.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

pub type Stream = Box<dyn Transport>;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    Network {
        peer: SocketAddr,
        own: SocketAddr,
    },
    /// Both on this machine, through the file system.
    Local,
}

impl Ends {
    pub fn is_loopback(self) -> bool {
        self.peer().is_none_or(|(address, _)| address.is_loopback())
    }

    /// The client's address; a local one has none.
    pub fn peer(self) -> Option<(IpAddr, u16)> {
        match self {
            Self::Network { peer, .. } => Some((peer.ip(), peer.port())),
            Self::Local => None,
        }
    }

    /// The server's address on this connection.
    pub fn own(self) -> Option<(IpAddr, u16)> {
        match self {
            Self::Network { own, .. } => Some((own.ip(), own.port())),
            Self::Local => None,
        }
    }
}
