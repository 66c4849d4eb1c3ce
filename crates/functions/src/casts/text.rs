//! Values as text where the planner writes them otherwise than PostgreSQL: times with a `T`, floats with `.0`, bytes
//! as if they were letters.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, ListArray, StringArray, StructArray};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, ValueRef, display};
use saki_parameters::TimeStyle;
use saki_times::session_time;

/// Whether the planner writes values of a type otherwise.
pub fn differs(data_type: &Arrow) -> bool {
    matches!(
        data_type,
        Arrow::Float32
            | Arrow::Float64
            | Arrow::Date32
            | Arrow::Time64(_)
            | Arrow::Timestamp(..)
            | Arrow::Interval(_)
            | Arrow::Duration(_)
            | Arrow::Binary
            | Arrow::FixedSizeBinary(16)
            | Arrow::List(_)
            | Arrow::Struct(_)
            | Arrow::LargeBinary
            | Arrow::LargeUtf8
    )
}

/// A value of such a type as text.
pub fn text_of(value: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> =
        LazyLock::new(|| ScalarUDF::from(Text { signature: Signature::any(1, Volatility::Immutable) }));
    FUNCTION.call(vec![value])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Text {
    signature: Signature,
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        "text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(Arrow::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let style = &session_time(&args.config_options).style;
        make_scalar_function(|arrays: &[ArrayRef]| written(&arrays[0], style), Vec::new())(&args.args)
    }
}

fn shown(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut out = String::new();
    // Into memory it never fails.
    let _ = write(&mut out);
    out
}

/// The values as texts.
pub(crate) fn written(values: &ArrayRef, style: &TimeStyle) -> Result<ArrayRef> {
    let text = |value: Option<ValueRef<'_>>, data_type| value.map(|value| display(value, data_type).to_string());
    let texts: StringArray = match values.data_type() {
        Arrow::Float32 => {
            let floats = values.as_primitive::<Float32Type>().iter();
            floats.map(|float| text(float.map(ValueRef::Float4), DataType::Float4)).collect()
        }
        Arrow::Float64 => {
            let floats = values.as_primitive::<Float64Type>().iter();
            floats.map(|float| text(float.map(ValueRef::Float8), DataType::Float8)).collect()
        }
        Arrow::Boolean => {
            let truths = values.as_boolean().iter();
            truths.map(|truth| text(truth.map(ValueRef::Bool), DataType::Bool)).collect()
        }
        Arrow::Binary => {
            let bytes = values.as_binary::<i32>().iter();
            bytes.map(|bytes| text(bytes.map(ValueRef::Bytea), DataType::Bytea)).collect()
        }
        Arrow::FixedSizeBinary(16) => {
            let uuids = values.as_fixed_size_binary().iter();
            uuids.map(|uuid| text(uuid.and_then(|u| u.try_into().ok()).map(ValueRef::Uuid), DataType::Uuid)).collect()
        }
        Arrow::Date32 => {
            let days = values.as_primitive::<Date32Type>().iter();
            days.map(|days| days.map(|days| shown(|out| style.write_date(days, out)))).collect()
        }
        labels if let Some(of) = saki_exec::enumeration(labels) => saki_catalog::convert::label_texts(values, of),
        Arrow::Timestamp(_, zone) => {
            let micros = cast(values, &Arrow::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let micros = micros.as_primitive::<TimestampMicrosecondType>().iter();
            let write = |micros: i64| match zone {
                None => shown(|out| style.write_timestamp(micros, out)),
                Some(_) => shown(|out| style.write_timestamptz(micros, out)),
            };
            micros.map(|micros| micros.map(write)).collect()
        }
        Arrow::Time64(_) => {
            let micros = cast(values, &Arrow::Time64(TimeUnit::Microsecond))?;
            let micros = micros.as_primitive::<Time64MicrosecondType>().iter();
            micros.map(|micros| micros.map(|micros| shown(|out| style.write_time(micros, out)))).collect()
        }
        Arrow::Interval(_) | Arrow::Duration(_) => {
            let intervals = cast(values, &Arrow::Interval(IntervalUnit::MonthDayNano))?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
            let write = |interval: IntervalMonthDayNano| {
                let micros = interval.nanoseconds.div_euclid(1_000);
                shown(|out| style.write_interval(interval.months, interval.days, micros, out))
            };
            intervals.map(|interval| interval.map(write)).collect()
        }
        Arrow::List(_) => lists(values.as_list(), style)?,
        Arrow::Struct(_) => rows(values.as_struct(), style)?,
        _ => return Ok(cast(values, &Arrow::Utf8)?),
    };
    Ok(Arc::new(texts))
}

/// Arrays in braces.
fn lists(lists: &ListArray, style: &TimeStyle) -> Result<StringArray> {
    let elements = written(lists.values(), style)?;
    let elements = elements.as_string::<i32>();
    let is_nested = matches!(lists.value_type(), Arrow::List(_));
    let item = |at: usize| match elements.is_valid(at) {
        false => "NULL".to_owned(),
        true if is_nested => elements.value(at).to_owned(),
        true => in_array(elements.value(at)),
    };
    let list = |row: usize| {
        let ends = [row, row + 1].map(|at| lists.value_offsets()[at] as usize);
        format!("{{{}}}", (ends[0]..ends[1]).map(item).collect::<Vec<_>>().join(","))
    };
    Ok((0..lists.len()).map(|row| lists.is_valid(row).then(|| list(row))).collect())
}

/// Rows in parentheses, in which NULL is nothing.
fn rows(rows: &StructArray, style: &TimeStyle) -> Result<StringArray> {
    let columns = rows.columns().iter().map(|column| written(column, style)).collect::<Result<Vec<_>>>()?;
    let field = |column: &ArrayRef, row: usize| match column.is_valid(row) {
        true => in_row(column.as_string::<i32>().value(row)),
        false => String::new(),
    };
    let row = |row: usize| {
        let fields: Vec<String> = columns.iter().map(|column| field(column, row)).collect();
        rows.is_valid(row).then(|| format!("({})", fields.join(",")))
    };
    Ok((0..rows.len()).map(row).collect())
}

/// A field, in quotes where it would be taken for something else.
fn in_row(text: &str) -> String {
    let is_special = |letter: char| matches!(letter, '(' | ')' | '"' | ',' | '\\') || letter.is_ascii_whitespace();
    if text.is_empty() || text.contains(is_special) {
        return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""));
    }
    text.to_owned()
}

/// An element, in quotes where it would be taken for something else.
fn in_array(text: &str) -> String {
    let is_special = |letter: char| matches!(letter, '{' | '}' | '"' | ',' | '\\') || letter.is_ascii_whitespace();
    if text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(is_special) {
        return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    }
    text.to_owned()
}
