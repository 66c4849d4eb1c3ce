//! Where a join's keys can filter rows before the join sees them.
//!
//! From the probe side down, a column is followed to the scan that it comes from unchanged. Nothing is lost on the way
//! if every row of the node above whose column has a value that is not among the keys can be left out of the input
//! below: true of filters and projections, of groups by that column, and of the sides of a join whose rows it does not
//! make up.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, Result};

use super::plan::JoinPlan;
use crate::native::offer::offered;
use crate::node::{DynamicKeys, column_index};

/// Gives the scans of a join's probe side its keys, and the join the filters to publish.
pub fn offer_keys(join: &mut JoinPlan) -> Result<()> {
    if !join.filters_probe() {
        return Ok(());
    }
    for position in 0..join.on.len() {
        let (build, probe) = &join.on[position];
        let Some(column) = column_index(probe) else { continue };
        let keys = Arc::new(DynamicKeys::new(format!("{probe} = {build}")));
        if let Some(right) = offered(&join.right, column, &keys)? {
            join.right = right;
            join.keys[position] = Some(keys);
        }
    }
    Ok(())
}

/// The join with the keys of one above given to the sides that column `column` of its output comes from.
pub fn offered_to_sides(join: &JoinPlan, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<JoinPlan>> {
    let (mut left, mut right) = (join.source(column, JoinSide::Left), join.source(column, JoinSide::Right));
    // What is equal in all joined rows can be filtered on either side.
    if matches!(join.kind, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi) && !join.nulls_equal {
        let pairs = || join.on.iter().filter_map(|(build, probe)| Some((column_index(build)?, column_index(probe)?)));
        right = right.or_else(|| pairs().find(|(build, _)| Some(*build) == left).map(|(_, probe)| probe));
        left = left.or_else(|| pairs().find(|(_, probe)| Some(*probe) == right).map(|(build, _)| build));
    }
    // Rows of a side that another row would take the place of, with NULLs, must stay.
    if matches!(join.kind, JoinType::Right | JoinType::Full) {
        left = None;
    }
    if matches!(join.kind, JoinType::Left | JoinType::Full) {
        right = None;
    }
    let new_left = left.map(|column| offered(&join.left, column, keys)).transpose()?.flatten();
    let new_right = right.map(|column| offered(&join.right, column, keys)).transpose()?.flatten();
    if new_left.is_none() && new_right.is_none() {
        return Ok(None);
    }
    let mut plan = join.clone();
    plan.left = new_left.unwrap_or(plan.left);
    plan.right = new_right.unwrap_or(plan.right);
    Ok(Some(plan))
}
