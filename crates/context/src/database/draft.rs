//! The catalog of a session's transaction, if that has changed it: the transaction's, and seen by all who look names
//! up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use saki_base::TableId;
use saki_mvcc::{Receipt, Transaction};

use saki_catalog::Result;
use saki_store::{Database, Draft, DraftMark, Generation, Snapshot, Stop, Writer};

/// The draft of one session; none outside of transactions, and before they change the catalog.
#[derive(Default)]
pub struct SessionDraft {
    /// For whoever only wants to know whether there is one.
    is_there: AtomicBool,
    draft: Mutex<Option<Draft>>,
    /// What was seen last: while the draft is being changed, by a query that feeds the change.
    seen: Mutex<Option<Arc<Generation>>>,
}

impl SessionDraft {
    /// Whether the open transaction has changed the catalog.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    /// The newest generation, as the session sees it.
    ///
    /// # Errors
    /// Of the engine.
    pub fn newest(&self, db: &Database) -> Result<Arc<Generation>> {
        if !self.is_there() {
            return Ok(db.generation());
        }
        let newest = match self.draft.try_lock() {
            Some(mut draft) => draft.as_mut().map(Draft::newest).transpose()?,
            None => return Ok(self.seen.lock().clone().unwrap_or_else(|| db.generation())),
        };
        self.seen.lock().clone_from(&newest);
        Ok(newest.unwrap_or_else(|| db.generation()))
    }

    /// A generation that the transaction keeps, with its own changes. It reads at `timestamp`.
    pub(crate) fn over(&self, kept: &Arc<Generation>, timestamp: u64) -> Result<Arc<Generation>> {
        match self.is_there().then(|| self.draft.lock()) {
            Some(mut draft) => match draft.as_mut() {
                Some(draft) => draft.over_kept(kept, timestamp),
                None => Ok(Arc::clone(kept)),
            },
            None => Ok(Arc::clone(kept)),
        }
    }

    /// Runs work on the transaction's own catalog.
    ///
    /// # Errors
    /// As [`Draft::write`].
    pub fn write<T>(
        &self,
        db: &Arc<Database>,
        stop: &Stop,
        work: impl FnOnce(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        self.begun(db, |draft| draft.write(stop, work))
    }

    /// As [`Draft::settle`].
    pub(crate) fn settle(&self, db: &Arc<Database>, snapshot: &Snapshot, tables: &[String], stop: &Stop) -> Result<()> {
        self.begun(db, |draft| draft.settle(snapshot, tables, stop))
    }

    fn begun<T>(&self, db: &Arc<Database>, work: impl FnOnce(&mut Draft) -> Result<T>) -> Result<T> {
        let mut draft = self.draft.lock();
        let draft = draft.get_or_insert_with(|| Draft::new(db));
        self.is_there.store(true, Ordering::Release);
        work(draft)
    }

    pub(crate) fn mark(&self) -> Option<DraftMark> {
        self.draft.lock().as_ref().map(Draft::mark)
    }

    pub(crate) fn go_back(&self, mark: Option<DraftMark>) {
        if let Some(draft) = self.draft.lock().as_mut() {
            draft.go_back(mark);
        }
    }

    /// As [`Draft::is_fresh`].
    pub(crate) fn is_fresh(&self, table: TableId, since: Option<&DraftMark>) -> bool {
        self.draft.lock().as_ref().is_some_and(|draft| draft.is_fresh(table, since))
    }

    /// The transaction has ended without effect.
    pub(crate) fn discard(&self) {
        if self.is_there.swap(false, Ordering::AcqRel) {
            drop(self.draft.lock().take());
            self.seen.lock().take();
        }
    }

    /// Commits a transaction with what it has changed of the catalog. Waits for its turn, unless it is told to stop,
    /// and for storage.
    pub(crate) fn commit(&self, transaction: Transaction<'_>, stop: &Stop) -> Result<Receipt> {
        let draft = self.draft.lock().take();
        let committed = match draft {
            Some(draft) => draft.commit(transaction, stop),
            None => Ok(transaction.commit_early()?),
        };
        self.discard();
        committed
    }
}
