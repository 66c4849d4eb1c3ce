//! A hash join, and the side of it that might be looked up in instead.

use std::sync::Arc;

use datafusion::common::{JoinSide, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::joins::HashJoinExec;
use saki_exec::plan::JoinKind;

use crate::access::scan::ScanInfo;
use crate::join::sides::{inner_scan, outer as outer_side};
use crate::node::{Outer, PlainScan, QueryEnv, column_index};
use saki_settings::IndexJoin;

/// A hash join and the side of it that might be looked up.
pub struct Candidate<'a> {
    pub join: &'a HashJoinExec,
    pub inner_side: JoinSide,
    pub kind: JoinKind,
    pub env: Arc<QueryEnv>,
    /// Of the inner side.
    pub scan: ScanInfo,
    pub outer: Outer,
    pub equalities: Vec<Equality>,
    /// Reading the inner side and hashing.
    pub hash_seconds: f64,
}

/// Columns that must be equal.
#[derive(Clone, Copy, Debug)]
pub struct Equality {
    /// In the join's outer side.
    pub outer: usize,
    /// In the inner table.
    pub inner: usize,
}

impl<'a> Candidate<'a> {
    /// `None` where the join could not be a lookup in any tree.
    pub fn new(join: &'a HashJoinExec, inner_side: JoinSide, kind: JoinKind) -> Result<Option<Self>> {
        let (inner, outer) = match inner_side {
            JoinSide::Left => (join.left(), join.right()),
            _ => (join.right(), join.left()),
        };
        let Some(PlainScan { env, scan, estimate }) = inner_scan(inner) else { return Ok(None) };
        if env.settings.index_join == IndexJoin::Never {
            return Ok(None);
        }
        // Only an inner join can apply conditions after the lookup.
        if kind != JoinKind::Inner && (join.filter().is_some() || !scan.rest.is_empty()) {
            return Ok(None);
        }
        let outer_schema = outer.schema();
        let mut equalities = Vec::with_capacity(join.on().len());
        for (left, right) in join.on() {
            let (inner_key, outer_key) = if inner_side == JoinSide::Left { (left, right) } else { (right, left) };
            let (Some(inner_column), Some(outer_column)) = (column_index(inner_key), column_index(outer_key)) else {
                return Ok(None);
            };
            let table_column = scan.columns[inner_column];
            let inner_type = saki_exec::arrow_type(scan.table.column_type(table_column).1);
            if *outer_schema.field(outer_column).data_type() != inner_type {
                return Ok(None);
            }
            equalities.push(Equality { outer: outer_column, inner: table_column });
        }
        let outer = outer_side(outer, &env)?;
        let rows = outer.estimate.rows;
        let hash_seconds = estimate.seconds + env.costs.hash_join(scan.rows.min(rows), scan.rows.max(rows));
        Ok(Some(Self { join, inner_side, kind, env, scan, outer, equalities, hash_seconds }))
    }

    /// Table columns of the inner side that the join's output and conditions after the lookup use; `loose` are the
    /// equalities among these conditions.
    pub fn inner_columns_used(&self, loose: &[usize]) -> Vec<usize> {
        let mut used: Vec<usize> = self.scan.columns.clone();
        used.extend(loose.iter().map(|equality| self.equalities[*equality].inner));
        let named =
            |condition: &Arc<dyn PhysicalExpr>| collect_columns(condition).into_iter().map(|column| column.index());
        used.extend(self.scan.rest.iter().flat_map(named));
        used.sort_unstable();
        used.dedup();
        used
    }
}
