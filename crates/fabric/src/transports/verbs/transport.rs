//! RDMA as a transport: TCP for the wire, a queue pair for the rest.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use saki_base::Arena;
use saki_io::Waker;

use super::device::{Device, Registered};
use super::direct::Half;
use super::library::ACCESS_LOCAL_WRITE;
use crate::error::FabricError;
use crate::transport::{Attachment, Direct, Transport, Wire};
use crate::transports::socket::{Sockets, resolve};

/// A device does not wake a sleeper when it has written into its ring: sleeps are no longer than this.
const SLEEP_MOST: Duration = Duration::from_millis(1);

/// Connections over RDMA. Addresses are `host:port` of the TCP connection that both sides meet on; the device's own
/// addresses are exchanged there.
pub struct Verbs {
    sockets: Sockets,
    device: Arc<Device>,
    arena: Option<Arc<Registered<Arc<Arena>>>>,
}

impl Verbs {
    /// Over the device of this name, or the first there is. Fails where libibverbs or a device is missing.
    pub fn new(device: Option<&str>) -> Result<Self, FabricError> {
        let device = Device::open(device);
        let device = device.map_err(|reason| FabricError::System { what: "RDMA is not to be had".into(), reason })?;
        Ok(Self { sockets: Sockets::new()?, device, arena: None })
    }

    fn half(&mut self, arena: Option<&Arc<Arena>>) -> Result<Half, FabricError> {
        let failed = |reason| FabricError::System { what: "a queue pair is made".into(), reason };
        if let (Some(arena), None) = (arena, &self.arena) {
            let (start, bytes) = arena.region();
            // SAFETY: the arena is kept, and a frame in flight is the port's alone.
            let registered =
                unsafe { Registered::new(&self.device, start, bytes, ACCESS_LOCAL_WRITE, Arc::clone(arena)) };
            self.arena = Some(Arc::new(registered.map_err(failed)?));
        }
        // Any number that differs from connection to connection; it is no secret.
        let sequence = RandomState::new().build_hasher().finish() as u32;
        Half::new(&self.device, sequence, self.arena.clone()).map_err(failed)
    }
}

impl Transport for Verbs {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn number(&self) -> u8 {
        3
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

    fn attach(&mut self, _: &dyn Wire, arena: Option<&Arc<Arena>>) -> Result<Option<Box<dyn Attachment>>, FabricError> {
        Ok(Some(Box::new(self.half(arena)?)))
    }

    fn attach_to(
        &mut self,
        peer: &str,
        offer: &[u8],
        _: Option<OwnedFd>,
        arena: Option<&Arc<Arena>>,
    ) -> Result<(Vec<u8>, Box<dyn Direct>), FabricError> {
        let half = self.half(arena)?;
        let told = half.told().encode();
        Ok((told, Box::new(half.connect(peer, offer, true)?)))
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
        SLEEP_MOST
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.sockets.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.descriptor())
    }
}
