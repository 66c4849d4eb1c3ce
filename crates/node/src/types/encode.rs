//! Rows of a batch as values on the wire.

use std::fmt::Write as _;

use std::sync::Arc;

use arrow::compute::cast;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, ListArray,
    PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Fields};
use bytes::{BufMut, BytesMut};
use pgwire::api::Type;
use saki_base::{DataType as Storage, Enumeration, Interval, ValueRef, display};
use saki_sql::{State, enumeration, procedure_name};

use super::moments::{interval, put_interval, since_epoch_days, since_epoch_micros};
use super::sized::sized;
use super::{Format, JSONB_VERSION, Known, canonical, numeric, text, wire_type};
use crate::failure::{Failure, Result};

/// A column of a batch, ready to be written.
pub struct Column {
    values: Values,
    nulls: Option<arrow_buffer::NullBuffer>,
    format: Format,
    /// How texts look, unless as they do by default.
    style: Style,
}

/// What a session has set, if that makes values look otherwise than they do by default.
pub type Style = Option<Arc<State>>;

/// How values look in a session.
pub fn style_of(state: &Arc<State>) -> Style {
    (!state.effective.is_plain).then(|| Arc::clone(state))
}

enum Values {
    Bool(BooleanArray),
    Int2(PrimitiveArray<Int16Type>),
    Int4(PrimitiveArray<Int32Type>),
    Int8(PrimitiveArray<Int64Type>),
    Float4(PrimitiveArray<Float32Type>),
    Float8(PrimitiveArray<Float64Type>),
    Decimal128(PrimitiveArray<Decimal128Type>, i8),
    Decimal256(PrimitiveArray<Decimal256Type>, i8),
    Text(StringArray),
    Json(LargeBinaryArray),
    Jsonb(LargeStringArray),
    Bytea(BinaryArray),
    Uuid(FixedSizeBinaryArray),
    Date(PrimitiveArray<Date32Type>),
    Time(PrimitiveArray<Time64MicrosecondType>),
    Timestamp(PrimitiveArray<TimestampMicrosecondType>),
    Timestamptz(PrimitiveArray<TimestampMicrosecondType>),
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
    Label(PrimitiveArray<TimestampSecondType>, Enumeration),
    List(ListArray, Box<Column>, u32),
    /// Columns of rows within a column, with the numbers of their types.
    Record(Vec<(Column, u32)>),
    /// Numbers of objects, in four bytes.
    Oid(PrimitiveArray<Int64Type>),
    /// The same of procedures.
    Procedure(PrimitiveArray<Int64Type>),
    /// Texts that are filled up with blanks to so many characters.
    Padded(StringArray, usize),
    /// Lists that are written as `1 2 3`.
    Vector(ListArray, Box<Column>, u32),
}

impl Column {
    /// A column that its field says more of than its Arrow type: see [`Known`].
    ///
    /// # Errors
    /// If values cannot be converted to the type in which they are sent.
    pub fn described(array: &ArrayRef, field: &Field, format: Format, style: &Style) -> Result<Self> {
        let mut column = Self::new(array, format, style)?;
        column.values = match (Known::of(field), column.values) {
            (Known::Oid, Values::Int8(array)) => Values::Oid(array),
            (Known::Procedure, Values::Int8(array)) => Values::Procedure(array),
            (Known::Bpchar(length), Values::Text(array)) => Values::Padded(array, length),
            (Known::Oids, Values::List(list, mut elements, _)) => {
                if let Values::Int8(oids) = elements.values {
                    elements.values = Values::Oid(oids);
                }
                Values::List(list, elements, Type::OID.oid())
            }
            (Known::Varchars, Values::List(list, elements, _)) => Values::List(list, elements, Type::VARCHAR.oid()),
            (Known::Bpchars(length), Values::List(list, mut elements, _)) => {
                if let Values::Text(texts) = elements.values {
                    elements.values = Values::Padded(texts, length);
                }
                Values::List(list, elements, Type::BPCHAR.oid())
            }
            (Known::Int2vector, Values::List(list, elements, oid)) => Values::Vector(list, elements, oid),
            (Known::Oidvector, Values::List(list, mut elements, _)) => {
                if let Values::Int8(oids) = elements.values {
                    elements.values = Values::Oid(oids);
                }
                Values::Vector(list, elements, Type::OID.oid())
            }
            (_, values) => values,
        };
        Ok(column)
    }

