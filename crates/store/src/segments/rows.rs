//! Entries of a primary tree as native columns.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, IntervalMonthDayNano, NullBufferBuilder};
use saki_base::types::DECIMAL64_PRECISION_MAX;
use saki_base::{DataType, ValueRef};
use saki_vector::{Batch, Column};

use saki_catalog::{EntryDecoder, Result, SqlError, Table};

/// Rows of a batch at most.
const BATCH_ROWS: usize = saki_vector::BATCH_ROWS;
/// Bytes of text of a batch at most, about: rows may be large.
const BATCH_BYTES: usize = 8 << 20;

/// Gathers entries until they are a batch.
pub struct RowBatch<'t> {
    table: &'t Table,
    decoder: EntryDecoder,
    columns: Vec<ColumnValues>,
    /// Keys of the rows, one behind the other, and where each ends.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    bytes: usize,
}

impl<'t> RowBatch<'t> {
    pub fn new(table: &'t Table) -> Self {
        let columns = table.columns.iter().map(|column| ColumnValues::new(column.data_type)).collect();
        let decoder = EntryDecoder::new(table.primary_layout());
        Self { table, decoder, columns, keys: Vec::new(), key_ends: Vec::new(), bytes: 0 }
    }

    pub fn push(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        let columns = &mut self.columns;
        let fits = self.decoder.decode(self.table, key, row, |values| {
            columns.iter_mut().zip(values).all(|(column, value)| column.push(*value))
        })?;
        if !fits {
            return Err(SqlError::corrupt(format!("table {}: a value is not of its column's type", self.table.name)));
        }
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.bytes += row.len();
        Ok(())
    }

    pub fn is_full(&self) -> bool {
        self.key_ends.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The rows gathered; they stay, with their keys, until [`Self::clear`].
    pub fn take(&mut self) -> Result<Batch> {
        let types = self.table.columns.iter().map(|column| column.data_type);
        let columns = self.columns.iter_mut().zip(types).map(|(column, data_type)| {
            std::mem::replace(column, ColumnValues::new(data_type)).finish(data_type).map(Column::new)
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Batch::new(columns, self.key_ends.len()))
    }

    pub fn key(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.key_ends[row - 1] };
        &self.keys[start..self.key_ends[row]]
    }

    pub fn clear(&mut self) {
        self.keys.clear();
        self.key_ends.clear();
        self.bytes = 0;
    }
}

/// A column being filled, in the width of its native form.
enum ColumnValues {
    Bool(BooleanBufferBuilder, NullBufferBuilder),
    Int2(Vec<i16>, NullBufferBuilder),
    Int4(Vec<i32>, NullBufferBuilder),
    Int8(Vec<i64>, NullBufferBuilder),
    Int16(Vec<i128>, NullBufferBuilder),
    Float4(Vec<f32>, NullBufferBuilder),
    Float8(Vec<f64>, NullBufferBuilder),
    Uuid(Vec<u8>, NullBufferBuilder),
    Interval(Vec<IntervalMonthDayNano>, NullBufferBuilder),
    Text(StringViewBuilder),
    Bytea(BinaryViewBuilder),
}

impl ColumnValues {
    fn new(data_type: DataType) -> Self {
        let nulls = NullBufferBuilder::new(BATCH_ROWS);
        match data_type {
            DataType::Bool => Self::Bool(BooleanBufferBuilder::new(BATCH_ROWS), nulls),
            DataType::Int2 => Self::Int2(Vec::new(), nulls),
            DataType::Int4 | DataType::Date => Self::Int4(Vec::new(), nulls),
            DataType::Int8 | DataType::Timestamp | DataType::Timestamptz | DataType::Time | DataType::Enum(_) => {
                Self::Int8(Vec::new(), nulls)
            }
            DataType::Interval => Self::Interval(Vec::new(), nulls),
            DataType::Decimal { precision, .. } if precision <= DECIMAL64_PRECISION_MAX => {
                Self::Int8(Vec::new(), nulls)
            }
            DataType::Decimal { .. } => Self::Int16(Vec::new(), nulls),
            DataType::Float4 => Self::Float4(Vec::new(), nulls),
            DataType::Float8 => Self::Float8(Vec::new(), nulls),
            DataType::Uuid => Self::Uuid(Vec::new(), nulls),
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
                Self::Text(StringViewBuilder::new())
            }
            DataType::Bytea | DataType::Array(_) => Self::Bytea(BinaryViewBuilder::new()),
        }
    }

