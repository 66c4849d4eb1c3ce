//! The pipeline that takes a hash join's place: the outer side's chain with a lookup appended.

use std::sync::Arc;

use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::conjunction_opt;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use saki_catalog::{PlacedTest, TableAccess, guesses};
use saki_exec::plan::JoinKind;

use crate::access::chain::{Chain, ChainFilter, ColumnRef, ConstantKey, Link, LinkKey, only_used, renumber};
use crate::access::path::{ColumnMap, primary_fetch};
use crate::cost::Estimate;
use crate::join::candidate::Candidate;
use crate::join::lookup::{KeyPart, Lookup};
use crate::node::{Plan, SakiNode};
use crate::pipeline::{PipelineExec, PipelineParts};

/// A chain that replaces a join, not yet a plan node.
pub struct Fused {
    parts: PipelineParts,
    /// Conditions that remain, over the whole join's columns.
    after: Vec<Arc<dyn PhysicalExpr>>,
}

impl Fused {
    /// `None` where a condition has no place in the chain.
    pub fn new(candidate: &Candidate<'_>, lookup: &Lookup) -> Option<Self> {
        let mut chain = candidate.outer.chain.clone();
        let map = append(candidate, lookup, &mut chain)?;
        let mut fusing = Fusing { candidate, chain, map, after: Vec::new() };
        fusing.add_scan_conditions()?;
        fusing.add_equalities(lookup)?;
        let output = fusing.join_columns()?;
        fusing.add_residual()?;
        let Fusing { chain, after, .. } = fusing;
        let filtered = candidate.join.filter().is_some();
        let rows = if filtered { guesses::filtered(lookup.rows) } else { lookup.rows };
        let parts = PipelineParts {
            env: Arc::clone(&candidate.env),
            chain,
            output,
            schema: Arc::clone(candidate.join.join_schema()),
            child: candidate.outer.child.clone(),
            estimate: Estimate { rows, seconds: candidate.outer.estimate.seconds + lookup.seconds },
            scan: None,
            path: candidate.outer.path.clone(),
        };
        Some(Self { parts, after })
    }

    /// The node, conditions that remain above it, and the join's projection.
    pub fn into_plan(self, join: &HashJoinExec) -> Result<Plan> {
        let projection = join.projection.as_ref().map(|projection| projection.to_vec());
        let exec = PipelineExec::new(self.parts);
        let Some(condition) = conjunction_opt(self.after) else {
            return Ok(match projection {
                None => exec.into_plan(),
                Some(positions) => exec.projected(&positions, join.schema()).into_plan(),
            });
        };
        let filter = FilterExec::try_new(condition, exec.into_plan())?;
        Ok(match projection {
            None => Arc::new(filter),
            Some(positions) => {
                let schema = filter.schema();
                let columns = positions.iter().map(|position| {
                    let name = schema.field(*position).name().clone();
                    (Arc::new(Column::new(&name, *position)) as Arc<dyn PhysicalExpr>, name)
                });
                Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(filter))?)
            }
        })
    }
}

/// Appends the lookup, and the fetch of whole rows if it needs one: where the table's columns are found.
fn append(candidate: &Candidate<'_>, lookup: &Lookup, chain: &mut Chain) -> Option<ColumnMap> {
    let step = chain.links.len() + 1;
    let primary = TableAccess::primary(&candidate.scan.table);
    let (predicates, later) = placed_tests(candidate, lookup, &primary)?;
    chain.links.push(Link {
        access: Arc::clone(&lookup.access),
        kind: candidate.kind,
        key: key(candidate, lookup)?,
        unique: lookup.unique,
        predicates,
        completes_previous: false,
    });
    let mut map = ColumnMap { accesses: vec![(step, Arc::clone(&lookup.access))] };
    if lookup.fetches_primary {
        chain.links.push(primary_fetch(&lookup.access, &primary, step, candidate.kind, later));
        map.accesses.push((step + 1, primary));
    }
    Some(map)
}

fn key(candidate: &Candidate<'_>, lookup: &Lookup) -> Option<Vec<LinkKey>> {
    let columns = lookup.access.tree.key.columns();
    let parts = lookup.key.iter().zip(columns).map(|(part, column)| match part {
        KeyPart::Equality(equality) => {
            Some(LinkKey::Column(candidate.outer.columns[candidate.equalities[*equality].outer]))
        }
        KeyPart::Constant(test) => {
            ConstantKey::new(candidate.scan.tests[*test].clone(), *column).map(LinkKey::Constant)
        }
    });
    parts.collect()
}

