//! By the seconds that copies would have saved of late.

use super::kind::{Policy, PolicyKind};
use crate::book::Chunk;

/// So many times as hot as the copy that goes for it must a chunk be: two that are about as hot do not take turns.
const MARGIN: f64 = 1.5;

pub struct Heat;

impl Policy for Heat {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Heat
    }

    /// A copy that takes longer to make than it has saved is not made.
    fn wants(&self, chunk: &Chunk) -> Option<f64> {
        (chunk.earned.heat > chunk.copying).then_some(chunk.earned.heat)
    }

    fn keeps(&self, chunk: &Chunk) -> f64 {
        chunk.earned.heat * MARGIN
    }
}
