//! Joins whose condition is one equality or another: `a.id = b.lo OR a.id = b.hi`. No key decides it, so all pairs
//! would be looked at. Each equality by itself is a join by key:
//!
//! ```text
//!   a JOIN b ON p OR q           a JOIN b ON p   +   a JOIN b ON q AND p IS NOT TRUE
//!   a LEFT JOIN b ON p OR q      the same        +   (a ANTI JOIN b ON p) ANTI JOIN b ON q, beside NULLs
//!   a SEMI JOIN b ON p OR q      a SEMI JOIN b ON p   +   (a ANTI JOIN b ON p) SEMI JOIN b ON q
//!   a ANTI JOIN b ON p OR q      (a ANTI JOIN b ON p) ANTI JOIN b ON q
//! ```
//!
//! The sides are read once for each alternative, so they have to be the same each time.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, find_valid_equijoin_key_pair, split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Conditions with more alternatives are left alone: each of them reads both sides again.
const ALTERNATIVES_MAX: usize = 4;

/// The rule; belongs behind those that move conditions.
#[derive(Debug)]
pub struct Alternatives;

impl OptimizerRule for Alternatives {
    fn name(&self) -> &'static str {
        "alternatives"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(ways) = ways(join)? else { return Ok(Transformed::no(plan)) };
        Ok(Transformed::yes(match join.join_type {
            JoinType::Inner => united(pairs(join, &ways)?, &join.schema)?,
            JoinType::Left | JoinType::Right => {
                let mut parts = pairs(join, &ways)?;
                parts.push(beside_nulls(join, &ways)?);
                united(parts, &join.schema)?
            }
            JoinType::LeftSemi => united(found(join, &ways)?, &join.schema)?,
            JoinType::LeftAnti => without(join, JoinType::LeftAnti, &ways)?,
            _ => return Ok(Transformed::no(plan)),
        }))
    }
}

/// One of the alternatives, with what has to hold beside all of them.
struct Way {
    /// Of the left side and of the right one.
    keys: Vec<(Expr, Expr)>,
    /// What else it asks for.
    rest: Option<Expr>,
    /// The alternative alone, as it is written.
    whole: Expr,
}

/// The alternatives of a join without keys, each with one; `None` if it has no such condition, or must not be taken
/// apart.
fn ways(join: &Join) -> Result<Option<Vec<Way>>> {
    let (true, Some(filter)) = (join.on.is_empty(), &join.filter) else { return Ok(None) };
    if join.null_aware || join.null_equality != NullEquality::NullEqualsNothing || filter.is_volatile() {
        return Ok(None);
    }
    let conditions = split_conjunction(filter);
    for (at, condition) in conditions.iter().enumerate() {
        let alternatives = split_binary(condition, Operator::Or);
        if !(2..=ALTERNATIVES_MAX).contains(&alternatives.len()) {
            continue;
        }
        let beside: Vec<Expr> =
            conditions.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, expr)| (*expr).clone()).collect();
        let ways = alternatives.into_iter().map(|alternative| way(join, alternative, &beside));
        if let Some(ways) = ways.collect::<Result<Option<Vec<_>>>>()?
            && is_repeatable(&join.left)?
            && is_repeatable(&join.right)?
        {
            return Ok(Some(ways));
        }
    }
    Ok(None)
}

/// An alternative as a way to join; `None` if it has no key.
fn way(join: &Join, alternative: &Expr, beside: &[Expr]) -> Result<Option<Way>> {
    let (mut keys, mut rest) = (Vec::new(), beside.to_vec());
    for condition in split_conjunction(alternative) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                match find_valid_equijoin_key_pair(left, right, join.left.schema(), join.right.schema())? {
                    Some(pair) => keys.push(pair),
                    None => rest.push(condition.clone()),
                }
            }
            _ => rest.push(condition.clone()),
        }
    }
    Ok((!keys.is_empty()).then(|| Way { keys, rest: conjunction(rest), whole: alternative.clone() }))
}

