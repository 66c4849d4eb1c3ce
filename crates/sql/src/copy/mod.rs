//! COPY: rows of files and of clients into tables, and rows of queries into files.

mod client;
mod files;
mod texts;

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;

pub use self::client::{CopyTarget, expect_fresh, from_client};
use self::files::{FileBatches, unfinished, write_file};
use crate::dml::write_stream;
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_postgres::statement::{name_of, parse_query, position_of, quoted};
use saki_postgres::{Copy, FileContent, Source};

pub async fn copy(cx: &StatementContext<'_>, statement: ast::Statement) -> Result<StatementResult> {
    let copy = Copy::read(statement)?;
    let rows = match (copy.to, &copy.source) {
        (true, _) => copy_to(cx, &copy).await?,
        (false, Source::Table { name, position, columns }) => {
            let table = cx.stored_table(name).map_err(|error| error.at(*position))?;
            let columns = named_columns(&table, columns)?;
            copy_from(cx, &copy, table, columns).await?
        }
        (false, Source::Query(_)) => return Err(SqlError::invalid("COPY … FROM fills a table, not a query")),
    };
    Ok(StatementResult::done("COPY", rows))
}

async fn copy_to(cx: &StatementContext<'_>, copy: &Copy) -> Result<u64> {
    let query = match &copy.source {
        Source::Query(query) => ast::Statement::Query(query.clone()),
        Source::Table { name, columns, .. } => {
            let list = match columns.is_empty() {
                true => "*".to_owned(),
                false => columns.iter().map(|c| quoted(&name_of(c))).collect::<Vec<_>>().join(", "),
            };
            ast::Statement::Query(parse_query(&format!("SELECT {list} FROM {}", quoted(name)))?)
        }
    };
    let path = cx.files.to_write(&copy.path)?;
    cx.files.to_write(&unfinished(&path))?;
    let planned = cx.plan(&query).await?;
    write_file(cx.start(planned)?, &path, &copy.content, &cx.parameters.time()).await
}

async fn copy_from(cx: &StatementContext<'_>, copy: &Copy, table: Arc<Table>, columns: Vec<usize>) -> Result<u64> {
    let path = cx.files.to_read(&copy.path)?;
    match &copy.content {
        FileContent::Records(format) => {
            let time = cx.parameters.time();
            let batches = FileBatches::open(&path, format.clone(), Arc::clone(&table), columns.clone(), time)?;
            let fields: Vec<_> = columns.iter().map(|column| table.schema().field(*column).clone()).collect();
            let schema = Arc::new(Schema::new(fields));
            let batches = futures::stream::iter(batches.map(|batch| batch.map_err(DataFusionError::from)));
            write_stream(cx, Box::pin(RecordBatchStreamAdapter::new(schema, batches)), table, columns).await
        }
        FileContent::Parquet => {
            let options = datafusion::prelude::ParquetReadOptions::default();
            let frame = cx.planner.context.read_parquet(path.as_str(), options).await?;
            let mut found: Vec<String> = frame.schema().fields().iter().map(|f| f.name().clone()).collect();
            let wanted: Vec<&str> = columns.iter().map(|column| table.columns[*column].name.as_str()).collect();
            // By name if the file has the names; else by place.
            let frame = match wanted.iter().all(|name| found.iter().any(|f| f == name)) {
                true => {
                    let by_name: Vec<_> = wanted.iter().map(|name| datafusion::prelude::ident(*name)).collect();
                    found = wanted.iter().map(|name| (*name).to_owned()).collect();
                    frame.select(by_name)?
                }
                false => frame,
            };
            if found.len() != columns.len() {
                return Err(SqlError::data(format!(
                    "{}: {} columns, and {} to fill in table {}",
                    copy.path,
                    found.len(),
                    columns.len(),
                    table.name
                )));
            }
            let stream = frame.execute_stream().await?;
            write_stream(cx, stream, table, columns).await
        }
    }
}

fn named_columns(table: &Table, columns: &[ast::Ident]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..table.width()).collect());
    }
    let find = |ident: &ast::Ident| {
        let name = name_of(ident);
        table.column(&name).ok_or_else(|| {
            SqlError::invalid(format!("table {} has no column {name:?}", table.name)).at(position_of(ident))
        })
    };
    columns.iter().map(find).collect()
}
