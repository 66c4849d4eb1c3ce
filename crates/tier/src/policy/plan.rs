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

    /// A copy that goes for what a statement is about to read is made again when a plan asks for it: losing it costs no
    /// more than that, however hot it is. What saves a statement no more than both copies take has to be hotter.
    fn replaces(&self, wanted: &Chunk, copied: &Chunk) -> bool {
        let pays = copied.coming == 0.0 && wanted.coming > wanted.copying + copied.copying.min(self.keeps(copied));
        pays || worth(wanted) > self.keeps(copied)
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DeviceId;

    use super::*;

    fn chunk(heat: f64, coming: f64) -> Chunk {
        let mut chunk = Chunk::at(DeviceId(0), None);
        (chunk.earned.heat, chunk.coming, chunk.copying) = (heat, coming, 1.0);
        chunk
    }

    #[test]
    fn losing_a_copy_costs_no_more_than_making_it_again() {
        let hot = chunk(50.0, 0.0);
        assert!(Planned.replaces(&chunk(0.0, 2.1), &hot), "it saves more than both copies take to make");
        assert!(!Planned.replaces(&chunk(0.0, 1.9), &hot));
        assert!(!Planned.replaces(&chunk(50.0, 1.9), &hot), "both are as hot, and would take turns");
        assert!(Planned.replaces(&chunk(0.0, 1.5), &chunk(0.1, 0.0)), "what nobody reads is not made again");
        assert!(!Planned.replaces(&chunk(60.0, 0.0), &hot), "60 is not that much more than 50");
        assert!(Planned.replaces(&chunk(80.0, 0.0), &hot));
        assert!(!Planned.replaces(&chunk(0.0, 99.0), &chunk(0.0, 0.1)), "a statement has yet to read it");
    }
}