    /// Appends a value; `false` if it is of another type.
    #[must_use]
    fn push(&mut self, value: ValueRef<'_>) -> bool {
        fn put<T: Default>(values: &mut Vec<T>, nulls: &mut NullBufferBuilder, value: Option<T>) {
            nulls.append(value.is_some());
            values.push(value.unwrap_or_default());
        }
        match (self, value) {
            (Self::Bool(values, nulls), ValueRef::Bool(value)) => {
                nulls.append_non_null();
                values.append(value);
            }
            (Self::Bool(values, nulls), ValueRef::Null) => {
                nulls.append_null();
                values.append(false);
            }
            (Self::Int2(values, nulls), ValueRef::Int2(value)) => put(values, nulls, Some(value)),
            (Self::Int2(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (Self::Int4(values, nulls), ValueRef::Int4(value) | ValueRef::Date(value)) => {
                put(values, nulls, Some(value));
            }
            (Self::Int4(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (
                Self::Int8(values, nulls),
                ValueRef::Int8(value)
                | ValueRef::Timestamp(value)
                | ValueRef::Timestamptz(value)
                | ValueRef::Time(value),
            ) => put(values, nulls, Some(value)),
            // Up to 18 digits, which a row keeps in 8 bytes.
            (Self::Int8(values, nulls), ValueRef::Decimal(value)) => put(values, nulls, Some(value as i64)),
            (Self::Int8(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (Self::Int16(values, nulls), ValueRef::Decimal(value)) => put(values, nulls, Some(value)),
            (Self::Int16(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (Self::Float4(values, nulls), ValueRef::Float4(value)) => put(values, nulls, Some(value)),
            (Self::Float4(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (Self::Float8(values, nulls), ValueRef::Float8(value)) => put(values, nulls, Some(value)),
            (Self::Float8(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (Self::Interval(values, nulls), ValueRef::Interval(value)) => {
                put(values, nulls, Some(saki_exec::arrow_interval(value)));
            }
            (Self::Interval(values, nulls), ValueRef::Null) => put(values, nulls, None),
            (Self::Uuid(values, nulls), ValueRef::Uuid(value)) => {
                nulls.append_non_null();
                values.extend_from_slice(&value);
            }
            (Self::Uuid(values, nulls), ValueRef::Null) => {
                nulls.append_null();
                values.extend_from_slice(&[0; 16]);
            }
            (Self::Text(values), ValueRef::Text(value)) => values.append_value(value),
            (Self::Text(values), ValueRef::Null) => values.append_null(),
            (Self::Bytea(values), ValueRef::Bytea(value)) => values.append_value(value),
            (Self::Bytea(values), ValueRef::Null) => values.append_null(),
            _ => return false,
        }
        true
    }

    fn finish(self, data_type: DataType) -> Result<ArrayRef> {
        fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>, mut nulls: NullBufferBuilder) -> PrimitiveArray<T> {
            PrimitiveArray::new(values.into(), nulls.finish())
        }
        Ok(match self {
            Self::Bool(mut values, mut nulls) => Arc::new(BooleanArray::new(values.finish(), nulls.finish())),
            Self::Int2(values, nulls) => Arc::new(array::<Int16Type>(values, nulls)),
            Self::Int4(values, nulls) if data_type == DataType::Date => Arc::new(array::<Date32Type>(values, nulls)),
            Self::Int4(values, nulls) => Arc::new(array::<Int32Type>(values, nulls)),
            Self::Int8(values, nulls) => match data_type {
                DataType::Timestamp => Arc::new(array::<TimestampMicrosecondType>(values, nulls)),
                DataType::Timestamptz => {
                    Arc::new(array::<TimestampMicrosecondType>(values, nulls).with_timezone("UTC"))
                }
                DataType::Time => Arc::new(array::<Time64MicrosecondType>(values, nulls)),
                _ => Arc::new(array::<Int64Type>(values, nulls)) as ArrayRef,
            },
            Self::Int16(values, nulls) => {
                let array = array::<Decimal128Type>(values, nulls);
                Arc::new(array.with_data_type(saki_exec::arrow_type(data_type)))
            }
            Self::Float4(values, nulls) => Arc::new(array::<Float32Type>(values, nulls)),
            Self::Float8(values, nulls) => Arc::new(array::<Float64Type>(values, nulls)),
            Self::Interval(values, nulls) => Arc::new(array::<IntervalMonthDayNanoType>(values, nulls)),
            Self::Uuid(values, mut nulls) => {
                Arc::new(FixedSizeBinaryArray::try_new(16, Buffer::from_vec(values), nulls.finish())?)
            }
            Self::Text(mut values) => Arc::new(values.finish()),
            Self::Bytea(mut values) => Arc::new(values.finish()),
        })
    }
}
