//! What a node's ports have in common, and what they take as parameters: key, clock, times.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, Clock, SystemClock};

use crate::region::Regions;
use crate::secret::{ClusterKey, Entropy, SystemEntropy};

/// What a port is opened with. Ports of one node share `regions`, `key`, `clock` and `entropy`.
#[derive(Clone)]
pub struct PortOptions {
    /// This node's number in its cluster; told to peers.
    pub node: u64,
    /// What this node runs; told to peers, and in errors when versions differ.
    pub build: String,
    pub key: ClusterKey,
    /// What this node lends.
    pub regions: Arc<Regions>,
    /// Where reads go whose buffers are its frames: registered with devices that want that. Others cost a copy there.
    pub arena: Option<Arc<Arena>>,
    /// How long anything may take: an operation, a connection with its handshake, a peer's silence.
    pub deadline: Duration,
    /// A sign of life is sent when nothing else was for so long.
    pub heartbeat: Duration,
    /// Links at once; more peers are turned away.
    pub links_most: usize,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// The version of the protocol that is spoken: another than [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION) only in
    /// tests of refusal.
    pub version: u16,
}

impl PortOptions {
    /// The usual times, and the machine's clock and secrets.
    pub fn new(node: u64, key: ClusterKey) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::default());
        Self {
            node,
            build: env!("CARGO_PKG_VERSION").into(),
            key,
            regions: Regions::new(Arc::clone(&entropy)),
            arena: None,
            deadline: Duration::from_secs(5),
            heartbeat: Duration::from_secs(1),
            links_most: 1024,
            clock: Arc::new(SystemClock::default()),
            entropy,
            version: crate::wire::PROTOCOL_VERSION,
        }
    }
}
