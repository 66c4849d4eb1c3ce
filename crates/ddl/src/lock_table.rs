//! LOCK TABLE.

use saki_catalog::{RelationKind, Result, SqlError, undefined};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_postgres::statement::{LockTable, object_name};

/// Locks tables until the end of the transaction.
///
/// # Errors
/// 25P01 outside of a transaction, which it would end with; as `SessionTransactions::lock_tables`.
pub async fn lock_table(cx: &StatementContext<'_>, lock: &LockTable) -> Result<StatementResult> {
    if !cx.transactions.outlives_statement() {
        return Err(SqlError::invalid("LOCK TABLE can only be used in transaction blocks")
            .code("25P01")
            .hint("BEGIN first"));
    }
    let generation = cx.generation()?;
    let mut wanted = Vec::with_capacity(lock.tables.len());
    for table in &lock.tables {
        let (name, position) = object_name(table)?;
        match generation.catalog.kind_of(&name) {
            None => return Err(undefined(&name).at(position)),
            Some(RelationKind::Table) => wanted.push((name, lock.mode)),
            Some(_) => return Err(SqlError::invalid(format!("{name:?} is not a table")).code("42809").at(position)),
        }
    }
    cx.transactions.lock_tables(&wanted, lock.policy).await?.keep();
    // One of them may have gone while it was waited for.
    let generation = cx.generation()?;
    wanted.iter().try_for_each(|(name, _)| generation.catalog.table(name).map(drop))?;
    Ok(StatementResult::done("LOCK TABLE", 0))
}
