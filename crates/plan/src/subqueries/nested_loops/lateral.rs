//! Lateral joins: the rows that belong to a row on the left become one list, which is then unnested.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullHandling, Result, TableReference, UnnestOptions};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery};

use super::function::NestedLoop;
use super::outer::parameterized;

/// The right side of a lateral join: the subquery, under its aliases from the innermost.
pub struct Side<'p> {
    pub subquery: &'p Subquery,
    aliases: Vec<TableReference>,
}

/// The right side, if the join is lateral and refers to the left.
pub fn side(join: &Join) -> Option<Side<'_>> {
    let mut aliases = Vec::new();
    let mut plan = join.right.as_ref();
    while let LogicalPlan::SubqueryAlias(alias) = plan {
        aliases.insert(0, alias.alias.clone());
        plan = &alias.input;
    }
    match plan {
        LogicalPlan::Subquery(subquery) => Some(Side { subquery, aliases }),
        _ => None,
    }
    .filter(|side| !side.subquery.outer_ref_columns.is_empty())
    .filter(|_| matches!(join.join_type, JoinType::Inner | JoinType::Left))
}

/// The join without the subquery: `right` is its plan, without correlated subqueries of its own, and `looped` makes a
/// function of it that gives its rows.
pub fn unnested(
    join: &Join,
    side: &Side<'_>,
    mut right: LogicalPlan,
    looped: impl FnOnce(LogicalPlan) -> Result<NestedLoop>,
) -> Result<LogicalPlan> {
    let left_schema = join.left.schema();
    for alias in &side.aliases {
        right = LogicalPlanBuilder::from(right).alias(alias.clone())?.build()?;
    }
    // The join's own condition decides which rows of the right there are for a row of the left.
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    if let Some(condition) = conjunction(equal.chain(join.filter.clone())) {
        let outer = condition.transform_up(|expr| match expr {
            Expr::Column(column) if left_schema.has_column(&column) && !right.schema().has_column(&column) => {
                let (_, field) = left_schema.qualified_field_from_column(&column)?;
                Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        right = LogicalPlanBuilder::from(right).filter(outer.data)?.build()?;
    }
    let columns: Vec<(Option<TableReference>, String)> =
        right.schema().iter().map(|(table, field)| (table.cloned(), field.name().clone())).collect();
    let (right, arguments) = parameterized(right, left_schema)?;
    let function = looped(right)?;
    let rows = function.name();
    let keep = || left_schema.columns().into_iter().map(Expr::Column);
    let list = function.call(arguments).alias(rows.clone());
    let null_handling = match join.join_type {
        JoinType::Left => NullHandling::PreserveAndExpandEmpty,
        _ => NullHandling::Drop,
    };
    let fields = columns.into_iter().enumerate().map(|(at, (table, name))| {
        get_field(Expr::Column(Column::from_name(rows.clone())), format!("c{at}")).alias_qualified(table, name)
    });
    LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(keep().chain([list]))?
        .unnest_column_with_options(
            Column::from_name(rows.clone()),
            UnnestOptions { null_handling, ..UnnestOptions::default() },
        )?
        .project(keep().chain(fields))?
        .build()
}
