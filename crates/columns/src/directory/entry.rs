//! A segment as bytes: the value of its entry in the directory. The key is its first primary key.
//!
//! ```text
//!   version 1 │ columns 2 │ rows 4 │ column │ column │ …
//!
//!   column:  0 8 │ 0 4     a column that the segment lacks; otherwise
//!            first page 8 │ bytes 4 │ checksum 8 │ nulls 4 │ distinct 4 │ flags 1 │ values
//!            flags & 1: the minimum follows     flags & 4: a count (1 byte) and all distinct values follow, ascending;
//!            flags & 2: the maximum follows                minimum and maximum are the first and the last of them
//!            flags & 8: a Bloom filter follows, after minimum and maximum: its blocks (4 bytes), each of 32 bytes
//! ```
//!
//! An entry has a column for each place ([`SegmentColumns`]) up to the last one that it has a run of; a segment lacks
//! the others: columns that were added behind them, or that had been dropped when it was written. One that lacks a
//! column and has another behind it is of version 3, all others of version 2; those of version 1 are without Bloom
//! filters. They are alike otherwise. What rows have of a column that a segment lacks is the table's to say
//! ([`ColumnType::missing`]), and so is of which type a dropped column was: its run is read past. Numbers are
//! little-endian. A value is encoded as in a key ([`saki_base::key`]), ascending and not nullable: it ends by itself.
//!
//! Failure model: hostile bytes are an error or another segment, never a panic; what they name is checked by whoever
//! reads it.

use std::sync::Arc;

use saki_base::bytes::ByteReader;
use saki_base::key::{KeyColumn, decode_column, encode_column};
use saki_base::value::{Value, compare};
use saki_base::{DataType, PageAddress, ValueRef};

use crate::ColumnsError;
use crate::missing::missing_run;
use crate::segment::{ColumnRun, Place, Segment, SegmentColumns};
use crate::zone::{BLOCK_BYTES, Bloom, VALUES_MAX, Zone};

const VERSION: u8 = 3;
/// Of entries that lack no column before another.
const VERSION_WITHOUT_GAPS: u8 = 2;
/// Of entries that have no Bloom filters; they are alike otherwise.
const VERSION_WITHOUT_BLOOM: u8 = 1;

const HAS_MIN: u8 = 1;
const HAS_MAX: u8 = 2;
const HAS_VALUES: u8 = 4;
const HAS_BLOOM: u8 = 8;

/// Of a run's first page and length.
const RUN_BYTES: usize = 12;

const _: () = assert!(VALUES_MAX <= u8::MAX as usize, "a byte counts the values of a zone");

/// Appends the entry of a segment of a table with these columns.
///
/// # Errors
/// `Internal` for a run of a column that the table has lost: whoever writes an entry has given those back before.
pub fn encode(segment: &Segment, columns: &SegmentColumns, out: &mut Vec<u8>) -> Result<(), ColumnsError> {
    let types = columns.columns();
    assert_eq!(segment.columns.len(), types.len(), "a segment of other columns than its table");
    assert!(columns.places().len() <= usize::from(u16::MAX), "an entry of {} columns", columns.places().len());
    if !segment.dropped.is_empty() {
        return Err(ColumnsError::Internal("an entry with a run of a column that the table has lost".to_owned()));
    }
    let last = segment.columns.iter().rposition(|run| !run.is_missing());
    let count = last.map_or(0, |last| columns.place_of(last) + 1);
    // In its place each run that there is.
    let mut runs: Vec<Option<usize>> = vec![None; count];
    for (column, _) in segment.columns.iter().enumerate().filter(|(_, run)| !run.is_missing()) {
        runs[columns.place_of(column)] = Some(column);
    }
    out.push(if runs.iter().any(Option::is_none) { VERSION } else { VERSION_WITHOUT_GAPS });
    out.extend_from_slice(&(count as u16).to_le_bytes());
    out.extend_from_slice(&segment.rows.to_le_bytes());
    for column in runs {
        let Some(column) = column else {
            out.extend_from_slice(&[0; RUN_BYTES]);
            continue;
        };
        let run = &segment.columns[column];
        out.extend_from_slice(&run.first_page.0.to_le_bytes());
        out.extend_from_slice(&run.bytes.to_le_bytes());
        out.extend_from_slice(&run.checksum.to_le_bytes());
        encode_zone(&run.zone, types[column].data_type, out)?;
    }
    Ok(())
}

