//! The two sides of a join that might become a lookup: what is looked up from, and the scan that is looked up instead.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use saki_catalog::guesses;

use crate::access::chain::{Chain, ChainFilter, ColumnRef, Origin, only_used};
use crate::cost::Estimate;
use crate::node::{Outer, PlainScan, Plan, QueryEnv, column_index, find, statistics_of};

/// The side that is looked up from: the chain of a pipeline, or one that is fed from any plan.
pub fn outer(plan: &Plan, env: &Arc<QueryEnv>) -> Result<Outer> {
    if let Some(fused) = fused(plan)? {
        return Ok(fused);
    }
    let rows = statistics_of(plan.as_ref())?.num_rows.get_value().map_or(guesses::PLAN_ROWS, |rows| *rows as f64);
    let schema = plan.schema();
    let columns = (0..schema.fields().len()).map(|column| ColumnRef { step: 0, column }).collect();
    let chain = Chain {
        origin: Origin::Rows { schema },
        links: Vec::new(),
        filters: Vec::new(),
        limit: None,
        snapshot: Arc::clone(&env.generation) as _,
    };
    let estimate = Estimate { rows, seconds: 0.0 };
    Ok(Outer { chain, columns, child: Some(Arc::clone(plan)), estimate, path: String::new() })
}

/// The chain of a pipeline, seen through projections of columns and filters.
fn fused(plan: &Plan) -> Result<Option<Outer>> {
    if let Some(node) = find(plan.as_ref()) {
        return Ok(node.as_outer());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(mut inner) = fused(projection.input())? else { return Ok(None) };
        let columns = projection.expr().iter().map(|item| Some(inner.columns[column_index(&item.expr)?]));
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else { return Ok(None) };
        inner.columns = columns;
        return Ok(Some(inner));
    }
    match plan.downcast_ref::<FilterExec>() {
        Some(filter) if filter.fetch().is_none() => fused_filter(filter),
        _ => Ok(None),
    }
}

fn fused_filter(filter: &FilterExec) -> Result<Option<Outer>> {
    let Some(mut inner) = fused(filter.input())? else { return Ok(None) };
    let condition = ChainFilter { condition: Arc::clone(filter.predicate()), columns: inner.columns.clone() };
    if !only_used(condition).is_some_and(|condition| inner.chain.add_filter(condition)) {
        return Ok(None);
    }
    if let Some(projection) = filter.projection() {
        inner.columns = projection.iter().map(|index| inner.columns[*index]).collect();
    }
    if let Some(rows) = statistics_of(filter)?.num_rows.get_value() {
        inner.estimate.rows = inner.estimate.rows.min(*rows as f64);
    }
    Ok(Some(inner))
}

/// The scan of the side that would be looked up, seen through projections of columns.
pub fn inner_scan(plan: &Plan) -> Option<PlainScan> {
    if let Some(node) = find(plan.as_ref()) {
        return node.as_scan();
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let mut inner = inner_scan(projection.input())?;
    let columns = projection.expr().iter().map(|item| Some(inner.scan.columns[column_index(&item.expr)?]));
    inner.scan.columns = columns.collect::<Option<Vec<_>>>()?;
    Some(inner)
}
