//! A socket as a wire.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::Socket;

use crate::system::{self, Piece};
use crate::transport::Wire;

/// A connected socket, or one that is being connected: then writes say that they would block.
pub struct SocketWire {
    socket: Socket,
    connected: bool,
}

impl SocketWire {
    pub fn new(socket: Socket, connected: bool) -> Self {
        Self { socket, connected }
    }

    /// Whether a connection is made by now; an error if it cannot be.
    fn connected(&mut self) -> io::Result<()> {
        if !self.connected {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.socket.peer_addr().map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
            self.connected = true;
        }
        Ok(())
    }
}

impl Wire for SocketWire {
    fn write(&mut self, pieces: &[Piece<'_>], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        self.connected()?;
        system::send(self.socket.as_fd(), pieces, descriptor)
    }

    fn read(&mut self, first: &mut [u8], rest: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        self.connected()?;
        system::receive(self.socket.as_fd(), first, rest, descriptors)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
