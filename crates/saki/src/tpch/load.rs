//! Making tables and filling them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_sql::{Database, LoadProgress, Session, SqlError};

use super::generate::{batches, data_bytes};
use super::schema::Table;

/// How far a load has come.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// So many rows of the table, and bytes of their values, have been taken in.
    Rows { rows: u64, bytes: u64 },
    /// All rows are in; what is left is sorting and writing indexes.
    Finishing,
    /// Column segments are being built from the rows stored.
    Columns,
}

/// What loading one table took.
#[derive(Clone, Copy, Debug)]
pub struct TableLoaded {
    pub rows: u64,
    /// Of the values, without any overhead of storing them.
    pub bytes: u64,
    pub elapsed: Duration,
}

/// Creates `table` with its indexes, unless it is there and empty, and fills
/// it: all or nothing, whatever happens meanwhile.
///
/// # Errors
/// When the table has rows already, the scale factor is out of range, or the device fails or is full.
pub async fn load(
    database: &Arc<Database>,
    table: &'static Table,
    scale: f64,
    indexes: bool,
    progress: impl Fn(Progress) + Send + 'static,
) -> Result<TableLoaded, SqlError> {
    let started = Instant::now();
    let rows = batches(table, scale)?;
    let present = database.generation().catalog.get(table.name).map(|table| table.root.is_empty());
    match present {
        Some(false) => {
            return Err(SqlError::invalid(format!("table {} has rows already", table.name))
                .hint(format!("DROP TABLE {} first, or load other tables", table.name)));
        }
        Some(true) => {}
        None => create(database, table, indexes).await?,
    }
    let database = Arc::clone(database);
    let fill = move || {
        // Counted by the iterator, read by the callback: both run on this thread.
        let bytes = Cell::new(0);
        let counted = rows.inspect(|batch| bytes.set(bytes.get() + batch.as_ref().map_or(0, data_bytes)));
        let rows = saki_sql::bulk_load(&database, table.name, counted, &mut |at| {
            progress(match at {
                LoadProgress::Rows(rows) => Progress::Rows { rows, bytes: bytes.get() },
                LoadProgress::Finishing => Progress::Finishing,
                LoadProgress::Columns => Progress::Columns,
            });
        })?;
        Ok(TableLoaded { rows, bytes: bytes.get(), elapsed: started.elapsed() })
    };
    // Loading waits for storage: not a thing to do on a thread that runs queries.
    tokio::task::spawn_blocking(fill)
        .await
        .map_err(|error| SqlError::internal(format!("the loading thread: {error}")))?
}

async fn create(database: &Arc<Database>, table: &Table, indexes: bool) -> Result<(), SqlError> {
    let session = Session::new(database);
    session.execute(&table.create_sql()).await?;
    if indexes {
        for sql in table.create_index_sql() {
            session.execute(&sql).await?;
        }
    }
    Ok(())
}
