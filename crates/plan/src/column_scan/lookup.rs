//! Looking rows up instead of scanning, once it is known how few keys they can have.
//!
//! A hash join builds its table before it asks the other side for rows. If that side is a scan and the table turned out
//! to have few keys, the rows with these keys are found sooner by the primary key or an index that begins with the
//! column. What comes out is what the scan would have yielded: the same columns, the same conditions. Other joins' keys
//! are left to those joins.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::compute::cast;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_expr::utils::collect_columns;
use saki_exec::plan::JoinKind;
use saki_vector::{Column, KeyFilter, form};

use super::cost::ColumnPath;
use super::parts::ColumnScanParts;
use crate::access::chain::{Chain, ChainFilter, ColumnRef, Link, LinkKey, Origin, only_used};
use crate::access::path::{ColumnMap, Wanted, primary_fetch};
use crate::cost::{Costs, Estimate};
use crate::pipeline::{PipelineExec, PipelineParts};
use saki_catalog::{InPlan, TableAccess};

/// Keys that are looked up at most: beyond, reading all of the table is as good on any device.
const KEYS_MAX: usize = 1 << 20;

/// Rows that are looked up by the keys of a join above.
pub struct Lookup {
    pub pipeline: PipelineExec,
    /// What is looked up where, for EXPLAIN.
    pub text: String,
}

/// The lookups that are expected to take less time than the scan, if there are any.
pub fn instead(parts: &ColumnScanParts, partitions: usize) -> Result<Option<Lookup>> {
    if !parts.env.settings.adaptive_lookups || parts.keys.is_empty() {
        return Ok(None);
    }
    let scan_seconds = remaining_seconds(parts);
    let mut best: Option<Plan> = None;
    for (column, keys) in &parts.keys {
        let Some(keys) = keys.get() else { continue };
        let plans = TableAccess::all(&parts.scan.table).filter_map(|access| Plan::new(parts, access, *column, keys));
        best = plans.chain(best).min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    }
    match best.filter(|plan| plan.seconds < scan_seconds) {
        Some(plan) => plan.lookup(parts, partitions),
        None => Ok(None),
    }
}

/// What the scan would take, had the planner known the keys.
fn remaining_seconds(parts: &ColumnScanParts) -> f64 {
    let scan = &parts.scan;
    let mut columns = scan.columns.clone();
    columns.extend(parts.keys.iter().map(|(column, _)| *column));
    columns.extend(scan.rest.iter().flat_map(collect_columns).map(|column| column.index()));
    columns.sort_unstable();
    columns.dedup();
    let wanted = Wanted {
        newer: parts.env.snapshot.newer_rows(&scan.table) as f64,
        limit: parts.limit,
        ..Wanted::new(&scan.table, &columns, &scan.tests)
    };
    ColumnPath::new(&wanted, &parts.segments, parts.env.segment_reader.cache(), &*parts.env).estimate.seconds
}

/// Keys and the tree to look them up in.
struct Plan {
    access: Arc<TableAccess>,
    keys: Vec<i64>,
    seconds: f64,
    rows: f64,
}

impl Plan {
    /// `None` where the tree's key does not begin with the column, or the keys are not known one by one.
    fn new(parts: &ColumnScanParts, access: Arc<TableAccess>, column: usize, keys: &KeyFilter) -> Option<Self> {
        if access.key_columns().first() != Some(&column) {
            return None;
        }
        let keys = keys.values(KEYS_MAX)?;
        let (table, costs) = (&parts.scan.table, &*parts.env);
        let distinct = table.distinct(column).clamp(1.0, table.rows().max(1.0));
        let matches = if access.unique_width() == Some(1) { 1.0 } else { (table.rows() / distinct).max(1.0) };
        let leaves = access.tree.leaf_pages as f64;
        let rows_per_leaf = (table.rows() / leaves.max(1.0)).max(1.0);
        let rows = keys.len() as f64 * matches;
        let here = costs.of_tree(access.tree.tree);
        let mut seconds = here.lookups(keys.len() as f64, (matches / rows_per_leaf).ceil(), leaves);
        if fetches_primary(parts, &access) {
            let tests = parts.scan.tests.iter().filter(|test| access.position(test.column).is_some());
            let fetched = rows * table.selectivity(tests);
            seconds += costs.of_tree(table.root.id).lookups(fetched, 1.0, table.root.leaf_pages as f64);
        }
        Some(Self { access, keys, seconds, rows })
    }

