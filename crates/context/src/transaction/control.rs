//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT and SET TRANSACTION.

use datafusion::sql::sqlparser::ast::{self, TransactionAccessMode, TransactionMode};

use super::level::Level;
use super::open::{Access, Block, Health, Mark, Open, Place, Scope};
use super::shared::SessionTransactions;
use super::state::{TransactionStatus, Transactions, not_open};
use crate::statement::StatementResult;
use saki_catalog::{Result, SqlError};
use saki_postgres::statement::name_of;

impl Transactions {
    /// Opens a transaction of several statements.
    fn begin(&mut self, modes: &[TransactionMode]) -> Result<()> {
        match &mut self.open {
            Some(Open { scope: Scope::Block(_), .. }) => {}
            // The statements of one message that came before belong to it.
            Some(open) => open.scope = Scope::Block(Block::default()),
            None => self.open = Some(self.opened(Scope::Block(Block::default()))),
        }
        let set = self.set_modes(modes);
        self.show_modes();
        set
    }

    /// What the next transaction of AND CHAIN has of this one.
    ///
    /// # Errors
    /// 25P01 outside of a block.
    fn modes(&mut self, what: &str) -> Result<(Level, Access)> {
        self.block(what)?;
        let open = self.open.as_ref().ok_or_else(not_open)?;
        Ok((open.level, open.access))
    }

    /// Opens a transaction that is as the one before.
    fn begin_as(&mut self, (level, access): (Level, Access)) -> Result<()> {
        self.parameters.clock().begin_statement(false);
        self.begin(&[])?;
        if let Some(open) = self.open.as_mut() {
            (open.level, open.access) = (level, access);
        }
        self.show_modes();
        Ok(())
    }

    /// What SET TRANSACTION says.
    fn set_modes(&mut self, modes: &[TransactionMode]) -> Result<()> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        let is_nested = open.may_go_back();
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => open.access = Access::ReadOnly,
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                    let is_late = open.begun.is_some() || open.has_queried || is_nested;
                    if open.access == Access::ReadOnly && is_late {
                        let message = "transaction read-write mode must be set before any query";
                        return Err(SqlError::invalid(message).code("25001"));
                    }
                    open.access = Access::ReadWrite;
                }
                TransactionMode::IsolationLevel(level) => {
                    let level = Level::of(*level);
                    if open.begun.is_some() && level != open.level {
                        return Err(SqlError::invalid(
                            "the isolation level is set before the first statement of a transaction",
                        )
                        .code("25001"));
                    }
                    open.level = level;
                }
            }
        }
        self.show_modes();
        Ok(())
    }

    /// What SET SESSION CHARACTERISTICS says.
    fn set_default_modes(&mut self, modes: &[TransactionMode]) -> Result<()> {
        for mode in modes {
            let (name, value) = match mode {
                TransactionMode::IsolationLevel(level) => ("default_transaction_isolation", Level::of(*level).name()),
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => ("default_transaction_read_only", "on"),
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                    ("default_transaction_read_only", "off")
                }
            };
            self.parameters.set(name, Some(value), false)?;
        }
        Ok(())
    }

    fn savepoint(&mut self, name: String) -> Result<()> {
        self.block("SAVEPOINT")?;
        self.check()?;
        let place = match self.begun() {
            Some(_) => Place::At(self.within(|transaction| transaction.savepoint())?),
            None => Place::Start,
        };
        let (locks, parameters) = (self.locks.owner.mark(), self.parameters.state());
        let open = self.open.as_ref().ok_or_else(not_open)?;
        let (access, deferred) = (open.access, open.deferred.mark());
        let mark = Mark { place, draft: self.draft.mark(), access, parameters, deferred, locks };
        self.block("SAVEPOINT")?.savepoints.push((name, mark));
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let block = self.block("ROLLBACK TO SAVEPOINT")?;
        let found = block.find(name)?;
        let Mark { place, draft, access, parameters, deferred, locks } = block.savepoints[found].1.clone();
        if let Some(begun) = self.begun() {
            let savepoint = match place {
                Place::Start => begun.start,
                Place::At(savepoint) => savepoint,
            };
            self.within(|transaction| transaction.rollback_to(savepoint))?;
        }
        self.draft.go_back(draft);
        self.locks.owner.release_to(locks);
        self.parameters.rollback_to(&parameters);
        if let Some(open) = self.open.as_mut() {
            open.access = access;
            open.deferred.go_back(deferred);
        }
        self.show_modes();
        let block = self.block("ROLLBACK TO SAVEPOINT")?;
        block.savepoints.truncate(found + 1);
        block.health = Health::Sound;
        Ok(())
    }

    fn release(&mut self, name: &str) -> Result<()> {
        self.block("RELEASE SAVEPOINT")?;
        self.check()?;
        let block = self.block("RELEASE SAVEPOINT")?;
        let found = block.find(name)?;
        block.savepoints.truncate(found);
        Ok(())
    }

    /// The block that BEGIN has opened, for a statement that needs one.
    fn block(&mut self, what: &str) -> Result<&mut Block> {
        self.open.as_mut().and_then(Open::block_mut).ok_or_else(|| {
            SqlError::invalid(format!("{what} can only be used in transaction blocks"))
                .code("25P01")
                .hint("BEGIN first")
        })
    }
}

