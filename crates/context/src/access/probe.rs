//! Queries that name what a change of rows reads, and nothing else: they are planned to see what that is, never run.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::context::StatementContext;
use crate::demands::Demands;
use crate::planner::logical_plan;
use saki_catalog::{Catalog, ObjectId, Result, SqlError, Table};
use saki_postgres::dialect::row_values;
use saki_postgres::statement::walk::walk_expressions;
use saki_postgres::statement::{has_subquery, name_of, parse};

/// Refuses what a query of this text would read and the role may not; of the target, what it does not name is not
/// asked for.
///
/// # Errors
/// 42501; what is wrong with the query.
pub async fn expect_readable(cx: &StatementContext<'_>, target: Option<ObjectId>, sql: &str) -> Result<()> {
    let statement = parse(sql)?.pop().ok_or_else(|| SqlError::internal("a probe of nothing"))?;
    let env = Arc::new(cx.env().await?);
    let Some(asking) = &env.asking else { return Ok(()) };
    let plan = cx.planner.analyze_in(&env, async |state| logical_plan(state, statement).await).await?;
    Demands::of(&plan, &env.generation.catalog, target).check(asking)
}

/// What an INSERT reads: its query, and queries among its values.
pub fn of_source(source: &ast::Query) -> Option<String> {
    let ast::SetExpr::Values(values) = source.body.as_ref() else { return Some(source.to_string()) };
    let queries = values.rows.iter().flat_map(|row| row.iter()).filter(|value| has_subquery(value));
    let items: Vec<String> = queries.map(|value| format!("({value})")).collect();
    let with = source.with.as_ref().map(|with| format!("{with} ")).unwrap_or_default();
    (!items.is_empty()).then(|| format!("{with}SELECT {}", items.join(", ")))
}

/// `SELECT items FROM relations WHERE condition`; `None` if it would name nothing.
pub fn select(items: &[String], from: &str, condition: Option<&Expr>) -> Option<String> {
    let is_alone = !from.contains(',');
    if items.is_empty() && condition.is_none() && is_alone {
        return None;
    }
    let items = if items.is_empty() { "1".to_owned() } else { items.join(", ") };
    let condition = condition.map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
    Some(format!("SELECT {items} FROM {from}{condition}"))
}

/// Values that are assigned, as items of a query.
pub fn assigned(assignments: &[ast::Assignment]) -> Vec<String> {
    let values = assignments.iter().flat_map(|assignment| match (&assignment.target, row_values(&assignment.value)) {
        (ast::AssignmentTarget::Tuple(_), Some(values)) => values,
        _ => vec![&assignment.value],
    });
    let item = |value: &Expr| match value {
        // It may have several columns.
        Expr::Subquery(query) => format!("EXISTS ({query})"),
        value => format!("({value})"),
    };
    values.filter(|value| !is_default(value)).map(item).collect()
}

/// Values of a row that is inserted, as items of a query.
pub fn values(row: &[Expr]) -> Vec<String> {
    row.iter().filter(|value| !is_default(value)).map(|value| format!("({value})")).collect()
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if name_of(ident) == "default")
}

/// Names of columns that are assigned.
pub fn targets(assignments: &[ast::Assignment]) -> Vec<String> {
    let last = |name: &ast::ObjectName| name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let names = assignments.iter().flat_map(|assignment| match &assignment.target {
        ast::AssignmentTarget::ColumnName(name) => vec![last(name)],
        ast::AssignmentTarget::Tuple(names) => names.iter().map(last).collect(),
    });
    names.flatten().collect()
}

/// Ids of the table's columns that expressions of ON CONFLICT name, but for the new row's.
///
/// # Errors
/// For queries in them: what these read is not found out.
pub fn named_beside_excluded<'e>(table: &Table, exprs: impl Iterator<Item = &'e Expr>) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for expr in exprs {
        if has_subquery(expr) {
            let message = "subqueries in ON CONFLICT DO UPDATE are for superusers only";
            return Err(SqlError::unsupported(message).code("42501"));
        }
        let _ = walk_expressions(expr, |part: &Expr| {
            let name = match part {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => match &parts[..] {
                    [relation, name] if name_of(relation) != "excluded" => Some(name),
                    _ => None,
                },
                _ => None,
            };
            ids.extend(name.and_then(|name| table.column(&name_of(name))).map(|place| table.details[place].id));
            ControlFlow::<()>::Continue(())
        });
    }
    Ok(ids)
}

/// Ids of columns by their names; names that no column has are passed by.
pub fn ids_of(table: &Table, names: impl Iterator<Item = String>) -> Vec<u32> {
    names.filter_map(|name| table.column(&name)).map(|place| table.details[place].id).collect()
}

/// Tables that refer to one, directly or not.
pub fn referring(catalog: &Catalog, name: &str) -> Vec<String> {
    let mut found = vec![name.to_owned()];
    let mut next = 0;
    while let Some(table) = found.get(next).and_then(|name| catalog.get(name)) {
        next += 1;
        for (other, _) in catalog.referencing(table.id) {
            if !found.contains(&other.name) {
                found.push(other.name.clone());
            }
        }
    }
    found
}
