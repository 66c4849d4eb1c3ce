//! MERGE INTO table USING source ON condition WHEN [NOT] MATCHED [AND …] THEN …, as PostgreSQL 15 has it.
//!
//! ```text
//!   source [LEFT] JOIN table ─► pairs of rows, and rows of the source that have met none
//!                                 │ conditions of the clauses: which clause each is for ([`Met::decided`])
//!                                 ▼
//!                               the values of each clause, of its own rows alone ([`clauses`]) ─► writer
//! ```
//!
//! So nothing of a clause is worked out for rows that it is not for: no value that could fail, no number of a sequence.

mod clauses;
mod met;
mod statement;

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;

use self::clauses::Changes;
use self::met::Met;
pub use self::statement::Merge;
use super::change::{ChangeStatement, Concern, Work, change};
use super::planned::{PlannedChange, Written};
use super::rows::RowWriter;
use super::update::replace;
use saki_catalog::{Result, Table};
use saki_context::StatementContext;
use saki_context::constraint::{ActionRules, RowChecks};
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, Refusal};
use saki_postgres::statement::when_clauses;

impl ChangeStatement for Merge {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(async move { Ok(self.planned(cx, env).await?.into_work()) })
    }
}

pub async fn merge(cx: &StatementContext<'_>, merge: ast::Merge) -> Result<StatementResult> {
    let merge = Merge::read(cx, merge)?;
    change(cx, Concern::Related(merge.table()), &merge).await
}

impl Merge {
    /// Finds the rows, which clause each is for, and what becomes of it.
    ///
    /// # Errors
    /// Of the queries that do so; 21000 for a row that would be changed twice; what the table's constraints say.
    pub async fn planned(&self, cx: &StatementContext<'_>, env: &ChangeEnv<'_>) -> Result<PlannedChange> {
        let table = Arc::clone(env.generation.catalog.table(&self.target.name)?);
        let clauses = when_clauses(&self.merge)?;
        let checks = RowChecks::new(&cx.planner.state(), &table)?;
        let mut changes = Changes::new(&table, &checks);
        let mut keys = HashSet::new();
        for met in Met::find(cx, env, self, &table, &clauses).await? {
            for (clause, rows) in met.decided(cx, env, &clauses).await? {
                let of_clause = met.of_rows(rows)?;
                changes.add(cx, env, &of_clause, &clauses[clause].action, &mut keys).await?;
            }
        }
        let rules = ActionRules::new(|| cx.planner.state(), &env.generation.catalog, &table)?;
        let changes = changes.complete()?;
        let write = move |change: &mut Change<'_, '_>| changes.write(change, table, rules);
        Ok(PlannedChange { tag: "MERGE", returned: None, write: Box::new(write) })
    }
}

impl clauses::Complete {
    /// Rows go first that are deleted or whose keys move, and new ones come last.
    fn write(self, change: &mut Change<'_, '_>, table: Arc<Table>, rules: ActionRules) -> Result<Written, Refusal> {
        let mut writer = RowWriter::of_change(change, &table)?;
        let mut pairs = Vec::new();
        let mut deleted = self.deleted(&writer)?;
        deleted.sort_unstable();
        for (key, _) in &deleted {
            writer.delete(change.transaction, key)?;
        }
        let (before, after) = self.updated(&writer)?;
        replace(&mut writer, change, &before, &after)?;
        let mut rows = deleted.len() + after.len();
        pairs.extend(deleted.into_iter().map(|entry| (Some(entry), None)));
        pairs.extend(before.into_iter().zip(after).map(|(old, new)| (Some(old), Some(new))));
        let mut inserted = 0;
        for batch in &self.inserted {
            let added = super::insert::add(&mut writer, change, batch, inserted + 1)?;
            pairs.extend(added.into_iter().map(|entry| (None, Some(entry))));
            inserted += batch.num_rows() as u64;
        }
        rows += inserted as usize;
        drop(writer);
        Ok(Written { table, rows, pairs, rules })
    }
}
