//! What the clauses of a MERGE make of the rows that they are for.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::compute::take_record_batch;
use arrow_array::{RecordBatch, UInt32Array};
use datafusion::sql::sqlparser::ast::{Assignment, Expr};

use super::super::query::{Assigned, columns, first_columns, keys_of, named, old_readers, table_batch};
use super::super::rows::RowWriter;
use super::super::update::updated;
use super::met::Met;
use saki_catalog::columns::check_lengths;
use saki_catalog::convert::conform;
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::{Defaults, RowChecks, check_width, is_default};
use saki_context::transaction::ChangeEnv;
use saki_postgres::statement::{MergedAs, MergedRow};
use saki_store::Entry;

/// What all clauses have come to.
pub struct Changes<'c> {
    table: &'c Arc<Table>,
    checks: &'c RowChecks,
    /// Rows as they are, and as they were found.
    deleted: Vec<(RecordBatch, RecordBatch)>,
    updated: Vec<Updated>,
    inserted: Vec<RecordBatch>,
}

struct Updated {
    before: RecordBatch,
    after: RecordBatch,
    found: RecordBatch,
}

/// The same, with the hidden columns of rows.
pub struct Complete {
    table: Arc<Table>,
    deleted: Vec<(RecordBatch, RecordBatch)>,
    updated: Vec<Updated>,
    /// Rows that are new.
    pub inserted: Vec<RecordBatch>,
}

impl<'c> Changes<'c> {
    pub fn new(table: &'c Arc<Table>, checks: &'c RowChecks) -> Self {
        Self { table, checks, deleted: Vec::new(), updated: Vec::new(), inserted: Vec::new() }
    }

    /// What a clause makes of its rows. `keys` are those of the rows that were changed by then.
    ///
    /// # Errors
    /// Of the queries that tell; 21000 for a row that is changed already; what the table's constraints say.
    pub async fn add(
        &mut self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        met: &Met<'_>,
        action: &MergedAs<'_>,
        keys: &mut HashSet<Vec<u8>>,
    ) -> Result<()> {
        if met.is_matched && !keys_of(&met.found, self.table)?.into_iter().all(|key| keys.insert(key)) {
            return Err(SqlError::constraint("MERGE command cannot affect row a second time")
                .code("21000")
                .hint("Ensure that not more than one source row matches any one target row."));
        }
        match action {
            MergedAs::Nothing => {}
            MergedAs::Delete => {
                let before = table_batch(&met.found, self.table, 0)?;
                self.deleted.push((before, met.found.clone()));
            }
            MergedAs::Update(assignments) => {
                let updated = self.updated_of(cx, env, met, assignments).await?;
                self.updated.push(updated);
            }
            MergedAs::Insert(row) => {
                let inserted = self.inserted_of(cx, env, met, row).await?;
                self.inserted.push(inserted);
            }
        }
        Ok(())
    }

    async fn updated_of(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        met: &Met<'_>,
        assignments: &[Assignment],
    ) -> Result<Updated> {
        let (table, catalog) = (self.table, &env.generation.catalog);
        let assigned = Assigned::read(table, assignments)?;
        let beside = met.env(env)?;
        assigned.measure(cx, &beside, &met.relations()?).await?;
        let (rows, values) = met.ask(cx, env, assigned.items(catalog, table)?).await?;
        let values = assigned.spread(values, 1)?;
        let found = take_record_batch(&met.found, &UInt32Array::from(rows))?;
        let before = table_batch(&found, table, 0)?;
        let after = updated(&before, &values, 1, table, &assigned.columns(), &cx.parameters.time())?;
        check_lengths(&after, table, 1)?;
        self.checks.check(&after)?;
        Ok(Updated { before, after, found })
    }

    async fn inserted_of(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        met: &Met<'_>,
        row: &MergedRow<'_>,
    ) -> Result<RecordBatch> {
        let table = self.table;
        let defaults = Defaults::new(&env.generation.catalog, table).overriding(row.overriding);
        let filled = defaults.filled(given(table, row)?)?;
        let columns: Vec<usize> = filled.iter().map(|(column, _)| *column).collect();
        let items = filled.into_iter().enumerate();
        let items = items.map(|(place, (_, value))| named(value, format!("new {place}"))).collect();
        let rows = cx.rows_of(&met.env(env)?, met.query(items)?).await?;
        let rows = conform(&rows, table, &columns, 1, &cx.parameters.time())?;
        check_lengths(&rows, table, 1)?;
        self.checks.check(&rows)?;
        Ok(rows)
    }

    pub fn complete(self) -> Result<Complete> {
        let checks = self.checks;
        // Keys of its indexes go with a row, whatever they are.
        let as_is = |(before, found)| Ok((self.table.with_hidden(&before, |_| Ok(None))?, found));
        let both = |Updated { before, after, found }| {
            Ok(Updated { before: checks.complete(&before)?, after: checks.complete(&after)?, found })
        };
        Ok(Complete {
            table: Arc::clone(self.table),
            deleted: self.deleted.into_iter().map(as_is).collect::<Result<_>>()?,
            updated: self.updated.into_iter().map(both).collect::<Result<_>>()?,
            inserted: self.inserted.iter().map(|rows| checks.complete(rows)).collect::<Result<_>>()?,
        })
    }
}

impl Complete {
    /// Entries of the rows that go.
    pub fn deleted(&self, writer: &RowWriter<'_>) -> Result<Vec<Entry>> {
        let mut all = Vec::new();
        for (before, found) in &self.deleted {
            all.extend(writer.entries(&old_readers(before, found, &self.table)?, before.num_rows())?);
        }
        Ok(all)
    }

    /// Entries of the rows that are changed, as they were and as they will be.
    pub fn updated(&self, writer: &RowWriter<'_>) -> Result<(Vec<Entry>, Vec<Entry>)> {
        let (mut all_before, mut all_after) = (Vec::new(), Vec::new());
        for Updated { before, after, found } in &self.updated {
            all_before.extend(writer.entries(&old_readers(before, found, &self.table)?, before.num_rows())?);
            all_after.extend(writer.entries(&old_readers(after, found, &self.table)?, after.num_rows())?);
        }
        Ok((all_before, all_after))
    }
}

/// The columns that a row gives values for, and these; `None` for DEFAULT.
fn given(table: &Table, row: &MergedRow<'_>) -> Result<Vec<(usize, Option<Expr>)>> {
    let Some(values) = row.values else { return Ok(Vec::new()) };
    let columns = match row.columns {
        [] => first_columns(table, values.len())?,
        names => columns(table, names)?,
    };
    check_width(values.len(), columns.len())?;
    let value = |value: &Expr| match value {
        Expr::Identifier(ident) if is_default(ident) => None,
        value => Some(value.clone()),
    };
    Ok(columns.into_iter().zip(values.iter().map(value)).collect())
}
