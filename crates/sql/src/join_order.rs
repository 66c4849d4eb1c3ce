//! Puts inner joins into the order with the fewest seconds.
//!
//! A tree of inner joins is flattened into relations and conditions. The best plan of every set of
//! relations is built from the best plans of two smaller ones (all of them up to
//! [`EXHAUSTIVE_RELATIONS`], greedily above), each priced as a hash join and, where the smaller side is a table with a
//! fitting key, as an index join. How many rows a set of relations has is estimated once for the
//! set, so that the orders are compared on equal terms.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Dependency, NullEquality, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{Optimizer, OptimizerContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::join_graph::{Condition, JoinGraph, Relation};
use crate::query_env::QueryEnv;
use crate::relation::{env_of, relation};
use crate::settings::JoinOrder;

/// The planner of every session: orders joins, then plans as usual.
#[derive(Debug)]
pub struct OrderedPlanner;

#[async_trait]
impl QueryPlanner for OrderedPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = order_joins(plan)?;
        DefaultPhysicalPlanner::default().create_physical_plan(&ordered, session).await
    }
}

/// The plan with its inner joins in the best order found.
fn order_joins(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let env = env_of(plan);
    match env {
        Some(env) if env.settings.join_order == JoinOrder::Auto => {
            let ordered = reorder(plan.clone(), &env)?;
            if !ordered.transformed {
                return Ok(ordered.data);
            }
            // Columns that only a join in the old order needed can go.
            let pruning = Optimizer::with_rules(vec![Arc::new(OptimizeProjections::new())]);
            pruning.optimize(ordered.data, &OptimizerContext::new().with_max_passes(1), |_, _| {})
        }
        _ => Ok(plan.clone()),
    }
}

fn reorder(plan: LogicalPlan, env: &Arc<QueryEnv>) -> Result<Transformed<LogicalPlan>> {
    if !is_inner_join(&plan) {
        let children = plan.map_children(|child| reorder(child, env))?;
        return children.transform_data(|plan| plan.map_subqueries(|subquery| reorder(subquery, env)));
    }
    let mut flat = Flat::default();
    flatten(plan.clone(), &mut flat);
    let mut relations = Vec::with_capacity(flat.inputs.len());
    let mut changed = false;
    let mut inputs = Vec::with_capacity(flat.inputs.len());
    for input in flat.inputs {
        let input = reorder(input, env)?;
        changed |= input.transformed;
        relations.push(relation(&input.data)?);
        inputs.push(input.data);
    }
    let placed = flat.conditions.iter().map(|expr| Condition::place(expr, &relations)).collect::<Option<Vec<_>>>();
    let orderable = relations.len() > 2 && columns_differ(&relations);
    let (Some(conditions), true) = (placed, orderable) else {
        return if changed { plan.map_children(|child| reorder(child, env)) } else { Ok(Transformed::no(plan)) };
    };
    let graph = JoinGraph::new(relations, conditions, env);
    let order = graph.best();
    let built = build(&order, &inputs, &mut flat.conditions.into_iter().map(Some).collect::<Vec<_>>(), &graph)?;
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let restored = LogicalPlanBuilder::from(built).project(columns)?.build()?;
    Ok(Transformed::yes(restored))
}

/// Whether a join may be done in any order with others: an inner join, or a semi join that finds each row at
/// most once, which an inner join followed by a projection is too.
fn is_inner_join(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    if join.null_equality != NullEquality::NullEqualsNothing || join.null_aware {
        return false;
    }
    match join.join_type {
        JoinType::Inner => true,
        JoinType::LeftSemi => is_unique(join.right.schema(), join.on.iter().map(|(_, right)| right)),
        JoinType::RightSemi => is_unique(join.left.schema(), join.on.iter().map(|(left, _)| left)),
        _ => false,
    }
}

/// Whether values for `keys` determine a row.
fn is_unique<'e>(schema: &DFSchema, keys: impl Iterator<Item = &'e Expr>) -> bool {
    let columns: Vec<usize> =
        keys.filter_map(plain_column).filter_map(|column| schema.maybe_index_of_column(column)).collect();
    schema.functional_dependencies().iter().any(|dependency| {
        dependency.mode == Dependency::Single && dependency.source_indices.iter().all(|index| columns.contains(index))
    })
}

#[derive(Default)]
struct Flat {
    inputs: Vec<LogicalPlan>,
    conditions: Vec<Expr>,
}

