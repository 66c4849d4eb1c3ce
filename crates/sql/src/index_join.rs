//! Replaces hash joins by lookups where the seconds say so, and fuses lookups into pipelines.
//!
//! A hash join whose one side is a plain scan can look that side up instead, if its equalities
//! determine a prefix of the primary key or of an index. If the other side is a pipeline already,
//! the lookup becomes a further link of it; if not, a pipeline is fed from that side's stream.
//!
//! What is allowed depends on the kind. An inner join may apply any other condition afterwards.
//! Left, semi and anti joins must decide within the lookup whether there is a match, so all
//! equalities must be in the key and all conditions on the inner table must be tests of columns that the tree
//! looked up has; a second fetch from the primary tree only completes rows of inner and left joins.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use saki_exec::plan::JoinKind;

use crate::access::TableAccess;
use crate::chain::{ChainFilter, ColumnRef, ConstantKey, Link, LinkKey};
use crate::column_test::ColumnTest;
use crate::cost::Estimate;
use crate::join_sides::{Outer, inner_scan};
use crate::key_range::exact_in_keys;
use crate::path::{ColumnMap, primary_fetch};
use crate::pipeline_exec::{PipelineExec, PipelineParts, ScanInfo, only_used};
use crate::query_env::QueryEnv;
use crate::settings::IndexJoin;

/// The optimizer rule; belongs right after `join_selection`.
#[derive(Debug)]
pub struct IndexJoinRule;

impl PhysicalOptimizerRule for IndexJoinRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let replaced = match node.downcast_ref::<HashJoinExec>() {
                Some(join) => replacement(join)?,
                None => None,
            };
            Ok(replaced.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &'static str {
        "index_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The best index join for a hash join, or `None` to keep it.
fn replacement(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if join.null_equality() == NullEquality::NullEqualsNull || join.null_aware {
        return Ok(None);
    }
    let candidates: &[(JoinSide, JoinKind)] = match join.join_type() {
        JoinType::Inner => &[(JoinSide::Right, JoinKind::Inner), (JoinSide::Left, JoinKind::Inner)],
        JoinType::Left => &[(JoinSide::Right, JoinKind::Left)],
        JoinType::Right => &[(JoinSide::Left, JoinKind::Left)],
        JoinType::LeftSemi => &[(JoinSide::Right, JoinKind::Semi)],
        JoinType::RightSemi => &[(JoinSide::Left, JoinKind::Semi)],
        JoinType::LeftAnti => &[(JoinSide::Right, JoinKind::Anti)],
        JoinType::RightAnti => &[(JoinSide::Left, JoinKind::Anti)],
        _ => &[],
    };
    let mut best: Option<(f64, PipelinePlan)> = None;
    for (inner_side, kind) in candidates {
        let Some(candidate) = Candidate::new(join, *inner_side, *kind)? else { continue };
        let Some(lookup) = candidate.best_lookup() else { continue };
        let setting = candidate.env.settings.index_join;
        let wins = match setting {
            IndexJoin::Never => false,
            IndexJoin::Always => true,
            IndexJoin::Auto => lookup.seconds < candidate.hash_seconds,
        };
        // What is saved against hashing, so that both sides compare on one scale.
        let score = lookup.seconds - candidate.hash_seconds;
        if wins && best.as_ref().is_none_or(|(known, _)| score < *known) {
            best = candidate.plan(&lookup)?.map(|plan| (score, plan)).or(best);
        }
    }
    Ok(best.map(|(_, plan)| plan.into_plan(join)).transpose()?.flatten())
}

/// A hash join and the side of it that might be looked up.
struct Candidate<'a> {
    join: &'a HashJoinExec,
    inner_side: JoinSide,
    kind: JoinKind,
    env: Arc<QueryEnv>,
    scan: ScanInfo,
    outer: Outer,
    /// Outer column (in the join's side) and inner table column of each equality.
    equalities: Vec<(usize, usize)>,
    /// Reading the inner side and hashing.
    hash_seconds: f64,
}

/// A tree to look up in, and how its leading key columns are determined.
struct Lookup {
    access: Arc<TableAccess>,
    key: Vec<KeyPart>,
    fetches_primary: bool,
    unique: bool,
    /// Of the lookups alone.
    seconds: f64,
    rows: f64,
}

#[derive(Clone)]
enum KeyPart {
    /// Position in `equalities`.
    Equality(usize),
    /// Position in the inner scan's tests, a single point.
    Constant(usize),
}