/// Whether a plan gives the same rows whenever it runs, as far as can be told.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut is_repeatable = true;
    plan.apply_with_subqueries(|node| {
        is_repeatable &= match node {
            LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_) => true,
            _ => false,
        };
        node.apply_expressions(|expr| {
            is_repeatable &= !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if is_repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_repeatable)
}

/// The pairs of each way that no way before it has.
fn pairs(join: &Join, ways: &[Way]) -> Result<Vec<LogicalPlan>> {
    let mut before = Vec::new();
    let mut parts = Vec::new();
    for way in ways {
        let filter = conjunction(way.rest.iter().cloned().chain(before.iter().cloned()));
        parts.push(joined(&join.left, &join.right, JoinType::Inner, &way.keys, filter)?);
        before.push(way.whole.clone().is_not_true());
    }
    Ok(parts)
}

/// The rows of the outer side that no way finds a partner for, beside NULLs in the place of the other's columns.
fn beside_nulls(join: &Join, ways: &[Way]) -> Result<LogicalPlan> {
    let (kind, outer) = match join.join_type {
        JoinType::Left => (JoinType::LeftAnti, &join.left),
        _ => (JoinType::RightAnti, &join.right),
    };
    let column = |(qualifier, field): (Option<&_>, &Arc<arrow_schema::Field>)| {
        let column = Column::from((qualifier, field.as_ref()));
        match outer.schema().has_column(&column) {
            true => Ok(Expr::Column(column)),
            false => Ok(Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None)
                .alias_qualified(qualifier.cloned(), field.name())),
        }
    };
    let columns = join.schema.iter().map(column).collect::<Result<Vec<_>>>()?;
    Projection::try_new(columns, Arc::new(without(join, kind, ways)?)).map(LogicalPlan::Projection)
}

/// The rows of the outer side that no way finds a partner for.
fn without(join: &Join, kind: JoinType, ways: &[Way]) -> Result<LogicalPlan> {
    let is_left = kind == JoinType::LeftAnti;
    let outer = if is_left { &join.left } else { &join.right };
    let mut left = LogicalPlan::clone(outer);
    for way in ways {
        let rest = way.rest.clone();
        left = match is_left {
            true => joined(&Arc::new(left), &join.right, kind, &way.keys, rest)?,
            false => joined(&join.left, &Arc::new(left), kind, &way.keys, rest)?,
        };
    }
    Ok(left)
}

/// The rows of the left side that a way finds a partner for, and none before it.
fn found(join: &Join, ways: &[Way]) -> Result<Vec<LogicalPlan>> {
    let mut parts = Vec::new();
    for (at, way) in ways.iter().enumerate() {
        let left = Arc::new(without(join, JoinType::LeftAnti, &ways[..at])?);
        parts.push(joined(&left, &join.right, JoinType::LeftSemi, &way.keys, way.rest.clone())?);
    }
    Ok(parts)
}

fn joined(
    left: &Arc<LogicalPlan>,
    right: &Arc<LogicalPlan>,
    kind: JoinType,
    keys: &[(Expr, Expr)],
    filter: Option<Expr>,
) -> Result<LogicalPlan> {
    let constraint = JoinConstraint::On;
    let nulls = NullEquality::NullEqualsNothing;
    let (left, right) = (Arc::clone(left), Arc::clone(right));
    Join::try_new(left, right, keys.to_vec(), filter, kind, constraint, nulls, false).map(LogicalPlan::Join)
}

