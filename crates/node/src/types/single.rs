//! Values by themselves, as they are stored: what compiled statements send.

use std::fmt::Write as _;

use arrow_schema::Field;
use bytes::{BufMut, BytesMut};
use saki_base::{DataType as Storage, Element, Interval, ValueRef, array, display};
use saki_sql::{PG_MODIFIER, PG_TYPE, State, array_of};

use super::encode::{Column, Style, escaped, padded};
use super::moments::{put_interval, since_epoch_days, since_epoch_micros};
use super::sized::sized;
use super::{Format, JSONB_VERSION, numeric};

/// Appends a value of a type that is sent as it is stored, with its length; -1 for NULL.
pub fn single(value: ValueRef<'_>, data_type: Storage, format: Format, style: &Style, out: &mut BytesMut) {
    if value == ValueRef::Null {
        out.put_i32(-1);
        return;
    }
    if let Storage::Array(_) = data_type {
        return list(value, data_type, format, style, out);
    }
    sized(out, false, |out| match (format, value) {
        (_, ValueRef::Text(text)) if let Storage::Char(length) = data_type => padded(text, length as usize, out),
        (Format::Binary, ValueRef::Text(text)) if data_type == Storage::Jsonb => {
            out.put_u8(JSONB_VERSION);
            out.put_slice(text.as_bytes());
        }
        (_, ValueRef::Text(text)) => out.put_slice(text.as_bytes()),
        (Format::Text, ValueRef::Bool(value)) => out.put_slice(if value { b"t" } else { b"f" }),
        (Format::Text, value) => match style {
            Some(state) => styled_single(value, data_type, state, out),
            None => drop(write!(out, "{}", display(value, data_type))),
        },
        (Format::Binary, value) if matches!(data_type, Storage::Enum(_)) => {
            // Writing to a buffer in memory cannot fail.
            let _ = write!(out, "{}", display(value, data_type));
        }
        (Format::Binary, value) => binary(value, data_type, out),
    });
}

/// An array, written as a column of one is.
fn list(value: ValueRef<'_>, data_type: Storage, format: Format, style: &Style, out: &mut BytesMut) {
    let lists = array_of(data_type, &[value.into()]);
    let told = match array::element_of(data_type).map(Element::data_type) {
        Some(Storage::Char(length)) => vec![(PG_TYPE, "_bpchar".to_owned()), (PG_MODIFIER, (length + 4).to_string())],
        Some(Storage::Varchar(_)) => vec![(PG_TYPE, "_varchar".to_owned())],
        _ => Vec::new(),
    };
    let told = told.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let field = Field::new("", lists.data_type().clone(), true).with_metadata(told);
    match Column::described(&lists, &field, format, style) {
        Ok(column) => column.field(0, out),
        // Lists of elements that columns have are sent.
        Err(_) => out.put_i32(-1),
    }
}

fn styled_single(value: ValueRef<'_>, data_type: Storage, state: &State, out: &mut BytesMut) {
    let (time, effective) = (&state.effective.time, &state.effective);
    // Writing to a buffer in memory cannot fail.
    let _ = match value {
        ValueRef::Date(days) => time.write_date(days, out),
        ValueRef::Timestamp(micros) => time.write_timestamp(micros, out),
        ValueRef::Timestamptz(micros) => time.write_timestamptz(micros, out),
        ValueRef::Interval(Interval { months, days, micros }) => time.write_interval(months, days, micros, out),
        ValueRef::Bytea(bytes) if effective.bytea_escape => {
            escaped(bytes, out);
            Ok(())
        }
        ValueRef::Float4(value) if effective.extra_float_digits < 1 => effective.write_float(value.into(), 6, out),
        ValueRef::Float8(value) if effective.extra_float_digits < 1 => effective.write_float(value, 15, out),
        value => write!(out, "{}", display(value, data_type)),
    };
}

fn binary(value: ValueRef<'_>, data_type: Storage, out: &mut BytesMut) {
    match value {
        ValueRef::Null => {}
        ValueRef::Bool(value) => out.put_u8(value.into()),
        ValueRef::Int2(value) => out.put_i16(value),
        ValueRef::Int4(value) => out.put_i32(value),
        ValueRef::Int8(value) => out.put_i64(value),
        ValueRef::Float4(value) => out.put_f32(value),
        ValueRef::Float8(value) => out.put_f64(value),
        ValueRef::Decimal(_) => numeric::encode(&display(value, data_type).to_string(), out),
        ValueRef::Text(value) => out.put_slice(value.as_bytes()),
        ValueRef::Bytea(value) => out.put_slice(value),
        ValueRef::Uuid(value) => out.put_slice(&value),
        ValueRef::Date(value) => out.put_i32(since_epoch_days(value)),
        ValueRef::Timestamp(value) | ValueRef::Timestamptz(value) => out.put_i64(since_epoch_micros(value)),
        ValueRef::Time(value) => out.put_i64(value),
        ValueRef::Interval(value) => put_interval(value, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_by_itself_keeps_its_point_in_binary() {
        let mut out = BytesMut::new();
        let money = Storage::Decimal { precision: 8, scale: 2 };
        single(ValueRef::Decimal(-1250), money, Format::Binary, &None, &mut out);
        assert_eq!(numeric::decode(&out[4..]).as_deref(), Some("-12.50"));
    }
}