/// A chain that replaces a join, not yet a plan node.
struct PipelinePlan {
    parts: PipelineParts,
    /// Conditions that remain, over the whole join's columns.
    after: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'a> Candidate<'a> {
    fn new(join: &'a HashJoinExec, inner_side: JoinSide, kind: JoinKind) -> Result<Option<Self>> {
        let (inner, outer) = match inner_side {
            JoinSide::Left => (join.left(), join.right()),
            _ => (join.right(), join.left()),
        };
        let Some((env, scan, inner_estimate)) = inner_scan(inner) else { return Ok(None) };
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
            let (Some(inner_column), Some(outer_column)) =
                (inner_key.downcast_ref::<Column>(), outer_key.downcast_ref::<Column>())
            else {
                return Ok(None);
            };
            let table_column = scan.columns[inner_column.index()];
            let inner_type = saki_exec::arrow_type(scan.table.column_type(table_column).1);
            if *outer_schema.field(outer_column.index()).data_type() != inner_type {
                return Ok(None);
            }
            equalities.push((outer_column.index(), table_column));
        }
        let outer = Outer::new(outer, &env)?;
        let hash_seconds =
            inner_estimate.seconds + env.costs.hash_join(scan.rows.min(outer.rows), scan.rows.max(outer.rows));
        Ok(Some(Self { join, inner_side, kind, env, scan, outer, equalities, hash_seconds }))
    }

