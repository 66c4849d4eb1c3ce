//! What is known of the inputs of a join before they are planned: rows, columns, and the table behind them.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan, TableScan};

use crate::catalog::Table;
use crate::column_test::ColumnTest;
use crate::cost::Estimate;
use crate::join_graph::Relation;
use crate::provider::SnapshotTable;
use crate::query_env::QueryEnv;

/// Rows a source of unknown size is taken to have.
const UNKNOWN_ROWS: f64 = 10_000.0;

/// Calls `look` with our table behind a scan, if it is one of ours.
fn with_table<R>(scan: &TableScan, look: impl FnOnce(&SnapshotTable) -> R) -> Option<R> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = (provider.as_ref() as &dyn Any).downcast_ref::<SnapshotTable>()?;
    Some(look(table))
}

/// The statement's environment, from the first table of ours in the plan.
pub fn env_of(plan: &LogicalPlan) -> Option<Arc<QueryEnv>> {
    let mut env = None;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            env = with_table(scan, |table| Arc::clone(&table.env));
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
            let found = with_table(scan, |provider| {
                let (tests, rest) = provider.split_conditions(&scan.filters)?;
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
            with_table(scan, |table| table.estimate(&scan.filters, &columns)).transpose()
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
            _ => UNKNOWN_ROWS,
        },
        LogicalPlan::Filter(filter) => rows(&filter.input) * 0.3,
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(aggregate) => groups(&aggregate.input, &aggregate.group_expr),
        LogicalPlan::Distinct(Distinct::All(input)) => rows(input) * 0.5,
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
                JoinType::LeftSemi | JoinType::LeftAnti => left * 0.5,
                JoinType::RightSemi | JoinType::RightAnti => right * 0.5,
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
    (all * 0.2).max(1.0)
}
