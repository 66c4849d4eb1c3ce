//! What one statement reads: a generation, and the deltas as of one moment.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::TableId;
use saki_mvcc::{Direction, KeyRange};

use super::overlay::TreeOverlay;
use super::segments::SegmentOverlay;
use super::{Delta, mvcc_error};
use crate::catalog::Table;
use crate::error::Result;
use crate::snapshot::Snapshot;

/// A snapshot: (timestamp, generation). Held by plans for as long as they run.
pub struct ReadView {
    pub snapshot: Arc<Snapshot>,
    /// `None`: no table has ever had a delta.
    moment: Option<saki_mvcc::View>,
    /// Which tables have something in their delta, of those that were asked for.
    is_changed: Mutex<HashMap<TableId, bool>>,
}

impl ReadView {
    /// `snapshot` was taken before `moment`.
    pub fn new(snapshot: Arc<Snapshot>, moment: Option<saki_mvcc::View>) -> Arc<Self> {
        Arc::new(Self { snapshot, moment, is_changed: Mutex::default() })
    }

    /// The timestamp; `None` where there is nothing but base.
    pub fn timestamp(&self) -> Option<u64> {
        self.moment.as_ref().map(saki_mvcc::View::timestamp)
    }

    /// The moment at which deltas are seen; `None` where there is nothing but base.
    pub(crate) fn moment(&self) -> Option<&saki_mvcc::View> {
        self.moment.as_ref()
    }

    /// The delta of a table, if there is anything in it that this view sees.
    pub fn delta(&self, table: &Table) -> Result<Option<(&saki_mvcc::View, &Arc<Delta>)>> {
        let Some((moment, delta)) = self.moment.as_ref().zip(self.snapshot.delta(table)) else { return Ok(None) };
        let known = self.is_changed.lock().get(&table.delta).copied();
        let is_changed = match known {
            Some(known) => known,
            None => {
                let found = has_entries(moment, delta)?;
                self.is_changed.lock().insert(table.delta, found);
                found
            }
        };
        Ok(is_changed.then_some((moment, delta)))
    }

    /// What lies over a tree of a table: the primary one, or that of an index.
    pub fn tree_overlay(
        self: &Arc<Self>,
        table: &Arc<Table>,
        index: Option<usize>,
    ) -> Result<Option<Arc<dyn saki_exec::Overlay>>> {
        let Some((moment, delta)) = self.delta(table)? else { return Ok(None) };
        Ok(Some(Arc::new(TreeOverlay::new(Arc::clone(table), Arc::clone(delta), moment.clone(), index))))
    }

    /// What lies over the column segments of a table.
    pub(crate) fn segment_overlay(self: &Arc<Self>, table: &Arc<Table>) -> Result<Option<Arc<SegmentOverlay>>> {
        let Some((moment, delta)) = self.delta(table)? else { return Ok(None) };
        Ok(Some(SegmentOverlay::new(Arc::clone(table), delta, moment.clone())))
    }
}

fn has_entries(moment: &saki_mvcc::View, delta: &Delta) -> Result<bool> {
    let reader = moment.reader().map_err(mvcc_error)?;
    let mut found = false;
    reader.scan(&delta.rows, &KeyRange::all(), Direction::Forward, |_, _, _| {
        found = true;
        ControlFlow::Break(())
    });
    Ok(found)
}