    fn best_lookup(&self) -> Option<Lookup> {
        let lookups = TableAccess::all(&self.scan.table).filter_map(|access| self.lookup(access));
        lookups.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// How a tree could be looked up, if its key allows it.
    fn lookup(&self, access: Arc<TableAccess>) -> Option<Lookup> {
        let (scan, table) = (&self.scan, &self.scan.table);
        let mut key: Vec<KeyPart> = Vec::new();
        for (column, key_column) in access.key_columns().iter().zip(access.tree.key.columns()) {
            if !exact_in_keys(key_column.data_type) {
                break;
            }
            let equality = self.equalities.iter().position(|(_, inner)| inner == column);
            let constant = || {
                let single = |t: &ColumnTest| t.column == *column && t.points().is_some_and(|p| p.len() == 1);
                scan.tests.iter().position(single)
            };
            match (equality, equality.is_none().then(constant).flatten()) {
                (Some(equality), _) => key.push(KeyPart::Equality(equality)),
                (None, Some(test)) => key.push(KeyPart::Constant(test)),
                (None, None) => break,
            }
        }
        while matches!(key.last(), Some(KeyPart::Constant(_))) && !key.iter().any(|p| matches!(p, KeyPart::Equality(_)))
        {
            key.pop();
        }
        if key.is_empty() {
            return None;
        }
        let in_key = |equality: usize| key.iter().any(|part| matches!(part, KeyPart::Equality(e) if *e == equality));
        let loose: Vec<usize> = (0..self.equalities.len()).filter(|equality| !in_key(*equality)).collect();
        let fetched: Vec<usize> = match self.kind {
            JoinKind::Semi | JoinKind::Anti => Vec::new(),
            _ => self.inner_columns_used(&loose),
        };
        let tests_here = access.covers(scan.tests.iter().map(|test| test.column));
        let covering = tests_here && access.covers(fetched.iter().copied());
        let allowed = match self.kind {
            JoinKind::Inner => true,
            JoinKind::Left => loose.is_empty() && tests_here,
            JoinKind::Semi | JoinKind::Anti => loose.is_empty() && covering,
        };
        if !allowed {
            return None;
        }
        let fetches_primary = !covering && access.index.is_some();
        if !covering && access.index.is_none() {
            return None;
        }
        let unique = key.len() == access.key_columns().len();
        let at_most_one = access.unique_width().is_some_and(|width| key.len() >= width);
        let entries = table.rows().max(1.0);
        let distinct: f64 = key.iter().zip(access.key_columns()).map(|(_, column)| table.distinct(*column)).product();
        let matches = if at_most_one { 1.0 } else { (entries / distinct.clamp(1.0, entries)).max(1.0) };
        // Probes that find anything at all: a key of a table that refers to this one nearly always does.
        let leaves = access.tree.leaf_pages as f64;
        let rows_per_leaf = (entries / leaves.max(1.0)).max(1.0);
        let mut seconds = self.env.costs.lookups(self.outer.rows, (matches / rows_per_leaf).ceil(), leaves);
        let found = self.outer.rows * matches;
        if fetches_primary {
            let on_index = scan.tests.iter().filter(|test| access.position(test.column).is_some());
            let remaining = found * table.selectivity(on_index);
            seconds += self.env.costs.lookups(remaining, 1.0, table.root.leaf_pages as f64);
        }
        let kept = table.selectivity(
            scan.tests
                .iter()
                .enumerate()
                .filter(|(i, _)| !key.iter().any(|part| matches!(part, KeyPart::Constant(c) if c == i)))
                .map(|(_, test)| test),
        );
        let mut joined = found * kept * 0.33_f64.powi((scan.rest.len().min(3)) as i32);
        for equality in &loose {
            joined /= table.distinct(self.equalities[*equality].1).clamp(1.0, 1e9);
        }
        let rows = match self.kind {
            JoinKind::Inner => joined,
            JoinKind::Left => joined.max(self.outer.rows),
            JoinKind::Semi => joined.min(self.outer.rows),
            JoinKind::Anti => (self.outer.rows - joined).max(self.outer.rows * 0.05),
        };
        Some(Lookup { access, key, fetches_primary, unique, seconds, rows })
    }

    /// Table columns of the inner side that the join's output and later conditions use.
    fn inner_columns_used(&self, loose: &[usize]) -> Vec<usize> {
        let mut used: Vec<usize> = self.scan.columns.clone();
        used.extend(loose.iter().map(|equality| self.equalities[*equality].1));
        for condition in &self.scan.rest {
            used.extend(datafusion::physical_expr::utils::collect_columns(condition).iter().map(Column::index));
        }
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The chain with the lookup appended.
    fn plan(&self, lookup: &Lookup) -> Result<Option<PipelinePlan>> {
        let mut chain = self.outer.chain.clone();
        let depth = chain.links.len() + 1;
        let mut decided = Vec::new();
        let mut key = Vec::with_capacity(lookup.key.len());
        for (part, key_column) in lookup.key.iter().zip(lookup.access.tree.key.columns()) {
            key.push(match part {
                KeyPart::Equality(equality) => LinkKey::Column(self.outer.columns[self.equalities[*equality].0]),
                KeyPart::Constant(test) => {
                    decided.push(*test);
                    match ConstantKey::new(self.scan.tests[*test].clone(), *key_column) {
                        Some(constant) => LinkKey::Constant(constant),
                        None => return Ok(None),
                    }
                }
            });
        }
        let (mut here, mut later) = (Vec::new(), Vec::new());
        let primary = TableAccess::primary(&self.scan.table);
        for (position, test) in self.scan.tests.iter().enumerate() {
            match (lookup.access.position(test.column), primary.position(test.column)) {
                _ if decided.contains(&position) => {}
                (Some(column), _) => here.push(test.placed(column)),
                (None, Some(column)) => later.push(test.placed(column)),
                (None, None) => return Ok(None),
            }
        }
        chain.links.push(Link {
            access: Arc::clone(&lookup.access),
            kind: self.kind,
            key,
            unique: lookup.unique,
            predicates: here,
            completes_previous: false,
        });
        let mut map = ColumnMap { accesses: vec![(depth, Arc::clone(&lookup.access))] };
        if lookup.fetches_primary {
            chain.links.push(primary_fetch(&lookup.access, &primary, depth, self.kind, later));
            map.accesses.push((depth + 1, primary));
        }
        let inner = |table_column: usize| map.find(table_column);
        // Conditions of the inner scan that are no tests, and equalities that the key does not decide.
        for condition in &self.scan.rest {
            let width = self.scan.table.columns.len();
            let Some(columns) = table_columns(condition, width, &inner) else { return Ok(None) };
            if !chain.add_filter(columns) {
                return Ok(None);
            }
        }
        let mut after = Vec::new();
        for (position, (outer_column, inner_column)) in self.equalities.iter().enumerate() {
            if lookup.key.iter().any(|part| matches!(part, KeyPart::Equality(e) if *e == position)) {
                continue;
            }
            let Some(inner_ref) = inner(*inner_column) else { return Ok(None) };
            let equal: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(
                Arc::new(Column::new("outer", 0)),
                Operator::Eq,
                Arc::new(Column::new("inner", 1)),
            ));
            let filter = ChainFilter { condition: equal, columns: vec![self.outer.columns[*outer_column], inner_ref] };
            if !chain.add_filter(filter) {
                after.push(self.equality_over_join(*outer_column, *inner_column)?);
            }
        }
        let Some(output) = self.join_columns(&inner) else { return Ok(None) };
        if let Some(residual) = self.join.filter() {
            let columns = residual.column_indices().iter().map(|at| match at.side {
                side if side == self.inner_side => inner(self.scan.columns[at.index]),
                _ => Some(self.outer.columns[at.index]),
            });
            let Some(columns) = columns.collect::<Option<Vec<_>>>() else { return Ok(None) };
            let filter = ChainFilter { condition: Arc::clone(residual.expression()), columns };
            let Some(filter) = only_used(filter) else { return Ok(None) };
            if !chain.add_filter(filter) {
                after.push(self.residual_over_join());
            }
        }
        let rows = if self.join.filter().is_some() { (lookup.rows / 3.0).max(1.0) } else { lookup.rows };
        let parts = PipelineParts {
            env: Arc::clone(&self.env),
            chain,
            output,
            schema: Arc::clone(self.join.join_schema()),
            child: self.outer.child.clone(),
            estimate: Estimate { rows, seconds: self.outer.seconds + lookup.seconds },
            scan: None,
            path: self.outer.path.clone(),
        };
        Ok(Some(PipelinePlan { parts, after }))
    }

    /// Every column of the join's own schema (before its projection) in the chain.
    fn join_columns(&self, inner: &dyn Fn(usize) -> Option<ColumnRef>) -> Option<Vec<ColumnRef>> {
        let outer = self.outer.columns.iter().copied().map(Some);
        let inner = self.scan.columns.iter().map(|column| inner(*column));
        match (self.kind, self.inner_side) {
            (JoinKind::Semi | JoinKind::Anti, _) => outer.collect(),
            (_, JoinSide::Left) => inner.chain(outer).collect(),
            _ => outer.chain(inner).collect(),
        }
    }

    fn equality_over_join(&self, outer_column: usize, inner_column: usize) -> Result<Arc<dyn PhysicalExpr>> {
        let inner_position = self.scan.columns.iter().position(|column| *column == inner_column).unwrap_or(0);
        let (outer_at, inner_at) = match self.inner_side {
            JoinSide::Left => (self.scan.columns.len() + outer_column, inner_position),
            _ => (outer_column, self.outer.columns.len() + inner_position),
        };
        let schema = self.join.join_schema();
        let column = |at: usize| Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
        Ok(Arc::new(BinaryExpr::new(column(outer_at), Operator::Eq, column(inner_at))))
    }

    /// The join's residual filter over the columns of the whole join.
    fn residual_over_join(&self) -> Arc<dyn PhysicalExpr> {
        let residual = self.join.filter().expect("called when there is one");
        let left_width = self.join.left().schema().fields().len();
        crate::chain::renumber(residual.expression(), &|index| {
            let at = &residual.column_indices()[index];
            if at.side == JoinSide::Left { at.index } else { left_width + at.index }
        })
    }
}

/// A condition over table columns as one over the chain.
fn table_columns(
    condition: &Arc<dyn PhysicalExpr>,
    width: usize,
    find: &dyn Fn(usize) -> Option<ColumnRef>,
) -> Option<ChainFilter> {
    // Columns that the condition does not name need no place: any serves until `only_used` drops it.
    let nowhere = ColumnRef { depth: usize::MAX, column: 0 };
    let columns = (0..width).map(|column| find(column).unwrap_or(nowhere)).collect();
    let filter = only_used(ChainFilter { condition: Arc::clone(condition), columns })?;
    (!filter.columns.contains(&nowhere)).then_some(filter)
}

impl PipelinePlan {
    /// The node, conditions that remain above it, and the join's projection.
    fn into_plan(self, join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let projection = join.projection.as_ref().map(|projection| projection.to_vec());
        let exec = PipelineExec::new(self.parts);
        let Some(condition) = datafusion::physical_expr::utils::conjunction_opt(self.after) else {
            return Ok(Some(match projection {
                None => Arc::new(exec),
                Some(positions) => {
                    let output = positions.iter().map(|position| exec.output[*position]).collect();
                    Arc::new(exec.projected(output, &positions, join.schema()))
                }
            }));
        };
        let filter = FilterExec::try_new(condition, Arc::new(exec))?;
        Ok(Some(match projection {
            None => Arc::new(filter),
            Some(positions) => {
                let schema = filter.schema();
                let columns = positions.iter().map(|position| {
                    let name = schema.field(*position).name().clone();
                    (Arc::new(Column::new(&name, *position)) as Arc<dyn PhysicalExpr>, name)
                });
                Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(filter))?)
            }
        }))
    }
}
