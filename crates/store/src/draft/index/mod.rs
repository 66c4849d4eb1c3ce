//! Indexes that come, go and are built anew while rows are changed: `CREATE INDEX`, `DROP INDEX` and `REINDEX`
//! `CONCURRENTLY`.
//!
//! ```text
//!   SHARE UPDATE EXCLUSIVE on the table ───────────────────────────────────────────────────────────────────┐
//!   │ scan: the base's rows → entries, sorted → the tree, in slices of 0.1 s                               │
//!   │ follow: what merges have changed in the primary tree since → the index's tree, until little is left  │
//!   │ the moment: SHARE on the table, the turn to publish ─┐                                               │
//!   │   rows that are not merged → the delta with the index│ → checked → one commit: catalogue, rows, tree │
//!   └──────────────────────────────────────────────────────┴───────────────────────────────────────────────┘
//! ```
//!
//! # Who sees and keeps what, phase by phase
//! - **Scan and follow.** The index is in nobody's catalogue: nobody reads it and no writer keeps it, whatever
//!   generation its transaction began with. It is a tree of the work's own, under a document that owns its pages
//!   (`Staged`), and matches one version of the table's primary tree, whose generation the work holds (the pages
//!   only, not its deltas: merged rows leave memory meanwhile). Writers and queries meet no lock. Merges are
//!   published beside it; what one has changed is the difference of two versions of the primary tree
//!   (`saki_tree::TreeDifference`), which share all pages that it did not touch. The lock keeps everybody else from
//!   changing what the table is, and loads from going straight to its base.
//! - **The moment.** SHARE is granted when every transaction that has changed rows of the table has ended: so nothing
//!   is pending in its delta, and all that is committed is found. Since no merge is under way and nobody else
//!   publishes, the tree matches the primary tree that is published. A delta belongs to one set of indexes, so the
//!   table gets another: the old one's rows that are not merged are written to it by one transaction, and the
//!   definition, the tree and these rows are one commit, as that of a transaction that has changed the catalogue and
//!   rows is (`commit`). How long it takes depends on these rows, not on the table; before, checkpoints have made
//!   them few.
//! - **After it.** Whoever waited for the table finds the new definition, and plans again. Statements that began
//!   before read on with the generation they have, whose delta and trees stay as they were; at REPEATABLE READ and
//!   SERIALIZABLE a transaction that began before gets 40001 if it writes to the table.
//!
//! # Waiting for old transactions
//! A transaction that has changed rows may stay open for long, and a request that waits in the table's queue holds all
//! later writers up. So SHARE is waited for in line for ever longer, beginning with [`PATIENCE_FIRST`] and up to
//! [`PATIENCE_MAX`], and between two attempts it is only looked whether the table is free, for four times as long:
//! whoever writes waits for [`PATIENCE_MAX`] at most, and for a fifth of the time. The same goes for the turn to
//! publish, which another statement may have for long. PostgreSQL waits for each old transaction by itself; here it
//! takes a moment at which none is older than [`PATIENCE_MAX`].
//!
//! Since it gives way, nobody who stands behind it is in a deadlock for that. Whoever has changed rows and asks for a
//! lock that conflicts with SHARE UPDATE EXCLUSIVE is: it is the statement that gets 40P01 then, if nobody else on the
//! circle has given up within [`CIRCLE_PATIENCE`].
//!
//! # Unique indexes
//! Two rows that agree refuse the statement (23505) when they are met: in the scan, before which everything is merged,
//! in what a merge has changed, or in the moment. Writers do not mind the index before it is there, so rows that come
//! to agree meanwhile are not refused; the statement is. PostgreSQL leaves an invalid index then, here none is left.
//!
//! # Failure model
//! Whatever ends the work before its commit (an error, a cancelled statement, a deadlock, the process) leaves the table
//! as it was, and no index: pages that were written are given back by the next publication or opening, since only the
//! document of the work refers to them. A crash within the commit leaves all of it or nothing.
//!
//! Dropping an index is the moment alone. An index that is built anew needs no moment: its place in the catalogue gets
//! another tree, and the delta stays.

mod build;
mod moment;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use saki_base::TableId;
use saki_tree::TreeRoot;

use self::build::Build;
use crate::database::Database;
use crate::locks::{LockMark, LockMode, LockOwner, Policy, Requested, Stop, of_name, timed_out};
use crate::merge::Pace;
use saki_catalog::{Catalog, Index, Result, SqlError, Table};

/// How long SHARE, or the turn to publish, is waited for in line at first.
pub const PATIENCE_FIRST: Duration = Duration::from_millis(20);
/// The same in the end.
pub const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// So long a deadlock may last: others may lose their patience first. PostgreSQL's `deadlock_timeout`.
pub const CIRCLE_PATIENCE: Duration = Duration::from_secs(1);

