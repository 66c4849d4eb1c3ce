//! DELETE FROM table [USING …] [WHERE …] [RETURNING …].

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, FromTable};
use futures::future::BoxFuture;

use super::change::{ChangeStatement, Concern, Work, change};
use super::planned::{PlannedChange, Written};
use super::query::{Returning, Target, first_of_each, old_columns, old_readers, select, table_batch};
use super::rows::RowWriter;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::constraint::ActionRules;
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv};

/// A DELETE and the table it is from.
pub struct Deletion {
    delete: ast::Delete,
    target: Target,
}

impl Deletion {
    /// # Errors
    /// `Unsupported` for what is no DELETE of PostgreSQL's.
    pub fn read(delete: ast::Delete) -> Result<Self> {
        if !delete.tables.is_empty() || !delete.order_by.is_empty() || delete.limit.is_some() || delete.output.is_some()
        {
            return Err(SqlError::unsupported("DELETE takes FROM, USING, WHERE and RETURNING"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = &from[..] else { return Err(SqlError::unsupported("DELETE is from one table")) };
        let target = Target::read(from)?;
        Ok(Self { delete, target })
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.target.name
    }

    /// Finds the rows.
    ///
    /// # Errors
    /// Of the query that finds them.
    pub async fn planned(&self, cx: &StatementContext<'_>, env: &ChangeEnv<'_>) -> Result<PlannedChange> {
        plan_delete(cx, env, &self.delete, &self.target).await
    }
}

impl ChangeStatement for Deletion {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(async move { Ok(self.planned(cx, env).await?.into_work()) })
    }
}

pub async fn delete(cx: &StatementContext<'_>, delete: ast::Delete) -> Result<StatementResult> {
    let deletion = Deletion::read(delete)?;
    change(cx, Concern::Related(deletion.table()), &deletion).await
}

async fn plan_delete(
    cx: &StatementContext<'_>,
    env: &ChangeEnv<'_>,
    delete: &ast::Delete,
    target: &Target,
) -> Result<PlannedChange> {
    let table = Arc::clone(env.generation.catalog.table(&target.name)?);
    let mut relations = vec![target.relation.clone()];
    relations.extend(delete.using.iter().flatten().cloned());
    let returning = match &delete.returning {
        Some(items) => Some(Returning::beside(cx, env, items, (target, &table), &relations[1..]).await?),
        None => None,
    };
    let is_join = relations.len() > 1;
    let mut items = old_columns(&table, target);
    items.extend(returning.iter().flat_map(Returning::brought));
    let query = select(items, relations, delete.selection.clone())?;
    let found = cx.rows_of(&env.with_row_id(&table), query).await?;
    let found = if is_join { first_of_each(&found, &table)? } else { found };
    let before = table_batch(&found, &table, 0)?;
    let returned = match &returning {
        None => None,
        Some(returning) => Some(returning.of_found(cx, env, target, &before, &found).await?),
    };
    // Keys of its indexes go with a row, whatever they are.
    let before = table.with_hidden(&before, |_| Ok(None))?;
    let rules = ActionRules::new(|| cx.planner.state(), &env.generation.catalog, &table)?;
    let write = move |change: &mut Change<'_, '_>| {
        let mut writer = RowWriter::of_change(change, &table)?;
        let mut entries = writer.entries(&old_readers(&before, &found, &table)?, before.num_rows())?;
        entries.sort_unstable();
        for (key, _) in &entries {
            writer.delete(change.transaction, key)?;
        }
        drop(writer);
        let (rows, pairs) = (entries.len(), entries.into_iter().map(|entry| (Some(entry), None)).collect());
        Ok(Written { table, rows, pairs, rules })
    };
    Ok(PlannedChange { tag: "DELETE", returned, write: Box::new(write) })
}
