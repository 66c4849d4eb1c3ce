//! UPDATE table SET … [FROM …] [WHERE …] [RETURNING …].

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::sql::sqlparser::ast::{self, UpdateTableFromKind};
use futures::future::BoxFuture;

use super::change::{ChangeStatement, Concern, Work, change};
use super::planned::{PlannedChange, Written};
use super::query::{Assigned, Returning, Target, first_of_each, old_columns, old_readers, select, table_batch};
use super::rows::RowWriter;
use saki_catalog::columns::check_lengths;
use saki_catalog::convert::conform;
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::{ActionRules, RowChecks};
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, Refusal};
use saki_parameters::SessionTime;
use saki_postgres::dialect::refuse_sets;
use saki_store::Entry;

/// An UPDATE and its table.
pub struct Update {
    update: ast::Update,
    target: Target,
}

impl Update {
    /// # Errors
    /// `Unsupported` for what is no UPDATE of PostgreSQL's.
    pub fn read(update: ast::Update) -> Result<Self> {
        if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() || update.output.is_some() {
            return Err(SqlError::unsupported("UPDATE takes SET, FROM, WHERE and RETURNING"));
        }
        let target = Target::read(&update.table)?;
        Ok(Self { update, target })
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.target.name
    }

    /// Finds the rows, and works out what becomes of them.
    ///
    /// # Errors
    /// Of the query that does so, and what the table's constraints say.
    pub async fn planned(&self, cx: &StatementContext<'_>, env: &ChangeEnv<'_>) -> Result<PlannedChange> {
        plan_update(cx, env, &self.update, &self.target).await
    }
}

impl ChangeStatement for Update {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(async move { Ok(self.planned(cx, env).await?.into_work()) })
    }
}

pub async fn update(cx: &StatementContext<'_>, update: ast::Update) -> Result<StatementResult> {
    let update = Update::read(update)?;
    change(cx, Concern::Related(update.table()), &update).await
}

async fn plan_update(
    cx: &StatementContext<'_>,
    env: &ChangeEnv<'_>,
    update: &ast::Update,
    target: &Target,
) -> Result<PlannedChange> {
    let table = Arc::clone(env.generation.catalog.table(&target.name)?);
    update.assignments.iter().try_for_each(|assigned| refuse_sets(&assigned.value, "UPDATE"))?;
    let assigned = Assigned::read(&table, &update.assignments)?;
    let mut items = old_columns(&table, target);
    let first_new = items.len();
    items.extend(assigned.items(&env.generation.catalog, &table)?);
    let mut relations = vec![target.relation.clone()];
    match &update.from {
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
            relations.extend(from.iter().cloned());
        }
        None => {}
    }
    let returning = match &update.returning {
        Some(items) => Some(Returning::beside(cx, env, items, (target, &table), &relations[1..]).await?),
        None => None,
    };
    items.extend(returning.iter().flat_map(Returning::brought));
    assigned.measure(cx, env, &relations).await?;
    let query = select(items, relations, update.selection.clone())?;
    let found = assigned.spread(cx.rows_of(&env.with_row_id(&table), query).await?, first_new)?;
    let found = first_of_each(&found, &table)?;
    let before = table_batch(&found, &table, 0)?;
    let after = updated(&before, &found, first_new, &table, &assigned.columns(), &cx.parameters.time())?;
    check_lengths(&after, &table, 1)?;
    let checks = RowChecks::new(&cx.planner.state(), &table)?;
    checks.check(&after)?;
    let returned = match &returning {
        None => None,
        Some(returning) => Some(returning.of_found(cx, env, target, &after, &found).await?),
    };
    let rules = ActionRules::new(|| cx.planner.state(), &env.generation.catalog, &table)?;
    let (before, after) = (checks.complete(&before)?, checks.complete(&after)?);
    let write = move |change: &mut Change<'_, '_>| {
        let mut writer = RowWriter::of_change(change, &table)?;
        let before = writer.entries(&old_readers(&before, &found, &table)?, after.num_rows())?;
        let after = writer.entries(&old_readers(&after, &found, &table)?, after.num_rows())?;
        replace(&mut writer, change, &before, &after)?;
        drop(writer);
        let rows = after.len();
        let pairs = before.into_iter().zip(after).map(|(old, new)| (Some(old), Some(new))).collect();
        Ok(Written { table, rows, pairs, rules })
    };
    Ok(PlannedChange { tag: "UPDATE", returned, write: Box::new(write) })
}

/// Puts rows in the place of others, whose keys may differ.
pub fn replace(
    writer: &mut RowWriter<'_>,
    change: &mut Change<'_, '_>,
    before: &[Entry],
    after: &[Entry],
) -> Result<(), Refusal> {
    // Keys and unique values that move go first, so that rows may swap them.
    let mut moved = Vec::with_capacity(before.len());
    for ((key, old), (new_key, new)) in before.iter().zip(after) {
        let is_moved = key != new_key || before.len() > 1 && writer.is_otherwise_unique(key, old, new)?;
        if is_moved {
            writer.delete(change.transaction, key)?;
        }
        moved.push(is_moved);
    }
    for ((before, after), is_moved) in before.iter().zip(after).zip(moved) {
        match is_moved {
            true => writer.insert(change.transaction, &after.0, &after.1)?,
            false => writer.update(change.transaction, &after.0, &before.1, &after.1)?,
        }
    }
    Ok(())
}

/// Old rows with new values, which begin at column `first_new`, in `columns`.
pub fn updated(
    before: &RecordBatch,
    found: &RecordBatch,
    first_new: usize,
    table: &Table,
    columns: &[usize],
    time: &SessionTime,
) -> Result<RecordBatch> {
    let places: Vec<usize> = (first_new..first_new + columns.len()).collect();
    let new = conform(&found.project(&places)?, table, columns, 1, time)?;
    let mut arrays = before.columns().to_vec();
    for column in columns {
        arrays[*column] = Arc::clone(new.column(*column));
    }
    Ok(RecordBatch::try_new(before.schema(), arrays)?)
}
