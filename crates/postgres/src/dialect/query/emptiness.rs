//! What becomes of plans whose subqueries may be empty, and whose groups say the same twice.
//!
//! A subquery without a row is NULL as a value, also if its column never is; the planner takes the column's word.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use saki_catalog::SqlError;

/// The plan with subqueries that may be NULL, and groups by each key once.
///
/// # Errors
/// None that a plan gives.
pub fn settled(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= repeats(node);
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(is_never_null(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(plan);
    }
    let settled = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(nullable))?.data;
        Ok(Transformed::yes(grouped_once(node)?.recompute_schema()?))
    })?;
    Ok(settled.data)
}

fn is_never_null(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(query) => {
            let fields = query.subquery.schema().fields();
            fields.len() == 1 && !fields[0].is_nullable() && !has_a_row(&query.subquery)
        }
        _ => false,
    }
}

/// Whether a query always has a row.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && has_a_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    if !is_never_null(&expr) {
        return Ok(Transformed::no(expr));
    }
    let Expr::ScalarSubquery(mut query) = expr else { return internal_err!("a subquery that is none") };
    query.subquery = Arc::new(with_nullable_column(Arc::unwrap_or_clone(query.subquery))?);
    Ok(Transformed::yes(Expr::ScalarSubquery(query)))
}

fn with_nullable_column(plan: LogicalPlan) -> Result<LogicalPlan> {
    static NULLABLE: LazyLock<ScalarUDF> =
        LazyLock::new(|| ScalarUDF::from(Nullable { signature: Signature::any(1, Volatility::Immutable) }));
    let column = Expr::from(plan.schema().qualified_field(0));
    let name = plan.schema().field(0).name().clone();
    let (expr, input) = match plan {
        LogicalPlan::Projection(mut projection) if projection.expr.len() == 1 => {
            (projection.expr.swap_remove(0).unalias(), Arc::unwrap_or_clone(projection.input))
        }
        // What only chooses among rows stays outside.
        LogicalPlan::Limit(mut limit) => {
            limit.input = Arc::new(with_nullable_column(Arc::unwrap_or_clone(limit.input))?);
            return Ok(LogicalPlan::Limit(limit));
        }
        other => (column, other),
    };
    LogicalPlanBuilder::from(input).project([NULLABLE.call(vec![expr]).alias(name)])?.build()
}

fn repeats(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    let mut seen = HashSet::new();
    !aggregate.group_expr.iter().all(|key| !matches!(key, Expr::GroupingSet(_)) && seen.insert(key))
        && !aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}

fn grouped_once(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !repeats(&plan) {
        return Ok(plan);
    }
    let LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) = plan else { return Ok(plan) };
    let mut seen = HashSet::new();
    let keys = group_expr.iter().filter(|key| seen.insert(*key)).cloned().collect();
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, keys, aggr_expr)?))
}

/// Gives back its argument, and does not promise that it is never NULL.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Nullable {
    signature: Signature,
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &str {
        "nullable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let data_type = args.arg_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let argument = args.args.into_iter().next();
        argument.ok_or_else(|| SqlError::internal("a function without its argument").into())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, check_values, sorted};

    #[test]
    fn a_subquery_without_a_row_is_null() {
        check_values(&[
            ("(select 1 where false)", "NULL"),
            ("(select 1 where false) is null", "true"),
            ("coalesce((select 1 where false), 5)", "5"),
            ("(select 1 limit 0) is null", "true"),
            ("(select count(*) where false)", "0"),
            ("(select 1 where true) + 1", "2"),
            ("(select 1 where false) + 1", "NULL"),
        ]);
    }

    #[test]
    fn groups_may_be_by_the_same_twice() {
        check(
            &[
                ("SELECT a, count(*) FROM t GROUP BY a, a", "1|2 2|1"),
                ("SELECT a, a, count(*) FROM t GROUP BY 1, 2", "1|1|2 2|2|1"),
                ("SELECT a + 1, b, count(*) FROM t GROUP BY a + 1, b, a + 1", "2|x|2 3|y|1"),
            ],
            |sql| sorted(&sql.replace("FROM t", "FROM (VALUES (1, 'x'), (1, 'x'), (2, 'y')) AS t(a, b)")),
        );
    }
}
