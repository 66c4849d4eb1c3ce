//! Where rows are in the segments, by their primary keys: what hides rows of segments knows keys, and a scan wants
//! positions.
//!
//! ```text
//!   keys, ascending ─► segments, by first keys ─► key columns, through the cache ─► positions, by binary search
//! ```
//!
//! Only key columns of segments with one of the keys are read, some segments ahead. A key costs a binary search in
//! values that are decoded already; rows without a key cost nothing.
//!
//! A hidden row id is not a column of the segments. Where a segment's ids have no gap, which its first id, its rows and
//! the next segment's first id tell, the position follows from the id. Otherwise the caller lists the ids: the primary
//! tree has them, in order.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;
use saki_base::value::compare;
use saki_base::{DataType, KeyLayout, ValueRef};
use saki_columns::{Fetch, RunContent, SegmentTable};
use saki_page::IoShare;
use saki_vector::{Column, form};

use super::reader::{Request, SegmentReader};
use crate::blocking::wait_for;
use crate::error::ExecError;
use saki_vector::surface::array_value;

/// Segments whose key columns are asked for before they are needed.
const SEGMENTS_AHEAD: usize = 16;

/// Lists the row ids of a segment, ascending.
pub type ListIds<'l> = dyn FnMut(usize) -> Result<Vec<i64>, ExecError> + Send + 'l;

/// What the primary key of a table is in its segments.
pub enum SegmentKey<'k> {
    /// Columns of the segments, in the order of the key.
    Columns(&'k [usize]),
    /// A row id that segments do not have. All ids are less than `next`; `list` is called for segments whose ids have
    /// gaps.
    RowId { next: i64, list: &'k mut ListIds<'k> },
}

/// Positions of rows in each segment; `None` where there are none.
pub type Positions = Vec<Option<Arc<[u32]>>>;

/// Finds those of `keys` (encoded primary keys of `layout`, ascending) whose rows are in the table's segments.
///
/// # Errors
/// A column could not be had, or a key is not of the layout.
pub async fn locate<K: AsRef<[u8]>>(
    reader: &SegmentReader,
    table: &SegmentTable,
    layout: &KeyLayout,
    key: SegmentKey<'_>,
    keys: &[K],
) -> Result<Positions, ExecError> {
    let touched = touched(table, keys);
    let mut positions = vec![None; table.segments.len()];
    let mut note = |segment: usize, found: Vec<u32>| {
        positions[segment] = (!found.is_empty()).then(|| found.into());
    };
    match key {
        SegmentKey::Columns(columns) => {
            let share = IoShare::new(u32::MAX);
            let mut waiting = VecDeque::new();
            let mut touched = touched.into_iter().peekable();
            while touched.peek().is_some() || !waiting.is_empty() {
                while waiting.len() < SEGMENTS_AHEAD
                    && let Some((segment, range)) = touched.next()
                {
                    waiting.push_back((segment, range, ask(reader, table, segment, columns, &share)));
                }
                let Some((segment, range, fetches)) = waiting.pop_front() else { break };
                let columns = key_columns(reader, table, segment, columns, fetches).await?;
                note(segment, search(layout, &columns, table.segments[segment].rows as usize, &keys[range])?);
            }
        }
        SegmentKey::RowId { next, list } => {
            for (segment, range) in touched {
                note(segment, search_ids(table, layout, segment, next, list, &keys[range])?);
            }
        }
    }
    Ok(positions)
}

/// As [`locate`], for callers outside of an async runtime.
pub fn locate_blocking<K: AsRef<[u8]>>(
    reader: &SegmentReader,
    table: &SegmentTable,
    layout: &KeyLayout,
    key: SegmentKey<'_>,
    keys: &[K],
) -> Result<Positions, ExecError> {
    let mut located = pin!(locate(reader, table, layout, key, keys));
    wait_for(|context| located.as_mut().poll(context))
}