    /// The pipeline from the keys to the rows; `None` if the column's type has no array that the keys can be put in.
    fn lookup(self, parts: &ColumnScanParts, partitions: usize) -> Result<Option<Lookup>> {
        let scan = &parts.scan;
        let key = self.access.tree.key.columns()[0];
        let key_type = saki_exec::arrow_type(key.data_type);
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("key", key_type.clone(), false)]));
        let Some(batches) = key_batches(&self.keys, &key_type, &schema, partitions)? else { return Ok(None) };
        let child = MemorySourceConfig::try_new_exec(&batches, Arc::clone(&schema), None)?;
        let (chain, map) = self.chain(parts, schema);
        let Some(chain) = with_conditions(chain, &map, parts) else { return Ok(None) };
        let output = scan.columns.iter().map(|column| map.find(*column)).collect::<Option<Vec<_>>>();
        let output = output.ok_or_else(|| DataFusionError::Internal("a primary tree lacks a column".into()))?;
        let text = format!("looked up {} keys by {} instead of scanning", self.keys.len(), self.access.describe());
        let pipeline = PipelineExec::new(PipelineParts {
            env: Arc::clone(&parts.env),
            chain,
            output,
            schema: parts.schema(),
            child: Some(child),
            estimate: Estimate { rows: self.rows, seconds: self.seconds },
            scan: None,
            path: String::new(),
        });
        Ok(Some(Lookup { pipeline, text }))
    }

    /// Keys, the tree, and the primary tree if the first one lacks columns.
    fn chain(&self, parts: &ColumnScanParts, schema: SchemaRef) -> (Chain, ColumnMap) {
        let primary = TableAccess::primary(&parts.scan.table);
        let (mut here, mut later) = (Vec::new(), Vec::new());
        for test in &parts.scan.tests {
            match self.access.position(test.column) {
                Some(column) => here.push(test.placed(column)),
                None => later.extend(primary.position(test.column).map(|column| test.placed(column))),
            }
        }
        let mut links = vec![Link {
            access: Arc::clone(&self.access),
            kind: JoinKind::Inner,
            key: vec![LinkKey::Column(ColumnRef { step: 0, column: 0 })],
            unique: self.access.key_columns().len() == 1,
            predicates: here,
            completes_previous: false,
        }];
        let mut map = ColumnMap { accesses: vec![(1, Arc::clone(&self.access))] };
        if fetches_primary(parts, &self.access) {
            links.push(primary_fetch(&self.access, &primary, 1, JoinKind::Inner, later));
            map.accesses.push((2, primary));
        }
        let origin = Origin::Rows { schema };
        let snapshot = Arc::clone(&parts.env.generation) as _;
        (Chain { origin, links, filters: Vec::new(), limit: None, snapshot }, map)
    }
}

/// Whether the tree lacks a column that is wanted or tested.
fn fetches_primary(parts: &ColumnScanParts, access: &TableAccess) -> bool {
    let scan = &parts.scan;
    let named = scan.rest.iter().flat_map(collect_columns).map(|column| column.index());
    let tested = scan.tests.iter().map(|test| test.column);
    access.index.is_some() && !access.covers(scan.columns.iter().copied().chain(tested).chain(named))
}

/// The chain with the conditions that are no tests, and the limit.
fn with_conditions(mut chain: Chain, map: &ColumnMap, parts: &ColumnScanParts) -> Option<Chain> {
    let width = parts.scan.table.columns.len();
    for condition in &parts.scan.rest {
        let columns = (0..width).map(|column| map.find(column).unwrap_or(ColumnRef::NOWHERE)).collect();
        let filter = only_used(ChainFilter { condition: Arc::clone(condition), columns })?;
        if !chain.add_filter(filter) {
            return None;
        }
    }
    chain.limit = parts.limit;
    Some(chain)
}

/// The keys as batches, spread over partitions.
fn key_batches(
    keys: &[i64],
    key_type: &DataType,
    schema: &SchemaRef,
    partitions: usize,
) -> Result<Option<Vec<Vec<RecordBatch>>>> {
    let Some(array) = key_array(keys, key_type)? else { return Ok(None) };
    let share = keys.len().div_ceil(partitions).max(1);
    let part = |partition: usize| {
        let start = (partition * share).min(keys.len());
        let rows = share.min(keys.len() - start);
        Ok(vec![RecordBatch::try_new(Arc::clone(schema), vec![array.slice(start, rows)])?])
    };
    (0..partitions).map(part).collect::<Result<Vec<_>>>().map(Some)
}

/// Keys, as a filter counts them, in an array of the column's type.
fn key_array(keys: &[i64], key_type: &DataType) -> Result<Option<ArrayRef>> {
    let wide: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    Ok(match key_type {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(cast(&wide, key_type)?),
        DataType::Date32 => Some(cast(&cast(&wide, &DataType::Int32)?, key_type)?),
        DataType::Decimal128(..) => Some(form::to_surface(&Column::new(wide), key_type).in_plan()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_schema::TimeUnit;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_become_an_array_of_the_columns_type() {
        for key_type in
            [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Date32, DataType::Decimal128(12, 2)]
        {
            let array = key_array(&[1, -2, 300], &key_type).unwrap().unwrap();
            assert_eq!((array.data_type(), array.len(), array.null_count()), (&key_type, 3, 0));
        }
        let decimals = key_array(&[199], &DataType::Decimal128(12, 2)).unwrap().unwrap();
        let decimals: &arrow_array::Decimal128Array = decimals.as_any().downcast_ref().unwrap();
        assert_eq!(decimals.value_as_string(0), "1.99", "keys are in the column's own units");
        for other in [DataType::Utf8, DataType::Float64, DataType::Timestamp(TimeUnit::Microsecond, None)] {
            assert!(key_array(&[1], &other).unwrap().is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn keys_are_spread_over_all_partitions_without_loss(count in 0_i64..50, partitions in 1_usize..9) {
            let keys: Vec<i64> = (0..count).collect();
            let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]));
            let parts = key_batches(&keys, &DataType::Int64, &schema, partitions).unwrap().unwrap();
            prop_assert_eq!(parts.len(), partitions);
            let size = |batches: &Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum();
            let sizes: Vec<usize> = parts.iter().map(size).collect();
            prop_assert_eq!(sizes.iter().sum::<usize>(), keys.len());
            prop_assert!(sizes.iter().all(|size| *size <= keys.len().div_ceil(partitions).max(1)));
        }
    }
}
