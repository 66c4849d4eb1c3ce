//! A pipeline in symbols: which trees are read one after another, and which of their columns
//! are wanted. [`Chain::lower`] turns it into the executor's slots, fetching each column at
//! the first tree that has it and dropping it as soon as nothing needs it any more.
//!
//! Joins fuse by appending links, projections by wanting fewer columns, filters by being
//! placed at the earliest depth where all their columns are there.

use std::any::Any;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::and;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use saki_exec::plan::{BatchFilter, JoinKind, KeyRange, KeySource, Pipeline, Source, Stage};
use saki_exec::predicate::Predicate;

use crate::access::TableAccess;
use crate::delta::ReadView;

/// A column of one tree of the chain: depth 0 is the origin, depth n the nth link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColumnRef {
    pub depth: usize,
    /// In the tree's `TreeAccess::columns`, or in the batches of a `Rows` origin.
    pub column: usize,
}

/// Where a chain begins.
#[derive(Clone)]
pub enum Origin {
    Ranges {
        access: Arc<TableAccess>,
        ranges: Vec<KeyRange>,
        predicates: Vec<Predicate>,
    },
    /// Batches of a child plan.
    Rows {
        schema: SchemaRef,
    },
}

/// One lookup.
#[derive(Clone)]
pub struct Link {
    pub access: Arc<TableAccess>,
    pub kind: JoinKind,
    pub key: Vec<LinkKey>,
    pub unique: bool,
    pub predicates: Vec<Predicate>,
    /// Fetches the row of the index entry that the link before found: not a join of its own.
    pub completes_previous: bool,
}

/// A leading key column of a link.
#[derive(Clone)]
pub enum LinkKey {
    Column(ColumnRef),
    Encoded { bytes: Vec<u8>, text: String },
}

/// A condition on columns of the chain; column `i` of the expression is `columns[i]`.
#[derive(Clone)]
pub struct ChainFilter {
    pub condition: Arc<dyn PhysicalExpr>,
    pub columns: Vec<ColumnRef>,
}

impl ChainFilter {
    fn depth(&self) -> usize {
        self.columns.iter().map(|c| c.depth).max().unwrap_or(0)
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
    Slot(usize),
    Outer(usize),
}

/// A chain in the executor's terms.
#[derive(Clone)]
pub struct Lowered {
    pub pipeline: Arc<Pipeline>,
    pub output: Vec<OutputColumn>,
}

impl Chain {
    pub fn access(&self, depth: usize) -> Option<&Arc<TableAccess>> {
        match (depth, &self.origin) {
            (0, Origin::Ranges { access, .. }) => Some(access),
            (0, Origin::Rows { .. }) => None,
            _ => self.links.get(depth - 1).map(|link| &link.access),
        }
    }

    /// Whether the column lies in the batches of a child plan, where filters of ours do not reach.
    pub fn is_outer(&self, column: ColumnRef) -> bool {
        column.depth == 0 && matches!(self.origin, Origin::Rows { .. })
    }

    /// Adds a condition; `false` if it concerns outer batches or would be applied after a limit.
    pub fn add_filter(&mut self, filter: ChainFilter) -> bool {
        let reachable = self.limit.is_none()
            && !filter.columns.iter().any(|c| self.is_outer(*c))
            // A filter without columns has no slots to be evaluated on.
            && !filter.columns.is_empty();
        if reachable {
            self.filters.push(filter);
        }
        reachable
    }

    /// Depth at which a filter is applied.
    pub fn filters_at(&self, depth: usize) -> impl Iterator<Item = &ChainFilter> {
        self.filters.iter().filter(move |f| f.depth() == depth)
    }

    /// Columns that must be in slots after `depth`.
    fn live(&self, depth: usize, output: &[ColumnRef]) -> Vec<ColumnRef> {
        let mut live: Vec<ColumnRef> = output.to_vec();
        live.extend(self.filters.iter().filter(|f| f.depth() >= depth).flat_map(|f| f.columns.iter().copied()));
        for link in &self.links[depth..] {
            live.extend(link.key.iter().filter_map(|key| match key {
                LinkKey::Column(column) => Some(*column),
                LinkKey::Encoded { .. } => None,
            }));
        }
        live.retain(|c| c.depth <= depth && !self.is_outer(*c));
        live.sort_unstable();
        live.dedup();
        live
    }