impl Block {
    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|(savepoint, _)| savepoint == name)
            .ok_or_else(|| SqlError::invalid(format!("savepoint {name:?} does not exist")).code("3B001"))
    }
}

impl SessionTransactions {
    /// Sets a parameter that is a mode of the open transaction, `transaction_isolation` and its like: the same as SET
    /// TRANSACTION. Without a transaction nothing comes of it.
    ///
    /// # Errors
    /// 22023 for a value that it does not take; as SET TRANSACTION.
    pub async fn set_mode(&self, name: &str, value: &str) -> Result<()> {
        use ast::TransactionIsolationLevel as Isolation;
        let refused = || SqlError::invalid(format!("invalid value for parameter {name:?}: {value:?}")).code("22023");
        let lower = value.to_lowercase();
        let mode = match name {
            "transaction_isolation" => TransactionMode::IsolationLevel(match &*lower {
                "serializable" => Isolation::Serializable,
                "repeatable read" => Isolation::RepeatableRead,
                "read committed" => Isolation::ReadCommitted,
                "read uncommitted" => Isolation::ReadUncommitted,
                _ => return Err(refused()),
            }),
            "transaction_read_only" => {
                TransactionMode::AccessMode(match saki_parameters::truth(value).ok_or_else(refused)? {
                    true => TransactionAccessMode::ReadOnly,
                    false => TransactionAccessMode::ReadWrite,
                })
            }
            // Nothing waits for a snapshot that is safe: each is.
            _ => return saki_parameters::truth(value).map(drop).ok_or_else(refused),
        };
        self.lock().await.set_modes(&[mode])
    }

    /// Carries out a statement about the transaction; `None` if it is about something else, and may run.
    ///
    /// # Errors
    /// 25P02 after a failure.
    pub async fn control(&self, statement: &ast::Statement) -> Result<Option<StatementResult>> {
        use ast::Statement as Sql;
        let mut transactions = self.lock().await;
        transactions.settle()?;
        let chained = match statement {
            Sql::Commit { chain: true, .. } => Some(transactions.modes("COMMIT AND CHAIN")?),
            Sql::Rollback { chain: true, .. } => Some(transactions.modes("ROLLBACK AND CHAIN")?),
            _ => None,
        };
        let tag = match statement {
            Sql::StartTransaction { modes, .. } => {
                transactions.begin(modes)?;
                "BEGIN"
            }
            Sql::Commit { .. } if transactions.status() != TransactionStatus::Failed => {
                let committed = self.commit(transactions).await;
                self.tell(committed).await?;
                transactions = self.lock().await;
                "COMMIT"
            }
            Sql::Rollback { savepoint: Some(name), .. } => {
                transactions.rollback_to(&name_of(name))?;
                "ROLLBACK"
            }
            Sql::Commit { .. } | Sql::Rollback { .. } => {
                transactions.abort();
                "ROLLBACK"
            }
            Sql::Savepoint { name } => {
                transactions.savepoint(name_of(name))?;
                "SAVEPOINT"
            }
            Sql::ReleaseSavepoint { name } => {
                transactions.release(&name_of(name))?;
                "RELEASE"
            }
            Sql::Set(ast::Set::SetTransaction { modes, session: true, .. }) => {
                transactions.set_default_modes(modes)?;
                "SET"
            }
            Sql::Set(ast::Set::SetTransaction { modes, .. }) => {
                transactions.set_modes(modes)?;
                "SET"
            }
            _ => {
                transactions.check()?;
                return Ok(None);
            }
        };
        if let Some(modes) = chained {
            transactions.begin_as(modes)?;
        }
        Ok(Some(StatementResult::done(tag, 0)))
    }
}
