//! Holding a generation readable.

use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::GenerationNumber;

use crate::space::Space;

/// A published generation. While it is held, every page reachable from its root stays
/// where it is, whatever is published meanwhile.
pub struct HeldGeneration {
    generation: GenerationNumber,
    root: Vec<u8>,
    space: Arc<Mutex<Space>>,
}

impl HeldGeneration {
    pub(crate) fn new(generation: GenerationNumber, root: Vec<u8>, space: &Arc<Mutex<Space>>) -> Arc<Self> {
        Arc::new(Self { generation, root, space: Arc::clone(space) })
    }

    pub fn generation(&self) -> GenerationNumber {
        self.generation
    }

    /// The opaque root published with this generation.
    pub fn root(&self) -> &[u8] {
        &self.root
    }
}

impl Drop for HeldGeneration {
    fn drop(&mut self) {
        self.space.lock().generation_released(self.generation);
    }
}

impl std::fmt::Debug for HeldGeneration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HeldGeneration(generation {}, root of {} bytes)", self.generation.0, self.root.len())
    }
}
