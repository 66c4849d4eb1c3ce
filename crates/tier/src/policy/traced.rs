//! A placement that is made once, by the reads of a trace: those up to when it was asked for.

use super::kind::{Policy, PolicyKind};
use crate::book::Chunk;

pub struct Traced;

impl Policy for Traced {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Static
    }

    fn wants(&self, chunk: &Chunk) -> Option<f64> {
        (chunk.earned.traced > 0.0).then_some(chunk.earned.traced)
    }

    fn keeps(&self, chunk: &Chunk) -> f64 {
        chunk.earned.traced
    }
}
