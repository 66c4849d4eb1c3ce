//! What one statement reads: a generation, and the deltas as of one moment.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::TableId;
use saki_mvcc::{Direction, KeyRange};

use super::Delta;
use super::overlay::TreeOverlay;
use crate::catalog::Table;
use crate::snapshot::Snapshot;

/// A snapshot: (timestamp, generation). Held by plans for as long as they run.
pub struct ReadView {
    pub snapshot: Arc<Snapshot>,
    /// `None`: no table has ever had a delta.
    moment: Option<saki_mvcc::View>,
    /// It sees what one transaction has written and nobody else may see.
    pub(super) is_private: bool,
    /// Which tables have something in their delta, of those that were asked for.
    is_changed: Mutex<HashMap<TableId, bool>>,
}

impl ReadView {
    /// `snapshot` was taken before `moment`.
    pub fn new(snapshot: Arc<Snapshot>, moment: Option<saki_mvcc::View>) -> Arc<Self> {
        Arc::new(Self { snapshot, moment, is_private: false, is_changed: Mutex::default() })
    }

    /// What a transaction sees, with its own writes.
    pub fn of_transaction(snapshot: Arc<Snapshot>, moment: saki_mvcc::View) -> Arc<Self> {
        Arc::new(Self { snapshot, moment: Some(moment), is_private: true, is_changed: Mutex::default() })
    }

    /// The moment at which deltas are seen; `None` where there is nothing but base.
    pub(crate) fn moment(&self) -> Option<&saki_mvcc::View> {
        self.moment.as_ref()
    }

    /// The delta of a table, if there is anything in it that this view sees.
    pub fn delta(&self, table: &Table) -> Option<(&saki_mvcc::View, &Arc<Delta>)> {
        let (moment, delta) = self.moment.as_ref().zip(self.snapshot.delta(table))?;
        let mut known = self.is_changed.lock();
        let is_changed = *known.entry(table.delta).or_insert_with(|| has_entries(moment, delta));
        is_changed.then_some((moment, delta))
    }

    /// Tables whose deltas were asked for: those that what was planned depends on.
    pub(crate) fn asked_for(&self) -> Vec<TableId> {
        self.is_changed.lock().keys().copied().collect()
    }

    /// Whether there was anything in a delta that was asked for.
    pub(crate) fn has_delta(&self, table: TableId) -> bool {
        self.is_changed.lock().get(&table).copied().unwrap_or(false)
    }

    /// What lies over a tree of a table: the primary one, or that of an index.
    pub fn tree_overlay(&self, table: &Arc<Table>, index: Option<usize>) -> Option<Arc<dyn saki_exec::Overlay>> {
        let (moment, delta) = self.delta(table)?;
        Some(Arc::new(TreeOverlay::new(table, Arc::clone(delta), moment.clone(), index)))
    }
}

/// Whether a moment sees anything in a delta. If that cannot be said, those who read it will meet the error.
fn has_entries(moment: &saki_mvcc::View, delta: &Delta) -> bool {
    let Ok(reader) = moment.reader() else { return true };
    let mut found = false;
    reader.scan(&delta.rows, &KeyRange::all(), Direction::Forward, |_, _, _| {
        found = true;
        ControlFlow::Break(())
    });
    found
}
