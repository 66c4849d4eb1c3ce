//! UPDATE table SET … [FROM …] [WHERE …] [RETURNING …].

use std::collections::HashSet;
use std::sync::Arc;

use arrow::compute::take_record_batch;
use arrow_array::{RecordBatch, UInt32Array};
use datafusion::sql::sqlparser::ast::{self, Expr, UpdateTableFromKind};
use futures::future::BoxFuture;

use super::delete::{old_columns, old_readers};
use super::query::{Target, assignments, named, select, table_batch};
use super::references::{related, see_to};
use super::returning::Returning;
use super::writer::Entry;
use super::{RowWriter, answer};
use crate::catalog::Table;
use crate::columns::{ColumnReader, check_batch};
use crate::constraint::{Defaults, RowChecks};
use crate::convert::conform;
use crate::error::{Result, SqlError};
use crate::query_env::QueryEnv;
use crate::session::{Session, StatementResult};
use crate::transaction::{Change, ChangeStatement, Refusal, Work};

/// An UPDATE and its table.
struct Update {
    update: ast::Update,
    target: Target,
}

impl ChangeStatement for Update {
    fn plan<'a>(&'a self, session: &'a Session, env: &'a Arc<QueryEnv>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(session.plan_update(env, &self.update, &self.target))
    }
}

impl Session {
    pub(crate) async fn update(&self, update: ast::Update) -> Result<StatementResult> {
        if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() || update.output.is_some() {
            return Err(SqlError::unsupported("UPDATE takes SET, FROM, WHERE and RETURNING"));
        }
        let target = Target::read(&update.table)?;
        let tables = self.related_tables(&target.name);
        self.change(&tables, &Update { update, target }).await
    }

    async fn plan_update(&self, env: &Arc<QueryEnv>, update: &ast::Update, target: &Target) -> Result<Work> {
        let table = Arc::clone(env.snapshot.catalog.table(&target.name)?);
        let assigned = assignments(&table, &update.assignments)?;
        let mut items = old_columns(&table, target);
        let first_new = items.len();
        for (place, (column, value)) in assigned.iter().enumerate() {
            let value = match value {
                Some(value) => {
                    Defaults::check_update(&table, *column, value)?;
                    value.clone()
                }
                None => self.default_of(env, &table, *column)?,
            };
            items.push(named(value, format!("new {place}")));
        }
        let mut relations = vec![target.relation.clone()];
        match &update.from {
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                relations.extend(from.iter().cloned());
            }
            None => {}
        }
        let returning = update.returning.as_ref().map(|items| Returning::new(items, &relations[1..])).transpose()?;
        items.extend(returning.iter().flat_map(Returning::brought));
        let query = select(items, relations, update.selection.clone())?;
        let found = self.rows_of(&env.with_row_id(&table), query).await?;
        let found = first_of_each(&found, &table)?;
        let before = table_batch(&found, &table, 0)?;
        let columns: Vec<usize> = assigned.iter().map(|(column, _)| *column).collect();
        let after = updated(&before, &found, first_new, &table, &columns)?;
        self.row_checks(&table)?.check(&after)?;
        check_batch(&after, &table, 1)?;
        let returned = match &returning {
            None => None,
            Some(returning) => Some(self.returned(env, target, returning, &after, &found).await?),
        };
        Ok(Box::new(move |change: &mut Change<'_, '_>| {
            let mut writer = RowWriter::new(change.db, &change.view.snapshot, &table)?;
            let before = writer.entries(&old_readers(&before, &found, &table)?, after.num_rows())?;
            let after = writer.entries(&old_readers(&after, &found, &table)?, after.num_rows())?;
            replace(&mut writer, change, &before, &after)?;
            drop(writer);
            see_to(change, &table, &mut before.iter().zip(&after).map(|(old, new)| (Some(old), Some(new))))?;
            Ok(answer("UPDATE", after.len(), returned)?)
        }))
    }

    /// Tables that a change of rows of one may look at or change.
    pub(super) fn related_tables(&self, table: &str) -> Vec<String> {
        let catalog = &self.db.snapshot().catalog;
        catalog.get(table).map_or_else(|| vec![table.to_owned()], |table| related(catalog, table))
    }

    /// What a column is without a value.
    pub(super) fn default_of(&self, env: &QueryEnv, table: &Table, column: usize) -> Result<Expr> {
        let default = Defaults::new(&env.snapshot.catalog, table).expression(column)?;
        Ok(default.unwrap_or_else(|| Expr::value(ast::Value::Null)))
    }

    /// What NOT NULL and CHECK say of rows of a table.
    pub(super) fn row_checks(&self, table: &Arc<Table>) -> Result<RowChecks> {
        RowChecks::new(&self.context.state(), table)
    }
}

/// Puts rows in the place of others, whose keys may differ.
fn replace(
    writer: &mut RowWriter<'_>,
    change: &mut Change<'_, '_>,
    before: &[Entry],
    after: &[Entry],
) -> Result<(), Refusal> {
    // Keys that move go first, so that they may change places among themselves.
    let moved = |(before, after): &(&Entry, &Entry)| before.0 != after.0;
    for (before, _) in before.iter().zip(after).filter(moved) {
        writer.delete(change.transaction, &before.0)?;
    }
    for pair in before.iter().zip(after) {
        let (before, after) = pair;
        match moved(&pair) {
            true => writer.insert(change.transaction, &after.0, &after.1)?,
            false => writer.update(change.transaction, &after.0, &before.1, &after.1)?,
        }
    }
    Ok(())
}

/// A join may find a row more than once: then one of its partners counts, as in PostgreSQL.
pub fn first_of_each(found: &RecordBatch, table: &Table) -> Result<RecordBatch> {
    let before = table_batch(found, table, 0)?;
    let readers: Vec<ColumnReader<'_>> = old_readers(&before, found, table)?;
    let mut encoder = crate::entries::EntryEncoder::new(table.primary_layout());
    let mut scratch = Vec::new();
    let mut seen = HashSet::new();
    let mut rows = Vec::with_capacity(found.num_rows());
    for row in 0..found.num_rows() {
        encoder.encode_row(&mut scratch, &readers, row)?;
        if seen.insert(encoder.key.clone()) {
            rows.push(row as u32);
        }
    }
    if rows.len() == found.num_rows() {
        return Ok(found.clone());
    }
    Ok(take_record_batch(found, &UInt32Array::from(rows))?)
}

/// Old rows with new values, which begin at column `first_new`, in `columns`.
pub fn updated(
    before: &RecordBatch,
    found: &RecordBatch,
    first_new: usize,
    table: &Table,
    columns: &[usize],
) -> Result<RecordBatch> {
    let places: Vec<usize> = (first_new..first_new + columns.len()).collect();
    let new = conform(&found.project(&places)?, table, columns, 1)?;
    let mut arrays = before.columns().to_vec();
    for column in columns {
        arrays[*column] = Arc::clone(new.column(*column));
    }
    Ok(RecordBatch::try_new(before.schema(), arrays)?)
}
