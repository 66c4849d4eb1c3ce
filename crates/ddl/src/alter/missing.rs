//! Columns that are added or dropped without a look at the rows that are there: what these have in new ones, worked out
//! once.
//!
//! As in PostgreSQL, a default that may be another one for each row is not such: then every row is written anew.

use std::ops::ControlFlow;

use arrow_array::RecordBatch;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{self, Expr};
use saki_base::{Value, ValueRef};

use super::alteration::Alteration;
use super::texts::texts;
use super::validate::{first_row, typed};
use saki_catalog::columns::check_length;
use saki_catalog::convert::conform;
use saki_catalog::{Catalog, ColumnReader, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_postgres::statement::walk::walk_expressions;
use saki_postgres::statement::{has_subquery, parse_expression, quoted};

/// The values that rows have in the columns that are added, in their order; `None`: all rows are to be written anew, or
/// none, since no column comes or goes.
///
/// # Errors
/// Those of the defaults.
pub async fn missing_values(
    cx: &StatementContext<'_>,
    catalog: &Catalog,
    alteration: &Alteration,
) -> Result<Option<Vec<Value>>> {
    let Some(first) = alteration.first_added() else { return Ok(None) };
    let table = &alteration.after;
    let mut defaults = Vec::new();
    for position in first..table.columns.len() {
        if catalog.owned_sequence(table.id, table.details[position].id).is_some() {
            return Ok(None);
        }
        let Some(default) = table.default_of(catalog, position) else { continue };
        if !is_one_value(&cx.planner.context.state(), &parse_expression(&default)?) {
            return Ok(None);
        }
        let column = &table.columns[position];
        defaults.push((position, format!("{} AS {}", typed(&default, column.data_type), quoted(&column.name))));
    }
    let mut values = vec![Value::Null; table.columns.len() - first];
    if defaults.is_empty() {
        return Ok(Some(values));
    }
    let list: Vec<&str> = defaults.iter().map(|(_, source)| source.as_str()).collect();
    let query = format!("SELECT {}", list.join(", "));
    let row = first_row(cx, &query).await?.ok_or_else(|| SqlError::internal("a query without FROM has no row"))?;
    let positions: Vec<usize> = defaults.iter().map(|(position, _)| *position).collect();
    for (position, value) in positions.iter().zip(converted(cx, &row, table, &positions)?) {
        values[position - first] = value;
    }
    Ok(Some(values))
}

/// Whether an expression, a default, has one value for all rows of a statement.
fn is_one_value(state: &SessionState, default: &Expr) -> bool {
    let is_volatile = |function: &ast::Function| {
        let found = state.udf(&function.name.to_string().to_lowercase());
        // Of what is no function by that name nobody knows.
        found.map_or(true, |function| function.signature().volatility == Volatility::Volatile)
    };
    let visited = walk_expressions(default, |part| match part {
        Expr::Function(function) if is_volatile(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    visited.is_continue() && !has_subquery(default)
}

/// The first row of a query for some columns of a table as their values.
fn converted(cx: &StatementContext<'_>, row: &RecordBatch, table: &Table, positions: &[usize]) -> Result<Vec<Value>> {
    let columns: Vec<_> = positions.iter().map(|position| table.columns[*position].clone()).collect();
    let table = Table { columns, ..table.clone() };
    let all: Vec<usize> = (0..positions.len()).collect();
    let row = conform(&texts(row, &table)?, &table, &all, 1, &cx.parameters.time())?;
    let value = |(array, column)| {
        let reader = ColumnReader::new(array, column)?;
        let value: ValueRef<'_> = reader.value(0);
        check_length(value, column)?;
        Ok(Value::from(value))
    };
    row.columns().iter().zip(&table.columns).map(value).collect()
}
