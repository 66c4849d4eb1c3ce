//! One look at a column of a segment: its [`Zone`], without a Bloom filter.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, UInt16Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit};
use saki_base::random::hash_integer;
use saki_base::value::Value;
use saki_base::{DataType, Interval, checksum};
use saki_vector::Column;

use crate::ColumnsError;
use crate::distinct::DistinctCounter;
use crate::zone::{self, VALUE_BYTES_MAX, VALUES_MAX, Zone};

/// The zone of a column in any native form of `data_type`.
pub fn survey(column: &Column, data_type: DataType) -> Result<Zone, ColumnsError> {
    let array = column.array();
    let zone = match (data_type, array.data_type()) {
        (DataType::Bool, ArrowType::Boolean) => scan(array.as_boolean().iter().flatten(), Value::Bool),
        (DataType::Int2, ArrowType::Int16) => primitives::<Int16Type, _>(array, |v| v, Value::Int2),
        (DataType::Int4, ArrowType::Int32) => primitives::<Int32Type, _>(array, |v| v, Value::Int4),
        (DataType::Int8 | DataType::Enum(_), ArrowType::Int64) => primitives::<Int64Type, _>(array, |v| v, Value::Int8),
        (DataType::Date, ArrowType::Date32) => primitives::<Date32Type, _>(array, |v| v, Value::Date),
        (DataType::Timestamp, ArrowType::Timestamp(..)) => {
            primitives::<TimestampMicrosecondType, _>(array, |v| v, Value::Timestamp)
        }
        (DataType::Timestamptz, ArrowType::Timestamp(..)) => {
            primitives::<TimestampMicrosecondType, _>(array, |v| v, Value::Timestamptz)
        }
        (DataType::Time, ArrowType::Time64(TimeUnit::Microsecond)) => {
            primitives::<Time64MicrosecondType, _>(array, |v| v, Value::Time)
        }
        (DataType::Interval, ArrowType::Interval(IntervalUnit::MonthDayNano)) => {
            let image = |v: IntervalMonthDayNano| ByLength(Interval::of_nanos(v.months, v.days, v.nanoseconds));
            primitives::<IntervalMonthDayNanoType, _>(array, image, |v| Value::Interval(v.0))
        }
        (DataType::Float4, ArrowType::Float32) => {
            primitives::<Float32Type, _>(array, |v| OrderedFloat(v.into()), |v| Value::Float4(v.0 as f32))
        }
        (DataType::Float8, ArrowType::Float64) => {
            primitives::<Float64Type, _>(array, OrderedFloat, |v| Value::Float8(v.0))
        }
        (DataType::Decimal { .. }, ArrowType::Int64) => {
            primitives::<Int64Type, _>(array, |v| v, |v| Value::Decimal(v.into()))
        }
        (DataType::Decimal { .. }, ArrowType::Decimal128(..)) => {
            primitives::<Decimal128Type, _>(array, |v| v, Value::Decimal)
        }
        (DataType::Uuid, ArrowType::FixedSizeBinary(16)) => {
            let values = array.as_fixed_size_binary().iter().flatten();
            scan(values.map(|v| <[u8; 16]>::try_from(v).unwrap_or_default()), Value::Uuid)
        }
        (
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb,
            ArrowType::Utf8View,
        ) => texts(array.as_string_view().iter().flatten()),
        (
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb,
            ArrowType::Dictionary(..),
        ) => dictionary(array)?,
        (DataType::Bytea | DataType::Array(_), ArrowType::BinaryView) => bytes(array.as_binary_view().iter().flatten()),
        (expected, found) => {
            return Err(ColumnsError::Internal(format!("{found} is no native form of {expected}")));
        }
    };
    Ok(Zone { nulls: array.logical_null_count() as u32, ..zone })
}

fn primitives<T: ArrowPrimitiveType, V: Surveyed>(
    array: &ArrayRef,
    image: fn(T::Native) -> V,
    value: fn(V) -> Value,
) -> Zone {
    let array = array.as_primitive::<T>();
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => scan(array.values().iter().map(|v| image(*v)), value),
        Some(nulls) => scan(nulls.valid_indices().map(|row| image(array.values()[row])), value),
    }
}

/// Of text by a dictionary: only the values that rows have.
fn dictionary(array: &ArrayRef) -> Result<Zone, ColumnsError> {
    let unexpected = || ColumnsError::Internal(format!("{} is no native form of text", array.data_type()));
    let dictionary = array.as_dictionary_opt::<UInt16Type>().ok_or_else(unexpected)?;
    let values = dictionary.values().as_string_view_opt().ok_or_else(unexpected)?;
    let mut used = vec![false; values.len()];
    for key in dictionary.keys().iter().flatten() {
        used[usize::from(key)] = true;
    }
    Ok(texts(values.iter().zip(used).filter_map(|(value, used)| value.filter(|_| used))))
}

fn texts<'t>(values: impl Iterator<Item = &'t str>) -> Zone {
    let survey = Survey::of(values);
    survey.zone(|v| Value::Text(zone::text_floor(v)), |v| zone::text_ceiling(v).into(), |v| Value::Text(v.to_owned()))
}

fn bytes<'b>(values: impl Iterator<Item = &'b [u8]>) -> Zone {
    let survey = Survey::of(values);
    survey.zone(
        |v| Value::Bytea(zone::bytes_floor(v)),
        |v| zone::bytes_ceiling(v).into(),
        |v| Value::Bytea(v.to_owned()),
    )
}

