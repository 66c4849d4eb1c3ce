//! Rows going in and out: INSERT, COPY, bulk loads, and ANALYZE.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use crate::append::append;
use crate::catalog::Table;
use crate::columns::ColumnReader;
use crate::convert::conform;
use crate::database::Database;
use crate::dialect;
use crate::error::{Result, SqlError};
use crate::files::{CsvBatches, write_file};
use crate::load::{LoadProgress, load};
use crate::session::{Planned, Session, StatementResult};
use crate::statement::copy::{Copy, FileFormat, Source};
use crate::statement::insert::OnConflict;
use crate::statement::{name_of, parse, position_of, quoted};
use crate::statistics::{Collector, TableStatistics};

impl Database {
    /// Adds `batches` to a table, in one publication: all or nothing. Columns are those of the table, in order; their types
    /// are the table's Arrow types or can be cast to them. An empty table is filled at device speed, its indexes
    /// and statistics included. Memory is bounded by `OpenOptions::load_memory_bytes`. Waits, and uses threads of its own.
    pub fn bulk_load(
        &self,
        table: &str,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<u64> {
        let definition = Arc::clone(self.snapshot().catalog.table(table)?);
        let columns: Vec<usize> = (0..definition.columns.len()).collect();
        self.add_rows(&definition, conforming(Arc::clone(&definition), columns, batches), progress)
    }

    /// Adds batches of the table's own types. The table must still be what the caller saw.
    pub(crate) fn add_rows(
        &self,
        seen: &Table,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<u64> {
        self.write(|writer| {
            let table = writer.catalog.table(&seen.name)?;
            if table.id != seen.id {
                return Err(SqlError::invalid(format!("table {:?} was replaced meanwhile", seen.name))
                    .hint("repeat the statement"));
            }
            if table.root.is_empty() {
                load(writer, &seen.name, batches, progress)
            } else {
                append(writer, &seen.name, batches, OnConflict::Refuse)
            }
        })
    }

    fn store_statistics(&self, seen: &Table, statistics: TableStatistics) -> Result<()> {
        self.write(|writer| {
            let mut table = Table::clone(writer.catalog.table(&seen.name)?);
            if table.id == seen.id {
                table.statistics = Some(statistics);
                writer.catalog.put(table);
            }
            Ok(())
        })
    }
}

/// Batches of a source as batches of a table.
pub(crate) fn conforming(
    table: Arc<Table>,
    columns: Vec<usize>,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> impl Iterator<Item = Result<RecordBatch>> {
    let mut rows = 0;
    batches.map(move |batch| {
        let batch = batch?;
        if batch.num_columns() != columns.len() {
            return Err(SqlError::data(format!(
                "{} columns for {} columns of table {}",
                batch.num_columns(),
                columns.len(),
                table.name
            )));
        }
        let conformed = conform(&batch, &table, &columns, rows + 1);
        rows += batch.num_rows() as u64;
        conformed
    })
}

impl Session {
    pub(crate) fn stored_table(&self, name: &str) -> Result<Arc<Table>> {
        if self.public.is_external(name) {
            return Err(SqlError::invalid(format!("table {name:?} is external: its file is only read")));
        }
        Ok(Arc::clone(self.db.snapshot().catalog.table(name)?))
    }

    pub(crate) async fn copy(&self, statement: ast::Statement) -> Result<StatementResult> {
        let copy = Copy::read(statement)?;
        let rows = match (copy.to, &copy.source) {
            (true, _) => self.copy_to(&copy).await?,
            (false, Source::Table { name, position, columns }) => {
                let table = self.stored_table(name).map_err(|error| error.at(*position))?;
                let columns = named_columns(&table, columns)?;
                self.copy_from(&copy, table, columns).await?
            }
            (false, Source::Query(_)) => return Err(SqlError::invalid("COPY … FROM fills a table, not a query")),
        };
        Ok(StatementResult::done("COPY", rows))
    }

    async fn copy_to(&self, copy: &Copy) -> Result<u64> {
        let query = match &copy.source {
            Source::Query(query) => ast::Statement::Query(query.clone()),
            Source::Table { name, columns, .. } => {
                let list = match columns.is_empty() {
                    true => "*".to_owned(),
                    false => columns.iter().map(|c| quoted(&name_of(c))).collect::<Vec<_>>().join(", "),
                };
                select(&format!("SELECT {list} FROM {}", quoted(name)))?
            }
        };
        let Planned { plan, context, .. } = self.plan(&query).await?;
        write_file(execute_stream(plan, context)?, &copy.path, copy.format, &copy.csv).await
    }

    async fn copy_from(&self, copy: &Copy, table: Arc<Table>, columns: Vec<usize>) -> Result<u64> {
        match copy.format {
            FileFormat::Csv => {
                let batches = CsvBatches::open(&copy.path, copy.csv.clone(), Arc::clone(&table), columns.clone())?;
                let fields: Vec<_> = columns.iter().map(|column| table.schema().field(*column).clone()).collect();
                let schema = Arc::new(Schema::new(fields));
                let batches = futures::stream::iter(batches.map(|batch| batch.map_err(DataFusionError::from)));
                self.write_stream(Box::pin(RecordBatchStreamAdapter::new(schema, batches)), table, columns).await
            }
            FileFormat::Parquet => {
                let options = datafusion::prelude::ParquetReadOptions::default();
                let frame = self.context.read_parquet(copy.path.as_str(), options).await?;
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
                self.write_stream(stream, table, columns).await
            }
        }
    }

    /// Reads tables whole and stores what their values are like.
    pub(crate) async fn analyze(&self, name: Option<String>) -> Result<StatementResult> {
        let names = match name {
            Some(name) => vec![name],
            None => self.db.snapshot().catalog.tables().map(|table| table.name.clone()).collect(),
        };
        for name in names {
            let table = self.stored_table(&name)?;
            let statement = Statement::Statement(Box::new(select(&format!("SELECT * FROM {}", quoted(&name)))?));
            let planned = self.plan_with(async |state| dialect::plan(state, statement).await).await?;
            let mut stream = execute_stream(planned.0, planned.1)?;
            let mut collector = Collector::new(&table);
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                collector.add(&ColumnReader::of_batch(&batch, &table, 0)?, batch.num_rows());
            }
            let statistics = collector.finish();
            self.blocking(move |db| db.store_statistics(&table, statistics)).await?;
        }
        Ok(StatementResult::done("ANALYZE", 0))
    }
}

fn named_columns(table: &Table, columns: &[ast::Ident]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let find = |ident: &ast::Ident| {
        let name = name_of(ident);
        table.column(&name).ok_or_else(|| {
            SqlError::invalid(format!("table {} has no column {name:?}", table.name)).at(position_of(ident))
        })
    };
    columns.iter().map(find).collect()
}

fn select(sql: &str) -> Result<ast::Statement> {
    match parse(sql)?.pop() {
        Some(Statement::Statement(statement)) => Ok(*statement),
        _ => Err(SqlError::internal(format!("not a query: {sql}"))),
    }
}
