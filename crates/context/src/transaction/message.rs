//! Statements that a client sends together: one transaction, unless they say otherwise themselves.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use super::open::Scope;
use super::shared::SessionTransactions;
use super::state::{TransactionStatus, Transactions};
use crate::statement::Parsed;
use saki_catalog::{Result, SqlError};
use saki_postgres::statement::SetConstraints;

impl Transactions {
    /// Opens a transaction that ends with the message, if none is open.
    fn begin_message(&mut self) {
        if self.open.is_none() {
            self.open = Some(self.opened(Scope::Message));
            self.show_modes();
        }
    }

    fn is_message(&self) -> bool {
        self.open.as_ref().is_some_and(|open| matches!(open.scope, Scope::Message))
    }
}

impl SessionTransactions {
    /// From now on statements are one transaction, until [`Self::end_message`]; inside of BEGIN and COMMIT they are
    /// already.
    ///
    /// # Errors
    /// What kept a statement from being undone that was dropped before its end.
    pub async fn begin_message(&self) -> Result<()> {
        let mut transactions = self.lock().await;
        transactions.settle()?;
        transactions.begin_message();
        Ok(())
    }

    /// Commits the transaction of a message, and waits until it is durable. One that BEGIN has opened goes on.
    ///
    /// # Errors
    /// 40001, and what storage says; nothing has been changed then.
    pub async fn end_message(&self) -> Result<()> {
        let mut transactions = self.lock().await;
        transactions.settle()?;
        if !transactions.is_message() {
            return Ok(());
        }
        let committed = self.commit(transactions).await;
        self.tell(committed).await
    }

    /// Something has gone wrong: the transaction of a message is undone, one that BEGIN has opened fails.
    pub async fn fail(&self) {
        let mut transactions = self.lock().await;
        // An error of this one comes too late to be told: the next statement meets it again.
        let _ = transactions.settle();
        transactions.fail();
    }

    /// What a statement about transactions is warned of before it runs, as PostgreSQL warns.
    pub fn warning(&self, parsed: &Parsed) -> Option<SqlError> {
        use ast::Statement as Sql;
        let Statement::Statement(statement) = &parsed.0 else { return None };
        let is_open = self.status() != TransactionStatus::Idle;
        let warning = |text: &str, code| Some(SqlError::invalid(text).code(code));
        match statement.as_ref() {
            Sql::StartTransaction { .. } if is_open => warning("there is already a transaction in progress", "25001"),
            Sql::Set(ast::Set::SingleAssignment { scope: Some(ast::ContextModifier::Local), .. })
            | Sql::Set(ast::Set::SetTimeZone { local: true, .. })
                if !is_open =>
            {
                warning("SET LOCAL can only be used in transaction blocks", "25P01")
            }
            Sql::Set(ast::Set::SetTransaction { session: false, .. }) if !is_open => {
                warning("SET TRANSACTION can only be used in transaction blocks", "25P01")
            }
            Sql::Call(call) if SetConstraints::is(call) && !self.outlives_statement() => {
                warning("SET CONSTRAINTS can only be used in transaction blocks", "25P01")
            }
            Sql::Commit { .. } | Sql::Rollback { savepoint: None, .. } if !is_open => {
                warning("there is no transaction in progress", "25P01")
            }
            _ => None,
        }
    }
}
