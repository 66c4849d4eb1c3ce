//! What is known of the inputs of a join before they are planned: rows, columns, and the table behind them.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};

use crate::cost::Estimate;
use crate::join::graph::Relation;
use crate::node::QueryEnv;
use crate::provider::SnapshotTable;
use saki_catalog::{ColumnTest, Table, guesses};

/// The statement's environment, from the first table of ours in the plan.
pub fn env_of(plan: &LogicalPlan) -> Option<Arc<QueryEnv>> {
    let mut env = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            env = SnapshotTable::with(scan, |table| Arc::clone(&table.env));
        }
        Ok(if env.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .ok()?;
    env
}

/// A join's input.
pub fn relation(plan: &LogicalPlan) -> Result<Relation> {
    let columns = plan.schema().columns();
    if let Some((table, sources, tests, whole)) = table_below(plan, &columns)? {
        let estimate = estimate_scan(plan)?.unwrap_or_default();
        return Ok(Relation { columns, table: Some(table), sources, tests, lookup: whole, estimate });
    }
    let estimate = Estimate { rows: rows(plan), seconds: 0.0 };
    let sources = vec![None; columns.len()];
    Ok(Relation { columns, table: None, sources, tests: Vec::new(), lookup: false, estimate })
}

type TableBelow = (Arc<Table>, Vec<Option<usize>>, Vec<ColumnTest>, bool);

/// The table of a scan, seen through projections of columns and aliases; the table column of each column;
/// its tests; and whether these are all its conditions.
fn table_below(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<TableBelow>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let found = SnapshotTable::with(scan, |provider| {
                let (tests, rest) = provider.split_conditions(&scan.filters, &ExecutionProps::new())?;
                let sources = columns.iter().map(|column| provider.table.column(&column.name)).collect();
                Ok((Arc::clone(&provider.table), sources, tests, rest.is_empty() && scan.fetch.is_none()))
            });
            found.transpose()
        }
        LogicalPlan::Projection(projection) => {
            let plain = |expr: &Expr| match expr {
                Expr::Column(column) => Some(column.clone()),
                _ => None,
            };
            match projection.expr.iter().map(plain).collect::<Option<Vec<_>>>() {
                Some(inner) => table_below(&projection.input, &inner),
                None => Ok(None),
            }
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = alias.input.schema().columns();
            let renamed = columns.iter().map(|column| {
                let position = alias.schema.columns().iter().position(|c| c == column)?;
                inner.get(position).cloned()
            });
            match renamed.collect::<Option<Vec<_>>>() {
                Some(inner) => table_below(&alias.input, &inner),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

fn estimate_scan(plan: &LogicalPlan) -> Result<Option<Estimate>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let columns: Vec<usize> = match &scan.projection {
                Some(projection) => projection.clone(),
                None => (0..scan.source.schema().fields().len()).collect(),
            };
            SnapshotTable::with(scan, |table| table.estimate(&scan.filters, &columns)).transpose()
        }
        LogicalPlan::Projection(projection) => estimate_scan(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => estimate_scan(&alias.input),
        _ => Ok(None),
    }
}

/// A rough number of rows of any plan.
fn rows(plan: &LogicalPlan) -> f64 {
    match plan {
        LogicalPlan::TableScan(_) => match estimate_scan(plan) {
            Ok(Some(estimate)) => estimate.rows,
            _ => guesses::SOURCE_ROWS,
        },
        LogicalPlan::Filter(filter) => rows(&filter.input) * guesses::FILTER,
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(aggregate) => groups(&aggregate.input, &aggregate.group_expr),
        LogicalPlan::Distinct(Distinct::All(input)) => rows(input) * guesses::DISTINCT,
        LogicalPlan::Limit(limit) => {
            let fetch = match limit.get_fetch_type() {
                Ok(datafusion::logical_expr::FetchType::Literal(Some(fetch))) => fetch as f64,
                _ => f64::INFINITY,
            };
            rows(&limit.input).min(fetch)
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (rows(&join.left), rows(&join.right));
            match join.join_type {
                JoinType::Inner if join.on.is_empty() => left * right,
                JoinType::LeftSemi | JoinType::LeftAnti => left * guesses::PARTNER,
                JoinType::RightSemi | JoinType::RightAnti => right * guesses::PARTNER,
                _ => left.max(right),
            }
        }
        LogicalPlan::Values(values) => values.values.len() as f64,
        LogicalPlan::EmptyRelation(_) => 1.0,
        other => other.inputs().into_iter().map(rows).fold(1.0, f64::max),
    }
}

