//! Temporary tables: those in a schema that is the session's alone, as long as it lasts.
//!
//! They are tables like others, logged and merged. Names are looked for among them first; their schema comes with the
//! first of them (`saki_ddl`), and goes with the session, or, if the process was killed, when the database is opened
//! next. What `ON COMMIT` says of one is done right before the commit, by the transaction itself.

use datafusion::sql::sqlparser::ast::{self, ObjectType, OnCommit};

use super::Session;
use super::at_commit::AtCommit;
use super::deferred::make_checks;
use saki_catalog::{Catalog, Result};
use saki_context::transaction::TransactionStatus;
use saki_ddl as ddl;
use saki_postgres::statement;

impl Session {
    /// Notes what a statement says of commits that has made a table, unless one of the name was there `before`.
    pub(super) fn note_made(&self, create: &ast::CreateTable, before: &Catalog) -> Result<()> {
        let is_dropped = match create.on_commit {
            None | Some(OnCommit::PreserveRows) => return Ok(()),
            Some(OnCommit::Drop) => true,
            Some(OnCommit::DeleteRows) => false,
        };
        let name = statement::object_name(&create.name)?.0;
        if before.get(&name).is_none()
            && let Some(table) = self.newest().catalog.get(&name)
        {
            self.at_commit.lock().push(AtCommit { table: table.id, is_dropped });
        }
        Ok(())
    }

    /// Does what is to be done before a transaction of several statements commits, if one is open that has not failed.
    ///
    /// # Errors
    /// What stands against the commit: nothing is left of the transaction then.
    pub(super) async fn before_end(&self) -> Result<()> {
        let is_waiting = {
            let mut transactions = self.transactions.lock().await;
            transactions.settle()?;
            if !transactions.outlives_statement() || transactions.status() == TransactionStatus::Failed {
                return Ok(());
            }
            transactions.is_waiting()
        };
        // As PostgreSQL: constraints first, of the rows as they are now.
        let made = async {
            if is_waiting {
                make_checks(&self.context(), None).await?;
            }
            self.before_commit().await
        };
        match made.await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.transactions.undone(error).await),
        }
    }

    /// Does what `ON COMMIT` says, in the transaction that is about to commit; by themselves if there is none.
    pub(super) async fn before_commit(&self) -> Result<()> {
        let noted = self.at_commit.lock().clone();
        for AtCommit { table: id, is_dropped } in noted {
            let newest = self.newest();
            let table = newest.catalog.table_of(id);
            if let Some(table) = table {
                let name = ddl::quoted_relation(&table.schema, table.bare_name());
                match is_dropped {
                    true => self.drop_all(ObjectType::Table, &name).await?,
                    false => self.empty(&name).await?,
                }
            }
            // One that a rollback has taken back is never asked for again.
            if table.is_none() || is_dropped {
                self.at_commit.lock().retain(|noted| noted.table != id);
            }
        }
        Ok(())
    }

    /// Whether it has temporary tables.
    pub fn has_temporary(&self) -> bool {
        self.newest().catalog.has_schema(self.parameters.temporary_schema())
    }

    /// Drops the session's temporary tables, as DISCARD TEMP does.
    ///
    /// # Errors
    /// Those of DROP SCHEMA.
    pub async fn discard_temporary(&self) -> Result<()> {
        if !self.has_temporary() {
            return Ok(());
        }
        self.at_commit.lock().clear();
        self.drop_all(ObjectType::Schema, self.parameters.temporary_schema()).await
    }

    /// Forgets what `currval` and `lastval` give.
    pub fn discard_sequences(&self) {
        self.sequences.forget();
    }

    /// Ends the session: what it has open is undone, and what is its own goes.
    ///
    /// # Errors
    /// Those of DROP SCHEMA. What is left then goes when the database is opened next.
    pub async fn end(&self) -> Result<()> {
        self.transactions.fail().await;
        if self.transactions.status() != TransactionStatus::Idle {
            self.execute("ROLLBACK").await?;
        }
        self.discard_temporary().await
    }

    async fn drop_all(&self, kind: ObjectType, name: &str) -> Result<()> {
        let name = statement::parse_name(name)?;
        ddl::drop_objects(&self.context(), kind, true, true, &[name]).await.map(drop)
    }

    async fn empty(&self, name: &str) -> Result<()> {
        let mut parsed = statement::parse(&format!("TRUNCATE {name}"))?;
        match parsed.pop() {
            Some(datafusion::sql::parser::Statement::Statement(truncate)) => {
                let ast::Statement::Truncate(truncate) = *truncate else { return Ok(()) };
                ddl::truncate(&self.context(), &truncate).await.map(drop)
            }
            _ => Ok(()),
        }
    }
}