    /// The pipeline that yields `output`, as `view` sees the tables.
    pub fn lower(&self, output: &[ColumnRef], view: &ReadView) -> Lowered {
        let mut slots = self.live(0, output);
        let source = match &self.origin {
            Origin::Ranges { access, ranges, predicates } => Source::Ranges {
                access: access.seen_by(view),
                ranges: ranges.clone(),
                predicates: predicates.clone(),
                fetch: slots.iter().map(|c| c.column).collect(),
                filter: self.batch_filter(0, &slots),
            },
            Origin::Rows { schema } => Source::Rows { schema: Arc::clone(schema) },
        };
        let mut stages = Vec::with_capacity(self.links.len());
        for (index, link) in self.links.iter().enumerate() {
            let depth = index + 1;
            let live = self.live(depth, output);
            let position = |wanted: &ColumnRef| slots.iter().position(|slot| slot == wanted);
            let key = link
                .key
                .iter()
                .map(|key| match key {
                    LinkKey::Column(column) if self.is_outer(*column) => KeySource::Outer(column.column),
                    LinkKey::Column(column) => KeySource::Slot(position(column).expect("key columns are live")),
                    LinkKey::Encoded { bytes, .. } => KeySource::Encoded(bytes.clone()),
                })
                .collect();
            let kept: Vec<ColumnRef> = live.iter().filter(|c| c.depth < depth).copied().collect();
            let fetched: Vec<ColumnRef> = live.iter().filter(|c| c.depth == depth).copied().collect();
            let keep = kept.iter().map(|c| position(c).expect("what is live later is live before")).collect();
            let fetch = fetched.iter().map(|c| c.column).collect();
            slots = kept;
            slots.extend(fetched);
            stages.push(Stage {
                access: link.access.seen_by(view),
                kind: link.kind,
                key,
                unique: link.unique,
                predicates: link.predicates.clone(),
                keep,
                fetch,
                filter: self.batch_filter(depth, &slots),
            });
        }
        let output = output
            .iter()
            .map(|column| {
                if self.is_outer(*column) {
                    OutputColumn::Outer(column.column)
                } else {
                    OutputColumn::Slot(slots.iter().position(|slot| slot == column).expect("output is live"))
                }
            })
            .collect();
        let pipeline = Pipeline { source, stages, limit: self.limit, snapshot: Arc::clone(&self.snapshot) };
        Lowered { pipeline: Arc::new(pipeline), output }
    }

    fn batch_filter(&self, depth: usize, slots: &[ColumnRef]) -> Option<Arc<dyn BatchFilter>> {
        let conditions: Vec<Arc<dyn PhysicalExpr>> = self
            .filters_at(depth)
            .map(|filter| {
                renumber(&filter.condition, &|index| {
                    slots.iter().position(|slot| *slot == filter.columns[index]).expect("filter columns are live")
                })
            })
            .collect();
        (!conditions.is_empty()).then(|| Arc::new(SlotFilter { conditions }) as Arc<dyn BatchFilter>)
    }
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

/// Conditions of the query planner, evaluated on batches of slots.
struct SlotFilter {
    conditions: Vec<Arc<dyn PhysicalExpr>>,
}

impl BatchFilter for SlotFilter {
    fn select(&self, batch: &RecordBatch) -> Result<BooleanArray, String> {
        let mut selected: Option<BooleanArray> = None;
        for condition in &self.conditions {
            let values = condition
                .evaluate(batch)
                .and_then(|value| value.into_array(batch.num_rows()))
                .map_err(|error| error.to_string())?;
            let values =
                values.as_any().downcast_ref::<BooleanArray>().ok_or_else(|| format!("{condition} is not boolean"))?;
            selected = Some(match selected {
                None => values.clone(),
                Some(before) => and(&before, values).map_err(|error| error.to_string())?,
            });
        }
        Ok(selected.unwrap_or_else(|| BooleanArray::from(vec![true; batch.num_rows()])))
    }

    fn describe(&self) -> String {
        self.conditions.iter().map(|c| c.to_string()).collect::<Vec<_>>().join(" AND ")
    }
}
