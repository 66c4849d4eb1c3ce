//! Checks of foreign keys that wait, made when SET CONSTRAINTS says so and before COMMIT, by whoever commits: the end
//! of a block or of a message. A statement that is a transaction by itself leaves none: its own end is the end.
//!
//! They are made as a statement of the transaction would be, with what such a one sees, waits for and holds. Who may
//! see what, and when:
//!
//! - While a check waits, nothing is held: others may delete the row that is referred to, or put it in.
//! - At READ COMMITTED the check takes a new snapshot, so it sees all that has been committed by then, and the
//!   transaction's own changes. At the other levels it sees those and the transaction's snapshot.
//! - A row that is referred to and seen is held: written anew as it is, as a check by the statement would. If another
//!   transaction is deleting it, that one is waited for, and the check is made again: it finds the row gone (23503) or
//!   still there. If another has deleted it since a snapshot that is kept, this is 40001.
//! - From there to the end of the transaction nobody can delete it: whoever tries meets the held row, waits for the
//!   commit, and then sees the row that refers. So between the check and the commit nothing can happen to it.
//! - A key that has gone has the deleted row, pending, in its place all the time. Whoever wants to refer to it meets
//!   that when it checks, now or at its own end, and waits. So all rows that refer to the key are either seen here, or
//!   are checked after this commit, by those who put them in.
//!
//! What waits when a commit fails is gone with the transaction.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use futures::future::BoxFuture;

use super::Session;
use crate::dml::{ChangeStatement, Concern, Work, change, check_deferred};
use saki_catalog::{Catalog, KeyId, PUBLIC, Result, SqlError};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, DeferredCheck};
use saki_postgres::statement::{SetConstraints, name_of};

const COMMAND: &str = "SET CONSTRAINTS";

/// Checks that are to be made now.
struct Due(Arc<[DeferredCheck]>);

impl ChangeStatement for Due {
    fn plan<'a>(&'a self, _cx: &'a StatementContext<'_>, _env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        let checks = Arc::clone(&self.0);
        Box::pin(async move {
            Ok(Box::new(move |change: &mut Change<'_, '_>| {
                check_deferred(change, &checks)?;
                // A count alone, which is no more than a promise: nothing has to be durable before the commit.
                Ok(StatementResult::done(COMMAND, checks.len() as u64))
            }) as Work)
        })
    }
}

/// Makes the checks that wait in the session's transaction: of these keys, or all.
///
/// # Errors
/// 23503; 40001 and what else a statement meets that changes rows. The transaction has failed then.
pub async fn make_checks(cx: &StatementContext<'_>, keys: Option<&[KeyId]>) -> Result<()> {
    let checks = cx.transactions.due_checks(keys).await;
    if checks.is_empty() {
        return Ok(());
    }
    let mut tables: Vec<_> = checks.iter().flat_map(|check| [check.key.from, check.key.to]).collect();
    tables.sort_unstable();
    tables.dedup();
    change(cx, Concern::Tables(&tables), &Due(checks.into())).await?;
    cx.transactions.made_checks(keys).await;
    Ok(())
}

/// SET CONSTRAINTS.
///
/// # Errors
/// 42704 and 42809 for names of no deferrable constraints; as [`make_checks`].
pub async fn set_constraints(session: &Session, set: SetConstraints) -> Result<StatementResult> {
    let keys = match &set.names {
        None => None,
        Some(names) => Some(session.keys_named(names, set.deferred)?),
    };
    let cx = session.context();
    cx.transactions.say_when_checked(keys.as_deref(), set.deferred).await;
    if !set.deferred {
        make_checks(&cx, keys.as_deref()).await?;
    }
    Ok(StatementResult::done(COMMAND, 0))
}

impl Session {
    /// The foreign keys of these names that may be deferred. Others are checked by each statement, and may be told so.
    fn keys_named(&self, names: &[ObjectName], deferred: bool) -> Result<Vec<KeyId>> {
        let newest = self.newest();
        let mut keys = Vec::new();
        for name in names {
            let (schemas, name) = self.schemas_of(name, &newest.catalog)?;
            let in_schema = |schema: &String| {
                let tables = newest.catalog.tables().filter(|table| table.schema == *schema);
                tables.filter(|table| table.has_constraint(&name)).collect::<Vec<_>>()
            };
            let Some(tables) = schemas.iter().map(in_schema).find(|tables| !tables.is_empty()) else {
                return Err(SqlError::invalid(format!("constraint {name:?} does not exist")).code("42704"));
            };
            for table in tables {
                let key = table.foreign_keys.iter().find(|key| key.name == name && key.deferral.is_deferrable());
                match key {
                    Some(key) => keys.push(key.id(table)),
                    None if deferred => {
                        return Err(SqlError::invalid(format!("constraint {name:?} is not deferrable")).code("42809"));
                    }
                    None => {}
                }
            }
        }
        Ok(keys)
    }

    /// Where a constraint is looked for, and its bare name.
    fn schemas_of(&self, name: &ObjectName, catalog: &Catalog) -> Result<(Vec<String>, String)> {
        let mut parts: Vec<String> = name.0.iter().filter_map(|part| Some(name_of(part.as_ident()?))).collect();
        let bare = parts.pop().unwrap_or_default();
        let schema = parts.pop();
        if parts.len() > 1 || parts.first().is_some_and(|database| *database != *self.system.database_name()) {
            let message = format!("cross-database references are not implemented: {name}");
            return Err(SqlError::unsupported(message));
        }
        match schema {
            None => Ok((self.system.search_path(catalog).unwrap_or_else(|| vec![PUBLIC.to_owned()]), bare)),
            Some(schema) if catalog.has_schema(&schema) => Ok((vec![schema], bare)),
            Some(schema) => Err(SqlError::invalid(format!("schema {schema:?} does not exist")).code("3F000")),
        }
    }
}