    /// # Errors
    /// If values cannot be converted to the type in which they are sent.
    pub fn new(array: &ArrayRef, format: Format, style: &Style) -> Result<Self> {
        let target = canonical(array.data_type());
        let array = match &target {
            same if same == array.data_type() => Arc::clone(array),
            DataType::Utf8 if !arrow::compute::can_cast_types(array.data_type(), &target) => formatted(array)?,
            _ => cast(array, &target).map_err(unsendable)?,
        };
        let values = match &target {
            labels if let Some(of) = enumeration(labels) => Values::Label(array.as_primitive().clone(), of),
            DataType::Boolean => Values::Bool(array.as_boolean().clone()),
            DataType::Int16 => Values::Int2(array.as_primitive().clone()),
            DataType::Int32 => Values::Int4(array.as_primitive().clone()),
            DataType::Int64 => Values::Int8(array.as_primitive().clone()),
            DataType::Float32 => Values::Float4(array.as_primitive().clone()),
            DataType::Float64 => Values::Float8(array.as_primitive().clone()),
            DataType::Decimal128(_, scale) => Values::Decimal128(array.as_primitive().clone(), *scale),
            DataType::Decimal256(_, scale) => Values::Decimal256(array.as_primitive().clone(), *scale),
            DataType::LargeBinary => Values::Json(array.as_binary().clone()),
            DataType::LargeUtf8 => Values::Jsonb(array.as_string().clone()),
            DataType::Binary => Values::Bytea(array.as_binary().clone()),
            DataType::FixedSizeBinary(_) => Values::Uuid(array.as_fixed_size_binary().clone()),
            DataType::Date32 => Values::Date(array.as_primitive().clone()),
            DataType::Time64(_) => Values::Time(array.as_primitive().clone()),
            DataType::Timestamp(_, None) => Values::Timestamp(array.as_primitive().clone()),
            DataType::Timestamp(_, Some(_)) => Values::Timestamptz(array.as_primitive().clone()),
            DataType::Interval(_) => Values::Interval(array.as_primitive().clone()),
            DataType::List(_) => {
                let list = array.as_list::<i32>().clone();
                let elements = Self::new(list.values(), format, style)?;
                let oid = wire_type(list.values().data_type()).oid;
                Values::List(list, Box::new(elements), oid)
            }
            DataType::Struct(_) => {
                let column = |of: &ArrayRef| Ok((Self::new(of, format, style)?, wire_type(of.data_type()).oid));
                Values::Record(array.as_struct().columns().iter().map(column).collect::<Result<_>>()?)
            }
            _ => Values::Text(array.as_string().clone()),
        };
        Ok(Self { values, nulls: array.nulls().cloned(), format, style: style.clone() })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends a value with its length; -1 for NULL.
    pub fn field(&self, row: usize, out: &mut BytesMut) {
        if self.is_null(row) {
            out.put_i32(-1);
        } else {
            sized(out, false, |out| self.value(row, out));
        }
    }

    /// Appends a value that is not NULL.
    pub fn value(&self, row: usize, out: &mut BytesMut) {
        match self.format {
            Format::Text => self.text(row, out),
            Format::Binary => self.binary(row, out),
        }
    }

    fn binary(&self, row: usize, out: &mut BytesMut) {
        match &self.values {
            Values::Bool(array) => out.put_u8(array.value(row).into()),
            Values::Int2(array) => out.put_i16(array.value(row)),
            Values::Int4(array) => out.put_i32(array.value(row)),
            Values::Int8(array) => out.put_i64(array.value(row)),
            // Oids are unsigned, and below 2^32.
            Values::Oid(array) | Values::Procedure(array) => out.put_u32(array.value(row) as u32),
            Values::Padded(array, length) => padded(array.value(row), *length, out),
            Values::Float4(array) => out.put_f32(array.value(row)),
            Values::Float8(array) => out.put_f64(array.value(row)),
            Values::Decimal128(array, scale) => {
                numeric::encode(&numeric::decimal_text(&array.value(row).to_string(), *scale), out);
            }
            Values::Decimal256(array, scale) => {
                numeric::encode(&numeric::decimal_text(&array.value(row).to_string(), *scale), out);
            }
            Values::Label(array, of) => out.put_slice(of.label(array.value(row)).unwrap_or_default().as_bytes()),
            Values::Text(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Json(array) => out.put_slice(array.value(row)),
            Values::Jsonb(array) => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(array.value(row).as_bytes());
            }
            Values::Bytea(array) => out.put_slice(array.value(row)),
            Values::Uuid(array) => out.put_slice(array.value(row)),
            Values::Date(array) => out.put_i32(since_epoch_days(array.value(row))),
            Values::Time(array) => out.put_i64(array.value(row)),
            Values::Timestamp(array) | Values::Timestamptz(array) => {
                out.put_i64(since_epoch_micros(array.value(row)));
            }
            Values::Interval(array) => {
                put_interval(interval(array.value(row)), out);
            }
            Values::List(list, elements, oid) | Values::Vector(list, elements, oid) => {
                let range = offsets(list, row);
                let first = i32::from(matches!(self.values, Values::List(..)));
                out.put_i32(i32::from(!range.is_empty()));
                out.put_i32(range.clone().any(|index| elements.is_null(index)).into());
                out.put_u32(*oid);
                if !range.is_empty() {
                    out.put_i32(range.len() as i32);
                    out.put_i32(first);
                    range.for_each(|index| elements.field(index, out));
                }
            }
            Values::Record(columns) => {
                out.put_i32(columns.len() as i32);
                for (column, oid) in columns {
                    out.put_u32(*oid);
                    column.field(row, out);
                }
            }
        }
    }

    /// A value that looks otherwise than it does by default; `false`: it does not.
    fn styled(&self, state: &State, row: usize, out: &mut BytesMut) -> bool {
        let (time, effective) = (&state.effective.time, &state.effective);
        // Writing to a buffer in memory cannot fail.
        let _ = match &self.values {
            Values::Date(array) => time.write_date(array.value(row), out),
            Values::Timestamp(array) => time.write_timestamp(array.value(row), out),
            Values::Timestamptz(array) => time.write_timestamptz(array.value(row), out),
            Values::Interval(array) => {
                let Interval { months, days, micros } = interval(array.value(row));
                time.write_interval(months, days, micros, out)
            }
            Values::Bytea(array) if effective.bytea_escape => {
                escaped(array.value(row), out);
                Ok(())
            }
            Values::Float4(array) if effective.extra_float_digits < 1 => {
                effective.write_float(array.value(row).into(), 6, out)
            }
            Values::Float8(array) if effective.extra_float_digits < 1 => {
                effective.write_float(array.value(row), 15, out)
            }
            _ => return false,
        };
        true
    }

    fn text(&self, row: usize, out: &mut BytesMut) {
        if let Some(state) = &self.style
            && self.styled(state, row, out)
        {
            return;
        }
        // Writing to a buffer in memory cannot fail.
        let _ = match &self.values {
            Values::Bool(array) => out.write_str(if array.value(row) { "t" } else { "f" }),
            Values::Int2(array) => write!(out, "{}", array.value(row)),
            Values::Int4(array) => write!(out, "{}", array.value(row)),
            Values::Int8(array) | Values::Oid(array) => write!(out, "{}", array.value(row)),
            Values::Procedure(array) => match (array.value(row), procedure_name(array.value(row))) {
                (_, Some(name)) => out.write_str(name),
                (0, None) => out.write_str("-"),
                (oid, None) => write!(out, "{oid}"),
            },
            Values::Float4(array) => write!(out, "{}", display(ValueRef::Float4(array.value(row)), Storage::Float4)),
            Values::Float8(array) => write!(out, "{}", display(ValueRef::Float8(array.value(row)), Storage::Float8)),
            Values::Decimal128(array, scale) => {
                out.write_str(&numeric::decimal_text(&array.value(row).to_string(), *scale))
            }
            Values::Decimal256(array, scale) => {
                out.write_str(&numeric::decimal_text(&array.value(row).to_string(), *scale))
            }
            Values::Label(array, of) => out.write_str(of.label(array.value(row)).unwrap_or_default()),
            Values::Text(array) => out.write_str(array.value(row)),
            Values::Json(array) => {
                out.put_slice(array.value(row));
                Ok(())
            }
            Values::Jsonb(array) => out.write_str(array.value(row)),
            Values::Padded(array, length) => {
                padded(array.value(row), *length, out);
                Ok(())
            }
            Values::Vector(list, elements, _) => {
                for (position, index) in offsets(list, row).enumerate() {
                    if position > 0 {
                        out.put_u8(b' ');
                    }
                    elements.text(index, out);
                }
                Ok(())
            }
            Values::Bytea(array) => write!(out, "{}", display(ValueRef::Bytea(array.value(row)), Storage::Bytea)),
            Values::Uuid(array) => match array.value(row).try_into() {
                Ok(bytes) => write!(out, "{}", display(ValueRef::Uuid(bytes), Storage::Uuid)),
                Err(_) => Ok(()),
            },
            Values::Date(array) => write!(out, "{}", display(ValueRef::Date(array.value(row)), Storage::Date)),
            Values::Time(array) => write!(out, "{}", display(ValueRef::Time(array.value(row)), Storage::Time)),
            Values::Timestamp(array) => {
                write!(out, "{}", display(ValueRef::Timestamp(array.value(row)), Storage::Timestamp))
            }
            Values::Timestamptz(array) => {
                write!(out, "{}", display(ValueRef::Timestamptz(array.value(row)), Storage::Timestamptz))
            }
            Values::Interval(array) => write!(out, "{}", interval(array.value(row))),
            Values::List(list, elements, _) => {
                list_text(offsets(list, row), elements, out);
                Ok(())
            }
            Values::Record(columns) => {
                record_text(columns, row, out);
                Ok(())
            }
        };
    }
}

/// Bytes as `bytea_output = escape` shows them.
pub(super) fn escaped(bytes: &[u8], out: &mut BytesMut) {
    for byte in bytes {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b' '..=b'~' => out.put_u8(*byte),
            // A buffer in memory takes all.
            byte => drop(write!(out, "\\{byte:03o}")),
        }
    }
}

