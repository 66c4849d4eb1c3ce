//! Values of any type as JSON: what `to_json` makes of them.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, ListArray, StringArray, StructArray};
use arrow_schema::{DataType, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use saki_base::json::write_quoted;
use saki_parameters::{DateStyle, TimeStyle};

use crate::casts::text::written;

/// The values of an array as JSON, NULL as none.
pub fn items(values: &ArrayRef, style: &TimeStyle) -> Result<StringArray> {
    match values.data_type() {
        DataType::LargeUtf8 => Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
        DataType::LargeBinary => Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
        DataType::Boolean => {
            let truths = values.as_boolean().iter();
            Ok(truths.map(|truth| truth.map(|truth| if truth { "true" } else { "false" })).collect())
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
        DataType::Float32 | DataType::Float64 => {
            let texts = written(values, style)?;
            let number = |text: &str| match text.ends_with(|last: char| last.is_ascii_digit()) {
                true => text.to_owned(),
                false => quoted(text),
            };
            Ok(texts.as_string::<i32>().iter().map(|text| text.map(number)).collect())
        }
        labels
            if saki_exec::enumeration(labels).is_none()
                && matches!(labels, DataType::Date32 | DataType::Timestamp(..)) =>
        {
            moments(values, style)
        }
        DataType::List(_) => lists(values.as_list(), style),
        DataType::Struct(_) => rows(values.as_struct(), style),
        _ => {
            let texts = written(values, style)?;
            Ok(texts.as_string::<i32>().iter().map(|text| text.map(quoted)).collect())
        }
    }
}

pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(text, &mut out);
    out
}

/// As ISO 8601 has them, whatever `DateStyle` says.
fn moments(values: &ArrayRef, style: &TimeStyle) -> Result<StringArray> {
    let style = TimeStyle { date: DateStyle::default(), ..style.clone() };
    let shown = |write: &dyn Fn(&mut String) -> std::fmt::Result| {
        let mut out = String::new();
        // Into memory it never fails.
        let _ = write(&mut out);
        out
    };
    if *values.data_type() == DataType::Date32 {
        let days = values.as_primitive::<Date32Type>().iter();
        let date = |days| quoted(&shown(&|out| style.write_date(days, out)));
        return Ok(days.map(|days| days.map(date)).collect());
    }
    let has_zone = matches!(values.data_type(), DataType::Timestamp(_, Some(_)));
    let zone = has_zone.then(|| "UTC".into());
    let micros = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    let moment = |micros| {
        let text = match has_zone {
            true => shown(&|out| style.write_timestamptz(micros, out)),
            false => shown(&|out| style.write_timestamp(micros, out)),
        };
        quoted(&with_letter(&text, has_zone))
    };
    Ok(micros.as_primitive::<TimestampMicrosecondType>().iter().map(|micros| micros.map(moment)).collect())
}

/// `2024-02-29T12:00:00+02:00` of `2024-02-29 12:00:00+02`.
fn with_letter(text: &str, has_zone: bool) -> String {
    let Some((day, clock)) = text.split_once(' ') else { return text.to_owned() };
    let (clock, era) = clock.split_once(' ').map_or((clock, String::new()), |(clock, era)| (clock, format!(" {era}")));
    let is_short = |sign: usize| !clock[sign..].contains(':');
    let minutes = clock.rfind(['+', '-']).is_some_and(is_short);
    format!("{day}T{clock}{}{era}", if has_zone && minutes { ":00" } else { "" })
}

fn lists(lists: &ListArray, style: &TimeStyle) -> Result<StringArray> {
    let elements = items(lists.values(), style)?;
    let item = |at: usize| if elements.is_valid(at) { elements.value(at) } else { "null" };
    let list = |row: usize| {
        let ends = [row, row + 1].map(|at| lists.value_offsets()[at] as usize);
        format!("[{}]", (ends[0]..ends[1]).map(item).collect::<Vec<_>>().join(","))
    };
    Ok((0..lists.len()).map(|row| lists.is_valid(row).then(|| list(row))).collect())
}

/// A field of a row without names is called by its number.
fn field_name(name: &str, at: usize) -> String {
    match name.strip_prefix('c').and_then(|number| number.parse::<usize>().ok()) {
        Some(number) if number == at => format!("f{}", at + 1),
        _ => name.to_owned(),
    }
}

fn rows(rows: &StructArray, style: &TimeStyle) -> Result<StringArray> {
    let columns = rows.columns().iter().map(|column| items(column, style)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> =
        rows.fields().iter().enumerate().map(|(at, field)| quoted(&field_name(field.name(), at))).collect();
    let row = |row: usize| {
        let mut out = String::from("{");
        for (at, (name, column)) in names.iter().zip(&columns).enumerate() {
            let value = if column.is_valid(row) { column.value(row) } else { "null" };
            // Into memory it never fails.
            let _ = write!(out, "{}{name}:{value}", if at > 0 { "," } else { "" });
        }
        out.push('}');
        out
    };
    Ok((0..rows.len()).map(|at| rows.is_valid(at).then(|| row(at))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_a_letter_and_minutes() {
        for (text, has_zone, expected) in [
            ("2024-02-29 12:00:00", false, "2024-02-29T12:00:00"),
            ("2024-02-29 12:00:00.5+02", true, "2024-02-29T12:00:00.5+02:00"),
            ("2024-02-29 12:00:00-03:30", true, "2024-02-29T12:00:00-03:30"),
            ("0044-03-15 12:00:00+00 BC", true, "0044-03-15T12:00:00+00:00 BC"),
            ("infinity", true, "infinity"),
        ] {
            assert_eq!(with_letter(text, has_zone), expected);
        }
    }
}
