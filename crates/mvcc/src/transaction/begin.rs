//! How a runner comes to its transactions.

use super::Transaction;
use crate::error::Error;
use crate::runner::{Durability, Isolation, Runner, until_undisturbed};

impl Runner {
    /// Begins a transaction that is durable when its commit is acknowledged.
    pub fn begin(&mut self, isolation: Isolation) -> Transaction<'_> {
        self.begin_with(isolation, Durability::Sync)
    }

    /// Begins a transaction. One that was suspended is aborted.
    pub fn begin_with(&mut self, isolation: Isolation, durability: Durability) -> Transaction<'_> {
        self.abort();
        if let Some(lag) = &self.lag {
            self.participant.hold(lag.watermark);
        }
        let snapshot = self.take_snapshot();
        if self.lag.as_ref().is_some_and(|lag| !self.participant.is_holding(lag.watermark)) {
            self.lag = None;
        }
        Transaction::new(self, isolation, durability, snapshot)
    }

    /// Goes on with the transaction that was suspended, if one was.
    pub fn resume(&mut self) -> Option<Transaction<'_>> {
        let suspended = self.suspended.take()?;
        Some(Transaction::resumed(self, suspended))
    }

    /// Aborts the transaction that was suspended, if one was.
    pub fn abort(&mut self) {
        drop(self.resume());
    }

    /// Runs `body` in a transaction and commits it, again and again while another gets in the way.
    ///
    /// # Errors
    /// Whatever `body` or the commit fails with, unless it is retryable.
    pub fn run<T>(
        &mut self,
        isolation: Isolation,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        until_undisturbed(|| {
            let mut transaction = self.begin(isolation);
            let value = body(&mut transaction)?;
            transaction.commit().map(|_| value)
        })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.abort();
        self.reclaim();
        self.shared.reclaimers.remove(&self.shelf);
    }
}
