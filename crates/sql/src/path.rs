//! Access paths: the ways to find a table's rows for given tests, and the cheapest of them.

use std::sync::Arc;

use saki_exec::plan::{JoinKind, KeyRange};

use crate::access::TableAccess;
use crate::catalog::Table;
use crate::chain::{Chain, ColumnRef, Link, LinkKey, Origin};
use crate::column_test::{ColumnTest, PlacedTest};
use crate::cost::{CostModel, Estimate, distinct_pages};
use crate::key_range::{self, KeyBounds};
use crate::settings::AccessPath;

/// A way to find rows: one tree, perhaps bounded, and perhaps a fetch of the rows from the primary tree.
#[derive(Clone, Debug)]
pub struct Path {
    pub access: Arc<TableAccess>,
    pub bounds: Option<KeyBounds>,
    /// The tree lacks columns that are needed.
    pub fetches_primary: bool,
    pub estimate: Estimate,
}

/// What is wanted of a table.
pub struct Wanted<'a> {
    pub table: &'a Arc<Table>,
    /// Table columns that leave the scan or are needed by conditions on top of it.
    pub columns: &'a [usize],
    pub tests: &'a [ColumnTest],
    /// Share of rows that other conditions leave.
    pub other_selectivity: f64,
    pub limit: Option<usize>,
}

impl Path {
    /// The cheapest path, among those the setting allows.
    pub fn choose(wanted: &Wanted<'_>, costs: &CostModel, setting: AccessPath) -> Self {
        let mut paths: Vec<Self> =
            TableAccess::all(wanted.table).filter_map(|access| Self::through(access, wanted, costs, setting)).collect();
        if setting == AccessPath::Index && paths.iter().any(|path| path.bounds.is_some()) {
            paths.retain(|path| path.bounds.is_some());
        }
        paths
            .into_iter()
            .min_by(|a, b| a.estimate.seconds.total_cmp(&b.estimate.seconds))
            .expect("the full primary scan is always a path")
    }

    /// Whether there is at most one row to find.
    pub fn is_one_row(&self) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| bounds.points && bounds.ranges.len() <= 1)
    }

    fn through(access: Arc<TableAccess>, wanted: &Wanted<'_>, costs: &CostModel, setting: AccessPath) -> Option<Self> {
        let table = wanted.table;
        let tested = wanted.tests.iter().map(|test| test.column);
        let covering = access.covers(wanted.columns.iter().copied().chain(tested));
        let bounds = match setting {
            AccessPath::Scan => None,
            _ => key_range::bounds(&access, wanted.tests),
        };
        let primary = access.index.is_none();
        if bounds.is_none() && !primary && (!covering || setting == AccessPath::Scan) {
            return None;
        }
        let entries = table.rows();
        let rows = entries * table.selectivity(wanted.tests) * wanted.other_selectivity;
        let leaves = access.tree.leaf_pages as f64;
        let mut seconds = match &bounds {
            None => {
                let share = match wanted.limit {
                    Some(limit) if wanted.tests.is_empty() => (limit as f64 / entries.max(1.0)).min(1.0),
                    _ => 1.0,
                };
                costs.sequential(leaves * share, entries * share)
            }
            Some(bounds) => {
                let share = table.selectivity(bounds.used.iter().map(|i| &wanted.tests[*i]));
                let pages = leaves * share + bounds.ranges.len() as f64;
                let descents = distinct_pages(bounds.ranges.len() as f64, leaves) + f64::from(access.tree.height);
                costs.sequential(pages, entries * share) + costs.random(descents, bounds.ranges.len() as f64)
            }
        };
        let fetches_primary = !covering && !primary;
        if fetches_primary {
            let on_index = wanted.tests.iter().filter(|test| access.position(test.column).is_some());
            let fetched = entries * table.selectivity(on_index);
            seconds += costs.lookups(fetched, 1.0, table.root.leaf_pages as f64);
        }
        Some(Self { access, bounds, fetches_primary, estimate: Estimate { rows, seconds } })
    }

    /// The chain that reads this path, and where each table column is found in it.
    pub fn chain(&self, wanted: &Wanted<'_>, snapshot: Arc<dyn std::any::Any + Send + Sync>) -> (Chain, ColumnMap) {
        let decided = |position: usize| self.bounds.as_ref().is_some_and(|b| b.decided.contains(&position));
        let mut here = Vec::new();
        let mut later = Vec::new();
        for (position, test) in wanted.tests.iter().enumerate() {
            match self.access.position(test.column) {
                _ if decided(position) => {}
                Some(column) => here.push(test.placed(column)),
                None => later.push(test),
            }
        }
        let ranges = match &self.bounds {
            Some(bounds) => bounds.ranges.clone(),
            None => vec![KeyRange::default()],
        };
        let is_open = self.bounds.is_some() && wanted.tests.iter().any(|test| test.parameter.is_some());
        let tests = if is_open { wanted.tests.into() } else { Arc::default() };
        let origin = Origin::Ranges { access: Arc::clone(&self.access), ranges, predicates: here, tests };
        let mut chain = Chain { origin, links: Vec::new(), filters: Vec::new(), limit: None, snapshot };
        let mut map = ColumnMap { accesses: vec![(0, Arc::clone(&self.access))] };
        if self.fetches_primary {
            let primary = TableAccess::primary(wanted.table);
            let predicates = later
                .iter()
                .map(|test| test.placed(primary.position(test.column).expect("the primary tree has every column")))
                .collect();
            chain.links.push(primary_fetch(&self.access, &primary, 0, JoinKind::Inner, predicates));
            map.accesses.push((1, primary));
        }
        (chain, map)
    }
}

/// The link that fetches the rows of entries found in an index at `depth`.
pub fn primary_fetch(
    index: &TableAccess,
    primary: &Arc<TableAccess>,
    depth: usize,
    kind: JoinKind,
    predicates: Vec<PlacedTest>,
) -> Link {
    let key = primary
        .key_columns()
        .iter()
        .map(|column| {
            let position = index.position(*column).expect("index entries carry the primary key");
            LinkKey::Column(ColumnRef { depth, column: position })
        })
        .collect();
    Link { access: Arc::clone(primary), kind, key, unique: true, predicates, completes_previous: true }
}

/// Where a table's columns are found in a chain.
#[derive(Clone)]
pub struct ColumnMap {
    /// Depth and tree, in the order in which they are asked.
    pub accesses: Vec<(usize, Arc<TableAccess>)>,
}

impl ColumnMap {
    pub fn find(&self, table_column: usize) -> Option<ColumnRef> {
        self.accesses
            .iter()
            .find_map(|(depth, access)| access.position(table_column).map(|column| ColumnRef { depth: *depth, column }))
    }
}