/// The segments into whose range of keys some of `keys` fall, and which.
fn touched<K: AsRef<[u8]>>(table: &SegmentTable, keys: &[K]) -> Vec<(usize, Range<usize>)> {
    let segments = &table.segments;
    let before = |key: &[u8]| keys.partition_point(|other| other.as_ref() < key);
    let starts: Vec<usize> = segments.iter().map(|segment| before(&segment.first_key)).collect();
    let ends = starts.iter().skip(1).copied().chain(std::iter::once(keys.len()));
    let ranges = starts.iter().zip(ends).map(|(start, end)| *start..end);
    ranges.enumerate().filter(|(_, range)| !range.is_empty()).collect()
}

/// Has the key columns of a segment read, unless they are in memory. No segment lacks one: another key makes all of
/// them anew.
fn ask(
    reader: &SegmentReader,
    table: &SegmentTable,
    segment: usize,
    columns: &[usize],
    share: &Arc<IoShare>,
) -> Vec<Fetch> {
    let mut requests = Vec::new();
    let fetches = columns.iter().map(|column| {
        let run = &table.segments[segment].columns[*column];
        let fetch = reader.cache.fetch(run.first_page);
        if let Fetch::Begun(load) = &fetch {
            requests.push(Request {
                load: Arc::downgrade(load),
                first: run.first_page,
                bytes: run.bytes as usize,
                checksum: run.checksum,
                share: Arc::clone(share),
            });
        }
        fetch
    });
    let fetches = fetches.collect();
    reader.request(requests);
    fetches
}

/// The key columns of a segment, once they have come; and their types.
async fn key_columns(
    reader: &SegmentReader,
    table: &SegmentTable,
    segment: usize,
    columns: &[usize],
    fetches: Vec<Fetch>,
) -> Result<Vec<(ArrayRef, DataType)>, ExecError> {
    let mut arrays = Vec::with_capacity(columns.len());
    for (&column, fetch) in columns.iter().zip(fetches) {
        let failed = |error| ExecError::Segment {
            table: table.name.clone(),
            segment,
            column: table.columns[column].name.clone(),
            error: Box::new(error),
        };
        let resident = match fetch {
            Fetch::Resident(resident) => resident,
            Fetch::Joined(load) | Fetch::Begun(load) => poll_fn(|context| load.poll(context)).await.map_err(failed)?,
        };
        let data_type = table.columns[column].data_type;
        let content = RunContent {
            run: &table.segments[segment].columns[column],
            data_type,
            rows: table.segments[segment].rows as usize,
            codec: &*reader.codec,
        };
        let values = reader.cache.column(&resident, &content).map_err(failed)?;
        arrays.push((searchable(&values)?, data_type));
    }
    Ok(arrays)
}

/// Text as views: one look finds a value.
fn searchable(values: &Column) -> Result<ArrayRef, ExecError> {
    match values.array().data_type() {
        ArrowType::Dictionary(..) => form::text_views(values).map_err(ExecError::Vector),
        _ => Ok(Arc::clone(values.array())),
    }
}

/// Positions of the rows with one of `keys`, in columns that are sorted as keys are.
fn search<K: AsRef<[u8]>>(
    layout: &KeyLayout,
    columns: &[(ArrayRef, DataType)],
    rows: usize,
    keys: &[K],
) -> Result<Vec<u32>, ExecError> {
    let mut found = Vec::new();
    let mut scratch = Vec::new();
    // Keys ascend, and so do their rows.
    let mut start = 0;
    for key in keys {
        let mut range = start..rows;
        for (index, (array, data_type)) in columns.iter().enumerate() {
            let value = layout.decode(key.as_ref(), index, &mut scratch).map_err(malformed)?;
            let descending = layout.columns()[index].descending;
            range = equal_range(array, *data_type, descending, range, value)?;
            if index == 0 {
                start = range.start;
            }
        }
        if !range.is_empty() {
            found.push(range.start as u32);
        }
    }
    found.dedup();
    Ok(found)
}