/// Collects the inputs and conditions of nested inner joins, through projections that only drop columns.
fn flatten(plan: LogicalPlan, flat: &mut Flat) {
    let inner = is_inner_join(&plan);
    match plan {
        LogicalPlan::Join(join) if inner => {
            let equal = |(left, right): (Expr, Expr)| datafusion::logical_expr::binary_expr(left, Operator::Eq, right);
            flat.conditions.extend(join.on.into_iter().map(equal));
            if let Some(filter) = join.filter {
                flat.conditions.extend(split_conjunction_owned(filter));
            }
            flatten(Arc::unwrap_or_clone(join.left), flat);
            flatten(Arc::unwrap_or_clone(join.right), flat);
        }
        LogicalPlan::Projection(projection)
            if projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) && joins_below(&projection.input) =>
        {
            flatten(Arc::unwrap_or_clone(projection.input), flat);
        }
        other => flat.inputs.push(other),
    }
}

/// Whether a plan is an inner join, seen through projections of columns.
fn joins_below(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) && joins_below(&projection.input)
        }
        plan => is_inner_join(plan),
    }
}

/// An order: which relations are joined with which.
#[derive(Clone, Debug)]
pub enum Order {
    Leaf(usize),
    Join(Arc<Order>, Arc<Order>),
}

impl Order {
    pub fn relations(&self) -> u64 {
        match self {
            Self::Leaf(relation) => 1 << relation,
            Self::Join(left, right) => left.relations() | right.relations(),
        }
    }
}

/// The plan of an order; each condition is taken where all its relations are first together.
fn build(
    order: &Order,
    inputs: &[LogicalPlan],
    conditions: &mut [Option<Expr>],
    graph: &JoinGraph,
) -> Result<LogicalPlan> {
    let (left, right) = match order {
        Order::Leaf(relation) => {
            let own = take_conditions(conditions, graph, 1 << relation);
            let input = inputs[*relation].clone();
            return match conjunction(own.into_iter().map(|(_, expr)| expr)) {
                Some(filter) => LogicalPlanBuilder::from(input).filter(filter)?.build(),
                None => Ok(input),
            };
        }
        Order::Join(left, right) => (left, right),
    };
    let left_plan = build(left, inputs, conditions, graph)?;
    let right_plan = build(right, inputs, conditions, graph)?;
    let (mut left_keys, mut right_keys, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (index, expr) in take_conditions(conditions, graph, order.relations()) {
        match (graph.conditions[index].sides, expr) {
            (Some((a, b)), Expr::BinaryExpr(equality)) => {
                if a & left.relations() == a && b & right.relations() == b {
                    left_keys.push(*equality.left);
                    right_keys.push(*equality.right);
                } else if b & left.relations() == b && a & right.relations() == a {
                    left_keys.push(*equality.right);
                    right_keys.push(*equality.left);
                } else {
                    rest.push(Expr::BinaryExpr(equality));
                }
            }
            (_, expr) => rest.push(expr),
        }
    }
    LogicalPlanBuilder::from(left_plan)
        .join_with_expr_keys(right_plan, JoinType::Inner, (left_keys, right_keys), conjunction(rest))?
        .build()
}

/// Conditions whose relations are all in `relations` and that nobody has taken.
fn take_conditions(conditions: &mut [Option<Expr>], graph: &JoinGraph, relations: u64) -> Vec<(usize, Expr)> {
    let taken =
        conditions.iter_mut().enumerate().filter(|(index, _)| graph.conditions[*index].relations & !relations == 0);
    taken.filter_map(|(index, condition)| condition.take().map(|expr| (index, expr))).collect()
}

/// Whether a column's name says which relation it is of.
fn columns_differ(relations: &[Relation]) -> bool {
    let mut all: Vec<&Column> = relations.iter().flat_map(|relation| &relation.columns).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    all.len() == count
}

/// Relations that an expression names, as a set; `None` if it names something else.
pub fn relations_of(expr: &Expr, relations: &[Relation]) -> Option<u64> {
    let mut set = 0;
    for column in expr.column_refs() {
        let holds = |relation: &Relation| relation.position(column).is_some();
        set |= 1 << relations.iter().position(holds)?;
    }
    Some(set)
}

/// A plain column, if the expression is one.
pub fn plain_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    }
}
