//! A pipeline in symbols: which trees are read one after another, and which of their columns
//! are wanted. [`Chain::lower`] turns it into the executor's registers, fetching each column at
//! the first tree that has it and dropping it as soon as nothing needs it any more.
//!
//! Joins fuse by appending links, projections by wanting fewer columns, filters by being
//! placed at the earliest step where all their columns are there.

use std::any::Any;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::and;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use saki_base::KeyColumn;
use saki_base::key::encode_column;
use saki_exec::plan::{BatchFilter, JoinKind, KeyRange, KeySource, Pipeline, Source, Stage};

use super::conditions;
use saki_catalog::columns::value_literal;
use saki_catalog::{ColumnTest, PlacedTest, Table, TableAccess, key_range};
use saki_store::Snapshot;

/// A column of one tree of the chain: step 0 is the origin, step n the nth link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColumnRef {
    pub step: usize,
    /// In the tree's `TreeAccess::columns`, or in the batches of a `Rows` origin.
    pub column: usize,
}

impl ColumnRef {
    /// The place of a column that a condition does not name: it needs none, and [`only_used`] drops it.
    pub const NOWHERE: Self = Self { step: usize::MAX, column: usize::MAX };
}

/// Where a chain begins.
#[derive(Clone)]
pub enum Origin {
    Ranges {
        access: Arc<TableAccess>,
        ranges: Vec<KeyRange>,
        predicates: Vec<PlacedTest>,
        /// What the ranges were made of, if parameters are among it.
        tests: Arc<[ColumnTest]>,
    },
    /// Batches of a child plan.
    Rows { schema: SchemaRef },
}

/// One lookup.
#[derive(Clone)]
pub struct Link {
    pub access: Arc<TableAccess>,
    pub kind: JoinKind,
    pub key: Vec<LinkKey>,
    pub unique: bool,
    pub predicates: Vec<PlacedTest>,
    /// Fetches the row of the index entry that the link before found: not a join of its own.
    pub completes_previous: bool,
}

/// A leading key column of a link.
#[derive(Clone)]
pub enum LinkKey {
    Column(ColumnRef),
    Constant(ConstantKey),
}

/// A key column that a test gives its value.
#[derive(Clone)]
pub struct ConstantKey {
    test: ColumnTest,
    key: KeyColumn,
    bytes: Vec<u8>,
}

impl ConstantKey {
    /// `None` if the test leaves more than one value, or one that has no place in a key.
    pub fn new(test: ColumnTest, key: KeyColumn) -> Option<Self> {
        let [value] = test.points()? else { return None };
        let mut bytes = Vec::new();
        encode_column(key, value.as_ref(), &mut bytes).ok()?;
        Some(Self { test, key, bytes })
    }

    /// The value as SQL writes it.
    pub fn text(&self) -> String {
        self.test
            .points()
            .and_then(|points| points.first())
            .map_or_else(String::new, |value| value_literal(value, self.key.data_type))
    }
}

/// A condition on columns of the chain; column `i` of the expression is `columns[i]`.
#[derive(Clone)]
pub struct ChainFilter {
    pub condition: Arc<dyn PhysicalExpr>,
    pub columns: Vec<ColumnRef>,
}

impl ChainFilter {
    fn step(&self) -> usize {
        self.columns.iter().map(|c| c.step).max().unwrap_or(0)
    }
}

/// An origin, links, and the conditions on what they yield.
#[derive(Clone)]
pub struct Chain {
    pub origin: Origin,
    pub links: Vec<Link>,
    pub filters: Vec<ChainFilter>,
    pub limit: Option<usize>,
    pub snapshot: Arc<dyn Any + Send + Sync>,
}

/// Where an output column of the chain is found in the executor's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputColumn {
    Register(usize),
    Outer(usize),
}

/// A chain in the executor's terms.
#[derive(Clone)]
pub struct Lowered {
    pub pipeline: Arc<Pipeline>,
    pub output: Vec<OutputColumn>,
}

impl Chain {
    pub fn access(&self, step: usize) -> Option<&Arc<TableAccess>> {
        match (step, &self.origin) {
            (0, Origin::Ranges { access, .. }) => Some(access),
            (0, Origin::Rows { .. }) => None,
            _ => self.links.get(step - 1).map(|link| &link.access),
        }
    }

    /// Whether the column lies in the batches of a child plan, where filters of ours do not reach.
    pub fn is_outer(&self, column: ColumnRef) -> bool {
        column.step == 0 && matches!(self.origin, Origin::Rows { .. })
    }