fn encode_zone(zone: &Zone, data_type: DataType, out: &mut Vec<u8>) -> Result<(), ColumnsError> {
    out.extend_from_slice(&zone.nulls.to_le_bytes());
    out.extend_from_slice(&zone.distinct.to_le_bytes());
    let column = key_column(data_type);
    let put = |value: &Value, out: &mut Vec<u8>| {
        encode_column(column, value.as_ref(), out).map_err(|error| ColumnsError::Internal(format!("zone: {error}")))
    };
    if let Some(values) = &zone.values {
        assert!(values.len() <= VALUES_MAX, "{} values are listed", values.len());
        out.extend_from_slice(&[HAS_VALUES, values.len() as u8]);
        return values.iter().try_for_each(|value| put(value, out));
    }
    let flag = |bit: u8, value: &Value| if value.is_null() { 0 } else { bit };
    let filter = if zone.bloom.is_some() { HAS_BLOOM } else { 0 };
    out.push(flag(HAS_MIN, &zone.min) | flag(HAS_MAX, &zone.max) | filter);
    [&zone.min, &zone.max].into_iter().filter(|value| !value.is_null()).try_for_each(|value| put(value, out))?;
    if let Some(bloom) = &zone.bloom {
        out.extend_from_slice(&(bloom.blocks() as u32).to_le_bytes());
        bloom.write(out);
    }
    Ok(())
}

/// Reads an entry of a table with these columns.
pub fn decode(first_key: &[u8], bytes: &[u8], columns: &SegmentColumns) -> Result<Segment, ColumnsError> {
    let mut reader = Reader(ByteReader::new(bytes));
    let version = reader.u8()?;
    if ![VERSION_WITHOUT_BLOOM, VERSION_WITHOUT_GAPS, VERSION].contains(&version) {
        return Err(corrupt(format!("an entry of version {version}, known is up to {VERSION}")));
    }
    let count = usize::from(reader.u16()?);
    let (types, places) = (columns.columns(), columns.places());
    let is_needed = |place: &Place| matches!(place, Place::Column(column) if types[*column].missing.is_none());
    let lacking = places.get(count..);
    if lacking.is_none_or(|lacking| lacking.iter().any(is_needed)) {
        return Err(corrupt(format!("an entry of {count} columns in a table of {}", places.len())));
    }
    let rows = reader.u32()?;
    let zone_flags = HAS_MIN | HAS_MAX | if version == VERSION_WITHOUT_BLOOM { 0 } else { HAS_BLOOM };
    let (mut runs, mut dropped) = (Vec::with_capacity(types.len()), Vec::new());
    for (at, place) in places[..count].iter().enumerate() {
        let data_type = match place {
            Place::Column(column) => types[*column].data_type,
            Place::Dropped(data_type) => *data_type,
        };
        match (decode_run(&mut reader, data_type, rows, zone_flags)?, place) {
            (None, _) if version != VERSION => return Err(corrupt("a run that cannot be")),
            (Some(run), Place::Column(_)) => runs.push(run),
            (None, Place::Column(column)) => runs.push(missing_run(&types[*column], rows)?),
            (Some(run), Place::Dropped(_)) => dropped.push((at, run.without_zone())),
            (None, Place::Dropped(_)) => {}
        }
    }
    for place in lacking.unwrap_or_default() {
        if let Place::Column(column) = place {
            runs.push(missing_run(&types[*column], rows)?);
        }
    }
    if !reader.0.rest().is_empty() {
        return Err(corrupt("an entry with bytes behind its last column"));
    }
    Ok(Segment { first_key: first_key.to_vec(), rows, columns: runs, dropped })
}

/// `None`: the segment lacks the column.
fn decode_run(
    reader: &mut Reader<'_>,
    data_type: DataType,
    rows: u32,
    zone_flags: u8,
) -> Result<Option<ColumnRun>, ColumnsError> {
    let first_page = PageAddress(reader.u64()?);
    let bytes = reader.u32()?;
    if (first_page, bytes) == (PageAddress(0), 0) {
        return Ok(None);
    }
    let checksum = reader.u64()?;
    // Pages of a run, of which it has fewer than bytes, are counted up from the first one.
    if bytes == 0 || first_page.0.checked_add(bytes.into()).is_none() {
        return Err(corrupt("a run that cannot be"));
    }
    Ok(Some(ColumnRun { first_page, bytes, checksum, zone: decode_zone(reader, data_type, rows, zone_flags)? }))
}