/// Groups of an aggregation: distinct values of the columns where they are known.
fn groups(input: &LogicalPlan, by: &[Expr]) -> f64 {
    let all = rows(input);
    let known = table_below(input, &input.schema().columns());
    if let Ok(Some((table, sources, ..))) = known {
        let columns = input.schema().columns();
        let distinct = |expr: &Expr| match expr {
            Expr::Column(column) => {
                let position = columns.iter().position(|c| c == column)?;
                Some(table.distinct(sources[position]?))
            }
            _ => None,
        };
        if let Some(each) = by.iter().map(distinct).collect::<Option<Vec<_>>>() {
            return each.iter().product::<f64>().min(all).max(1.0);
        }
    }
    guesses::groups(all)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};

    static TABLE: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        let table = TableBuilder::new("t").column("id", DataType::Int8).column("ten", DataType::Int8).key(&["id"]);
        fixture.load(table, &(0..1000).map(|id| vec![Value::Int8(id), Value::Int8(id % 10)]).collect::<Vec<_>>());
        fixture
    });

    fn optimized(sql: &str) -> LogicalPlan {
        let env = TABLE.default_env();
        TABLE.session(&env).state().optimize(&TABLE.logical(&env, sql)).unwrap()
    }

    #[test]
    fn a_scan_is_known_by_its_table_through_projections_and_aliases() {
        for (sql, sources, tests, lookup) in [
            ("SELECT id, ten FROM t", vec![Some(0), Some(1)], 0, true),
            ("SELECT ten FROM t WHERE id < 7 AND ten = 3", vec![Some(1)], 2, true),
            ("SELECT x.ten FROM t x WHERE x.id < x.ten", vec![Some(1)], 0, false),
            ("SELECT ten FROM (SELECT ten, id FROM t LIMIT 3) y", vec![Some(1)], 0, false),
        ] {
            let relation = relation(&optimized(sql)).unwrap();
            let table = relation.table.as_ref().map(|table| table.name.as_str());
            if table.is_some() {
                assert_eq!(table, Some("t"), "{sql}");
                assert_eq!(relation.sources, sources, "{sql}");
                assert_eq!((relation.tests.len(), relation.lookup), (tests, lookup), "{sql}");
            } else {
                assert!(!lookup && relation.sources.iter().all(Option::is_none), "{sql}");
            }
        }
    }

    #[test]
    fn rows_of_other_inputs_are_guessed_from_what_is_below() {
        let near = |sql: &str, low: f64, high: f64| {
            let rows = rows(&optimized(sql));
            assert!(rows >= low && rows <= high, "{sql}: {rows}");
        };
        near("SELECT * FROM t", 1000.0, 1000.0);
        near("SELECT count(*) FROM t", 1.0, 1.0);
        near("SELECT ten, count(*) FROM t GROUP BY ten", 9.0, 11.0);
        near("SELECT id % 7, count(*) FROM t GROUP BY id % 7", 200.0, 200.0);
        near("SELECT ten, count(*) FROM t GROUP BY ten HAVING count(*) > 5", 2.0, 4.0);
        near("SELECT * FROM t LIMIT 5", 5.0, 5.0);
        near("SELECT a.id FROM t a JOIN t b ON a.id = b.ten", 1000.0, 1000.0);
        near("SELECT a.id FROM t a CROSS JOIN t b", 1e6, 1e6);
        near("SELECT id FROM t WHERE ten NOT IN (SELECT ten FROM t WHERE id < 5)", 450.0, 550.0);
        near("SELECT * FROM (VALUES (1), (2), (3)) v (x)", 3.0, 3.0);
    }

    #[test]
    fn the_environment_is_that_of_the_first_table_of_ours() {
        let env = TABLE.default_env();
        let logical = TABLE.logical(&env, "SELECT 1 WHERE EXISTS (SELECT 1 FROM t)");
        assert!(Arc::ptr_eq(&env_of(&logical).unwrap(), &env));
        assert!(env_of(&TABLE.logical(&env, "SELECT 1")).is_none());
    }
}
