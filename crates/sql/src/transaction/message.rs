//! Statements that a client sends together: one transaction, unless they say otherwise themselves.
//!
//! A statement that takes effect at once and cannot be undone, such as CREATE INDEX, parts them if they have written its tables:
//! those before are committed first.

use datafusion::sql::sqlparser::ast;

use super::{Open, Scope, Transactions};
use crate::error::{Result, SqlError};
use crate::session::{Parsed, Session, TransactionStatus};
use crate::snapshot::Snapshot;

impl Transactions {
    /// Opens a transaction that ends with the message, if none is open.
    fn begin_message(&mut self) {
        self.open.get_or_insert_with(|| Open::new(self.default_level, Scope::Message));
    }

    fn is_message(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.scope == Scope::Message)
    }
}

impl Session {
    /// From now on statements are one transaction, until [`Self::end_message`]; inside of BEGIN and COMMIT they are already.
    ///
    /// # Errors
    /// What kept a statement from being undone that was dropped before its end.
    pub async fn begin_message(&self) -> Result<()> {
        let mut transactions = self.transactions.lock().await;
        transactions.settle()?;
        transactions.begin_message();
        Ok(())
    }

    /// Commits the transaction of a message, and waits until it is durable. One that BEGIN has opened goes on.
    ///
    /// # Errors
    /// 40001, and what storage says; nothing has been changed then.
    pub async fn end_message(&self) -> Result<()> {
        let mut transactions = self.transactions.lock().await;
        transactions.settle()?;
        if !transactions.is_message() {
            return Ok(());
        }
        let receipt = transactions.commit()?;
        drop(transactions);
        self.acknowledge(receipt).await
    }

    /// Something has gone wrong: the transaction of a message is undone, one that BEGIN has opened fails.
    pub async fn fail(&self) {
        let mut transactions = self.transactions.lock().await;
        // An error of this one comes too late to be told: the next statement meets it again.
        let _ = transactions.settle();
        transactions.fail();
    }

    /// What a statement about transactions is warned of before it runs, as PostgreSQL warns.
    pub fn warning(&self, parsed: &Parsed) -> Option<SqlError> {
        use ast::Statement as Sql;
        let datafusion::sql::parser::Statement::Statement(statement) = &parsed.0 else { return None };
        let is_open = self.transaction_status() != TransactionStatus::Idle;
        let warning = |text: &str, code| Some(SqlError::invalid(text).code(code));
        match statement.as_ref() {
            Sql::StartTransaction { .. } if is_open => warning("there is already a transaction in progress", "25001"),
            Sql::Commit { .. } | Sql::Rollback { savepoint: None, .. } if !is_open => {
                warning("there is no transaction in progress", "25P01")
            }
            _ => None,
        }
    }

    /// Whether what a statement changes now can still be undone after it.
    pub(crate) fn outlives_statement(&self) -> bool {
        self.transactions.try_lock().map_or(true, |transactions| transactions.outlives_statement())
    }

    /// Refuses what cannot be part of a transaction.
    ///
    /// # Errors
    /// 25001 inside of one.
    pub(crate) fn outside_of_block(&self, what: &str) -> Result<()> {
        if self.outlives_statement() {
            return Err(SqlError::invalid(format!("{what} cannot run inside a transaction block")).code("25001"));
        }
        Ok(())
    }

    /// Commits what the message's transaction has done, if it has written one of these tables.
    pub(super) async fn part_message(&self, snapshot: &Snapshot, tables: &[String]) -> Result<()> {
        let mut transactions = self.transactions.lock().await;
        let has_written =
            tables.iter().any(|name| snapshot.catalog.get(name).is_some_and(|table| transactions.has_written(table)));
        if !(has_written && transactions.is_message()) {
            return Ok(());
        }
        let receipt = transactions.commit()?;
        transactions.begin_message();
        drop(transactions);
        self.acknowledge(receipt).await
    }
}
