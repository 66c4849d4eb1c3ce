//! The types of a plan's expressions, resolved once, by PostgreSQL's rules: from the leaves of the plan up, before the
//! planner brings together what is left.
//!
//! Integers and decimals among themselves, and moments among themselves, are left to the planner, whose rules give them
//! the same values; so the plans of most queries stay what they were.

mod blanks;
mod expressions;
mod intervals;
mod labels;
mod later;
mod order;
mod sets;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Operator};

pub use self::blanks::CharColumns;
use self::blanks::char_columns;
use self::expressions::Types;
pub use self::later::called_last;
pub use self::order::kept;
use super::types::{comparison, known_type, truth};
use saki_catalog::SqlError;
use saki_functions::json::JSON;

/// A plan whose expressions have their types; `chars` tells which columns are of type char(n).
///
/// # Errors
/// 42883 and 42804 for types that do not go together, and what is said of text that is no value of the type it has to
/// have.
pub fn resolved(plan: LogicalPlan, chars: Option<&CharColumns>) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(|plan| node(plan, chars).map(Transformed::yes))?.data)
}

/// A node of which all that is below has its types.
fn node(plan: LogicalPlan, chars: Option<&CharColumns>) -> Result<LogicalPlan> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let chars = char_columns(&plan, chars);
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let typed = expr.rewrite(&mut Types { schema: &schema, chars: &chars })?;
        Ok(typed.update_data(|expr| name.restore(expr)))
    })?;
    refuse_json(&plan.data)?;
    match plan.data {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let is_window = |expr: &Expr| Ok(matches!(expr, Expr::WindowFunction(_)));
            if predicate.exists(is_window)? {
                return Err(SqlError::invalid("window functions are not allowed in WHERE").code("42P20").into());
            }
            let predicate = truth(predicate, "argument of WHERE", input.schema())?;
            Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let is_aggregate = |expr: &Expr| Ok(matches!(expr, Expr::AggregateFunction(_)));
            for key in &aggregate.group_expr {
                if key.exists(is_aggregate)? {
                    let message = "aggregate functions are not allowed in GROUP BY";
                    return Err(SqlError::invalid(message).code("42803").into());
                }
            }
            for call in &aggregate.aggr_expr {
                refuse_others(call, aggregate.input.schema())?;
            }
            match LogicalPlan::Aggregate(aggregate).recompute_schema()? {
                LogicalPlan::Aggregate(aggregate) => intervals::grouped(aggregate),
                other => Ok(other),
            }
        }
        LogicalPlan::Sort(mut sort) => {
            let types = Types { schema: &schema, chars: &chars };
            for key in &mut sort.expr {
                key.expr = types.sorted_by(std::mem::take(&mut key.expr));
            }
            LogicalPlan::Sort(sort).recompute_schema()
        }
        LogicalPlan::RecursiveQuery(recursion) => {
            LogicalPlan::RecursiveQuery(super::with::typed(recursion)?).recompute_schema()
        }
        LogicalPlan::Distinct(distinct) => intervals::distinct(distinct),
        LogicalPlan::Union(union) => sets::union(union),
        LogicalPlan::Join(join) if sets::is_set_operation(&join) => sets::set_operation(join),
        LogicalPlan::Join(join) => LogicalPlan::Join(compared_keys(join, &schema)?).recompute_schema(),
        other => other.recompute_schema(),
    }
}

/// Refuses to sort and to group by values of `json`, of which PostgreSQL does not know which are equal.
///
/// # Errors
/// 42883.
fn refuse_json(plan: &LogicalPlan) -> Result<()> {
    let refused = |kind: &str| {
        Err(SqlError::invalid(format!("could not identify an {kind} operator for type json")).code("42883").into())
    };
    let is_json = |key: &Expr, schema: &DFSchema| known_type(key, schema).is_some_and(|of| of == JSON);
    match plan {
        LogicalPlan::Aggregate(node) if node.group_expr.iter().any(|key| is_json(key, node.input.schema())) => {
            refused("equality")
        }
        LogicalPlan::Distinct(node) if node.input().schema().fields().iter().any(|of| *of.data_type() == JSON) => {
            refused("equality")
        }
        LogicalPlan::Join(join) if sets::is_set_operation(join) => {
            match join.left.schema().fields().iter().any(|of| *of.data_type() == JSON) {
                true => refused("equality"),
                false => Ok(()),
            }
        }
        LogicalPlan::Sort(node) if node.expr.iter().any(|key| is_json(&key.expr, node.input.schema())) => {
            refused("ordering")
        }
        _ => Ok(()),
    }
}

/// Refuses an aggregate over nothing but columns of the query around: to PostgreSQL it is that query's.
fn refuse_others(call: &Expr, schema: &DFSchema) -> Result<()> {
    let (mut own, mut outer) = (false, false);
    call.apply(|expr| {
        let within = match expr {
            Expr::Column(_) => {
                own = true;
                None
            }
            Expr::OuterReferenceColumn(..) => {
                outer = true;
                None
            }
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(within) => Some(&within.subquery),
            _ => None,
        };
        // What a query within has of others is one of this query's, or of one further out.
        for reference in within.iter().flat_map(|subquery| &subquery.outer_ref_columns) {
            if let Expr::OuterReferenceColumn(_, column) = reference {
                match schema.has_column(column) {
                    true => own = true,
                    false => outer = true,
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if outer && !own {
        let message = "an aggregate in a subquery over columns of the query around is not supported";
        return Err(SqlError::unsupported(message).into());
    }
    Ok(())
}

/// A join's condition is one, and the pairs of columns that USING names are compared as `=` compares them.
fn compared_keys(mut join: Join, schema: &DFSchema) -> Result<Join> {
    join.filter = join.filter.map(|filter| truth(filter, "argument of JOIN/ON", schema)).transpose()?;
    let pairs = join.on.into_iter().map(|(left, right)| comparison(left, Operator::Eq, right, schema));
    join.on = pairs.collect::<Result<_>>()?;
    Ok(join)
}
