//! Conditions on one table that follow from a disjunction over several.
//!
//! `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` can only be decided where `a` and `b` have been joined, but
//! it implies `a.x = 1 OR a.x = 3`, which the scan of `a` decides, and likewise for `b`. The implied
//! conditions are added, the disjunction stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::provider::contains_subquery;

/// Disjunctions with more branches are left alone: what they imply is long and excludes little.
const BRANCHES_MAX: usize = 32;

/// The rule; belongs before conditions are pushed down.
#[derive(Debug)]
pub struct ImpliedConditions;

impl OptimizerRule for ImpliedConditions {
    fn name(&self) -> &'static str {
        "implied_conditions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let present = split_conjunction(&filter.predicate);
        let mut added: Vec<Expr> = present.iter().flat_map(|condition| implied(condition)).collect();
        added.retain(|condition| !present.contains(&condition));
        if added.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let all = conjunction(std::iter::once(filter.predicate).chain(added)).expect("at least the filter's own");
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(all, Arc::clone(&filter.input))?)))
    }
}

/// What a disjunction over several tables says of each alone.
fn implied(condition: &Expr) -> Vec<Expr> {
    let branches = split_binary(condition, Operator::Or);
    if branches.len() < 2 || branches.len() > BRANCHES_MAX || tables(condition).is_none_or(|tables| tables.len() < 2) {
        return Vec::new();
    }
    let mut by_table: BTreeMap<TableReference, Vec<Expr>> = BTreeMap::new();
    for branch in &branches {
        for (table, conditions) in by_one_table(branch) {
            by_table.entry(table).or_default().extend(conjunction(conditions));
        }
    }
    // A branch that says nothing of a table lets all of its rows pass.
    let said_by_all = by_table.into_values().filter(|conditions| conditions.len() == branches.len());
    said_by_all.filter_map(disjunction).collect()
}

/// The conditions of a conjunction that name a single table, by table.
fn by_one_table(branch: &Expr) -> BTreeMap<TableReference, Vec<Expr>> {
    let mut found: BTreeMap<TableReference, Vec<Expr>> = BTreeMap::new();
    for condition in split_conjunction(branch) {
        if let Some(tables) = tables(condition)
            && let [table] = &tables[..]
        {
            found.entry(table.clone()).or_default().push(condition.clone());
        }
    }
    found
}

/// The tables a condition names; `None` if it is more than a function of their columns.
fn tables(condition: &Expr) -> Option<Vec<TableReference>> {
    if condition.is_volatile() || contains_subquery(condition) {
        return None;
    }
    let mut tables = Vec::new();
    for column in condition.column_refs() {
        let table = column.relation.as_ref()?;
        if !tables.contains(table) {
            tables.push(table.clone());
        }
    }
    Some(tables)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn a_disjunction_implies_what_all_its_branches_say_of_a_table() {
        let both = col("a.x").eq(lit(1)).and(col("b.y").eq(lit(2)));
        let one = col("a.x").eq(lit(3)).and(col("a.z").gt(col("b.y")));
        let found = implied(&both.or(one));
        assert_eq!(found, [col("a.x").eq(lit(1)).or(col("a.x").eq(lit(3)))]);
    }

    #[test]
    fn each_table_that_all_branches_speak_of_gets_its_condition() {
        let branch = |x: i64, y: i64| col("a.x").eq(lit(x)).and(col("b.y").eq(lit(y)));
        let found = implied(&branch(1, 2).or(branch(3, 4)));
        let expected = [
            col("a.x").eq(lit(1_i64)).or(col("a.x").eq(lit(3_i64))),
            col("b.y").eq(lit(2_i64)).or(col("b.y").eq(lit(4_i64))),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_branch_that_says_nothing_of_a_table_lets_all_its_rows_pass() {
        let one = col("a.x").eq(lit(1)).and(col("b.y").eq(lit(2)));
        assert_eq!(implied(&one.clone().or(col("b.y").eq(lit(4)))), [col("b.y").eq(lit(2)).or(col("b.y").eq(lit(4)))]);
        assert!(implied(&one.or(col("a.z").gt(col("b.y")))).is_empty());
    }

    #[test]
    fn too_many_branches_are_left_alone() {
        let branches = |n: i64| {
            let all = (0..n).map(|i| col("a.x").eq(lit(i)).and(col("b.y").eq(lit(i))));
            implied(&disjunction(all).unwrap()).len()
        };
        assert_eq!((branches(BRANCHES_MAX as i64), branches(BRANCHES_MAX as i64 + 1)), (2, 0));
    }

    #[test]
    fn what_changes_from_call_to_call_implies_nothing() {
        let random = datafusion::functions::math::expr_fn::random;
        let branch = |x: i64| col("a.x").eq(lit(x)).and(col("b.y").gt(random()));
        assert!(implied(&branch(1).or(branch(2))).is_empty());
    }

    #[test]
    fn the_rule_adds_what_is_not_there_yet() {
        use datafusion::logical_expr::{LogicalPlanBuilder, table_scan};
        use datafusion::optimizer::OptimizerContext;

        let schema = arrow_schema::Schema::new(vec![
            arrow_schema::Field::new("x", arrow_schema::DataType::Int32, true),
            arrow_schema::Field::new("y", arrow_schema::DataType::Int32, true),
        ]);
        let scan = |name: &str| table_scan(Some(name), &schema, None).unwrap().build().unwrap();
        let branch = |x: i32, y: i32| col("a.x").eq(lit(x)).and(col("b.y").eq(lit(y)));
        let joined = LogicalPlanBuilder::from(scan("a")).cross_join(scan("b")).unwrap();
        let plan = joined.filter(branch(1, 2).or(branch(3, 4))).unwrap().build().unwrap();
        let rewrite = |plan| ImpliedConditions.rewrite(plan, &OptimizerContext::new()).unwrap();
        let first = rewrite(plan);
        assert!(first.transformed);
        let LogicalPlan::Filter(filter) = &first.data else { panic!("a filter stays one") };
        assert_eq!(split_conjunction(&filter.predicate).len(), 3, "the disjunction stays");
        assert!(!rewrite(first.data).transformed);
    }

    #[test]
    fn conditions_of_one_table_and_conjunctions_imply_nothing_new() {
        assert!(implied(&col("a.x").eq(lit(1)).or(col("a.y").eq(lit(2)))).is_empty());
        assert!(implied(&col("a.x").eq(lit(1)).and(col("b.y").eq(lit(2)))).is_empty());
    }
}