/// `zone_flags`: those there may be where values are not listed.
fn decode_zone(reader: &mut Reader<'_>, data_type: DataType, rows: u32, zone_flags: u8) -> Result<Zone, ColumnsError> {
    let nulls = reader.u32()?;
    let distinct = reader.u32()?;
    if nulls > rows {
        return Err(corrupt(format!("{nulls} NULLs in {rows} rows")));
    }
    let flags = reader.u8()?;
    if flags == HAS_VALUES {
        let count = usize::from(reader.u8()?);
        if count > VALUES_MAX {
            return Err(corrupt(format!("{count} values in a zone")));
        }
        let values = (0..count).map(|_| reader.value(data_type)).collect::<Result<Box<[Value]>, _>>()?;
        if !values.is_sorted_by(|a, b| compare(a.as_ref(), b.as_ref()).is_lt()) {
            return Err(corrupt("values of a zone out of order"));
        }
        let (min, max) = (values.first().cloned().unwrap_or_default(), values.last().cloned().unwrap_or_default());
        return Ok(Zone { nulls, min, max, distinct, values: Some(values), bloom: None });
    }
    if flags & !zone_flags != 0 {
        return Err(corrupt(format!("unknown flags {flags:#x} of a zone")));
    }
    let min = if flags & HAS_MIN != 0 { reader.value(data_type)? } else { Value::Null };
    let max = if flags & HAS_MAX != 0 { reader.value(data_type)? } else { Value::Null };
    if !min.is_null() && !max.is_null() && compare(min.as_ref(), max.as_ref()).is_gt() {
        return Err(corrupt("a zone whose minimum is above its maximum"));
    }
    let bloom = if flags & HAS_BLOOM != 0 { Some(Arc::new(reader.bloom()?)) } else { None };
    Ok(Zone { nulls, min, max, distinct, values: None, bloom })
}

const fn key_column(data_type: DataType) -> KeyColumn {
    KeyColumn { data_type, nullable: false, descending: false }
}

fn corrupt(what: impl Into<String>) -> ColumnsError {
    ColumnsError::Corrupt(what.into())
}

fn ends_too_soon() -> ColumnsError {
    corrupt("an entry that ends too soon")
}

/// An entry's fields, one after the other; what is not there is an error.
struct Reader<'b>(ByteReader<'b>);

