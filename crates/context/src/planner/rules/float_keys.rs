//! Keys of joins that are floats: the planner's own joins compare them by their bits, by which -0 is not 0. They join
//! by keys in which it is.

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::joins::{HashJoinExec, JoinOn, SortMergeJoinExec};
use saki_functions::order::float_order;
use saki_plan::{EachNode, Plan};

/// Gives such joins their keys; belongs before the rule that sorts and distributes rows by them.
pub const FLOAT_KEYS: EachNode = EachNode::new("saki_float_keys", keyed);

fn keyed(plan: Plan, config: &ConfigOptions) -> Result<Transformed<Plan>> {
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let (left, right) = (join.left(), join.right());
        let Some(on) = keys(join.on(), &left.schema(), &right.schema(), config)? else {
            return Ok(Transformed::no(plan));
        };
        let (kind, filter) = (join.join_type(), join.filter().clone());
        let (options, nulls) = (join.sort_options().to_vec(), join.null_equality());
        let join = SortMergeJoinExec::try_new(Arc::clone(left), Arc::clone(right), on, filter, kind, options, nulls)?;
        return Ok(Transformed::yes(Arc::new(join)));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(on) = keys(join.on(), &join.left().schema(), &join.right().schema(), config)?
    {
        return Ok(Transformed::yes(join.builder().with_on(on).build_exec()?));
    }
    Ok(Transformed::no(plan))
}

/// The keys with floats as they are compared; `None` if there are none that are not already.
fn keys(
    on: &[(PhysicalExprRef, PhysicalExprRef)],
    left: &Schema,
    right: &Schema,
    config: &ConfigOptions,
) -> Result<Option<JoinOn>> {
    let mut is_changed = false;
    let mut key = |key: &PhysicalExprRef, schema: &Schema| -> Result<PhysicalExprRef> {
        let function = float_order();
        let is_done = key.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.fun() == function.as_ref());
        if is_done || !key.data_type(schema)?.is_floating() {
            return Ok(Arc::clone(key));
        }
        is_changed = true;
        let config = Arc::new(config.clone());
        Ok(Arc::new(ScalarFunctionExpr::try_new(function, vec![Arc::clone(key)], schema, config)?))
    };
    let pairs = on.iter().map(|(of_left, of_right)| Ok((key(of_left, left)?, key(of_right, right)?)));
    let pairs = pairs.collect::<Result<JoinOn>>()?;
    Ok(is_changed.then_some(pairs))
}
