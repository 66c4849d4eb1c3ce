//! A delta as what lies over the column segments of its table: which of their rows it hides, and its own rows as
//! columns.
//!
//! Both are worked out when a scan begins, from all that the delta has: walking it costs some hundred nanoseconds a
//! row, finding the positions of its keys about as much. As long as nothing is committed to the table or merged, scans
//! after the first find it ready.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use saki_base::planted::{self, Fault};
use saki_base::{Value, ValueRef};
use saki_columns::SegmentTable;
use saki_exec::columns::{Positions, SegmentKey, locate_blocking};
use saki_exec::{ColumnOverlay, ExecError};
use saki_mvcc::{Direction, KeyRange, Moment, Receipt};
use saki_vector::{Batch, Column, form};

use super::{BaseReader, Eyes, Snapshot, TableReader, since};
use crate::database::Database;
use crate::delta::Delta;
use saki_catalog::convert::array_of;
use saki_catalog::{EntryDecoder, Result, SqlError, Table};

/// Rows of the delta that are one partition's work.
const PART_ROWS: usize = 1 << 16;

/// What a delta hides of its table's segments, and what it has itself, at one moment.
pub struct SegmentOverlay {
    moment: u64,
    /// Versions that began later count.
    since: u64,
    /// What has to be durable before anybody is told of it.
    rests_on: Receipt,
    /// Of which segments positions are.
    segments: Arc<SegmentTable>,
    hidden: Positions,
    columns: Vec<Column>,
    rows: usize,
}

impl fmt::Debug for SegmentOverlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentOverlay").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl ColumnOverlay for SegmentOverlay {
    fn hidden(&self, segment: usize) -> Result<Option<Arc<[u32]>>, ExecError> {
        Ok(self.hidden[segment].clone())
    }

    fn parts(&self) -> usize {
        self.rows.div_ceil(PART_ROWS)
    }

    fn rows(&self, part: usize, columns: &[usize]) -> Result<Batch, ExecError> {
        let start = part * PART_ROWS;
        let rows = PART_ROWS.min(self.rows - start);
        Ok(Batch::new(columns.iter().map(|column| self.columns[*column].slice(start, rows)).collect(), rows))
    }
}

impl Snapshot {
    /// What lies over the column segments of a table; `None`: nothing. Waits for storage.
    pub fn segment_overlay(
        &self,
        db: &Database,
        table: &Arc<Table>,
        segments: &Arc<SegmentTable>,
    ) -> Result<Option<Arc<SegmentOverlay>>> {
        let Some((moment, delta)) = self.delta(table) else { return Ok(None) };
        // What a transaction has written itself is nobody else's.
        let is_shared = !self.is_private;
        if is_shared && let Some(last) = last_overlay(delta, table, moment.timestamp(), segments) {
            if !planted::is(Fault::OverlayForgets) {
                moment.rest_on(last.rests_on);
            }
            return Ok(Some(last));
        }
        let overlay = Arc::new(SegmentOverlay::new(db, (table, delta), moment, segments)?);
        if is_shared {
            delta.keep(Arc::clone(&overlay) as _);
        }
        Ok(Some(overlay))
    }
}

/// The overlay of the last scan, if nothing that it shows has changed: the same segments, the same versions that count,
/// and none that have come since.
fn last_overlay(
    delta: &Delta,
    table: &Table,
    moment: u64,
    segments: &Arc<SegmentTable>,
) -> Option<Arc<SegmentOverlay>> {
    let last: Arc<SegmentOverlay> = delta.kept()?.downcast().ok()?;
    let is_same = last.moment <= moment
        && last.since == since(table)
        && Arc::ptr_eq(&last.segments, segments)
        && (last.moment == moment || !delta.changed_since(last.moment));
    is_same.then_some(last)
}

impl SegmentOverlay {
    fn new(
        db: &Database,
        (table, delta): (&Table, &Delta),
        moment: &Moment,
        segments: &Arc<SegmentTable>,
    ) -> Result<Self> {
        let eyes = moment.reader()?;
        let reader = TableReader::new(table, delta, &eyes);
        let layout = table.primary_layout();
        let mut decoder = EntryDecoder::new(layout.clone());
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); table.columns.len()];
        let mut outcome = Ok(());
        Eyes::scan(&eyes, reader.newer, &KeyRange::all(), Direction::Forward, |key, body| {
            keys.push(key.to_vec());
            let Some(body) = body else { return ControlFlow::Continue(()) };
            outcome = decoder.decode(table, key, body, |values| {
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(Value::from(*value)));
            });
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome?;
        let rows = columns.first().map_or(0, Vec::len);
        let native = |(values, column): (Vec<Value>, &saki_base::Column)| {
            let array: ArrayRef = array_of(column.data_type, &values);
            form::from_surface(&array).map_err(SqlError::from)
        };
        let columns = columns.into_iter().zip(&table.columns).map(native).collect::<Result<Vec<_>>>()?;
        let mut base = db.base_reader();
        let mut list = |segment: usize| {
            row_ids(&mut base, table, segments, segment).map_err(|error| ExecError::Overlay(error.to_string()))
        };
        let key = match table.primary_key.is_empty() {
            false => SegmentKey::Columns(&table.primary_key),
            true => SegmentKey::RowId { next: table.next_row_id, list: &mut list },
        };
        let hidden = locate_blocking(&db.segment_reader, segments, &layout.key, key, &keys)?;
        let (rests_on, moment, since) = (moment.receipt(), moment.timestamp(), since(table));
        Ok(Self { moment, since, rests_on, segments: Arc::clone(segments), hidden, columns, rows })
    }
}

/// The hidden row ids of a segment, as the primary tree has them.
fn row_ids(base: &mut BaseReader<'_>, table: &Table, segments: &SegmentTable, segment: usize) -> Result<Vec<i64>> {
    use std::ops::Bound;
    let layout = table.primary_layout();
    let low = Bound::Included(segments.segments[segment].first_key.as_ref());
    let high = segments.segments.get(segment + 1);
    let high = high.map_or(Bound::Unbounded, |next| Bound::Excluded(next.first_key.as_ref()));
    let mut entries = base.range(&table.root, low, high)?;
    let mut ids = Vec::new();
    while let Some((key, _)) = entries.next()? {
        if let ValueRef::Int8(id) = layout.key.decode(key, 0, &mut Vec::new())? {
            ids.push(id);
        }
    }
    Ok(ids)
}
