//! Where keys that are known at run time can filter rows: down to the scans that a column comes from.

use std::sync::Arc;

use datafusion::common::Result;

use crate::node::{DynamicKeys, Plan, find};

/// The plan with the keys given to the scans that column `column` of it comes from; `None` if there is no such scan.
pub fn offered(plan: &Plan, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<Plan>> {
    match find(plan.as_ref()) {
        Some(node) => node.with_keys(column, keys),
        None => Ok(None),
    }
}
