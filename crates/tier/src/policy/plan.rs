//! By what statements that run are about to read, as their plans say, and by what was read of late.

use super::kind::{Policy, PolicyKind};
use crate::book::Chunk;

/// So many times as much as the copy that goes for it must a chunk's save.
const MARGIN: f64 = 1.5;

pub struct Planned;

fn worth(chunk: &Chunk) -> f64 {
    chunk.coming + chunk.earned.heat
}

impl Policy for Planned {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Plan
    }

    /// A copy that takes longer to make than it saves is not made.
    fn wants(&self, chunk: &Chunk) -> Option<f64> {
        (worth(chunk) > chunk.copying).then_some(worth(chunk))
    }

    /// What a statement has yet to read stays until it has.
    fn keeps(&self, chunk: &Chunk) -> f64 {
        if chunk.coming > 0.0 { f64::INFINITY } else { chunk.earned.heat * MARGIN }
    }
}