fn scan<V: Surveyed>(values: impl Iterator<Item = V>, value: impl Fn(V) -> Value) -> Zone {
    Survey::of(values).zone(&value, &value, &value)
}

/// A value as a survey sees it: copied, compared and hashed without a look at its type.
trait Surveyed: Copy + Ord {
    fn hash(self) -> u64;

    /// Whether it may stand in a zone as it is.
    fn is_short(self) -> bool {
        true
    }
}

macro_rules! surveyed_integers {
    ($($native:ty),*) => {
        $(impl Surveyed for $native {
            #[inline]
            fn hash(self) -> u64 {
                hash_integer(self as u64)
            }
        })*
    };
}

surveyed_integers!(bool, i16, i32, i64);

impl Surveyed for i128 {
    #[inline]
    fn hash(self) -> u64 {
        hash_integer(self as u64 ^ hash_integer((self >> 64) as u64))
    }
}

impl Surveyed for [u8; 16] {
    #[inline]
    fn hash(self) -> u64 {
        checksum(&self)
    }
}

impl Surveyed for &str {
    #[inline]
    fn hash(self) -> u64 {
        checksum(self.as_bytes())
    }

    #[inline]
    fn is_short(self) -> bool {
        self.len() <= VALUE_BYTES_MAX
    }
}

impl Surveyed for &[u8] {
    #[inline]
    fn hash(self) -> u64 {
        checksum(self)
    }

    #[inline]
    fn is_short(self) -> bool {
        self.len() <= VALUE_BYTES_MAX
    }
}

/// A float in SQL's order: NaN equals itself and is greatest, -0 equals 0.
#[derive(Clone, Copy, Debug)]
struct OrderedFloat(f64);

impl Ord for OrderedFloat {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.partial_cmp(&other.0).unwrap_or_else(|| self.0.is_nan().cmp(&other.0.is_nan()))
    }
}

impl PartialOrd for OrderedFloat {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedFloat {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedFloat {}

impl Surveyed for OrderedFloat {
    #[inline]
    fn hash(self) -> u64 {
        // Equal values have equal bits: adding zero turns -0 into 0.
        hash_integer(if self.0.is_nan() { f64::NAN.to_bits() } else { (self.0 + 0.0).to_bits() })
    }
}

/// An interval in SQL's order: a month is thirty days.
#[derive(Clone, Copy, Debug)]
struct ByLength(Interval);

impl Ord for ByLength {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.length().cmp(&other.0.length())
    }
}

impl PartialOrd for ByLength {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByLength {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByLength {}

impl Surveyed for ByLength {
    #[inline]
    fn hash(self) -> u64 {
        self.0.length().hash()
    }
}

struct Survey<V> {
    range: Option<(V, V)>,
    /// `None`: they are too many, or too long.
    few: Option<Few<V>>,
    distinct: DistinctCounter,
}

impl<V: Surveyed> Survey<V> {
    fn of(values: impl Iterator<Item = V>) -> Self {
        let mut survey = Self { range: None, few: Some(Few::new()), distinct: DistinctCounter::default() };
        let mut last = None;
        for value in values {
            // Neighbours are often equal.
            if last != Some(value) {
                survey.add(value);
                last = Some(value);
            }
        }
        survey
    }

    #[inline]
    fn add(&mut self, value: V) {
        let hash = value.hash();
        if let Some(few) = &mut self.few {
            match few.add(value, hash) {
                Added::Known => return,
                Added::New => {}
                Added::Refused => self.few = None,
            }
        }
        self.distinct.add(hash);
        self.range = Some(match self.range {
            None => (value, value),
            Some((min, max)) => (min.min(value), max.max(value)),
        });
    }

    /// `floor` and `ceiling` make bounds of the least and the greatest value, `exact` what is listed.
    fn zone(self, floor: impl Fn(V) -> Value, ceiling: impl Fn(V) -> Value, exact: impl Fn(V) -> Value) -> Zone {
        let Some((min, max)) = self.range else {
            return Zone { values: Some(Box::default()), ..Zone::default() };
        };
        let distinct =
            self.few.as_ref().map_or_else(|| self.distinct.estimate().round(), |few| few.values.len() as f64);
        let values = self.few.map(|few| few.ascending().into_iter().map(exact).collect());
        Zone { nulls: 0, min: floor(min), max: ceiling(max), distinct: distinct as u32, values, bloom: None }
    }
}

const BUCKETS: usize = 4 * VALUES_MAX;
const EMPTY: u8 = u8::MAX;

/// A set of at most [`VALUES_MAX`] values: a hash table of positions, probed linearly.
struct Few<V> {
    values: Vec<V>,
    buckets: [u8; BUCKETS],
}

enum Added {
    Known,
    New,
    /// There is no room, or the value is too long.
    Refused,
}

impl<V: Surveyed> Few<V> {
    fn new() -> Self {
        Self { values: Vec::new(), buckets: [EMPTY; BUCKETS] }
    }

    #[inline]
    fn add(&mut self, value: V, hash: u64) -> Added {
        let mut bucket = hash as usize % BUCKETS;
        while self.buckets[bucket] != EMPTY {
            if self.values[usize::from(self.buckets[bucket])] == value {
                return Added::Known;
            }
            bucket = (bucket + 1) % BUCKETS;
        }
        if self.values.len() == VALUES_MAX || !value.is_short() {
            return Added::Refused;
        }
        self.buckets[bucket] = self.values.len() as u8;
        self.values.push(value);
        Added::New
    }

    fn ascending(mut self) -> Vec<V> {
        self.values.sort_unstable();
        self.values
    }
}
