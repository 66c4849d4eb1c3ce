//! What a copy of a chunk is worth.

mod heat;
mod kind;
mod lru;
mod plan;
mod traced;

use crate::book::Chunk;

use heat::Heat;
pub use kind::{Policy, PolicyKind};
use lru::Lru;
use plan::Planned;
use traced::Traced;

/// The policy of a kind.
pub(crate) fn policy_of(kind: PolicyKind) -> Box<dyn Policy> {
    match kind {
        PolicyKind::None => Box::new(Nothing),
        PolicyKind::Static => Box::new(Traced),
        PolicyKind::Lru => Box::new(Lru),
        PolicyKind::Heat => Box::new(Heat),
        PolicyKind::Plan => Box::new(Planned),
    }
}

/// Moves nothing.
struct Nothing;

impl Policy for Nothing {
    fn kind(&self) -> PolicyKind {
        PolicyKind::None
    }

    fn wants(&self, _: &Chunk) -> Option<f64> {
        None
    }

    fn keeps(&self, _: &Chunk) -> f64 {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_known_by_their_names() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.name().to_uppercase().parse(), Ok(kind));
            assert_eq!(policy_of(kind).kind(), kind);
        }
        let error = "fifo".parse::<PolicyKind>().expect_err("there is none");
        assert_eq!(error, "there is no tier policy \"fifo\"; there are none, static, lru, heat, plan");
    }
}
