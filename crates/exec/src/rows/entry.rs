//! Reading an entry of a tree: predicates on its bytes, then the wanted columns
//! appended to registers. Everything that can be known before the first page is
//! compiled once per pipeline.

use saki_base::key::decode_column;
use saki_base::value::compare;
use saki_base::{DataType, KeyColumn, KeyLayout, RowLayout, ValueRef};

use crate::plan::{Place, TreeAccess};
use crate::predicate::{CompareOp, Predicate};
use saki_vector::surface::ColumnBuffer;

/// Why an entry could not be read.
pub(crate) type Malformed = String;

/// Where a column's bytes are found.
#[derive(Clone, Copy, Debug)]
enum Location {
    /// In the key at a place that is the same in every key.
    KeyAt {
        column: KeyColumn,
        offset: usize,
    },
    /// In the key behind columns of variable width.
    KeyAfter {
        column: usize,
    },
    /// In the row at a place that is the same in every row; never NULL.
    RowAt {
        offset: usize,
        width: usize,
    },
    Row {
        column: usize,
    },
}

/// A test on one column.
#[derive(Clone, Debug)]
enum Test {
    Compare(CompareOp, saki_base::value::Value),
    /// In order: a list may be as long as the table.
    OneOf(Vec<saki_base::value::Value>, bool),
    IsNull,
    IsNotNull,
    /// An integer-like column in 8 or fewer bytes between two bounds, inclusive: the common case, without a decoded
    /// value.
    Within(i64, i64),
}

/// Reads entries of one tree for one stage.
pub(crate) struct EntryReader {
    key: KeyLayout,
    row: RowLayout,
    tests: Vec<(Location, DataType, Test)>,
    fetch: Vec<(Location, DataType)>,
    needs_key: bool,
    needs_row: bool,
}

impl EntryReader {
    pub(crate) fn new(access: &TreeAccess, predicates: &[Predicate], fetch: &[usize]) -> Self {
        let locate = |column: usize| {
            let column = &access.columns[column];
            (location(access, column.place), column.data_type)
        };
        let test = |predicate: &Predicate| {
            let (column, test) = compile(access, predicate);
            let (location, data_type) = locate(column);
            (location, data_type, test)
        };
        let tests: Vec<_> = predicates.iter().map(test).collect();
        let fetch: Vec<_> = fetch.iter().map(|&column| locate(column)).collect();
        let locations = || tests.iter().map(|(l, ..)| *l).chain(fetch.iter().map(|(l, _)| *l));
        let in_key = |l: Location| matches!(l, Location::KeyAt { .. } | Location::KeyAfter { .. });
        let needs_key = locations().any(in_key);
        let needs_row = locations().any(|l| !in_key(l));
        Self { key: access.key.clone(), row: access.row.clone(), tests, fetch, needs_key, needs_row }
    }

    /// Whether any test or column lies in the key.
    #[inline]
    pub(crate) fn needs_key(&self) -> bool {
        self.needs_key
    }

    /// Whether any test or column lies in the row: only then is a value on overflow pages read.
    #[inline]
    pub(crate) fn needs_row(&self) -> bool {
        self.needs_row
    }

    /// Whether there are predicates.
    #[inline]
    pub(crate) fn has_tests(&self) -> bool {
        !self.tests.is_empty()
    }