/// A text with the blanks that its type fills it up with.
pub(super) fn padded(text: &str, length: usize, out: &mut BytesMut) {
    out.put_slice(text.as_bytes());
    out.put_bytes(b' ', length.saturating_sub(text.chars().count()));
}

fn offsets(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = list.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// `{1,"a b",NULL}`
fn list_text(range: std::ops::Range<usize>, elements: &Column, out: &mut BytesMut) {
    out.put_u8(b'{');
    let mut element = BytesMut::new();
    for (position, index) in range.enumerate() {
        if position > 0 {
            out.put_u8(b',');
        }
        if elements.is_null(index) {
            out.put_slice(b"NULL");
            continue;
        }
        element.clear();
        elements.text(index, &mut element);
        let nested = matches!(elements.values, Values::List(..));
        let quoted = !nested && std::str::from_utf8(&element).is_ok_and(text::needs_quotes);
        if !quoted {
            out.put_slice(&element);
            continue;
        }
        out.put_u8(b'"');
        for byte in &element {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(b'\\');
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
}

/// `(1,"a b",)`: NULL is nothing.
fn record_text(columns: &[(Column, u32)], row: usize, out: &mut BytesMut) {
    out.put_u8(b'(');
    let mut field = BytesMut::new();
    for (position, (column, _)) in columns.iter().enumerate() {
        if position > 0 {
            out.put_u8(b',');
        }
        if column.is_null(row) {
            continue;
        }
        field.clear();
        column.text(row, &mut field);
        text::record_field(&field, out);
    }
    out.put_u8(b')');
}

/// Values of a type that has no other text.
fn formatted(array: &ArrayRef) -> Result<ArrayRef> {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options).map_err(unsendable)?;
    let value = |row: usize| array.is_valid(row).then(|| formatter.value(row).to_string());
    Ok(Arc::new(StringArray::from_iter((0..array.len()).map(value))))
}

fn unsendable(error: arrow_schema::ArrowError) -> Failure {
    Failure::new("22000", format!("a value cannot be sent: {error}"))
}

/// All columns of a batch, each described by a field; `formats` has one per column.
///
/// # Errors
/// As [`Column::described`].
pub fn columns(batch: &RecordBatch, fields: &Fields, formats: &[Format], style: &Style) -> Result<Vec<Column>> {
    let described = batch.columns().iter().zip(fields).zip(formats);
    described.map(|((array, field), format)| Column::described(array, field, *format, style)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_value_as_its_fields_are() {
        let numbers: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![Some(1), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a \"b\", (c)", ""]));
        let row = arrow_array::StructArray::from(vec![
            (Arc::new(Field::new("c0", DataType::Int32, true)), numbers),
            (Arc::new(Field::new("c1", DataType::Utf8, true)), texts),
        ]);
        let array: ArrayRef = Arc::new(row);
        let written = |format, row| {
            let mut out = BytesMut::new();
            Column::new(&array, format, &None).unwrap().value(row, &mut out);
            out
        };
        assert_eq!(written(Format::Text, 0), b"(1,\"a \"\"b\"\", (c)\")"[..]);
        assert_eq!(written(Format::Text, 1), b"(,\"\")"[..]);
        let binary = [0, 0, 0, 2, 0, 0, 0, 23, 255, 255, 255, 255, 0, 0, 0, 25, 0, 0, 0, 0];
        assert_eq!(written(Format::Binary, 1), binary[..]);
    }
}
