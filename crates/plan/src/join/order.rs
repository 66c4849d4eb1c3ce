//! Puts inner joins into the order with the fewest seconds.
//!
//! A tree of inner joins is flattened into relations and conditions. The best plan of every set of
//! relations is built from the best plans of two smaller ones (all of them if they
//! are few, greedily if not), each priced as a hash join and, where the smaller side is a table with a
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

use crate::join::graph::{Condition, JoinGraph, Order, Relation, plain_column};
use crate::join::relation::{env_of, relation};
use crate::node::QueryEnv;
use crate::subqueries::once::OncePlanner;
use saki_settings::JoinOrder;

/// The planner of every session: orders joins, then plans as usual.
#[derive(Debug)]
pub struct OrderedPlanner;

#[async_trait]
impl QueryPlanner for OrderedPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = order_joins(plan)?;
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OncePlanner::default())]);
        planner.create_physical_plan(&ordered, session).await
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

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};
    use saki_settings::Settings;

    static SHOP: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        let row = |id: i64, parent: i64, kind: i64| vec![Value::Int8(id), Value::Int8(parent), Value::Int8(kind)];
        let table = |name: &str| {
            TableBuilder::new(name)
                .column("id", DataType::Int8)
                .column("parent", DataType::Int8)
                .column("kind", DataType::Int8)
                .key(&["id"])
        };
        for (name, rows) in [("few", 4), ("mid", 60), ("many", 600)] {
            fixture.load(table(name), &(0..rows).map(|id| row(id, id % 40, id % 3)).collect::<Vec<_>>());
        }
        fixture
    });

    fn optimized(sql: &str, changes: &[(&str, &str)]) -> LogicalPlan {
        let mut settings = Settings { partitions: 1, ..Settings::default() };
        changes.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
        let env = SHOP.env(settings);
        SHOP.session(&env).state().optimize(&SHOP.logical(&env, sql)).unwrap()
    }

    /// Tables in the order in which they are joined.
    fn scans(plan: &LogicalPlan) -> Vec<String> {
        match plan {
            LogicalPlan::TableScan(scan) => vec![scan.table_name.table().to_owned()],
            plan => plan.inputs().into_iter().flat_map(scans).collect(),
        }
    }

    const THREE: &str = "SELECT many.kind, few.kind FROM many, mid, few \
                         WHERE many.parent = mid.id AND mid.parent = few.id AND few.kind = 1";

    #[test]
    fn three_relations_are_put_into_the_cheapest_order() {
        let plan = optimized(THREE, &[]);
        let ordered = order_joins(&plan).unwrap();
        assert_eq!(ordered.schema().columns(), plan.schema().columns());
        let order = scans(&ordered);
        assert_ne!(order[0..2], ["many".to_owned(), "mid".to_owned()], "{order:?}");
        assert_ne!(scans(&order_joins(&plan).unwrap()), Vec::<String>::new());
    }

    #[test]
    fn a_setting_keeps_the_order_that_was_written() {
        let plan = optimized(THREE, &[("join_order", "as_written")]);
        assert_eq!(scans(&order_joins(&plan).unwrap()), scans(&plan));
    }

    #[test]
    fn two_relations_and_outer_joins_stay_as_they_are() {
        for sql in [
            "SELECT many.id FROM many JOIN mid ON many.parent = mid.id",
            "SELECT many.id FROM many LEFT JOIN mid ON many.parent = mid.id LEFT JOIN few ON mid.parent = few.id",
            "SELECT id FROM many",
        ] {
            let plan = optimized(sql, &[]);
            assert_eq!(scans(&order_joins(&plan).unwrap()), scans(&plan), "{sql}");
        }
    }

    #[test]
    fn a_join_below_an_outer_join_is_ordered_too() {
        let sql = format!(
            "SELECT * FROM mid s LEFT JOIN ({}) x ON s.id = x.k",
            THREE.replace("many.kind,", "many.kind AS k,")
        );
        let plan = optimized(&sql, &[]);
        assert_ne!(scans(&order_joins(&plan).unwrap()), scans(&plan));
    }

    #[test]
    fn every_order_has_the_same_rows() {
        for order in ["auto", "as_written"] {
            let mut settings = Settings { partitions: 2, ..Settings::default() };
            settings.set("join_order", Some(order)).unwrap();
            let env = SHOP.env(settings);
            for sql in [
                THREE,
                "SELECT m.id, s.id, f.id FROM many m, mid s, few f \
                 WHERE m.parent = s.id AND s.kind = f.kind AND m.id < f.id + 50",
                "SELECT count(*) FROM many m, mid s, few f WHERE m.parent = s.id AND m.kind + s.kind = f.id",
                "SELECT m.id FROM many m JOIN mid s ON m.parent = s.id \
                 JOIN mid t ON s.parent = t.id JOIN few f ON t.kind = f.id \
                 WHERE m.kind = f.kind",
                "SELECT m.id FROM many m, mid s, few f WHERE m.id = s.id AND f.id < 2",
                "SELECT m.id FROM many m JOIN mid s ON m.parent = s.id \
                 WHERE s.parent IN (SELECT id FROM few WHERE kind > 0)",
            ] {
                SHOP.check(&env, sql);
            }
        }
    }
}
