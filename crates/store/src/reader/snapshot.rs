//! What one statement reads: a generation, and the deltas as of one moment.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::TableId;
use saki_mvcc::{Direction, KeyRange};

use super::{TableReader, TreeOverlay, since};
use crate::database::{Database, Generation};
use crate::delta::Delta;
use saki_catalog::{Result, SqlError, Table, TableAccess};
use saki_exec::plan::TreeAccess;

/// Versions that are looked at to learn whether any counts: it takes some microseconds.
const LOOKS_MAX: usize = 256;

/// A snapshot: (timestamp, generation). Held by plans for as long as they run.
pub struct Snapshot {
    pub generation: Arc<Generation>,
    /// `None`: no table has ever had a delta.
    moment: Option<saki_mvcc::Moment>,
    /// It sees what one transaction has written and nobody else may see.
    pub(super) is_private: bool,
    /// Of the tables whose deltas were asked for, by those: which table it is, and whether there is anything in it.
    asked: Mutex<HashMap<TableId, (TableId, bool)>>,
}

impl Database {
    /// What a statement sees that begins now. Waits while rows and catalog are being committed together, so it belongs
    /// on a thread that may.
    ///
    /// # Errors
    /// If there are too many readers; 58030 if it is not known what there is to see.
    pub fn newest_snapshot(&self) -> Result<Arc<Snapshot>> {
        self.instants.take(|| self.snapshot_of_now())
    }

    /// The same for a statement whose thread serves others meanwhile.
    ///
    /// # Errors
    /// As [`Self::newest_snapshot`].
    pub async fn next_snapshot(&self) -> Result<Arc<Snapshot>> {
        loop {
            if let Some(snapshot) = self.instants.try_take(|| self.snapshot_of_now()) {
                return snapshot;
            }
            self.instants.calm().await;
        }
    }

    /// The generation and the moment, if nothing is committed in between.
    fn snapshot_of_now(&self) -> Result<Arc<Snapshot>> {
        self.readable()?;
        // The generation first: see `delta`.
        let generation = self.generation();
        let moment = self.engine.get().map(|engine| engine.database.moment()).transpose()?;
        Ok(Snapshot::new(generation, moment))
    }
}

impl Snapshot {
    /// `generation` was taken before `moment`.
    pub fn new(generation: Arc<Generation>, moment: Option<saki_mvcc::Moment>) -> Arc<Self> {
        Arc::new(Self { generation, moment, is_private: false, asked: Mutex::default() })
    }

    /// What a transaction sees, with its own writes.
    pub fn of_transaction(generation: Arc<Generation>, moment: saki_mvcc::Moment) -> Arc<Self> {
        Arc::new(Self { generation, moment: Some(moment), is_private: true, asked: Mutex::default() })
    }

    /// The moment at which deltas are seen; `None` where there is nothing but base.
    pub fn moment(&self) -> Option<&saki_mvcc::Moment> {
        self.moment.as_ref()
    }

    /// What has to be durable before a client is told of what has been read so far; `None` if that is nothing.
    pub fn receipt(&self) -> Option<saki_mvcc::Receipt> {
        self.moment.as_ref().map(saki_mvcc::Moment::receipt)
    }

    /// A reader of deltas as this snapshot sees them.
    ///
    /// # Errors
    /// If nothing has a delta, or there are too many readers.
    pub fn reader(&self) -> Result<saki_mvcc::Reader> {
        let moment = self.moment().ok_or_else(|| SqlError::internal("rows are changed without an engine"))?;
        moment.reader().map_err(SqlError::from)
    }

    /// The delta of a table, if there may be anything in it that counts for this snapshot.
    pub fn delta(&self, table: &Table) -> Option<(&saki_mvcc::Moment, &Arc<Delta>)> {
        let (moment, delta) = self.moment.as_ref().zip(self.generation.delta(table))?;
        let mut asked = self.asked.lock();
        let (_, is_changed) =
            *asked.entry(table.delta).or_insert_with(|| (table.id, self.may_count(table, moment, delta)));
        is_changed.then_some((moment, delta))
    }

    /// Rows that whoever reads all of a table has to look at beside its base, about; 0 if there are none.
    pub fn newer_rows(&self, table: &Table) -> u64 {
        self.delta(table).map_or(0, |(_, delta)| delta.rows().max(1))
    }

    /// Tables whose deltas were asked for: those that what was planned depends on.
    pub fn asked_for(&self) -> Vec<TableId> {
        self.asked.lock().keys().copied().collect()
    }

    /// The tables whose deltas were asked for.
    pub fn tables(&self) -> Vec<TableId> {
        self.asked.lock().values().map(|(table, _)| *table).collect()
    }

    /// A tree of a table with what lies over it.
    pub fn seen(&self, access: &TableAccess) -> Arc<TreeAccess> {
        match self.tree_overlay(&access.table, access.index) {
            None => Arc::clone(&access.tree),
            overlay => Arc::new(TreeAccess { overlay, ..TreeAccess::clone(&access.tree) }),
        }
    }

    /// What lies over a tree of a table: the primary one, or that of an index.
    pub fn tree_overlay(&self, table: &Arc<Table>, index: Option<usize>) -> Option<Arc<dyn saki_exec::Overlay>> {
        let (moment, delta) = self.delta(table)?;
        Some(Arc::new(TreeOverlay::new(table, Arc::clone(delta), moment.clone(), index)))
    }
}

impl Snapshot {
    /// Whether anything in a delta may count. `true` also if that cannot be said: those who read it then find nothing,
    /// or meet the error.
    fn may_count(&self, table: &Table, moment: &saki_mvcc::Moment, delta: &Delta) -> bool {
        let Ok(eyes) = moment.reader() else { return true };
        let reader = TableReader::new(table, delta, &eyes);
        reader.counts_any().unwrap_or_else(|| self.is_private || delta.changed_since(since(table)))
    }
}

impl TableReader<'_, saki_mvcc::Reader> {
    /// Whether the delta has a version that counts; `None` if that is not found out soon, since many that are merged
    /// have not left yet.
    fn counts_any(&self) -> Option<bool> {
        let (mut looked_at, mut counts) = (0, false);
        self.eyes.scan(&self.delta.rows, &KeyRange::all(), Direction::Forward, |_, _, begin| {
            looked_at += 1;
            counts = begin.is_none_or(|begin| begin > since(self.table));
            if counts || looked_at == LOOKS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (counts || looked_at < LOOKS_MAX).then_some(counts)
    }
}
