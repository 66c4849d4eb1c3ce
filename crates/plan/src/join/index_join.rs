//! Replaces hash joins by lookups where the seconds say so, and fuses lookups into pipelines.
//!
//! A hash join whose one side is a plain scan can look that side up instead, if its equalities
//! determine a prefix of the primary key or of an index. If the other side is a pipeline already,
//! the lookup becomes a further link of it; if not, a pipeline is fed from that side's stream.
//!
//! What is allowed depends on the kind. An inner join may apply any other condition afterwards.
//! Left, semi and anti joins must decide within the lookup whether there is a match, so all
//! equalities must be in the key and all conditions on the inner table must be tests of columns that the tree
//! looked up has; a second fetch from the primary tree only completes rows of inner and left joins.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use saki_exec::plan::JoinKind;

use crate::join::candidate::Candidate;
use crate::join::fuse::Fused;
use crate::join::lookup::Lookup;
use crate::node::Plan;
use saki_settings::IndexJoin;

/// The optimizer rule; belongs right after `join_selection`.
#[derive(Debug)]
pub struct IndexJoinRule;

impl PhysicalOptimizerRule for IndexJoinRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            let replaced = match node.downcast_ref::<HashJoinExec>() {
                Some(join) => replacement(join)?,
                None => None,
            };
            Ok(replaced.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &'static str {
        "index_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The best index join for a hash join, or `None` to keep it.
fn replacement(join: &HashJoinExec) -> Result<Option<Plan>> {
    if join.null_equality() == NullEquality::NullEqualsNull || join.null_aware {
        return Ok(None);
    }
    let candidates: &[(JoinSide, JoinKind)] = match join.join_type() {
        JoinType::Inner => &[(JoinSide::Right, JoinKind::Inner), (JoinSide::Left, JoinKind::Inner)],
        JoinType::Left => &[(JoinSide::Right, JoinKind::Left)],
        JoinType::Right => &[(JoinSide::Left, JoinKind::Left)],
        JoinType::LeftSemi => &[(JoinSide::Right, JoinKind::Semi)],
        JoinType::RightSemi => &[(JoinSide::Left, JoinKind::Semi)],
        JoinType::LeftAnti => &[(JoinSide::Right, JoinKind::Anti)],
        JoinType::RightAnti => &[(JoinSide::Left, JoinKind::Anti)],
        _ => &[],
    };
    let mut best: Option<(f64, Fused)> = None;
    for (inner_side, kind) in candidates {
        let Some(candidate) = Candidate::new(join, *inner_side, *kind)? else { continue };
        let Some(lookup) = Lookup::best(&candidate) else { continue };
        let setting = candidate.env.settings.index_join;
        let wins = match setting {
            IndexJoin::Never => false,
            IndexJoin::Always => true,
            IndexJoin::Auto => lookup.seconds < candidate.hash_seconds,
        };
        // What is saved against hashing, so that both sides compare on one scale.
        let score = lookup.seconds - candidate.hash_seconds;
        if wins && best.as_ref().is_none_or(|(known, _)| score < *known) {
            best = Fused::new(&candidate, &lookup).map(|fused| (score, fused)).or(best);
        }
    }
    best.map(|(_, fused)| fused.into_plan(join)).transpose()
}

#[cfg(test)]
mod tests;
