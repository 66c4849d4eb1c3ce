//! What a statement does about rows that others keep changing.
//!
//! At READ COMMITTED it waits for whoever has a row that it wants, and begins anew on a newer snapshot. That alone need
//! not come to an end: of many rows, beside writers that never rest, it always meets one. So from some attempt on it
//! **holds** each row that it has met, which writes it anew as it is, before it begins again: the next attempt meets
//! another row, and there are as many attempts as rows are fought over.
//!
//! - What is held lies before the savepoint of the next attempt, and stays when that comes to nothing.
//! - A row is held under the lock of its table that the attempt has taken which met it. A statement by itself keeps its
//!   transaction between two attempts for that; otherwise that ends with each.
//! - Statements that hold rows may wait for each other in a circle. Whoever finds that out lets go of what it holds for
//!   its next attempt, and is told of the circle (40P01) only if that does not help.
//! - At the other levels nothing is held: the snapshot stays where it is, and a row that was changed since is 40001, or
//!   the whole statement begins anew if it is a transaction by itself.

use saki_mvcc::{Contended, Savepoint};
use saki_store::{Missed, Point, TableReader};

use super::change::{Conflict, Refusal};
use super::level::Level;
use super::shared::SessionTransactions;
use super::state::Transactions;
use saki_catalog::{Result, SqlError};

/// Attempts that a statement makes without holding rows: mostly the second one succeeds.
const LIGHT_ATTEMPTS: u32 = 3;

/// A statement between its attempts. Dropped, it lets go of a transaction that was only for the statement.
pub struct Contention<'s> {
    transactions: &'s SessionTransactions,
    attempts: u32,
    /// Rows that it has met and holds, in a transaction that goes on: they lie from here on.
    held_from: Option<Savepoint>,
    /// The transaction of a statement by itself is kept for its next attempt.
    keeps_own: bool,
}

impl<'s> Contention<'s> {
    /// Of a statement that begins.
    pub fn new(transactions: &'s SessionTransactions) -> Self {
        Self { transactions, attempts: 0, held_from: None, keeps_own: false }
    }

    /// Waits until what was in the way is gone, and holds the row, if it is time to: then the statement may begin anew.
    ///
    /// # Errors
    /// 40P01 if the holder waits for this transaction; 55P03 after `lock_timeout`; of storage. The transaction has
    /// failed then.
    pub async fn give_way(&mut self, mut conflict: Conflict) -> Result<()> {
        loop {
            match conflict.holder {
                None => tokio::task::yield_now().await,
                Some(holder) => {
                    if let Err(error) = self.transactions.wait_for(holder).await {
                        return self.let_go(error).await;
                    }
                }
            }
            let Some(row) = conflict.row else { return Ok(()) };
            match self.hold(&row).await? {
                Some(next) => conflict = next,
                None => return Ok(()),
            }
        }
    }

    /// The statement has come to its end: nothing is kept for it any more.
    pub fn end(&mut self) {
        self.keeps_own = false;
    }

    /// Lets go of the rows that are held, if that may break a circle of waiting transactions.
    async fn let_go(&mut self, error: SqlError) -> Result<()> {
        let mut transactions = self.transactions.lock().await;
        let is_circle = error.sqlstate() == "40P01";
        match self.held_from.take() {
            _ if is_circle && std::mem::take(&mut self.keeps_own) => transactions.abort(),
            Some(savepoint) if is_circle => transactions.within(|transaction| transaction.rollback_to(savepoint))?,
            _ => {
                transactions.fail();
                return Err(error);
            }
        }
        self.attempts = 0;
        Ok(())
    }

    /// Writes a row anew as it is now; what is in the way of that.
    async fn hold(&mut self, row: &Contended) -> Result<Option<Conflict>> {
        let mut transactions = self.transactions.lock().await;
        let db = &self.transactions.db;
        let held = match transactions.begin_statement(db).await {
            Ok(generation) => transactions.within(|transaction| {
                // Another layout of the table, or none, has other rows.
                let Some(table) = generation.catalog.with_delta(row.table).next() else { return Ok(()) };
                let Some(delta) = generation.delta(table) else { return Ok(()) };
                let (reader, missed) = (TableReader::new(table, delta, &*transaction), Missed::default());
                let found = reader.get_cached(&db.memory_reader(&missed), &row.key, <[u8]>::to_vec)?;
                // One that is gone is met by nobody, and one that is not in memory was not changed lately.
                let Point::Row(found) = found else { return Ok(()) };
                let savepoint = transaction.savepoint();
                delta.write(transaction, &row.key, Some(&found))?;
                self.held_from.get_or_insert(savepoint);
                Ok(())
            }),
            Err(error) => Err(error),
        };
        match held.and_then(|held| held.map_or_else(other_than_conflict, |()| Ok(None))) {
            Ok(conflict) => Ok(conflict),
            Err(error) => {
                transactions.fail();
                Err(error)
            }
        }
    }
}

fn other_than_conflict(refusal: Refusal) -> Result<Option<Conflict>> {
    match refusal {
        Refusal::Conflict(conflict) => Ok(Some(conflict)),
        Refusal::Error(error) => Err(error),
    }
}

impl Drop for Contention<'_> {
    fn drop(&mut self) {
        if self.keeps_own
            && let Ok(mut transactions) = self.transactions.try_lock()
            && transactions.is_open()
            && !transactions.outlives_statement()
        {
            transactions.abort();
        }
    }
}

impl Transactions {
    /// What to do about a refusal: what to wait for before the statement runs again.
    ///
    /// # Errors
    /// The refusal's own; as [`Self::conflict`]. The transaction has failed then.
    pub fn refused(&mut self, refusal: Refusal, contention: &mut Contention<'_>) -> Result<Conflict> {
        match refusal {
            Refusal::Conflict(conflict) => self.conflict(conflict, contention),
            Refusal::Error(error) if error.code == Some("40001") && !self.outlives_statement() => {
                self.abort();
                Ok(Conflict::default())
            }
            Refusal::Error(error) => {
                self.fail();
                Err(error)
            }
        }
    }

    /// The same for a conflict, of which the statement's changes have been taken back. What is left of it is to be
    /// waited for, and held if there is a row.
    ///
    /// # Errors
    /// 40001 if the snapshot stays where it is.
    pub fn conflict(&mut self, mut conflict: Conflict, contention: &mut Contention<'_>) -> Result<Conflict> {
        contention.attempts += 1;
        let is_renewed = self.level() == Level::ReadCommitted;
        if !is_renewed || contention.attempts < LIGHT_ATTEMPTS {
            conflict.row = None;
        }
        if !self.outlives_statement() {
            contention.keeps_own |= conflict.row.is_some();
            if !contention.keeps_own {
                // Lets go of what it holds: it begins anew.
                self.abort();
            }
            return Ok(conflict);
        }
        if conflict.holder.is_some() || is_renewed {
            return Ok(conflict);
        }
        self.fail();
        Err(SqlError::invalid("could not serialize access: another transaction changed a row since the snapshot")
            .code("40001")
            .hint("repeat the transaction"))
    }
}
