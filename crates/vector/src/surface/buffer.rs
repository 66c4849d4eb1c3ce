//! Columns being filled: from encoded entries, from other columns, from values;
//! then handed to Arrow without a copy.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, LargeBinaryArray, LargeStringArray,
    ListArray, PrimitiveArray, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampSecondArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::Field;
use saki_base::{DataType, Element, INTERVAL_BYTES, Interval, ValueRef, array};

use super::labels::labels_type;
use super::types::{arrow_interval, arrow_type, interval};

/// Values in Arrow's native widths; decimals always in 16 bytes.
enum Values {
    Bool(Vec<bool>),
    Int2(Vec<i16>),
    Int4(Vec<i32>),
    Int8(Vec<i64>),
    Decimal(Vec<i128>),
    Float4(Vec<f32>),
    Float8(Vec<f64>),
    Uuid(Vec<[u8; 16]>),
    Interval(Vec<IntervalMonthDayNano>),
    Bytes { ends: Vec<i32>, data: Vec<u8> },
}

/// One column of rows under way.
pub struct ColumnBuffer {
    data_type: DataType,
    values: Values,
    /// Made at the first NULL; `true` is a value.
    validity: Option<Vec<bool>>,
}

macro_rules! each_vector {
    ($values:expr, $vector:ident => $body:expr, $ends:ident, $data:ident => $bytes_body:expr) => {
        match $values {
            Values::Bool($vector) => $body,
            Values::Int2($vector) => $body,
            Values::Int4($vector) => $body,
            Values::Int8($vector) => $body,
            Values::Decimal($vector) => $body,
            Values::Float4($vector) => $body,
            Values::Float8($vector) => $body,
            Values::Uuid($vector) => $body,
            Values::Interval($vector) => $body,
            Values::Bytes { ends: $ends, data: $data } => $bytes_body,
        }
    };
}

impl ColumnBuffer {
    pub fn new(data_type: DataType) -> Self {
        let values = match data_type {
            DataType::Bool => Values::Bool(Vec::new()),
            DataType::Int2 => Values::Int2(Vec::new()),
            DataType::Int4 | DataType::Date => Values::Int4(Vec::new()),
            DataType::Int8 | DataType::Timestamp | DataType::Timestamptz | DataType::Time | DataType::Enum(_) => {
                Values::Int8(Vec::new())
            }
            DataType::Interval => Values::Interval(Vec::new()),
            DataType::Float4 => Values::Float4(Vec::new()),
            DataType::Float8 => Values::Float8(Vec::new()),
            DataType::Decimal { .. } => Values::Decimal(Vec::new()),
            DataType::Uuid => Values::Uuid(Vec::new()),
            DataType::Text
            | DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::Json
            | DataType::Jsonb
            | DataType::Bytea
            | DataType::Array(_) => Values::Bytes { ends: Vec::new(), data: Vec::new() },
        };
        Self { data_type, values, validity: None }
    }

