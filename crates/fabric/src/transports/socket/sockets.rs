//! What transports over sockets have in common: a listener, and waiting.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use saki_io::Waker;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::wire::SocketWire;
use crate::error::FabricError;
use crate::system::Poller;
use crate::transport::{LISTENER, WAKER, Wire};

const BACKLOG: i32 = 128;
/// Enough for the reads that are under way at once.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Sockets of one port.
pub struct Sockets {
    poller: Poller,
    listener: Option<Socket>,
}

impl Sockets {
    pub fn new() -> Result<Self, FabricError> {
        let poller = Poller::new(WAKER).map_err(|error| FabricError::system("a poller is opened", &error))?;
        Ok(Self { poller, listener: None })
    }

    /// Takes calls; gives the address that the system has chosen.
    pub fn listen(&mut self, address: &SockAddr, name: &str) -> Result<SockAddr, FabricError> {
        let system = |error: io::Error| FabricError::system(format!("listening at {name}"), &error);
        let socket = new_socket(address).map_err(system)?;
        if address.as_socket().is_some() {
            socket.set_reuse_address(true).map_err(system)?;
        }
        socket.bind(address).and_then(|()| socket.listen(BACKLOG)).map_err(system)?;
        self.poller.add(socket.as_fd(), LISTENER, false).map_err(system)?;
        let bound = socket.local_addr().map_err(system)?;
        self.listener = Some(socket);
        Ok(bound)
    }

    /// Begins to connect.
    pub fn connect(&mut self, address: &SockAddr, name: &str) -> Result<Box<dyn Wire>, FabricError> {
        let unreachable = |error: io::Error| FabricError::Unreachable { peer: name.into(), reason: error.to_string() };
        let socket = new_socket(address).map_err(unreachable)?;
        let connected = match socket.connect(address) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => false,
            Err(error) => return Err(unreachable(error)),
        };
        Ok(Box::new(SocketWire::new(socket, connected)))
    }

    pub fn accept(&mut self) -> Option<Box<dyn Wire>> {
        let (socket, _) = self.listener.as_ref()?.accept().ok()?;
        socket.set_nonblocking(true).ok()?;
        let is_tcp = socket.local_addr().is_ok_and(|address| address.as_socket().is_some());
        if is_tcp {
            tune(&socket).ok()?;
        }
        Some(Box::new(SocketWire::new(socket, true)))
    }

    pub fn watch(&mut self, wire: &dyn Wire, name: u64) -> Result<(), FabricError> {
        let Some(socket) = wire.descriptor() else { return Ok(()) };
        // With room to write: that is how a connection shows that it is made.
        let added = self.poller.add(socket, name, true);
        added.map_err(|error| FabricError::system("a socket is watched", &error))
    }

    pub fn watch_writes(&mut self, wire: &dyn Wire, name: u64, writable: bool) -> Result<(), FabricError> {
        let Some(socket) = wire.descriptor() else { return Ok(()) };
        let changed = self.poller.change(socket, name, writable);
        changed.map_err(|error| FabricError::system("a socket is watched", &error))
    }

    pub fn wait(&mut self, time: Duration, ready: &mut Vec<u64>) {
        self.poller.wait(time, ready);
    }

    pub fn waker(&self) -> Arc<dyn Waker> {
        self.poller.waker()
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.poller.descriptor()
    }
}

fn new_socket(address: &SockAddr) -> io::Result<Socket> {
    let is_tcp = address.as_socket().is_some();
    let domain = address.as_socket().map_or(Domain::UNIX, Domain::for_address);
    let socket = Socket::new(domain, Type::STREAM, is_tcp.then_some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if is_tcp {
        tune(&socket)?;
    }
    Ok(socket)
}

fn tune(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    // The system may give less.
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)
}
