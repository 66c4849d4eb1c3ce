//! Statements that say something else tomorrow: `d = 'today'`.

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan};

/// Whether a plan that has not been analysed has a text that means a time by when it is read.
pub fn is_relative(plan: &LogicalPlan) -> bool {
    let mut relative = false;
    let visited = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                relative |= names_now(part);
                Ok(if relative { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    });
    relative || visited.is_err()
}

fn names_now(expr: &Expr) -> bool {
    let Expr::Cast(Cast { expr, field }) = expr else { return false };
    let is_time = matches!(field.data_type(), DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_));
    matches!(expr.as_ref(), Expr::Literal(ScalarValue::Utf8(Some(text)), _)
        if is_time && saki_parameters::is_relative(text))
}