/// The rows of `within` that have `value`; where there are none, an empty range at their place.
fn equal_range(
    array: &ArrayRef,
    data_type: DataType,
    descending: bool,
    within: Range<usize>,
    value: ValueRef<'_>,
) -> Result<Range<usize>, ExecError> {
    let plain = !descending && array.null_count() == 0;
    // What keys mostly are is compared without a look at types.
    Ok(match (array.data_type(), value) {
        (ArrowType::Int64, ValueRef::Int8(value)) if plain => {
            let values = array.as_primitive::<Int64Type>().values();
            equal_rows(within, |row| values[row].cmp(&value))
        }
        (ArrowType::Int32, ValueRef::Int4(value)) if plain => {
            let values = array.as_primitive::<Int32Type>().values();
            equal_rows(within, |row| values[row].cmp(&value))
        }
        (found, _) if !within.is_empty() && value_at(array, data_type, within.start).is_none() => {
            return Err(ExecError::Internal(format!("a key column of {found} where {data_type} is")));
        }
        _ => equal_rows(within, |row| {
            let order = compare(value_at(array, data_type, row).unwrap_or(ValueRef::Null), value);
            if descending { order.reverse() } else { order }
        }),
    })
}

fn equal_rows(within: Range<usize>, order: impl Fn(usize) -> Ordering) -> Range<usize> {
    let first = first_row(within.clone(), |row| order(row).is_ge());
    first..first_row(first..within.end, |row| order(row).is_gt())
}

/// The first row from which on `holds`; doubling steps first, since it is mostly near.
fn first_row(within: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut step) = (within.start, within.end, 1);
    while low < within.end {
        let probe = (low + step - 1).min(within.end - 1);
        if holds(probe) {
            high = probe;
            break;
        }
        low = probe + 1;
        step *= 2;
    }
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

fn value_at(array: &ArrayRef, data_type: DataType, row: usize) -> Option<ValueRef<'_>> {
    match (data_type, array.data_type()) {
        // Unscaled, and never NULL in a key that is not nullable.
        (DataType::Decimal { .. }, ArrowType::Int64) if array.is_valid(row) => {
            Some(ValueRef::Decimal(array.as_primitive::<Int64Type>().value(row).into()))
        }
        _ => array_value(array, data_type, row),
    }
}

/// Positions of the rows with one of `keys`, which are row ids.
fn search_ids<K: AsRef<[u8]>>(
    table: &SegmentTable,
    layout: &KeyLayout,
    segment: usize,
    next: i64,
    list: &mut ListIds<'_>,
    keys: &[K],
) -> Result<Vec<u32>, ExecError> {
    let rows = table.segments[segment].rows as usize;
    let first = row_id(layout, &table.segments[segment].first_key)?;
    let end = table.segments.get(segment + 1).map_or(Ok(next), |after| row_id(layout, &after.first_key))?;
    let listed = if end.checked_sub(first) == Some(rows as i64) { None } else { Some(list(segment)?) };
    if listed.as_ref().is_some_and(|ids| ids.len() != rows) {
        let reason = format!(
            "{} row ids of the {rows} rows of segment {segment} of {}",
            listed.map_or(0, |l| l.len()),
            table.name
        );
        return Err(ExecError::Internal(reason));
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let id = row_id(layout, key.as_ref())?;
        let position = match &listed {
            Some(ids) => ids.binary_search(&id).ok(),
            None => usize::try_from(id - first).ok().filter(|position| *position < rows),
        };
        found.extend(position.map(|position| position as u32));
    }
    found.dedup();
    Ok(found)
}

fn row_id(layout: &KeyLayout, key: &[u8]) -> Result<i64, ExecError> {
    match layout.decode(key, 0, &mut Vec::new()).map_err(malformed)? {
        ValueRef::Int8(id) => Ok(id),
        other => Err(ExecError::Internal(format!("a row id of type {}", other.kind()))),
    }
}

fn malformed(error: impl ToString) -> ExecError {
    ExecError::Internal(format!("a primary key of segments: {}", error.to_string()))
}