    /// Adds a condition; `false` if it concerns outer batches or would be applied after a limit.
    pub fn add_filter(&mut self, filter: ChainFilter) -> bool {
        let reachable = self.limit.is_none()
            && !filter.columns.iter().any(|c| self.is_outer(*c))
            // A filter without columns has no registers to be evaluated on.
            && !filter.columns.is_empty();
        if reachable {
            self.filters.push(filter);
        }
        reachable
    }

    /// Step at which a filter is applied.
    pub fn filters_at(&self, step: usize) -> impl Iterator<Item = &ChainFilter> {
        self.filters.iter().filter(move |f| f.step() == step)
    }

    /// The tests that parameters give their values, each with its table.
    pub fn open_tests(&self) -> impl Iterator<Item = (&Arc<Table>, &ColumnTest)> {
        let origin = match &self.origin {
            Origin::Ranges { access, predicates, tests, .. } => {
                Some((access, tests.iter().chain(predicates.iter().map(|placed| &placed.test))))
            }
            Origin::Rows { .. } => None,
        };
        let of_origin = origin.into_iter().flat_map(|(access, tests)| tests.map(|test| (&access.table, test)));
        let of_links = self.links.iter().flat_map(|link| link.tests().map(|test| (&link.access.table, test)));
        of_origin.chain(of_links).filter(|(_, test)| test.parameter.is_some())
    }

    /// Puts other values in the places of parameters; `None` where one of them asks for another plan.
    pub fn rebind(&mut self, values: &[ScalarValue]) -> Option<()> {
        if let Origin::Ranges { access, ranges, predicates, tests } = &mut self.origin {
            rebind_all(predicates, &access.table, values)?;
            if !tests.is_empty() {
                let rebound: Arc<[ColumnTest]> =
                    tests.iter().map(|test| conditions::rebound(test, &access.table, values)).collect::<Option<_>>()?;
                *ranges = key_range::bounds(access, &rebound)?.ranges;
                *tests = rebound;
            }
        }
        for link in &mut self.links {
            rebind_all(&mut link.predicates, &link.access.table, values)?;
            for part in &mut link.key {
                if let LinkKey::Constant(constant) = part
                    && constant.test.parameter.is_some()
                {
                    *constant = ConstantKey::new(
                        conditions::rebound(&constant.test, &link.access.table, values)?,
                        constant.key,
                    )?;
                }
            }
        }
        Some(())
    }

    /// Columns that must be in registers after `step`.
    fn live(&self, step: usize, output: &[ColumnRef]) -> Vec<ColumnRef> {
        let mut live: Vec<ColumnRef> = output.to_vec();
        live.extend(self.filters.iter().filter(|f| f.step() >= step).flat_map(|f| f.columns.iter().copied()));
        for link in &self.links[step..] {
            live.extend(link.key.iter().filter_map(|key| match key {
                LinkKey::Column(column) => Some(*column),
                LinkKey::Constant(_) => None,
            }));
        }
        live.retain(|c| c.step <= step && !self.is_outer(*c));
        live.sort_unstable();
        live.dedup();
        live
    }

    /// The pipeline that yields `output`, as `snapshot` sees the tables.
    pub fn lower(&self, output: &[ColumnRef], snapshot: &Snapshot) -> Lowered {
        let mut registers = self.live(0, output);
        let source = match &self.origin {
            Origin::Ranges { access, ranges, predicates, .. } => Source::Ranges {
                access: snapshot.seen(access),
                ranges: ranges.clone(),
                predicates: predicates.iter().map(PlacedTest::predicate).collect(),
                fetch: registers.iter().map(|c| c.column).collect(),
                filter: self.batch_filter(0, &registers),
            },
            Origin::Rows { schema } => Source::Rows { schema: Arc::clone(schema) },
        };
        let mut stages = Vec::with_capacity(self.links.len());
        for (index, link) in self.links.iter().enumerate() {
            let step = index + 1;
            let live = self.live(step, output);
            let position = |wanted: &ColumnRef| registers.iter().position(|register| register == wanted);
            let key = link
                .key
                .iter()
                .map(|key| match key {
                    LinkKey::Column(column) if self.is_outer(*column) => KeySource::Outer(column.column),
                    LinkKey::Column(column) => KeySource::Register(position(column).expect("key columns are live")),
                    LinkKey::Constant(constant) => KeySource::Encoded(constant.bytes.clone()),
                })
                .collect();
            let kept: Vec<ColumnRef> = live.iter().filter(|c| c.step < step).copied().collect();
            let fetched: Vec<ColumnRef> = live.iter().filter(|c| c.step == step).copied().collect();
            let keep = kept.iter().map(|c| position(c).expect("what is live later is live before")).collect();
            let fetch = fetched.iter().map(|c| c.column).collect();
            registers = kept;
            registers.extend(fetched);
            stages.push(Stage {
                access: snapshot.seen(&link.access),
                kind: link.kind,
                key,
                unique: link.unique,
                predicates: link.predicates.iter().map(PlacedTest::predicate).collect(),
                keep,
                fetch,
                filter: self.batch_filter(step, &registers),
            });
        }
        let output = output
            .iter()
            .map(|column| {
                if self.is_outer(*column) {
                    OutputColumn::Outer(column.column)
                } else {
                    OutputColumn::Register(
                        registers.iter().position(|register| register == column).expect("output is live"),
                    )
                }
            })
            .collect();
        let pipeline = Pipeline { source, stages, limit: self.limit, snapshot: Arc::clone(&self.snapshot) };
        Lowered { pipeline: Arc::new(pipeline), output }
    }

