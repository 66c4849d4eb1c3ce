//! Shared memory, between processes of one machine: truly one-sided. A Unix socket is the wire; rings and regions are
//! files in memory whose descriptors pass over it once the peer is known.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use saki_base::Arena;
use saki_io::Waker;
use socket2::SockAddr;

use super::direct::{MEMORY_BYTES, ShmDirect};
use super::sockets::Sockets;
use crate::error::FabricError;
use crate::system::{Mapping, file_in_memory};
use crate::transport::{Attachment, Direct, Transport, Wire};

/// Connections between processes of one machine. Addresses are paths of sockets.
pub struct Shm {
    sockets: Sockets,
    /// Removed with the port.
    path: Option<PathBuf>,
}

impl Shm {
    pub fn new() -> Result<Self, FabricError> {
        Ok(Self { sockets: Sockets::new()?, path: None })
    }
}

fn address_of(path: &str) -> Result<SockAddr, FabricError> {
    SockAddr::unix(path).map_err(|error| FabricError::Unreachable { peer: path.into(), reason: error.to_string() })
}

impl Transport for Shm {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn number(&self) -> u8 {
        2
    }

    fn listen(&mut self, address: &str) -> Result<String, FabricError> {
        let at = address_of(address)?;
        // What a process that was killed has left; one that lives still answers.
        if std::os::unix::net::UnixStream::connect(address).is_err() {
            let _ = std::fs::remove_file(address);
        }
        self.sockets.listen(&at, address)?;
        self.path = Some(address.into());
        Ok(address.into())
    }

    fn connect(&mut self, address: &str) -> Result<Box<dyn Wire>, FabricError> {
        self.sockets.connect(&address_of(address)?, address)
    }

    fn accept(&mut self) -> Option<Box<dyn Wire>> {
        self.sockets.accept()
    }

    fn attach(&mut self, _: &dyn Wire, _: Option<&Arc<Arena>>) -> Result<Option<Box<dyn Attachment>>, FabricError> {
        let system = |error| FabricError::system("memory for rings is mapped", &error);
        let file = file_in_memory(MEMORY_BYTES).map_err(system)?;
        let memory = Mapping::new(file.as_fd(), MEMORY_BYTES, true).map_err(system)?;
        Ok(Some(Box::new(ShmAttachment { file, memory })))
    }

    fn attach_to(
        &mut self,
        peer: &str,
        _: &[u8],
        descriptor: Option<OwnedFd>,
        _: Option<&Arc<Arena>>,
    ) -> Result<(Vec<u8>, Box<dyn Direct>), FabricError> {
        let file = descriptor.ok_or_else(|| FabricError::corrupt(peer, "no memory where there has to be some"))?;
        let memory = Mapping::new(file.as_fd(), MEMORY_BYTES, true);
        let memory = memory.map_err(|error| FabricError::corrupt(peer, format!("memory for rings: {error}")))?;
        Ok((Vec::new(), Box::new(ShmDirect::new(memory, peer, true))))
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

impl Drop for Shm {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct ShmAttachment {
    file: OwnedFd,
    memory: Mapping,
}

impl Attachment for ShmAttachment {
    fn offer(&self) -> (Vec<u8>, Option<BorrowedFd<'_>>) {
        (Vec::new(), Some(self.file.as_fd()))
    }

    fn complete(self: Box<Self>, peer: &str, _: &[u8]) -> Result<Box<dyn Direct>, FabricError> {
        Ok(Box::new(ShmDirect::new(self.memory, peer, false)))
    }
}
