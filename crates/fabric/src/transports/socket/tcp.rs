//! TCP: everywhere. Reads are served by the owner: by whichever thread polls its port.

use std::net::ToSocketAddrs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use saki_base::Arena;
use saki_io::Waker;
use socket2::SockAddr;

use super::sockets::Sockets;
use crate::error::FabricError;
use crate::transport::{Attachment, Direct, Transport, Wire};

/// Connections over TCP. Addresses are `host:port`; a host's name is resolved when it is called, which may block.
pub struct Tcp {
    sockets: Sockets,
}

impl Tcp {
    pub fn new() -> Result<Self, FabricError> {
        Ok(Self { sockets: Sockets::new()? })
    }
}

/// The first address that `host:port` stands for.
pub fn resolve(address: &str) -> Result<SockAddr, FabricError> {
    let unreachable = |reason: String| FabricError::Unreachable { peer: address.into(), reason };
    let mut found = address.to_socket_addrs().map_err(|error| unreachable(error.to_string()))?;
    found.next().map(SockAddr::from).ok_or_else(|| unreachable("the name stands for no address".into()))
}

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn number(&self) -> u8 {
        1
    }

    fn listen(&mut self, address: &str) -> Result<String, FabricError> {
        let bound = self.sockets.listen(&resolve(address)?, address)?;
        Ok(bound.as_socket().map_or_else(|| address.into(), |bound| bound.to_string()))
    }

    fn connect(&mut self, address: &str) -> Result<Box<dyn Wire>, FabricError> {
        self.sockets.connect(&resolve(address)?, address)
    }

    fn accept(&mut self) -> Option<Box<dyn Wire>> {
        self.sockets.accept()
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
        Err(FabricError::corrupt(peer, "a direct way over TCP"))
    }

    fn watch(&mut self, wire: &dyn Wire, name: u64) -> Result<(), FabricError> {
        self.sockets.watch(wire, name)
    }

    fn watch_writes(&mut self, wire: &dyn Wire, name: u64, writable: bool) -> Result<(), FabricError> {
        self.sockets.watch_writes(wire, name, writable)
    }

    fn wait(&mut self, time: Duration, ready: &mut Vec<u64>) {
        self.sockets.wait(time, ready);
    }

    fn sleep_most(&self) -> Duration {
        Duration::MAX
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.sockets.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.descriptor())
    }
}