/// Work on indexes of tables whose rows are changed meanwhile. It waits, so it belongs on a thread that may. What it
/// has locked it holds for as long as it lives.
pub struct Concurrently {
    db: Arc<Database>,
    owner: Arc<LockOwner>,
    /// Its patience is that for locks, too.
    stop: Stop,
}

impl Concurrently {
    /// `owner` is to hold nothing else.
    pub fn new(db: &Arc<Database>, owner: Arc<LockOwner>, stop: &Stop) -> Self {
        Self { db: Arc::clone(db), owner, stop: stop.clone() }
    }

    /// Makes an index of a table. `define` says which, once nobody changes what the table is; `None`: there is one
    /// already.
    ///
    /// # Errors
    /// Of `define`; 23505 if it is unique and rows agree; 42P07 for a name that is taken; 55P03 when its patience is
    /// over; 40P01; 57014 if it is told to stop; of storage.
    pub fn create_index(
        &self,
        table: &str,
        define: impl FnOnce(&Catalog, &Table) -> Result<Option<Index>>,
    ) -> Result<()> {
        self.db.engine_unless(&self.stop)?;
        let table = self.hold(table)?;
        let Some(index) = define(&self.db.generation().catalog, &table)? else { return Ok(()) };
        self.lock(of_name(&index.name), LockMode::AccessExclusive)?;
        self.db.generation().catalog.refuse_taken(&index.name)?;
        if index.unique {
            // Rows that have ceased to agree before may agree in the base still.
            self.db.checkpoint_unless(&Pace::full(), &self.stop)?;
        }
        let mut build = Build::of(&self.db, &self.stop, table.id, |table| table.indexes.push(index))?;
        build.scan()?;
        self.change_in_a_moment(table.id, Some(build), |catalog, table, built| {
            let index = built.ok_or_else(|| SqlError::internal("an index is made without its tree"))?;
            catalog.refuse_taken(&index.name)?;
            table.indexes.push(index);
            Ok(())
        })
    }

    /// Takes an index of a table away.
    ///
    /// # Errors
    /// 42P01 if it is not there any more; as [`Self::create_index`].
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        self.db.engine_unless(&self.stop)?;
        let table = self.hold(table)?;
        self.change_in_a_moment(table.id, None, |_, table, _| {
            table.indexes.remove(place_of(table, index)?);
            Ok(())
        })
    }

    /// Builds an index of a table anew.
    ///
    /// # Errors
    /// As [`Self::drop_index`].
    pub fn rebuild_index(&self, table: &str, index: &str) -> Result<()> {
        let _held = self.held();
        let table = self.hold(table)?;
        let place = place_of(&table, index)?;
        let tree = self.db.generation().catalog.new_tree_id();
        // At the end, where those that are built are.
        let mut build = Build::of(&self.db, &self.stop, table.id, |table| {
            let index = Index { root: TreeRoot::empty(tree), ..table.indexes[place].clone() };
            table.indexes.push(index);
        })?;
        build.scan()?;
        build.put_in_place(place)
    }

    /// Has nobody else change what a table is, from now on; the table.
    fn hold(&self, name: &str) -> Result<Arc<Table>> {
        let mut table = Arc::clone(self.db.generation().catalog.table(name)?);
        loop {
            let mark = self.owner.mark();
            self.lock(table.id, LockMode::ShareUpdateExclusive)?;
            // A name may mean another table after a wait.
            let now = Arc::clone(self.db.generation().catalog.table(name)?);
            if now.id == table.id {
                return Ok(now);
            }
            self.owner.release_to(mark);
            table = now;
        }
    }

    /// Lets go of what is locked from now on, when it is dropped.
    fn held(&self) -> Held<'_> {
        Held { owner: &self.owner, mark: self.owner.mark() }
    }

    fn lock(&self, locked: TableId, mode: LockMode) -> Result<()> {
        // As good as for ever.
        let patience = self.stop.patience().unwrap_or(Duration::from_secs(1 << 30));
        if self.try_lock(locked, mode, Policy::Wait, patience)? { Ok(()) } else { Err(timed_out()) }
    }

    /// Whether a lock was there before `patience` had ended.
    fn try_lock(&self, locked: TableId, mode: LockMode, policy: Policy, patience: Duration) -> Result<bool> {
        match self.owner.lock(locked, mode, policy, None)? {
            Requested::Granted => Ok(true),
            Requested::Waiting(wait) => wait.wait(&self.stop, patience),
            Requested::Refused => Ok(false),
        }
    }
}

/// Locks that go before the work ends.
struct Held<'o> {
    owner: &'o LockOwner,
    mark: LockMark,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.owner.release_to(self.mark);
    }
}

fn place_of(table: &Table, index: &str) -> Result<usize> {
    let place = table.indexes.iter().position(|present| present.name == index);
    place.ok_or_else(|| SqlError::invalid(format!("index {index:?} does not exist")).code("42P01"))
}
