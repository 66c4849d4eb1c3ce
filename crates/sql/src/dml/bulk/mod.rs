//! Many rows straight to a table's base, in one publication.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;

use saki_base::planted::{self, Fault};
use saki_catalog::convert::conform;
use saki_catalog::{Result, SqlError, Table};
use saki_context::constraint::RowChecks;
use saki_context::database::{Database, Stoppable};
use saki_context::{StatementContext, feed};
use saki_parameters::SessionTime;
use saki_store::load::{append, load};
use saki_store::locks::LockMode;
use saki_store::{LoadProgress, OnDuplicate};

/// Adds `batches` to a table, in one publication: all or nothing. Columns are those of the table, in order; their
/// types are the table's Arrow types or can be cast to them. An empty table is filled at device speed, its indexes
/// and statistics included. Memory is bounded by `OpenOptions::load_memory_bytes`. Waits, and uses threads of its
/// own.
pub fn bulk_load(
    db: &Database,
    table: &str,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<u64> {
    let definition = Arc::clone(db.generation().catalog.table(table)?);
    if definition.has_filled() {
        return Err(SqlError::unsupported(format!("table {table} has an index that asks for a session"))
            .hint("load the rows by COPY, or create indexes over expressions and with WHERE afterwards"));
    }
    let columns: Vec<usize> = (0..definition.width()).collect();
    let conformed = conforming(Arc::clone(&definition), columns, SessionTime::default(), batches);
    let complete = conformed.map(|batch| definition.with_hidden(&batch?, |_| Ok(None)));
    add_rows(&Stoppable::never(db), &definition, complete, progress)
}

/// Adds what a stream gives to columns of a table, straight to its base with transactions kept out: all of it, or
/// nothing. The number of rows.
pub async fn load_stream(
    cx: &StatementContext<'_>,
    rows: SendableRecordBatchStream,
    table: Arc<Table>,
    columns: Vec<usize>,
) -> Result<u64> {
    let _locked = cx.transactions.settled(vec![table.name.clone()], LockMode::ShareRowExclusive).await?;
    // It may have been altered while it was waited for.
    let now = Arc::clone(cx.generation()?.catalog.table(&table.name)?);
    let columns = places_now(&table, &columns, &now)?;
    let table = now;
    if !is_filled_by(&table, &columns) {
        return Err(changed(&table));
    }
    let checks = RowChecks::new(&cx.planner.state(), &table)?;
    let time = cx.parameters.time();
    feed(cx, rows, move |db, batches| {
        let conformed = conforming(Arc::clone(&table), columns, time, batches);
        let checked = conformed.map(|batch| {
            let batch = batch?;
            checks.check(&batch)?;
            checks.complete(&batch)
        });
        add_rows(db, &table, checked, &mut |_| {})
    })
    .await
}

/// Whether batches of these columns are all that it takes to fill a table: no defaults, and no other tables to look at.
pub fn is_filled_by(table: &Table, columns: &[usize]) -> bool {
    let is_default = |column: usize| !columns.contains(&column) && table.has_default(column);
    is_unreferred(table) && !(0..table.columns.len()).any(is_default)
}

/// Whether new rows of a table refer to none: what they refer to is looked up row by row.
pub fn is_unreferred(table: &Table) -> bool {
    table.is_free_of_references() || planted::is(Fault::ReferencesUnchecked)
}

/// Where columns of a table are, which was `seen` before it was waited for.
///
/// # Errors
/// 42703 if one is not there any more, 40001 if the table is another.
pub fn places_now(seen: &Table, columns: &[usize], now: &Table) -> Result<Vec<usize>> {
    if seen.id != now.id {
        return Err(changed(now));
    }
    let place = |column: &usize| {
        now.position_of(seen.details[*column].id).ok_or_else(|| {
            let (name, table) = (&seen.columns[*column].name, now.bare_name());
            SqlError::invalid(format!("column {name:?} of relation {table:?} does not exist"))
                .code("42703")
                .detail("It was dropped while the statement waited.")
        })
    };
    columns.iter().map(place).collect()
}

fn changed(table: &Table) -> SqlError {
    SqlError::invalid(format!("table {:?} was changed while the statement waited", table.name))
        .code("40001")
        .hint("repeat the statement")
}

/// Adds batches of the table's own types. The table must still be what the caller saw.
fn add_rows(
    db: &Stoppable<'_>,
    seen: &Table,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<u64> {
    db.write(|writer| {
        let table = writer.catalog.table(&seen.name)?;
        if table.id != seen.id || table.layout_version != seen.layout_version {
            return Err(changed(table));
        }
        let rows = match table.root.is_empty() {
            true => load(writer, &seen.name, batches, progress)?,
            false => append(writer, &seen.name, batches, OnDuplicate::Refuse)?,
        };
        // A transaction whose snapshot lacks these rows must not write over them: it would not find them in the delta
        // that it knows, so it is to meet another.
        let mut table = Table::clone(writer.catalog.table(&seen.name)?);
        table.delta = writer.catalog.new_table_id();
        writer.catalog.put(table);
        Ok(rows)
    })
}

/// Batches of a source as batches of a table.
fn conforming(
    table: Arc<Table>,
    columns: Vec<usize>,
    time: SessionTime,
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
        let conformed = conform(&batch, &table, &columns, rows + 1, &time);
        rows += batch.num_rows() as u64;
        conformed
    })
}