/// All rows of parts with the same columns, under the names of `schema`. A union knows columns by their places, and
/// gives them names that are its own meanwhile.
fn united(parts: Vec<LogicalPlan>, schema: &DFSchema) -> Result<LogicalPlan> {
    let name = |at: usize| format!("alternative_{at}");
    let mut parts = parts.into_iter().map(|part| {
        let columns = part.schema().columns().into_iter().enumerate();
        let columns = columns.map(|(at, column)| Expr::Column(column).alias(name(at))).collect();
        Projection::try_new(columns, Arc::new(part)).map(LogicalPlan::Projection)
    });
    let first = LogicalPlanBuilder::from(parts.next().expect("there are alternatives")?);
    let union = parts.try_fold(first, |union, part| union.union(part?))?.build()?;
    let columns = schema.iter().enumerate().map(|(at, (qualifier, field))| {
        Expr::Column(Column::new_unqualified(name(at))).alias_qualified(qualifier.cloned(), field.name())
    });
    Projection::try_new(columns.collect(), Arc::new(union)).map(LogicalPlan::Projection)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::optimizer::Optimizer;
    use datafusion::prelude::SessionContext;
    use tokio::runtime::Builder;

    use super::*;

    /// The rows of a query with the rule or without it, and its plan.
    fn rows(sql: &str, has_rule: bool) -> (Vec<String>, String) {
        let mut rules = Optimizer::new().rules;
        if has_rule {
            rules.push(Arc::new(Alternatives));
        }
        let state = SessionStateBuilder::new().with_default_features().with_optimizer_rules(rules).build();
        let context = SessionContext::new_with_state(state);
        Builder::new_current_thread().build().unwrap().block_on(async {
            for table in [
                "a AS VALUES (1, 10, 'x'), (2, 20, 'y'), (3, NULL, NULL), (NULL, 40, 'x'), (5, 50, 'z'), (1, 10, 'x')",
                "b AS VALUES (1, 20, 'x'), (10, 1, 'y'), (2, 2, NULL), (NULL, 5, 'x'), (7, NULL, 'z'), (2, 2, NULL)",
            ] {
                context.sql(&format!("CREATE TABLE {table}")).await.unwrap();
            }
            let frame = context.sql(sql).await.unwrap();
            let plan = context.state().optimize(frame.logical_plan()).unwrap().to_string();
            let batches = frame.collect().await.unwrap();
            let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
            let mut rows: Vec<String> = shown.lines().map(str::to_owned).collect();
            rows.sort();
            (rows, plan)
        })
    }

    #[test]
    fn each_alternative_is_a_join_by_key() {
        for sql in [
            "SELECT * FROM a JOIN b ON a.column1 = b.column1 OR a.column2 = b.column1",
            "SELECT * FROM a, b WHERE a.column1 = b.column1 OR a.column1 = b.column2 OR a.column3 = b.column3",
            "SELECT * FROM a JOIN b ON (a.column1 = b.column1 AND b.column2 > 1 OR a.column2 = b.column1) \
             AND a.column3 <> b.column3",
            "SELECT * FROM a LEFT JOIN b ON a.column1 = b.column1 OR a.column1 = b.column2",
            "SELECT * FROM a LEFT JOIN b ON (a.column1 = b.column1 OR a.column1 = b.column2) AND a.column2 < 50",
            "SELECT * FROM a RIGHT JOIN b ON a.column1 = b.column1 OR a.column1 = b.column2",
            "SELECT * FROM a WHERE EXISTS (SELECT FROM b WHERE a.column1 = b.column1 OR a.column1 = b.column2)",
            "SELECT * FROM a WHERE NOT EXISTS (SELECT FROM b WHERE a.column1 = b.column1 OR a.column1 = b.column2)",
            "SELECT x.column2, count(*) FROM a x JOIN a y ON x.column1 = y.column1 OR x.column2 = y.column2 GROUP BY 1",
        ] {
            let (theirs, planned) = rows(sql, false);
            let (ours, plan) = rows(sql, true);
            assert_eq!(ours, theirs, "{sql}");
            assert_ne!(plan, planned, "{sql}");
            assert!(plan.lines().filter(|line| line.contains("Join:")).all(|line| line.contains(" = ")), "{plan}");
            assert!(!plan.contains(" OR "), "{plan}");
        }
    }

    #[test]
    fn what_has_no_key_or_may_differ_stays() {
        for sql in [
            "SELECT * FROM a JOIN b ON a.column1 = b.column1 OR a.column2 > b.column1",
            "SELECT * FROM a JOIN b ON a.column1 = b.column1 OR a.column2 = 10",
            "SELECT * FROM a FULL JOIN b ON a.column1 = b.column1 OR a.column1 = b.column2",
            "SELECT * FROM a JOIN (SELECT column1 + (random() > 2)::int AS n, column2 AS m FROM b) b \
             ON a.column1 = b.n OR a.column1 = b.m",
            "SELECT * FROM a JOIN (SELECT * FROM b LIMIT 3) b ON a.column1 = b.column1 OR a.column1 = b.column2",
            "SELECT * FROM a JOIN b ON a.column3 = b.column3 AND (a.column1 = b.column1 OR a.column1 = b.column2)",
        ] {
            assert_eq!(rows(sql, true).1, rows(sql, false).1, "{sql}");
        }
    }
}