    /// Whether every predicate holds.
    #[inline]
    pub(crate) fn matches(&self, key: &[u8], row: &[u8], scratch: &mut Vec<u8>) -> Result<bool, Malformed> {
        for (location, data_type, test) in &self.tests {
            let holds = match (test, location) {
                (Test::Within(low, high), Location::RowAt { offset, width }) => {
                    let value = read_integer(row, *offset, *width)?;
                    (*low..=*high).contains(&value)
                }
                _ => self.with_value(*location, *data_type, key, row, scratch, |value| test_value(test, value))?,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends the fetched columns to `registers`.
    #[inline]
    pub(crate) fn append(
        &self,
        key: &[u8],
        row: &[u8],
        registers: &mut [ColumnBuffer],
        scratch: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        for ((location, data_type), register) in self.fetch.iter().zip(registers) {
            let taken = match *location {
                Location::RowAt { offset, width } => {
                    let bytes = row.get(offset..offset + width).ok_or("row is too short")?;
                    register.push_encoded(bytes)
                }
                Location::Row { column } => match self.row.view(row).bytes_of(column).map_err(|e| e.to_string())? {
                    Some(bytes) => register.push_encoded(bytes),
                    None => {
                        register.push_null();
                        true
                    }
                },
                _ => self.with_value(*location, *data_type, key, row, scratch, |value| register.push_value(value))?,
            };
            if !taken {
                return Err(format!("a value is not of type {data_type}"));
            }
        }
        Ok(())
    }

    fn with_value<R>(
        &self,
        location: Location,
        data_type: DataType,
        key: &[u8],
        row: &[u8],
        scratch: &mut Vec<u8>,
        use_value: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<R, Malformed> {
        scratch.clear();
        match location {
            Location::KeyAt { column, offset } => {
                let bytes = key.get(offset..).ok_or("key is too short")?;
                let (value, _) = decode_column(column, bytes, scratch).map_err(|e| e.to_string())?;
                Ok(use_value(value))
            }
            Location::KeyAfter { column } => {
                let value = self.key.decode(key, column, scratch).map_err(|e| e.to_string())?;
                Ok(use_value(value))
            }
            Location::RowAt { offset, width } => {
                let bytes = row.get(offset..offset + width).ok_or("row is too short")?;
                Ok(use_value(saki_base::row::read_value(data_type, bytes)?))
            }
            Location::Row { column } => Ok(use_value(self.row.view(row).value(column).map_err(|e| e.to_string())?)),
        }
    }
}

fn location(access: &TreeAccess, place: Place) -> Location {
    match place {
        Place::Key(column) => match access.key.fixed_offset(column) {
            Some(offset) => Location::KeyAt { column: access.key.columns()[column], offset },
            None => Location::KeyAfter { column },
        },
        Place::Row(column) => match access.row.fixed_offset(column) {
            Some(offset) => {
                let data_type = access.row.columns()[column].data_type;
                Location::RowAt { offset, width: data_type.fixed_width().expect("fixed offsets are of fixed widths") }
            }
            None => Location::Row { column },
        },
    }
}

fn compile(access: &TreeAccess, predicate: &Predicate) -> (usize, Test) {
    match predicate {
        Predicate::Compare { column, op, value } => {
            let within = match location(access, access.columns[*column].place) {
                Location::RowAt { .. } => integer_bounds(*op, value.as_ref()),
                _ => None,
            };
            let test = match within {
                Some((low, high)) => Test::Within(low, high),
                None => Test::Compare(*op, value.clone()),
            };
            (*column, test)
        }
        Predicate::OneOf { column, values, negated } => {
            let mut values = values.clone();
            values.sort_unstable_by(|one, other| compare(one.as_ref(), other.as_ref()));
            (*column, Test::OneOf(values, *negated))
        }
        Predicate::IsNull { column } => (*column, Test::IsNull),
        Predicate::IsNotNull { column } => (*column, Test::IsNotNull),
    }
}

/// The integers that satisfy a comparison, if they are an interval.
fn integer_bounds(op: CompareOp, value: ValueRef<'_>) -> Option<(i64, i64)> {
    let value = match value {
        ValueRef::Int2(v) => i64::from(v),
        ValueRef::Int4(v) | ValueRef::Date(v) => i64::from(v),
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) | ValueRef::Time(v) => v,
        // Small enough that a saturated 16-byte value still compares right (`read_integer`).
        ValueRef::Decimal(v) if v.unsigned_abs() < 10u128.pow(18) => v as i64,
        _ => return None,
    };
    const NOTHING: (i64, i64) = (1, 0);
    Some(match op {
        CompareOp::Equal => (value, value),
        CompareOp::Less => value.checked_sub(1).map_or(NOTHING, |high| (i64::MIN, high)),
        CompareOp::LessOrEqual => (i64::MIN, value),
        CompareOp::Greater => value.checked_add(1).map_or(NOTHING, |low| (low, i64::MAX)),
        CompareOp::GreaterOrEqual => (value, i64::MAX),
        CompareOp::NotEqual => return None,
    })
}

/// A little-endian integer of the row format. 16-byte decimals saturate, which keeps every comparison
/// with a bound of at most 18 digits right.
#[inline]
fn read_integer(row: &[u8], offset: usize, width: usize) -> Result<i64, Malformed> {
    let bytes = row.get(offset..offset + width).ok_or("row is too short")?;
    Ok(match width {
        8 => i64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        4 => i64::from(i32::from_le_bytes(bytes.try_into().expect("4 bytes"))),
        2 => i64::from(i16::from_le_bytes(bytes.try_into().expect("2 bytes"))),
        16 => {
            let value = i128::from_le_bytes(bytes.try_into().expect("16 bytes"));
            value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
        }
        _ => return Err("not an integer".into()),
    })
}

fn test_value(test: &Test, value: ValueRef<'_>) -> bool {
    let null = value == ValueRef::Null;
    match test {
        Test::IsNull => null,
        Test::IsNotNull => !null,
        _ if null => false,
        Test::Compare(op, bound) => op.holds(compare(value, bound.as_ref())),
        Test::OneOf(values, negated) => {
            values.binary_search_by(|other| compare(other.as_ref(), value)).is_ok() != *negated
        }
        Test::Within(low, high) => {
            integer_bounds(CompareOp::Equal, value).is_some_and(|(v, _)| (*low..=*high).contains(&v))
        }
    }
}
