//! Columns of the table that is changed, as statements name them.

use datafusion::sql::sqlparser::ast::ObjectName;
use saki_catalog::{Position, Result, SqlError, Table};
use saki_context::constraint::check_width;
use saki_postgres::statement::object_name;

/// A column, and where it is named.
///
/// # Errors
/// 42703 if the table has none of that name.
pub fn column(table: &Table, name: &ObjectName) -> Result<(usize, Option<Position>)> {
    let (called, position) = object_name(name)?;
    let found = table.column(&called).ok_or_else(|| {
        SqlError::invalid(format!("table {} has no column {called:?}", table.name)).code("42703").at(position)
    })?;
    Ok((found, position))
}

/// The columns of a list, in its order.
///
/// # Errors
/// As of [`column`]; 42701 for one that is named twice.
pub fn columns(table: &Table, names: &[ObjectName]) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let (column, position) = column(table, name)?;
        if columns.contains(&column) {
            let message = format!("column {:?} specified more than once", table.columns[column].name);
            return Err(SqlError::invalid(message).code("42701").at(position));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The columns that rows of so many values fill where none are named: the first ones, as in PostgreSQL.
///
/// # Errors
/// 42601 if the table has fewer.
pub fn first_columns(table: &Table, width: usize) -> Result<Vec<usize>> {
    check_width(width, width.min(table.width()))?;
    Ok((0..width).collect())
}
