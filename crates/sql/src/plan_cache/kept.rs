//! Which statements have plans that serve them again.

use std::any::Any;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

use crate::provider::SnapshotTable;

/// Whether a plan that has not been simplified yet means the same tomorrow: it calls nothing that depends on the time or the session, and
/// reads nothing but tables of a snapshot.
pub fn is_repeatable(plan: &LogicalPlan) -> bool {
    let mut repeatable = true;
    let visited = plan.apply_with_subqueries(|node| {
        repeatable &= is_table_of_ours(node);
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                repeatable &= is_immutable(part);
                Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    });
    repeatable && visited.is_ok()
}

fn is_table_of_ours(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(scan) => {
            source_as_provider(&scan.source).is_ok_and(|provider| (provider.as_ref() as &dyn Any).is::<SnapshotTable>())
        }
        LogicalPlan::Extension(_) | LogicalPlan::RecursiveQuery(_) => false,
        _ => true,
    }
}

fn is_immutable(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility,
        Expr::AggregateFunction(call) => call.func.signature().volatility,
        Expr::ScalarVariable(..) => Volatility::Volatile,
        _ => Volatility::Immutable,
    };
    volatility == Volatility::Immutable
}