/// The tests that the key does not decide: those of columns that the tree has, and the others.
fn placed_tests(
    candidate: &Candidate<'_>,
    lookup: &Lookup,
    primary: &TableAccess,
) -> Option<(Vec<PlacedTest>, Vec<PlacedTest>)> {
    let (mut here, mut later) = (Vec::new(), Vec::new());
    for (position, test) in candidate.scan.tests.iter().enumerate() {
        if lookup.key.contains(&KeyPart::Constant(position)) {
            continue;
        }
        match lookup.access.position(test.column) {
            Some(column) => here.push(test.placed(column)),
            None => later.push(test.placed(primary.position(test.column)?)),
        }
    }
    Some((here, later))
}

/// A chain that gets the conditions of a join.
struct Fusing<'c, 'a> {
    candidate: &'c Candidate<'a>,
    chain: Chain,
    /// Of the inner table.
    map: ColumnMap,
    after: Vec<Arc<dyn PhysicalExpr>>,
}

impl Fusing<'_, '_> {
    /// Conditions of the inner scan that are no tests.
    fn add_scan_conditions(&mut self) -> Option<()> {
        let scan = &self.candidate.scan;
        for condition in &scan.rest {
            let filter = over_chain(condition, scan.table.columns.len(), &self.map)?;
            self.chain.add_filter(filter).then_some(())?;
        }
        Some(())
    }

    /// Equalities that the key does not decide.
    fn add_equalities(&mut self, lookup: &Lookup) -> Option<()> {
        for (position, equality) in self.candidate.equalities.iter().enumerate() {
            if lookup.decides(position) {
                continue;
            }
            let columns = vec![self.candidate.outer.columns[equality.outer], self.map.find(equality.inner)?];
            let condition = equal(Column::new("outer", 0), Column::new("inner", 1));
            if !self.chain.add_filter(ChainFilter { condition, columns }) {
                self.after.push(self.equality_over_join(equality.outer, equality.inner));
            }
        }
        Some(())
    }

    /// The join's own condition.
    fn add_residual(&mut self) -> Option<()> {
        let Some(residual) = self.candidate.join.filter() else { return Some(()) };
        let columns = residual.column_indices().iter().map(|at| match at.side {
            side if side == self.candidate.inner_side => self.map.find(self.candidate.scan.columns[at.index]),
            _ => Some(self.candidate.outer.columns[at.index]),
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let filter = only_used(ChainFilter { condition: Arc::clone(residual.expression()), columns })?;
        if !self.chain.add_filter(filter) {
            let left_width = self.candidate.join.left().schema().fields().len();
            self.after.push(renumber(residual.expression(), &|index| {
                let at = &residual.column_indices()[index];
                if at.side == JoinSide::Left { at.index } else { left_width + at.index }
            }));
        }
        Some(())
    }

    /// Every column of the join's own schema (before its projection) in the chain.
    fn join_columns(&self) -> Option<Vec<ColumnRef>> {
        let outer = self.candidate.outer.columns.iter().copied().map(Some);
        let inner = self.candidate.scan.columns.iter().map(|column| self.map.find(*column));
        match (self.candidate.kind, self.candidate.inner_side) {
            (JoinKind::Semi | JoinKind::Anti, _) => outer.collect(),
            (_, JoinSide::Left) => inner.chain(outer).collect(),
            _ => outer.chain(inner).collect(),
        }
    }

    fn equality_over_join(&self, outer_column: usize, inner_column: usize) -> Arc<dyn PhysicalExpr> {
        let columns = &self.candidate.scan.columns;
        let inner_position = columns.iter().position(|column| *column == inner_column).unwrap_or(0);
        let (outer_at, inner_at) = match self.candidate.inner_side {
            JoinSide::Left => (columns.len() + outer_column, inner_position),
            _ => (outer_column, self.candidate.outer.columns.len() + inner_position),
        };
        let schema = self.candidate.join.join_schema();
        let column = |at: usize| Column::new(schema.field(at).name(), at);
        equal(column(outer_at), column(inner_at))
    }
}

fn equal(left: Column, right: Column) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(Arc::new(left), Operator::Eq, Arc::new(right)))
}

/// A condition over a table's columns as one over the chain.
fn over_chain(condition: &Arc<dyn PhysicalExpr>, width: usize, map: &ColumnMap) -> Option<ChainFilter> {
    let columns = (0..width).map(|column| map.find(column).unwrap_or(ColumnRef::NOWHERE)).collect();
    let filter = only_used(ChainFilter { condition: Arc::clone(condition), columns })?;
    (!filter.columns.contains(&ColumnRef::NOWHERE)).then_some(filter)
}
