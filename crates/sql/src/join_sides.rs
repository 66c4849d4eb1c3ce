//! The two sides of a join that might become a lookup: what is looked up from, and the scan that is looked up instead.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{ExecutionPlan, StatisticsContext};

use crate::chain::{Chain, ChainFilter, ColumnRef, Origin};
use crate::column_scan::ColumnScanExec;
use crate::cost::Estimate;
use crate::pipeline_exec::{PipelineExec, ScanInfo, only_used};
use crate::query_env::QueryEnv;

/// The side that is looked up from.
pub struct Outer {
    pub chain: Chain,
    /// Where each column of the join's outer side is in the chain.
    pub columns: Vec<ColumnRef>,
    pub child: Option<Arc<dyn ExecutionPlan>>,
    pub rows: f64,
    pub seconds: f64,
    /// How the chain's origin is read, in words.
    pub path: String,
}

impl Outer {
    pub fn new(plan: &Arc<dyn ExecutionPlan>, env: &Arc<QueryEnv>) -> Result<Self> {
        if let Some(fused) = Self::fused(plan)? {
            return Ok(fused);
        }
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
        let rows = statistics.num_rows.get_value().map_or(1e6, |rows| *rows as f64);
        let schema = plan.schema();
        let columns = (0..schema.fields().len()).map(|column| ColumnRef { depth: 0, column }).collect();
        let chain = Chain {
            origin: Origin::Rows { schema },
            links: Vec::new(),
            filters: Vec::new(),
            limit: None,
            snapshot: Arc::clone(&env.snapshot) as _,
        };
        Ok(Self { chain, columns, child: Some(Arc::clone(plan)), rows, seconds: 0.0, path: String::new() })
    }

    /// The chain of a pipeline, seen through projections of columns and filters.
    fn fused(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if let Some(exec) = plan.downcast_ref::<PipelineExec>() {
            return Ok(exec.chain.limit.is_none().then(|| Self {
                chain: exec.chain.clone(),
                columns: exec.output.clone(),
                child: exec.child.clone(),
                rows: exec.estimate.rows,
                seconds: exec.estimate.seconds,
                path: exec.path.clone(),
            }));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let Some(mut inner) = Self::fused(projection.input())? else { return Ok(None) };
            let mut columns = Vec::new();
            for item in projection.expr() {
                let Some(column) = item.expr.downcast_ref::<Column>() else { return Ok(None) };
                columns.push(inner.columns[column.index()]);
            }
            inner.columns = columns;
            return Ok(Some(inner));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            if filter.fetch().is_some() {
                return Ok(None);
            }
            let Some(mut inner) = Self::fused(filter.input())? else { return Ok(None) };
            let condition = ChainFilter { condition: Arc::clone(filter.predicate()), columns: inner.columns.clone() };
            let Some(condition) = only_used(condition) else { return Ok(None) };
            if !inner.chain.add_filter(condition) {
                return Ok(None);
            }
            if let Some(projection) = filter.projection() {
                inner.columns = projection.iter().map(|index| inner.columns[*index]).collect();
            }
            let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
            inner.rows = statistics.num_rows.get_value().map_or(inner.rows, |rows| (*rows as f64).min(inner.rows));
            return Ok(Some(inner));
        }
        Ok(None)
    }
}

/// The scan of the side that would be looked up, seen through projections of columns.
pub fn inner_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<(Arc<QueryEnv>, ScanInfo, Estimate)> {
    if let Some(exec) = plan.downcast_ref::<PipelineExec>() {
        let scan = exec.scan.as_ref()?;
        return exec.chain.limit.is_none().then(|| (Arc::clone(&exec.env), ScanInfo::clone(scan), exec.estimate));
    }
    if let Some(exec) = plan.downcast_ref::<ColumnScanExec>() {
        let scan = exec.whole_scan()?;
        return Some((Arc::clone(exec.env()), ScanInfo::clone(scan), exec.estimate()));
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let (env, mut scan, estimate) = inner_scan(projection.input())?;
    let columns = projection.expr().iter().map(|item| item.expr.downcast_ref::<Column>().map(Column::index));
    scan.columns = columns.map(|index| Some(scan.columns[index?])).collect::<Option<Vec<_>>>()?;
    Some((env, scan, estimate))
}
