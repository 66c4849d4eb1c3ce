//! SELECT … FOR UPDATE inside of a transaction: the rows are written anew as they are, so that nobody else changes them
//! before it ends.
//!
//! All rows that the condition meets are held, whatever LIMIT says. FOR SHARE holds them as FOR UPDATE does. Outside of
//! a transaction there is nothing to hold them for.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, SetExpr};
use futures::future::BoxFuture;

use super::change::{ChangeStatement, Concern, Work, change};
use super::query::{Target, old_columns, old_readers, select, table_batch};
use super::writer::RowWriter;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv};

/// The rows of a table that a query is about.
struct Lock {
    target: Target,
    selection: Option<ast::Expr>,
}

impl ChangeStatement for Lock {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(plan_lock(cx, env, self))
    }
}

/// Holds the rows that a query asks to be held, and takes its wish away.
pub async fn hold_rows(cx: &StatementContext<'_>, query: &mut ast::Query) -> Result<()> {
    let locks = std::mem::take(&mut query.locks);
    if locks.is_empty() {
        return Ok(());
    }
    if let Some(lock) = locks.iter().find(|lock| lock.nonblock.is_some()) {
        return Err(SqlError::unsupported(format!("{lock} is not supported")).hint("FOR UPDATE alone waits"));
    }
    let lock = Lock::read(query)?;
    if cx.transactions.outlives_statement() {
        change(cx, Concern::Table(&lock.target.name), &lock).await?;
    }
    Ok(())
}

async fn plan_lock(cx: &StatementContext<'_>, env: &ChangeEnv<'_>, lock: &Lock) -> Result<Work> {
    let table = Arc::clone(env.generation.catalog.table(&lock.target.name)?);
    let columns = old_columns(&table, &lock.target);
    let query = select(columns, vec![lock.target.relation.clone()], lock.selection.clone())?;
    let found = cx.rows_of(&env.with_row_id(&table), query).await?;
    let rows = table_batch(&found, &table, 0)?;
    Ok(Box::new(move |change: &mut Change<'_, '_>| {
        let mut writer = RowWriter::new(change.base(), change.generation, &table)?;
        let entries = writer.entries(&old_readers(&rows, &found, &table)?, rows.num_rows())?;
        for (key, row) in &entries {
            writer.update(change.transaction, key, row, row)?;
        }
        Ok(StatementResult::done("SELECT", entries.len() as u64))
    }))
}

impl Lock {
    /// # Errors
    /// `Unsupported` for what is not plainly the rows of one table.
    fn read(query: &ast::Query) -> Result<Self> {
        let refused = || {
            SqlError::unsupported("FOR UPDATE is not supported for joins, groups, subqueries and sets")
                .hint("hold the rows of one table at a time")
        };
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(refused()) };
        let is_grouped = match &select.group_by {
            ast::GroupByExpr::All(_) => true,
            ast::GroupByExpr::Expressions(list, _) => !list.is_empty(),
        };
        let [from] = &select.from[..] else { return Err(refused()) };
        let is_plain = query.with.is_none() && select.distinct.is_none() && !is_grouped && select.having.is_none();
        if !is_plain || !from.joins.is_empty() || !matches!(from.relation, ast::TableFactor::Table { .. }) {
            return Err(refused());
        }
        Ok(Self { target: Target::read(from)?, selection: select.selection.clone() })
    }
}