impl Reader<'_> {
    fn u8(&mut self) -> Result<u8, ColumnsError> {
        self.0.u8().ok_or_else(ends_too_soon)
    }

    fn u16(&mut self) -> Result<u16, ColumnsError> {
        self.0.u16().ok_or_else(ends_too_soon)
    }

    fn u32(&mut self) -> Result<u32, ColumnsError> {
        self.0.u32().ok_or_else(ends_too_soon)
    }

    fn u64(&mut self) -> Result<u64, ColumnsError> {
        self.0.u64().ok_or_else(ends_too_soon)
    }

    fn bloom(&mut self) -> Result<Bloom, ColumnsError> {
        let blocks = self.u32()? as usize;
        let bytes = blocks.checked_mul(BLOCK_BYTES).and_then(|bytes| self.0.take(bytes)).ok_or_else(ends_too_soon)?;
        Bloom::read(bytes).ok_or_else(|| corrupt("a Bloom filter without blocks"))
    }

    fn value(&mut self, data_type: DataType) -> Result<Value, ColumnsError> {
        let mut scratch = Vec::new();
        let (value, width) = decode_column(key_column(data_type), self.0.rest(), &mut scratch)
            .map_err(|error| corrupt(format!("a value of a zone: {error}")))?;
        let value = match (data_type, value) {
            // Spelled in one way only, as in keys.
            (DataType::Char(_), ValueRef::Text(text)) => Value::Text(text.trim_end_matches(' ').to_owned()),
            (_, value) => value.into(),
        };
        self.0.take(width).map(|_| value).ok_or_else(ends_too_soon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnType;
    use crate::segment::DroppedRun;

    fn column(missing: Option<Value>) -> ColumnType {
        ColumnType { name: "c".into(), data_type: DataType::Int4, nullable: true, missing }
    }

    fn entry(zone: Zone) -> (Segment, SegmentColumns, Vec<u8>) {
        let columns = SegmentColumns::from(vec![column(None)]);
        let run = ColumnRun { first_page: PageAddress(9), bytes: 100, checksum: 5, zone };
        let segment = Segment { first_key: b"key".to_vec(), rows: 40, columns: vec![run], dropped: Vec::new() };
        let mut bytes = Vec::new();
        encode(&segment, &columns, &mut bytes).unwrap();
        (segment, columns, bytes)
    }

    fn zone(blocks: usize) -> Zone {
        let bytes: Vec<u8> = (0..blocks * BLOCK_BYTES).map(|at| at as u8).collect();
        let bloom = Bloom::read(&bytes).map(Arc::new);
        Zone { nulls: 3, min: Value::Int4(-1), max: Value::Int4(8), distinct: 35, values: None, bloom }
    }

    #[test]
    fn entries_of_the_first_version_are_read() {
        let (segment, columns, mut bytes) = entry(zone(0));
        bytes[0] = VERSION_WITHOUT_BLOOM;
        assert_eq!(decode(b"key", &bytes, &columns).unwrap(), segment);
        let (_, columns, mut bytes) = entry(zone(2));
        bytes[0] = VERSION_WITHOUT_BLOOM;
        assert!(decode(b"key", &bytes, &columns).is_err(), "it had no filters");
        bytes[0] = VERSION + 1;
        assert!(decode(b"key", &bytes, &columns).is_err());
    }

    #[test]
    fn runs_lie_anywhere_but_over_the_end_of_all_addresses() {
        let (mut segment, columns, _) = entry(zone(0));
        for (first, is_right) in [(u64::MAX - 100, true), (u64::MAX - 99, false), (u64::MAX, false)] {
            segment.columns[0].first_page = PageAddress(first);
            let mut bytes = Vec::new();
            encode(&segment, &columns, &mut bytes).unwrap();
            assert_eq!(decode(b"key", &bytes, &columns).ok(), is_right.then(|| segment.clone()), "{first}");
        }
    }

    /// Two columns of which a segment may lack any, as the table has them.
    fn lacking(lacks: [bool; 2]) -> (Segment, SegmentColumns, Vec<u8>) {
        let (mut segment, ..) = entry(zone(0));
        let types = [Value::Int4(7), Value::Null].map(|missing| column(Some(missing)));
        let run = segment.columns.remove(0);
        let runs = types.iter().zip(lacks);
        let runs = runs.map(|(column, lacks)| if lacks { missing_run(column, 40).unwrap() } else { run.clone() });
        segment.columns = runs.collect();
        let (columns, mut bytes) = (SegmentColumns::from(types.to_vec()), Vec::new());
        encode(&segment, &columns, &mut bytes).unwrap();
        (segment, columns, bytes)
    }

    #[test]
    fn a_segment_lacks_columns_and_its_zones_say_what_rows_have() {
        for lacks in [[false, false], [false, true], [true, false], [true, true]] {
            let (segment, columns, bytes) = lacking(lacks);
            assert_eq!(bytes[0], if lacks == [true, false] { VERSION } else { VERSION_WITHOUT_GAPS });
            assert_eq!(decode(b"key", &bytes, &columns).unwrap(), segment);
            for end in 0..bytes.len() {
                assert!(decode(b"key", &bytes[..end], &columns).is_err(), "cut at {end}");
            }
            let needed = SegmentColumns::from(vec![column(None), column(None)]);
            assert_eq!(decode(b"key", &bytes, &needed).is_err(), lacks != [false; 2], "all rows have them");
            assert_eq!(segment.pages(512).count(), lacks.iter().filter(|lacks| !**lacks).count());
        }
        let (segment, ..) = lacking([true, true]);
        let [seven, null] = [0, 1].map(|column: usize| &segment.columns[column].zone);
        assert_eq!((seven.nulls, &seven.min, &seven.max, seven.distinct), (0, &Value::Int4(7), &Value::Int4(7), 1));
        assert_eq!((null.nulls, &null.min), (40, &Value::Null));
        assert!(seven.all_pass(&crate::Test::IsNotNull, 40) && null.all_pass(&crate::Test::IsNull, 40));
    }

    #[test]
    fn a_gap_is_of_the_version_that_knows_it() {
        let (_, columns, mut bytes) = lacking([true, false]);
        bytes[0] = VERSION_WITHOUT_GAPS;
        assert!(decode(b"key", &bytes, &columns).is_err());
    }

    #[test]
    fn a_filter_is_read_back_and_its_length_is_checked() {
        let (segment, columns, bytes) = entry(zone(3));
        assert_eq!(decode(b"key", &bytes, &columns).unwrap(), segment);
        for end in 0..bytes.len() {
            assert!(decode(b"key", &bytes[..end], &columns).is_err(), "cut at {end}");
        }
        let count = bytes.len() - 3 * BLOCK_BYTES - 4;
        for blocks in [0, 2, 4, u32::MAX] {
            let mut bytes = bytes.clone();
            bytes[count..count + 4].copy_from_slice(&blocks.to_le_bytes());
            assert!(decode(b"key", &bytes, &columns).is_err(), "{blocks} blocks");
        }
    }

    /// Three columns, as a table has them that has lost the one in the middle since.
    fn without_second(missing: Option<Value>) -> SegmentColumns {
        SegmentColumns::new(vec![column(None), column(missing)], [(1, DataType::Int4)])
    }

    #[test]
    fn a_run_of_a_dropped_column_is_read_past_and_known() {
        let (segment, ..) = entry(zone(2));
        let run = |first: u64| ColumnRun { first_page: PageAddress(first), ..segment.columns[0].clone() };
        let before = SegmentColumns::from(vec![column(None), column(None), column(None)]);
        let whole = Segment { columns: vec![run(10), run(20), run(30)], ..segment.clone() };
        let mut bytes = Vec::new();
        encode(&whole, &before, &mut bytes).unwrap();
        let after = without_second(None);
        assert_eq!((after.place_of(0), after.place_of(1)), (0, 2));
        let mut read = decode(b"key", &bytes, &after).unwrap();
        assert_eq!(read.columns, [run(10), run(30)]);
        let dropped = DroppedRun { first_page: PageAddress(20), bytes: 100, checksum: 5 };
        assert_eq!(read.dropped, [(1, dropped)]);
        assert_eq!((read.bytes(), read.pages(100).count()), (300, 3));
        assert!(encode(&read, &after, &mut Vec::new()).is_err(), "its pages would be lost");
        assert_eq!(read.take_dropped(64), [20, 21].map(PageAddress));
        // Written again, it has nothing in that place.
        let mut again = Vec::new();
        encode(&read, &after, &mut again).unwrap();
        assert_eq!((again[0], decode(b"key", &again, &after).unwrap()), (VERSION, read));
        assert!(decode(b"key", &again, &before).is_err(), "all rows have it");
    }

    #[test]
    fn segments_from_before_and_after_a_column_lack_it() {
        let (segment, ..) = entry(zone(0));
        let columns = without_second(Some(Value::Int4(7)));
        // From before both: it has the first column alone.
        let mut bytes = Vec::new();
        encode(&segment, &SegmentColumns::from(vec![column(None)]), &mut bytes).unwrap();
        let read = decode(b"key", &bytes, &columns).unwrap();
        assert_eq!((read.columns.len(), read.dropped.len(), read.columns[1].is_missing()), (2, 0, true));
        let mut again = Vec::new();
        encode(&read, &columns, &mut again).unwrap();
        assert_eq!(again, bytes);
    }

    #[test]
    fn places_that_no_dropped_column_has_are_the_columns() {
        let dropped = [0, 1, 3, 5].map(|place| (place, DataType::Text));
        let columns = SegmentColumns::new(vec![column(None), column(None)], dropped);
        let gone = Place::Dropped(DataType::Text);
        assert_eq!(columns.places(), [gone, gone, Place::Column(0), gone, Place::Column(1), gone]);
        assert_eq!([0, 1].map(|column| columns.place_of(column)), [2, 4]);
    }
}
