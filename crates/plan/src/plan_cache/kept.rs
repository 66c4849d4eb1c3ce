//! Which statements have plans that serve them again.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

use crate::provider::SnapshotTable;

/// Whether a plan that has not been simplified yet means the same tomorrow: it calls nothing that depends on the time
/// or the session, and reads nothing but tables of a snapshot.
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
        LogicalPlan::TableScan(scan) => SnapshotTable::with(scan, |_| ()).is_some(),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use saki_base::DataType;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder, block_on, small_batch, small_schema};

    #[test]
    fn statements_that_mean_the_same_tomorrow_are_repeatable() {
        let fixture = Fixture::new();
        fixture.load(TableBuilder::new("t").column("id", DataType::Int8).key(&["id"]), &[]);
        let env = fixture.default_env();
        let session = fixture.session(&env);
        let batch = small_batch(&[]);
        let table = datafusion::datasource::MemTable::try_new(small_schema(), vec![vec![batch]]).unwrap();
        session.register_table("memory", Arc::new(table)).unwrap();
        let cases = [
            ("SELECT * FROM t WHERE id = 7", true),
            ("SELECT abs(id), count(*) FROM t GROUP BY 1", true),
            ("SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE id > 3)", true),
            ("SELECT 1", true),
            ("SELECT now() FROM t", false),
            ("SELECT id FROM t WHERE random() < 0.5", false),
            ("SELECT id FROM t WHERE id < (SELECT random() FROM t)", false),
            ("SELECT k FROM memory", false),
            ("SELECT id FROM t WHERE id IN (SELECT k FROM memory)", false),
            ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", false),
        ];
        for (sql, repeatable) in cases {
            let logical = block_on(session.state().create_logical_plan(sql)).unwrap();
            assert_eq!(is_repeatable(&logical), repeatable, "{sql}");
        }
    }
}