    fn batch_filter(&self, step: usize, registers: &[ColumnRef]) -> Option<Arc<dyn BatchFilter>> {
        let conditions: Vec<Arc<dyn PhysicalExpr>> = self
            .filters_at(step)
            .map(|filter| {
                renumber(&filter.condition, &|index| {
                    registers
                        .iter()
                        .position(|register| *register == filter.columns[index])
                        .expect("filter columns are live")
                })
            })
            .collect();
        (!conditions.is_empty()).then(|| Arc::new(RegisterFilter { conditions }) as Arc<dyn BatchFilter>)
    }
}

impl Link {
    /// Tests of its table's columns, those that are part of its key included.
    fn tests(&self) -> impl Iterator<Item = &ColumnTest> {
        let in_key = self.key.iter().filter_map(|part| match part {
            LinkKey::Constant(constant) => Some(&constant.test),
            LinkKey::Column(_) => None,
        });
        in_key.chain(self.predicates.iter().map(|placed| &placed.test))
    }
}

fn rebind_all(predicates: &mut [PlacedTest], table: &Table, values: &[ScalarValue]) -> Option<()> {
    for placed in predicates.iter_mut().filter(|placed| placed.test.parameter.is_some()) {
        placed.test = conditions::rebound(&placed.test, table, values)?;
    }
    Some(())
}

/// Reduces a filter's columns to those its condition names.
pub fn only_used(filter: ChainFilter) -> Option<ChainFilter> {
    let mut used: Vec<usize> = Vec::new();
    let visited = filter.condition.apply(|node| {
        if let Some(column) = node.downcast_ref::<Column>()
            && !used.contains(&column.index())
        {
            used.push(column.index());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.ok()?;
    let columns = used.iter().map(|index| filter.columns.get(*index).copied()).collect::<Option<Vec<_>>>()?;
    let position = |index: usize| used.iter().position(|u| *u == index).unwrap_or(0);
    Some(ChainFilter { condition: renumber(&filter.condition, &position), columns })
}

/// The same expression with its columns at other positions.
pub fn renumber(expr: &Arc<dyn PhysicalExpr>, position: &dyn Fn(usize) -> usize) -> Arc<dyn PhysicalExpr> {
    let renumbered =
        Arc::clone(expr).transform_up(|node| {
            Ok(match node.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(
                    Arc::new(Column::new(column.name(), position(column.index()))) as Arc<dyn PhysicalExpr>
                ),
                None => Transformed::no(node),
            })
        });
    renumbered.map(|t| t.data).unwrap_or_else(|_| Arc::clone(expr))
}

/// Conditions of the query planner, evaluated on batches of registers.
struct RegisterFilter {
    conditions: Vec<Arc<dyn PhysicalExpr>>,
}

impl RegisterFilter {
    /// Whether all conditions hold, for each row.
    fn truths(&self, batch: &RecordBatch) -> datafusion::common::Result<BooleanArray> {
        let mut selected: Option<BooleanArray> = None;
        for condition in &self.conditions {
            let values = condition.evaluate(batch)?.into_array(batch.num_rows())?;
            let values = as_boolean_array(&values)?;
            selected = Some(match selected {
                None => values.clone(),
                Some(before) => and(&before, values)?,
            });
        }
        Ok(selected.unwrap_or_else(|| BooleanArray::from(vec![true; batch.num_rows()])))
    }
}

impl BatchFilter for RegisterFilter {
    fn select(&self, batch: &RecordBatch) -> Result<BooleanArray, String> {
        self.truths(batch).map_err(|error| error.to_string())
    }

    fn describe(&self) -> String {
        self.conditions.iter().map(|c| c.to_string()).collect::<Vec<_>>().join(" AND ")
    }
}

#[cfg(test)]
mod tests;
