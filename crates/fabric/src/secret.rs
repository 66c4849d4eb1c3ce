//! The cluster's key, and secrets as a parameter, so that a simulation draws them from its seed.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use saki_base::Random;

use crate::error::FabricError;

/// Fewest bytes of a cluster key. It must be random: a peer that is not known yet sees a proof made with it, and
/// could try guesses at leisure.
pub const CLUSTER_KEY_BYTES_MIN: usize = 32;

/// The secret that all nodes of a cluster share; whoever has it is a node.
#[derive(Clone)]
pub struct ClusterKey {
    bytes: Arc<[u8]>,
}

impl ClusterKey {
    /// A key of at least [`CLUSTER_KEY_BYTES_MIN`] random bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, FabricError> {
        if bytes.len() < CLUSTER_KEY_BYTES_MIN {
            let reason = format!("{} bytes; at least {CLUSTER_KEY_BYTES_MIN} random ones are needed", bytes.len());
            return Err(FabricError::System { what: "the cluster key is too short".into(), reason });
        }
        Ok(Self { bytes: bytes.into() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(…)")
    }
}

/// Where secrets come from: challenges, keys of regions.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

/// The machine's source of secrets.
pub struct SystemEntropy {
    source: SystemRandom,
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self { source: SystemRandom::new() }
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // The kernel refuses random bytes only before it has gathered any, and `getrandom` waits for that.
        self.source.fill(bytes).expect("the kernel gives random bytes");
    }
}

/// Secrets of a seed, for simulations: anybody can guess them.
pub struct SeededEntropy {
    random: Mutex<Random>,
}

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        Self { random: Mutex::new(Random::new(seed)) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.random.lock().fill(bytes);
    }
}