    pub fn len(&self) -> usize {
        each_vector!(&self.values, vector => vector.len(), ends, _data => ends.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory the values take.
    pub fn memory_bytes(&self) -> usize {
        each_vector!(
            &self.values,
            vector => std::mem::size_of_val(vector.as_slice()),
            ends, data => ends.len() * 4 + data.len()
        )
    }

    /// Bytes of variable-length content, which Arrow bounds at 2 GiB an array.
    pub fn content_bytes(&self) -> usize {
        match &self.values {
            Values::Bytes { data, .. } => data.len(),
            _ => 0,
        }
    }

    pub fn clear(&mut self) {
        each_vector!(&mut self.values, vector => vector.clear(), ends, data => { ends.clear(); data.clear() });
        self.validity = None;
    }

    pub fn push_null(&mut self) {
        let rows = self.len();
        self.validity.get_or_insert_with(|| vec![true; rows]).push(false);
        match &mut self.values {
            Values::Bool(vector) => vector.push(false),
            Values::Int2(vector) => vector.push(0),
            Values::Int4(vector) => vector.push(0),
            Values::Int8(vector) => vector.push(0),
            Values::Decimal(vector) => vector.push(0),
            Values::Float4(vector) => vector.push(0.0),
            Values::Float8(vector) => vector.push(0.0),
            Values::Uuid(vector) => vector.push([0; 16]),
            Values::Interval(vector) => vector.push(IntervalMonthDayNano::ZERO),
            Values::Bytes { ends, data } => ends.push(data.len() as i32),
        }
    }

    /// Appends a value from its bytes in the row format. `false` if they are not as wide as the type.
    #[inline]
    #[must_use]
    pub fn push_encoded(&mut self, bytes: &[u8]) -> bool {
        match &mut self.values {
            Values::Int8(vector) => {
                let Ok(value) = bytes.try_into() else { return false };
                vector.push(i64::from_le_bytes(value));
            }
            Values::Int4(vector) => {
                let Ok(value) = bytes.try_into() else { return false };
                vector.push(i32::from_le_bytes(value));
            }
            Values::Decimal(vector) => {
                if let Ok(value) = bytes.try_into() {
                    vector.push(i128::from(i64::from_le_bytes(value)));
                } else if let Ok(value) = bytes.try_into() {
                    vector.push(i128::from_le_bytes(value));
                } else {
                    return false;
                }
            }
            Values::Bytes { ends, data } => {
                data.extend_from_slice(bytes);
                ends.push(data.len() as i32);
            }
            Values::Bool(vector) => {
                let [value] = bytes else { return false };
                vector.push(*value != 0);
            }
            Values::Int2(vector) => {
                let Ok(value) = bytes.try_into() else { return false };
                vector.push(i16::from_le_bytes(value));
            }
            Values::Float4(vector) => {
                let Ok(value) = bytes.try_into() else { return false };
                vector.push(f32::from_le_bytes(value));
            }
            Values::Float8(vector) => {
                let Ok(value) = bytes.try_into() else { return false };
                vector.push(f64::from_le_bytes(value));
            }
            Values::Uuid(vector) => {
                let Ok(value) = bytes.try_into() else { return false };
                vector.push(value);
            }
            Values::Interval(vector) => {
                let Ok(value) = <[u8; INTERVAL_BYTES]>::try_from(bytes) else { return false };
                vector.push(arrow_interval(Interval::from_le_bytes(value)));
            }
        }
        if let Some(validity) = &mut self.validity {
            validity.push(true);
        }
        true
    }

    /// Appends a decoded value. `false` if it is of another type.
    #[must_use]
    pub fn push_value(&mut self, value: ValueRef<'_>) -> bool {
        match (&mut self.values, value) {
            (_, ValueRef::Null) => {
                self.push_null();
                return true;
            }
            (Values::Bool(vector), ValueRef::Bool(value)) => vector.push(value),
            (Values::Int2(vector), ValueRef::Int2(value)) => vector.push(value),
            (Values::Int4(vector), ValueRef::Int4(value) | ValueRef::Date(value)) => vector.push(value),
            (
                Values::Int8(vector),
                ValueRef::Int8(value)
                | ValueRef::Timestamp(value)
                | ValueRef::Timestamptz(value)
                | ValueRef::Time(value),
            ) => vector.push(value),
            (Values::Decimal(vector), ValueRef::Decimal(value)) => vector.push(value),
            (Values::Float4(vector), ValueRef::Float4(value)) => vector.push(value),
            (Values::Float8(vector), ValueRef::Float8(value)) => vector.push(value),
            (Values::Uuid(vector), ValueRef::Uuid(value)) => vector.push(value),
            (Values::Interval(vector), ValueRef::Interval(value)) => vector.push(arrow_interval(value)),
            (Values::Bytes { ends, data }, ValueRef::Text(value)) => {
                data.extend_from_slice(value.as_bytes());
                ends.push(data.len() as i32);
            }
            (Values::Bytes { ends, data }, ValueRef::Bytea(value)) => {
                data.extend_from_slice(value);
                ends.push(data.len() as i32);
            }
            _ => return false,
        }
        if let Some(validity) = &mut self.validity {
            validity.push(true);
        }
        true
    }

    /// Appends row `row` of a column of the same type.
    #[inline]
    pub fn push_from(&mut self, other: &Self, row: usize) {
        if other.is_null(row) {
            self.push_null();
            return;
        }
        match (&mut self.values, &other.values) {
            (Values::Int8(to), Values::Int8(from)) => to.push(from[row]),
            (Values::Int4(to), Values::Int4(from)) => to.push(from[row]),
            (Values::Decimal(to), Values::Decimal(from)) => to.push(from[row]),
            (Values::Bool(to), Values::Bool(from)) => to.push(from[row]),
            (Values::Int2(to), Values::Int2(from)) => to.push(from[row]),
            (Values::Float4(to), Values::Float4(from)) => to.push(from[row]),
            (Values::Float8(to), Values::Float8(from)) => to.push(from[row]),
            (Values::Uuid(to), Values::Uuid(from)) => to.push(from[row]),
            (Values::Interval(to), Values::Interval(from)) => to.push(from[row]),
            (Values::Bytes { ends, data }, Values::Bytes { ends: from_ends, data: from }) => {
                data.extend_from_slice(&from[content_range(from_ends, row)]);
                ends.push(data.len() as i32);
            }
            _ => unreachable!("kept registers have the type of the register they are kept from"),
        }
        if let Some(validity) = &mut self.validity {
            validity.push(true);
        }
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.validity.as_ref().is_some_and(|validity| !validity[row])
    }

    /// The value of a row.
    #[inline]
    pub fn value(&self, row: usize) -> ValueRef<'_> {
        if self.is_null(row) {
            return ValueRef::Null;
        }
        match &self.values {
            Values::Bool(vector) => ValueRef::Bool(vector[row]),
            Values::Int2(vector) => ValueRef::Int2(vector[row]),
            Values::Int4(vector) if self.data_type == DataType::Date => ValueRef::Date(vector[row]),
            Values::Int4(vector) => ValueRef::Int4(vector[row]),
            Values::Int8(vector) => match self.data_type {
                DataType::Timestamp => ValueRef::Timestamp(vector[row]),
                DataType::Timestamptz => ValueRef::Timestamptz(vector[row]),
                DataType::Time => ValueRef::Time(vector[row]),
                _ => ValueRef::Int8(vector[row]),
            },
            Values::Decimal(vector) => ValueRef::Decimal(vector[row]),
            Values::Float4(vector) => ValueRef::Float4(vector[row]),
            Values::Float8(vector) => ValueRef::Float8(vector[row]),
            Values::Uuid(vector) => ValueRef::Uuid(vector[row]),
            Values::Interval(vector) => ValueRef::Interval(interval(vector[row])),
            Values::Bytes { ends, data } => {
                let content = &data[content_range(ends, row)];
                match self.data_type {
                    DataType::Bytea | DataType::Array(_) => ValueRef::Bytea(content),
                    // Verified when the page was written; replaced rather than trusted blindly.
                    _ => ValueRef::Text(std::str::from_utf8(content).unwrap_or("\u{fffd}")),
                }
            }
        }
    }

    /// Keeps the rows whose entry in `keep` is true.
    pub fn retain(&mut self, keep: &[bool]) {
        fn compact<T: Copy>(vector: &mut Vec<T>, keep: &[bool]) {
            let mut rows = keep.iter();
            vector.retain(|_| *rows.next().expect("a decision for every row"));
        }
        each_vector!(&mut self.values, vector => compact(vector, keep), ends, data => {
            let (mut kept_data, mut kept_ends) = (Vec::new(), Vec::new());
            for (row, _) in keep.iter().enumerate().filter(|(_, keep)| **keep) {
                kept_data.extend_from_slice(&data[content_range(ends, row)]);
                kept_ends.push(kept_data.len() as i32);
            }
            (*ends, *data) = (kept_ends, kept_data);
        });
        if let Some(validity) = &mut self.validity {
            compact(validity, keep);
        }
    }

    /// A copy of the column as an Arrow array.
    pub fn to_array(&self) -> Result<ArrayRef, String> {
        let mut copy = Self::new(self.data_type);
        for row in 0..self.len() {
            copy.push_from(self, row);
        }
        copy.take_array()
    }

    /// Moves the values into an Arrow array and leaves the column empty. `Err`: text that is not UTF-8.
    pub fn take_array(&mut self) -> Result<ArrayRef, String> {
        let taken = std::mem::replace(self, Self::new(self.data_type));
        let nulls = taken.validity.map(|validity| NullBuffer::new(BooleanBuffer::from(validity)));
        Ok(match taken.values {
            Values::Bool(vector) => Arc::new(BooleanArray::new(BooleanBuffer::from(vector), nulls)),
            Values::Int2(vector) => Arc::new(Int16Array::new(vector.into(), nulls)),
            Values::Int4(vector) if self.data_type == DataType::Date => {
                Arc::new(Date32Array::new(vector.into(), nulls))
            }
            Values::Int4(vector) => Arc::new(Int32Array::new(vector.into(), nulls)),
            Values::Int8(vector) => int8_array(self.data_type, vector.into(), nulls),
            Values::Decimal(vector) => {
                Arc::new(Decimal128Array::new(vector.into(), nulls).with_data_type(arrow_type(self.data_type)))
            }
            Values::Float4(vector) => Arc::new(Float32Array::new(vector.into(), nulls)),
            Values::Float8(vector) => Arc::new(Float64Array::new(vector.into(), nulls)),
            Values::Uuid(vector) => {
                let bytes = Buffer::from_vec(vector.into_flattened());
                Arc::new(FixedSizeBinaryArray::try_new(16, bytes, nulls).map_err(|e| e.to_string())?)
            }
            Values::Interval(vector) => Arc::new(IntervalMonthDayNanoArray::new(vector.into(), nulls)),
            Values::Bytes { ends, data } => bytes_array(self.data_type, ends, data, nulls)?,
        })
    }
}

fn int8_array(data_type: DataType, values: ScalarBuffer<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    match data_type {
        DataType::Timestamp => Arc::new(TimestampMicrosecondArray::new(values, nulls)),
        DataType::Timestamptz => Arc::new(TimestampMicrosecondArray::new(values, nulls).with_timezone("UTC")),
        DataType::Time => Arc::new(Time64MicrosecondArray::new(values, nulls)),
        DataType::Enum(of) => {
            let array = TimestampSecondArray::new(values, nulls).with_data_type(labels_type(of));
            Arc::new(array)
        }
        _ => Arc::new(PrimitiveArray::<Int64Type>::new(values, nulls)) as Arc<Int64Array>,
    }
}

fn bytes_array(
    data_type: DataType,
    ends: Vec<i32>,
    data: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.extend_from_slice(&ends);
    let data = Buffer::from_vec(data);
    if let DataType::Json | DataType::Jsonb = data_type {
        let offsets = OffsetBuffer::new(offsets.into_iter().map(i64::from).collect());
        let array = LargeStringArray::try_new(offsets, data, nulls).map_err(|e| e.to_string())?;
        return Ok(if data_type == DataType::Jsonb {
            Arc::new(array)
        } else {
            Arc::new(LargeBinaryArray::from(array))
        });
    }
    let offsets = OffsetBuffer::new(offsets.into());
    let bytes = |data, nulls| BinaryArray::try_new(offsets.clone(), data, nulls).map_err(|e| e.to_string());
    Ok(match data_type {
        DataType::Bytea => Arc::new(bytes(data, nulls)?),
        DataType::Array(element) => Arc::new(decode(element, bytes(data, nulls)?.iter())?),
        _ => Arc::new(StringArray::try_new(offsets, data, nulls).map_err(|e| e.to_string())?),
    })
}

/// Lists of the bytes of arrays.
///
/// # Errors
/// Bytes that are no such array's.
pub fn decode<'b>(element: Element, arrays: impl Iterator<Item = Option<&'b [u8]>>) -> Result<ListArray, String> {
    let (mut elements, mut lengths, mut valid) = (ColumnBuffer::new(element.data_type()), Vec::new(), Vec::new());
    for bytes in arrays {
        let before = elements.len();
        let mut fits = true;
        array::for_each(element, bytes.unwrap_or_default(), |value| fits &= elements.push_value(value))
            .map_err(|error| format!("an array of {}: {error}", element.data_type()))?;
        if !fits {
            return Err(format!("an array of {} has an element of another type", element.data_type()));
        }
        lengths.push(elements.len() - before);
        valid.push(bytes.is_some());
    }
    let field = Field::new_list_field(arrow_type(element.data_type()), true).into();
    let nulls = NullBuffer::from(valid);
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(field, offsets, elements.take_array()?, Some(nulls)).map_err(|error| error.to_string())
}

#[inline]
fn content_range(ends: &[i32], row: usize) -> std::ops::Range<usize> {
    let start = if row == 0 { 0 } else { ends[row - 1] as usize };
    start..ends[row] as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::array_value;

    #[test]
    fn nulls_appear_only_where_they_were_pushed() {
        let mut column = ColumnBuffer::new(DataType::Text);
        assert!(column.push_encoded(b"one"));
        column.push_null();
        assert!(column.push_value(ValueRef::Text("three")));
        column.retain(&[false, true, true]);
        let array = column.take_array().unwrap();
        assert_eq!(array.len(), 2);
        assert!(array.is_null(0) && !array.is_null(1));
        assert_eq!(array_value(&array, DataType::Text, 1), Some(ValueRef::Text("three")));
        assert_eq!(column.len(), 0);
    }

    #[test]
    fn small_decimals_are_widened_and_wrong_widths_refused() {
        let mut column = ColumnBuffer::new(DataType::Decimal { precision: 15, scale: 2 });
        assert!(column.push_encoded(&(-250i64).to_le_bytes()));
        assert!(!column.push_encoded(&[1, 2, 3]));
        assert_eq!(column.value(0), ValueRef::Decimal(-250));
    }
}
