//! CREATE TABLE … AS query: the table is the query's columns, filled as any empty table is, in the same publication.

use arrow_schema::SchemaRef;
use datafusion::sql::sqlparser::ast;
use saki_base::Column;

use super::column;
use super::table::{empty_table, set_options};
use crate::names::refuse_external;
use saki_catalog::convert::conform;
use saki_catalog::{Catalog, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::feed;
use saki_context::statement::StatementResult;
use saki_postgres::statement::name_of;
use saki_postgres::types::stored_as;
use saki_postgres::{COLUMNS_MAX, NewColumn, NewTableAs, dialect};
use saki_store::load::load;

pub async fn create_table_as(cx: &StatementContext<'_>, new: NewTableAs) -> Result<StatementResult> {
    refuse_external(cx, &new.name)?;
    let _named = cx.transactions.lock_name(&new.name.name).await?;
    let there = cx.generation()?.catalog.kind_of(&new.name.name).is_some();
    if new.if_not_exists && there {
        return Ok(StatementResult::done("CREATE TABLE AS", 0));
    }
    let query = ast::Statement::Query(new.query.clone());
    let planned = cx.plan(&query).await?;
    let columns = columns(&new, &dialect::shown(&planned.plan.schema()))?;
    // Parts of the plan run from here on: none of them may wait for the publication that waits for it.
    let _publishing = cx.sequences.publishing();
    let stream = cx.start(planned)?;
    let time = cx.parameters.time();
    let rows = feed(cx, stream, move |db, batches| {
        db.write(|writer| {
            let Some(table) = make(&mut writer.catalog, &new, &columns)? else { return Ok(0) };
            writer.catalog.put(table.clone());
            let all: Vec<usize> = (0..columns.len()).collect();
            let mut read = 0;
            let shaped = batches.map(|batch| {
                let batch = batch?;
                read += batch.num_rows() as u64;
                conform(&batch, &table, &all, read - batch.num_rows() as u64 + 1, &time)
            });
            load(writer, &table.name, shaped, &mut |_| {})
        })
    })
    .await?;
    Ok(StatementResult::done("SELECT", rows))
}

/// The table, empty; `None`: it is there and may be.
fn make(catalog: &mut Catalog, new: &NewTableAs, columns: &[Column]) -> Result<Option<Table>> {
    let Some(mut table) = empty_table(catalog, &new.name, new.if_not_exists)? else { return Ok(None) };
    for column in columns {
        let position = new.name.position;
        let column =
            NewColumn { column: column.clone(), position, default: None, generated: None, constraints: Vec::new() };
        column::add(catalog, &mut table, &column)?;
    }
    set_options(catalog, &mut table, &new.options)?;
    Ok(Some(table))
}

/// Columns of a query, under the names that the statement gives them.
fn columns(new: &NewTableAs, schema: &SchemaRef) -> Result<Vec<Column>> {
    if new.columns.len() > schema.fields().len() {
        return Err(SqlError::invalid("too many column names were specified").code("42601").at(new.name.position));
    }
    if schema.fields().is_empty() || schema.fields().len() > COLUMNS_MAX {
        return Err(SqlError::invalid(format!("a table has 1 to {COLUMNS_MAX} columns")).code("54011"));
    }
    let mut columns: Vec<Column> = Vec::with_capacity(schema.fields().len());
    for (position, field) in schema.fields().iter().enumerate() {
        let name = new.columns.get(position).map_or_else(|| field.name().clone(), name_of);
        if columns.iter().any(|column| column.name == name) {
            return Err(SqlError::invalid(format!("column {name:?} specified more than once"))
                .code("42701")
                .hint("give each column of the query a name of its own")
                .at(new.name.position));
        }
        let data_type = stored_as(field.data_type()).ok_or_else(|| {
            SqlError::unsupported(format!("column {name:?} is {}: tables have no such type", field.data_type()))
                .hint("cast it in the query")
        })?;
        columns.push(Column { name, data_type, nullable: true });
    }
    Ok(columns)
}
