//! Whether rows that are there agree with what a table is to become: each demand is a query for one row that does not.

use std::fmt::Write;
use std::sync::Arc;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::{ArrayRef, RecordBatch};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use saki_base::{DataType, Value};

use super::alteration::Alteration;
use crate::names::quoted_relation;
use saki_catalog::convert::shown;
use saki_catalog::{Catalog, ForeignKey, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_postgres::statement::{parse_query, quoted};
use saki_postgres::types::spelled;

/// Refuses an alteration that rows stand against. `missing`: what all of them have in columns that are added, if that
/// is known.
pub async fn validate(
    cx: &StatementContext<'_>,
    catalog: &Catalog,
    alteration: &Alteration,
    missing: Option<&[Value]>,
) -> Result<()> {
    let Alteration { before, after, .. } = alteration;
    if before.root.is_empty() {
        return Ok(());
    }
    let rows = format!("({}) AS {}", new_rows(catalog, alteration), quoted(after.bare_name()));
    let added = alteration.after.columns.len() - missing.map_or(0, <[Value]>::len);
    let is_known = |position: &usize| {
        let value = missing.and_then(|missing| missing.get(position.checked_sub(added)?));
        value.is_some_and(|value| !value.is_null())
    };
    for position in alteration.new_not_null().into_iter().filter(|position| !is_known(position)) {
        let column = &after.columns[position].name;
        if first_row(cx, &format!("SELECT 1 FROM {rows} WHERE {} IS NULL LIMIT 1", quoted(column))).await?.is_some() {
            return Err(SqlError::constraint(format!(
                "column {column:?} of relation {:?} contains null values",
                after.bare_name()
            ))
            .code("23502")
            .of_column(after, column));
        }
    }
    for check in alteration.new_checks() {
        let query = format!("SELECT 1 FROM {rows} WHERE NOT ({}) LIMIT 1", check.expression);
        if first_row(cx, &query).await?.is_some() {
            return Err(SqlError::constraint(format!(
                "check constraint {:?} of relation {:?} is violated by some row",
                check.name,
                after.bare_name()
            ))
            .code("23514")
            .of_constraint(after, &check.name));
        }
    }
    for key in alteration.new_foreign_keys() {
        validate_foreign_key(cx, catalog, after, key, &rows).await?;
    }
    Ok(())
}

async fn validate_foreign_key(
    cx: &StatementContext<'_>,
    catalog: &Catalog,
    table: &Table,
    key: &ForeignKey,
    rows: &str,
) -> Result<()> {
    let own = key.table == table.id;
    let Some(referenced) = (if own { Some(table) } else { catalog.table_of(key.table).map(Arc::as_ref) }) else {
        return Err(SqlError::internal(format!("foreign key {:?} refers to nothing", key.name)));
    };
    let keys: Vec<&str> =
        key.referenced.iter().filter_map(|id| Some(&*referenced.columns[referenced.position_of(*id)?].name)).collect();
    let columns: Vec<&str> = key.columns.iter().map(|position| &*table.columns[*position].name).collect();
    let others = match own {
        true => rows.rsplit_once(" AS ").map_or(rows, |(query, _)| query).to_owned(),
        false => quoted_relation(&referenced.schema, referenced.bare_name()),
    };
    let this = quoted(table.bare_name());
    let mut query = format!("SELECT {} FROM {rows} WHERE ", list(&columns));
    for column in &columns {
        let _ = write!(query, "{} IS NOT NULL AND ", quoted(column));
    }
    let equal =
        |(column, key): (&&str, &&str)| format!("\"referenced row\".{} = {this}.{}", quoted(key), quoted(column));
    let equal: Vec<String> = columns.iter().zip(&keys).map(equal).collect();
    let _ = write!(
        query,
        "NOT EXISTS (SELECT 1 FROM {others} AS \"referenced row\" WHERE {}) LIMIT 1",
        equal.join(" AND ")
    );
    let Some(found) = first_row(cx, &query).await? else { return Ok(()) };
    Err(SqlError::constraint(format!(
        "insert or update on table {:?} violates foreign key constraint {:?}",
        table.bare_name(),
        key.name
    ))
    .code("23503")
    .detail(format!(
        "Key ({})=({}) is not present in table {:?}.",
        columns.join(", "),
        texts(&found)?.join(", "),
        referenced.bare_name()
    ))
    .of_constraint(table, &key.name))
}

/// A batch with the first row of a query, if it has any.
pub async fn first_row(cx: &StatementContext<'_>, sql: &str) -> Result<Option<RecordBatch>> {
    let query = ast::Statement::Query(parse_query(sql)?);
    let planned = cx.plan_newest(&query).await?;
    let mut stream = cx.start(planned)?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            return Ok(Some(batch.slice(0, 1)));
        }
    }
    Ok(None)
}

fn texts(row: &RecordBatch) -> Result<Vec<String>> {
    let options = FormatOptions::default();
    let text = |column: &ArrayRef| Ok(ArrayFormatter::try_new(&shown(column), &options)?.value(0).to_string());
    row.columns().iter().map(text).collect()
}

fn list(columns: &[&str]) -> String {
    columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ")
}

/// The query for what statements see of a table's rows as they are to be, over the table as it is.
pub fn new_rows(catalog: &Catalog, alteration: &Alteration) -> String {
    let Alteration { before, after, using } = alteration;
    let mut sources = Vec::with_capacity(after.width());
    for (position, (column, detail)) in after.visible().iter().zip(&after.details).enumerate() {
        let value = match before.position_of(detail.id) {
            Some(old) => match using.get(&detail.id) {
                Some(expression) => expression.to_string(),
                None => converted(&before.columns[old], column.data_type),
            },
            None => match catalog.owned_sequence(after.id, detail.id) {
                // Rows are numbered; the sequence goes on behind the last.
                Some(sequence) => {
                    format!("{} + (row_number() OVER () - 1) * {}", sequence.start, sequence.increment)
                }
                None => typed(&after.default_of(catalog, position).unwrap_or_else(|| "NULL".into()), column.data_type),
            },
        };
        sources.push(format!("{value} AS {}", quoted(&column.name)));
    }
    let from = quoted_relation(&before.schema, before.bare_name());
    format!("SELECT {} FROM {from}", sources.join(", "))
}

/// A column's value on its way to another type; what this leaves undone is done batch by batch.
fn converted(column: &saki_base::Column, to: DataType) -> String {
    let name = quoted(&column.name);
    let fractional = matches!(column.data_type, DataType::Decimal { .. } | DataType::Float4 | DataType::Float8);
    match to {
        DataType::Int2 | DataType::Int4 | DataType::Int8 if fractional => format!("round({name})"),
        _ => name,
    }
}

/// An expression as a value of a type that the planner has a name for.
pub fn typed(expression: &str, data_type: DataType) -> String {
    match data_type {
        DataType::Uuid
        | DataType::Json
        | DataType::Jsonb
        | DataType::Bytea
        | DataType::Array(_)
        | DataType::Char(_)
        | DataType::Varchar(_) => expression.to_owned(),
        other => format!("CAST({expression} AS {})", spelled(other)),
    }
}
