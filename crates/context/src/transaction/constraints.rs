//! What a session's transaction is told about checks that wait, and asked about them.

use super::deferred::DeferredCheck;
use super::shared::SessionTransactions;
use saki_catalog::{KeyId, Result, SqlError, Table};

impl SessionTransactions {
    /// Says when the open transaction checks foreign keys: these, or all. Without one nothing comes of it.
    pub async fn say_when_checked(&self, keys: Option<&[KeyId]>, deferred: bool) {
        if let Some(open) = &mut self.lock().await.open {
            open.deferred.say(keys, deferred);
        }
    }

    /// Checks that wait in the open transaction: of these keys, or all.
    pub async fn due_checks(&self, keys: Option<&[KeyId]>) -> Vec<DeferredCheck> {
        let transactions = self.lock().await;
        transactions.open.as_ref().map_or_else(Vec::new, |open| open.deferred.due(keys))
    }

    /// They have been made.
    pub async fn made_checks(&self, keys: Option<&[KeyId]>) {
        if let Some(open) = &mut self.lock().await.open {
            let may_go_back = open.may_go_back();
            open.deferred.made(keys, may_go_back);
        }
    }

    /// Refuses a statement that lays a table out anew, or takes it away, while checks of its rows wait: they know rows
    /// by their keys, and values by the types of their columns.
    ///
    /// # Errors
    /// 55006.
    pub async fn refuse_waiting(&self, command: &str, table: &Table) -> Result<()> {
        let transactions = self.lock().await;
        if !transactions.open.as_ref().is_some_and(|open| open.deferred.waits_on(table.id)) {
            return Ok(());
        }
        let name = table.bare_name();
        Err(SqlError::invalid(format!("cannot {command} {name:?} because it has pending trigger events"))
            .code("55006")
            .detail("Checks of deferred constraints wait for the end of the transaction.")
            .hint("SET CONSTRAINTS ALL IMMEDIATE makes them now."))
    }

    /// COMMIT has failed by `error`: the transaction has come to nothing; the error, once it may be told.
    pub async fn undone(&self, error: SqlError) -> SqlError {
        self.lock().await.abort();
        self.failed(error).await
    }
}
