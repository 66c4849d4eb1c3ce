//! Tables that a transaction uses are locked, and looked at again when that took waiting.

use std::sync::Arc;

use saki_base::TableId;
use saki_base::planted::{self, Fault};
use saki_store::locks::{LockMode, Policy, Requested};
use saki_store::{Generation, Snapshot};

use super::level::Level;
use super::locking::Locked;
use super::open::Open;
use super::shared::SessionTransactions;
use super::state::Transactions;
use crate::database::Database;
use saki_catalog::{Catalog, Result, SqlError, Table, bare};

impl Transactions {
    /// Takes a weak lock, if that takes no waiting.
    #[inline]
    pub fn try_lock_table(&self, table: TableId, mode: LockMode) -> bool {
        self.locks.owner.try_weak(table, mode)
    }

    /// What is let go of if a statement ends before its transaction has begun.
    pub fn statement_locks(&self) -> Locked {
        self.locks.begin_statement(!self.outlives_statement())
    }

    /// Locks a table; whether that took waiting.
    async fn lock_table(&mut self, table: TableId, mode: LockMode, policy: Policy, name: &str) -> Result<bool> {
        if mode.is_weak() && self.try_lock_table(table, mode) {
            return Ok(false);
        }
        let me = self.holder();
        match self.locks.owner.lock(table, mode, policy, me)? {
            Requested::Granted => Ok(false),
            Requested::Refused => Err(not_available(name)),
            Requested::Waiting(wait) => self.locks.patiently(wait).await.map(|()| true),
        }
    }

    /// Locks tables, views and sequences by their names as they are now: after a wait a name may mean another one, and
    /// is looked up again. Names that none of them has are passed by.
    ///
    /// # Errors
    /// 40P01, 55P03.
    pub async fn lock_named(
        &mut self,
        db: &Database,
        wanted: &[(String, LockMode)],
        policy: Policy,
    ) -> Result<Arc<Generation>> {
        let mut generation = self.draft.newest(db)?;
        loop {
            let mut ids = ids_of(&generation.catalog, wanted);
            // In one order for everybody, so that two statements do not wait for each other.
            ids.sort_unstable();
            for (id, mode, name) in &ids {
                self.lock_table(*id, *mode, policy, name).await?;
            }
            if (db.is_newest(&generation) && !self.has_draft()) || planted::is(Fault::OldDefinition) {
                return Ok(generation);
            }
            let now = self.draft.newest(db)?;
            let mut ids_now = ids_of(&now.catalog, wanted);
            ids_now.sort_unstable();
            if ids == ids_now {
                return Ok(now);
            }
            drop(ids);
            generation = now;
        }
    }

    /// Whether a table was made or emptied by the open transaction after its newest savepoint: nobody has ever seen
    /// what is in it, and it goes as a whole. A savepoint that was released counts no more.
    pub fn is_fresh(&self, table: TableId) -> bool {
        let savepoint = self.open.as_ref().and_then(Open::block).and_then(|block| block.savepoints.last());
        self.draft.is_fresh(table, savepoint.and_then(|(_, mark)| mark.draft.as_ref()))
    }

    /// Locks a name that a relation is about to get.
    pub(super) async fn lock_name(&mut self, name: &str) -> Result<()> {
        let number = saki_store::locks::of_name(name);
        self.lock_table(number, LockMode::AccessExclusive, Policy::Wait, name).await.map(drop)
    }

    /// Whether a transaction that keeps its snapshot sees all rows that a table has now.
    pub(super) fn sees_all_of(
        &mut self,
        table: &Table,
        published: &Table,
        snapshot: &Snapshot,
        newest: &Generation,
    ) -> Result<bool> {
        if !table.is_stored_as(published) {
            // Either others have built it anew since the snapshot, or it is the transaction's own already: then it
            // lies where no generation has it that others publish, and nobody else has changed it since.
            let kept = self.begun().and_then(|begun| begun.generation.catalog.table_of(table.id));
            let is_own = kept.is_none_or(|kept| !table.is_stored_as(kept));
            return Ok(is_own && snapshot.generation.delta(table).is_some() && newest.delta(table).is_none());
        }
        let timestamp = self.within(|transaction| transaction.snapshot())?;
        Ok(newest.delta(published).is_none_or(|delta| !delta.changed_since(timestamp)))
    }

    /// Holds the tables that a query in a transaction block reads, so that nobody changes what they are before its end.
    /// Whether the query is to look at them again, since it has waited.
    ///
    /// # Errors
    /// 40P01, 55P03.
    pub async fn hold_for_reading(&mut self, snapshot: &Snapshot) -> Result<bool> {
        if !self.outlives_statement() {
            return Ok(false);
        }
        if let Some(open) = self.open.as_mut() {
            open.has_queried = true;
        }
        let mut has_waited = false;
        for table in snapshot.tables() {
            if self.try_lock_table(table, LockMode::AccessShare) {
                continue;
            }
            let name = snapshot.generation.catalog.table_of(table).map_or("", |table| &*table.name);
            has_waited |= self.lock_table(table, LockMode::AccessShare, Policy::Wait, name).await?;
        }
        // Other levels keep the snapshot they have.
        Ok(has_waited && self.level() == Level::ReadCommitted)
    }
}

fn ids_of<'n>(catalog: &Catalog, wanted: &'n [(String, LockMode)]) -> Vec<(TableId, LockMode, &'n str)> {
    wanted.iter().filter_map(|(name, mode)| Some((catalog.id_of(name)?, *mode, name.as_str()))).collect()
}

/// Whether a table that is locked is in both catalogs, and the same for whoever changes its rows: layout, defaults,
/// constraints, and keys that refer to it.
pub fn is_unchanged(seen: &Catalog, now: &Catalog, table: &str) -> bool {
    let same = |one: &Table, other: &Table| {
        one.id == other.id
            && one.delta == other.delta
            && one.layout_version == other.layout_version
            && one.columns == other.columns
            && one.details == other.details
            && one.checks == other.checks
            && one.foreign_keys == other.foreign_keys
    };
    let (Some(seen_table), Some(now_table)) = (seen.get(table), now.get(table)) else { return false };
    let referring = |catalog: &Catalog| -> Vec<_> {
        let mut found: Vec<_> =
            catalog.referencing(seen_table.id).map(|(from, key)| (from.id, key.name.clone())).collect();
        found.sort_unstable();
        found
    };
    same(seen_table, now_table) && referring(seen) == referring(now)
}

impl SessionTransactions {
    /// Locks relations for a statement that changes what they are or names them, or for LOCK TABLE. In a transaction
    /// they stay locked until its end, otherwise for as long as what this returns lives.
    ///
    /// # Errors
    /// 40P01 if those waited for wait for this transaction; 55P03 if `policy` does not wait, or `lock_timeout` is over.
    pub async fn lock_tables(&self, wanted: &[(String, LockMode)], policy: Policy) -> Result<Locked> {
        let mut transactions = self.lock().await;
        let locked = transactions.statement_locks();
        transactions.lock_named(&self.db, wanted, policy).await?;
        Ok(locked)
    }
}

fn not_available(name: &str) -> SqlError {
    let bare_name = name.rsplit_once('.').map_or(name, |(schema, _)| bare(schema, name));
    SqlError::invalid(format!("could not obtain lock on relation {bare_name:?}")).code("55P03")
}
