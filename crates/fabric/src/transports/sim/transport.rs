//! A simulated node's transport.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::Arena;
use saki_io::Waker;

use super::direct::{SimAttachment, SimDirect};
use super::network::{End, Network, SimNetwork};
use crate::error::FabricError;
use crate::system::Piece;
use crate::transport::{Attachment, Direct, LISTENER, Transport, WAKER, Wire};

/// One node's ports on a [`SimNetwork`]. Addresses are names of nodes.
pub struct Sim {
    network: SimNetwork,
    node: String,
    listens: bool,
    /// Connections, by the names that the port gave them.
    wires: Vec<(u64, u64)>,
}

impl Sim {
    pub fn new(network: &SimNetwork, node: &str) -> Self {
        Self { network: network.clone(), node: node.into(), listens: false, wires: Vec::new() }
    }
}

struct SimWire {
    network: Arc<Mutex<Network>>,
    end: End,
}

impl Wire for SimWire {
    fn write(&mut self, pieces: &[Piece<'_>], _: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Owned(owned) => bytes.extend_from_slice(owned),
                Piece::Lent(lent, from) => {
                    let start = bytes.len();
                    bytes.resize(start + lent.len() - from, 0);
                    lent.copy_to(*from, &mut bytes[start..]);
                }
            }
        }
        match self.network.lock().write(self.end, &bytes) {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(count) => Ok(count),
            Err(reason) => Err(io::Error::new(io::ErrorKind::ConnectionReset, reason)),
        }
    }

    fn read(&mut self, first: &mut [u8], rest: &mut [u8], _: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut network = self.network.lock();
        let into = if first.is_empty() { rest } else { first };
        match network.read(self.end, into) {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(count) => Ok(count),
            Err(()) => Ok(0),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn connection(&self) -> u64 {
        self.end.connection
    }
}

impl Drop for SimWire {
    fn drop(&mut self) {
        self.network.lock().close(self.end);
    }
}

/// Nobody sleeps in a simulation.
struct Awake;

impl Waker for Awake {
    fn wake(&self) {}
}

impl Transport for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn number(&self) -> u8 {
        4
    }

    fn listen(&mut self, address: &str) -> Result<String, FabricError> {
        self.listens = true;
        self.network.state.lock().listen(address);
        Ok(address.into())
    }

    fn connect(&mut self, address: &str) -> Result<Box<dyn Wire>, FabricError> {
        let end = self.network.state.lock().connect(&self.node, address);
        let nobody = || FabricError::Unreachable { peer: address.into(), reason: "nobody listens there".into() };
        Ok(Box::new(SimWire { network: Arc::clone(&self.network.state), end: end.ok_or_else(nobody)? }))
    }

    fn accept(&mut self) -> Option<Box<dyn Wire>> {
        let end = self.network.state.lock().accept(&self.node).filter(|_| self.listens)?;
        Some(Box::new(SimWire { network: Arc::clone(&self.network.state), end }))
    }

    fn attach(&mut self, wire: &dyn Wire, _: Option<&Arc<Arena>>) -> Result<Option<Box<dyn Attachment>>, FabricError> {
        let network = Arc::clone(&self.network.state);
        if !network.lock().is_direct() {
            return Ok(None);
        }
        let end = End { connection: wire.connection(), is_caller: false };
        Ok(Some(Box::new(SimAttachment { network, end })))
    }

    fn attach_to(
        &mut self,
        peer: &str,
        offer: &[u8],
        _: Option<OwnedFd>,
        _: Option<&Arc<Arena>>,
    ) -> Result<(Vec<u8>, Box<dyn Direct>), FabricError> {
        let connection = saki_base::bytes::u64_at(offer, 0);
        let connection = connection.ok_or_else(|| FabricError::corrupt(peer, "an offer without sense"))?;
        let end = End { connection, is_caller: true };
        Ok((Vec::new(), Box::new(SimDirect::new(&self.network.state, end, peer))))
    }

    fn watch(&mut self, wire: &dyn Wire, name: u64) -> Result<(), FabricError> {
        self.wires.push((name, wire.connection()));
        Ok(())
    }

    fn watch_writes(&mut self, _: &dyn Wire, _: u64, _: bool) -> Result<(), FabricError> {
        Ok(())
    }

    /// All wires may have something; and a wait always ends, so that other nodes have their turn.
    fn wait(&mut self, time: Duration, ready: &mut Vec<u64>) {
        if !time.is_zero() {
            self.network.state.lock().pass(time);
            ready.push(WAKER);
        }
        ready.push(LISTENER);
        let network = self.network.state.lock();
        self.wires.retain(|(_, connection)| network.is_open(*connection));
        ready.extend(self.wires.iter().map(|(name, _)| name));
    }

    fn sleep_most(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::new(Awake)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if self.listens {
            self.network.state.lock().unlisten(&self.node);
        }
    }
}
