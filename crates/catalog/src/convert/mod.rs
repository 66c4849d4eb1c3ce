//! Batches of any source as batches of a table: the table's columns in order, with its Arrow types.

mod build;

use std::sync::Arc;

use arrow::compute::{CastOptions, cast_with_options};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringArray, new_null_array};
use arrow_schema::{DataType as Arrow, FieldRef, IntervalUnit, TimeUnit};
use saki_base::civil::MICROS_PER_DAY;
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{Column, DataType, Element, Enumeration, Interval, Value, ValueRef, display};

pub use self::build::array_of;
use crate::catalog::Table;
use crate::columns::{check_elements, without_excess};
use crate::error::{Result, SqlError};

/// What becomes of values where that depends on who asks: times, which are read and shown by clocks of some zone.
pub trait Conversions {
    /// A text as a value of a column's type.
    ///
    /// # Errors
    /// 22007 and its like for a text that is none.
    fn read(&self, data_type: DataType, text: &str) -> Result<Value>;

    /// The instant at which the clocks show a time. Both are microseconds since 1970; infinity stays.
    fn instant(&self, local: i64) -> i64;

    /// What the clocks show at an instant.
    fn local(&self, instant: i64) -> i64;
}

/// Of nobody: by clocks in Greenwich.
pub struct Plain;

impl Conversions for Plain {
    fn read(&self, data_type: DataType, text: &str) -> Result<Value> {
        Value::parse(data_type, text).map_err(SqlError::from)
    }

    fn instant(&self, local: i64) -> i64 {
        local
    }

    fn local(&self, instant: i64) -> i64 {
        instant
    }
}

/// A batch whose column `i` is table column `columns[i]`, as a batch of all columns that statements see; those that are
/// not named are NULL.
pub fn conform(
    batch: &RecordBatch,
    table: &Table,
    columns: &[usize],
    first_row: u64,
    by: &dyn Conversions,
) -> Result<RecordBatch> {
    let schema = table.schema();
    let mut arrays = Vec::with_capacity(schema.fields().len());
    for (position, column) in table.visible().iter().enumerate() {
        let target = schema.field(position).data_type();
        arrays.push(match columns.iter().position(|named| *named == position) {
            Some(source) => fitted(convert(batch.column(source), column, target, first_row, by)?, column),
            None => new_null_array(target, batch.num_rows()),
        });
    }
    // Nullability is checked where rows are written, with the row's number.
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Ok(RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays)?)
}

/// Values of any source as those of one column.
///
/// # Errors
/// Where one of them is no value of the column.
pub fn as_column(array: &ArrayRef, column: &Column, by: &dyn Conversions) -> Result<ArrayRef> {
    Ok(fitted(convert(array, column, &saki_exec::arrow_type(column.data_type), 1, by)?, column))
}

/// Whether values of an Arrow type are those of a type of columns as they are; texts are, in every form.
pub fn is_whole(data_type: DataType, found: &Arrow) -> bool {
    data_type == DataType::Text || saki_exec::arrow_type(data_type) == *found
}

/// Texts without the blanks that a varchar has no room for.
fn fitted(array: ArrayRef, column: &Column) -> ArrayRef {
    let (DataType::Varchar(limit), Arrow::Utf8) = (column.data_type, array.data_type()) else { return array };
    let fitted = |text| without_excess(text, limit as usize);
    let texts = array.as_string::<i32>();
    if texts.iter().flatten().all(|text| fitted(text).len() == text.len()) {
        return array;
    }
    Arc::new(texts.iter().map(|text| text.map(fitted)).collect::<StringArray>())
}

fn convert(
    array: &ArrayRef,
    column: &Column,
    target: &Arrow,
    first_row: u64,
    by: &dyn Conversions,
) -> Result<ArrayRef> {
    if let (DataType::Array(element), Arrow::List(field), Some(lists)) =
        (column.data_type, target, array.as_list_opt::<i32>())
    {
        return convert_lists(lists, &column.name, element, field, first_row, by);
    }
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    let is_json = |of: &Arrow| matches!(of, Arrow::LargeUtf8 | Arrow::LargeBinary);
    let text = matches!(array.data_type(), Arrow::Utf8 | Arrow::Utf8View) || is_json(array.data_type());
    if is_json(target) && !text && *array.data_type() != Arrow::Null {
        let message = format!("column {:?} is of type {} but expression is of another", column.name, column.data_type);
        return Err(SqlError::invalid(message).code("42804"));
    }
    if text && *target != Arrow::Utf8 {
        let texts = cast_with_options(array, &Arrow::Utf8, &CastOptions::default())?;
        let texts = texts.as_string::<i32>();
        let value = |row: usize| texts.is_valid(row).then(|| texts.value(row));
        let place = |row| format!("row {}", first_row + row as u64);
        return parse_column(column, (0..texts.len()).map(value), place, by);
    }
    if let Some(labels) = of_enumeration(array, column, target)? {
        return Ok(labels);
    }
    if let Some(spans) = of_day(array, target) {
        return Ok(spans);
    }
    if let (Some(element), Arrow::Utf8) = (saki_exec::lists::element_of(array.data_type()), target) {
        return list_texts(array, element);
    }
    if !is_assigned(array.data_type(), target) {
        let message =
            format!("column {:?} is of type {} but the expression is of another one", column.name, column.data_type);
        return Err(SqlError::data(message).code("42804").hint("You will need to rewrite or cast the expression."));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let array = &by_clocks(array, target, by)?;
    let whole = if target.is_integer() { to_whole(array)? } else { Arc::clone(array) };
    refuse_beyond_real(&whole, target)?;
    cast_with_options(&whole, target, &options).map_err(|error| {
        let SqlError { message, code, .. } = SqlError::from(error);
        let message = format!("column {:?} of type {}: {message}", column.name, column.data_type);
        SqlError { code, ..SqlError::data(message) }
    })
}

/// Refuses doubles that a real has no room for: those that would be infinite, or 0.
///
/// # Errors
/// 22003.
fn refuse_beyond_real(array: &ArrayRef, target: &Arrow) -> Result<()> {
    let (Some(doubles), Arrow::Float32) = (array.as_primitive_opt::<Float64Type>(), target) else { return Ok(()) };
    for double in doubles.iter().flatten() {
        let real = double as f32;
        let what = if real.is_infinite() && double.is_finite() {
            "overflow"
        } else if real == 0.0 && double != 0.0 {
            "underflow"
        } else {
            continue;
        };
        return Err(SqlError::data(format!("value out of range: {what}")).code("22003"));
    }
    Ok(())
}

/// Arrays whose elements are converted as values of a column of their type are.
fn convert_lists(
    lists: &ListArray,
    name: &str,
    element: Element,
    field: &FieldRef,
    first_row: u64,
    by: &dyn Conversions,
) -> Result<ArrayRef> {
    if let Arrow::List(_) = lists.values().data_type() {
        let message = format!("column {name:?}: arrays of several dimensions are not supported");
        return Err(SqlError::unsupported(message));
    }
    let column = Column { name: name.to_owned(), data_type: element.data_type(), nullable: true };
    let values = fitted(convert(lists.values(), &column, field.data_type(), first_row, by)?, &column);
    check_elements(&values, element, name)?;
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls)?))
}

/// Arrays as texts.
fn list_texts(lists: &ArrayRef, element: Element) -> Result<ArrayRef> {
    let arrays = saki_exec::lists::encode(element, lists).map_err(SqlError::data)?;
    let text = |array: &[u8]| display(ValueRef::Bytea(array), DataType::Array(element)).to_string();
    Ok(Arc::new(arrays.iter().map(|array| array.map(text)).collect::<StringArray>()))
}

/// Labels of an enumeration in the state that the column has, and as texts; `None`: neither are labels.
///
/// # Errors
/// 42804 where one is an enumeration and the other is another type.
fn of_enumeration(array: &ArrayRef, column: &Column, target: &Arrow) -> Result<Option<ArrayRef>> {
    let (from, to) = (saki_exec::enumeration(array.data_type()), saki_exec::enumeration(target));
    match (from, to) {
        (None, None) => Ok(None),
        (Some(from), Some(to)) if from == to => {
            Ok(Some(Arc::new(array.as_primitive::<TimestampSecondType>().clone().with_data_type(target.clone()))))
        }
        (Some(from), None) if matches!(column.data_type, DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => {
            Ok(Some(Arc::new(label_texts(array, from))))
        }
        (None, Some(_)) if *array.data_type() == Arrow::Null => Ok(Some(new_null_array(target, array.len()))),
        _ => {
            let message =
                format!("column {:?} is of type {} but expression is of another", column.name, column.data_type);
            let hint = "You will need to rewrite or cast the expression.";
            Err(SqlError::invalid(message).code("42804").hint(hint))
        }
    }
}

/// Labels as texts.
pub fn label_texts(labels: &ArrayRef, of: Enumeration) -> StringArray {
    labels.as_primitive::<TimestampSecondType>().iter().map(|value| of.label(value?)).collect()
}

/// Labels as texts, and anything else as it is: for who shows values by what their Arrow types say.
pub fn shown(values: &ArrayRef) -> ArrayRef {
    match saki_exec::enumeration(values.data_type()) {
        Some(of) => Arc::new(label_texts(values, of)),
        None => Arc::clone(values),
    }
}

/// Moments with a zone as what its clocks show, where moments without one are wanted, and the other way round.
fn by_clocks(array: &ArrayRef, target: &Arrow, by: &dyn Conversions) -> Result<ArrayRef> {
    let has_zone = |of: &Arrow| matches!(of, Arrow::Timestamp(_, Some(_)));
    let is_local = |of: &Arrow| matches!(of, Arrow::Timestamp(_, None) | Arrow::Date32 | Arrow::Time64(_));
    let local = Arrow::Timestamp(TimeUnit::Microsecond, None);
    let micros = |of: &Arrow| cast_with_options(array, of, &CastOptions::default());
    let moved = |of: &Arrow, by: &dyn Fn(i64) -> i64| -> Result<ArrayRef> {
        let moments = micros(of)?;
        let moments = moments.as_primitive::<TimestampMicrosecondType>().unary::<_, TimestampMicrosecondType>(by);
        Ok(Arc::new(moments))
    };
    if is_local(array.data_type()) && has_zone(target) {
        let instants = moved(&local, &|local| by.instant(local))?;
        let instants = instants.as_primitive::<TimestampMicrosecondType>().clone().with_data_type(target.clone());
        return Ok(Arc::new(instants));
    }
    if has_zone(array.data_type()) && is_local(target) {
        let zoned = Arrow::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        return moved(&zoned, &|instant| by.local(instant));
    }
    Ok(Arc::clone(array))
}

/// Whether values of a type are assigned to columns of another: of times and intervals Arrow would make more.
fn is_assigned(from: &Arrow, to: &Arrow) -> bool {
    let has_clock = |of: &Arrow| matches!(of, Arrow::Time32(_) | Arrow::Time64(_) | Arrow::Timestamp(..) | Arrow::Null);
    let is_span = |of: &Arrow| matches!(of, Arrow::Interval(_) | Arrow::Duration(_) | Arrow::Null);
    match (from, to) {
        (from, Arrow::List(_)) => *from == Arrow::Null,
        (Arrow::List(_), to) => *to == Arrow::Utf8,
        (from, Arrow::Time64(_)) => has_clock(from),
        (from, Arrow::Interval(_)) => is_span(from),
        (Arrow::Time32(_) | Arrow::Time64(_) | Arrow::Interval(_) | Arrow::Duration(_), to) => *to == Arrow::Utf8,
        _ => true,
    }
}

/// Times as the spans since midnight, spans as the times so long after it, and both as texts; `None`: these are others.
fn of_day(array: &ArrayRef, target: &Arrow) -> Option<ArrayRef> {
    match target {
        Arrow::Interval(IntervalUnit::MonthDayNano) => {
            let times = array.as_primitive_opt::<Time64MicrosecondType>()?;
            let span = |micros| saki_exec::arrow_interval(Interval { micros, ..Interval::default() });
            Some(Arc::new(times.unary::<_, IntervalMonthDayNanoType>(span)))
        }
        Arrow::Time64(TimeUnit::Microsecond) => {
            let spans = array.as_primitive_opt::<IntervalMonthDayNanoType>()?;
            let time = |span| saki_exec::interval(span).micros.rem_euclid(MICROS_PER_DAY);
            Some(Arc::new(spans.unary::<_, Time64MicrosecondType>(time)))
        }
        Arrow::Utf8 => {
            let data_type = match array.data_type() {
                Arrow::Time64(TimeUnit::Microsecond) => DataType::Time,
                Arrow::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
                _ => return None,
            };
            let text = |row| {
                saki_exec::array_value(array, data_type, row).map(|value| match value {
                    ValueRef::Null => None,
                    value => Some(display(value, data_type).to_string()),
                })
            };
            Some(Arc::new((0..array.len()).map(text).collect::<Option<StringArray>>()?))
        }
        _ => None,
    }
}

/// Numbers rounded to whole ones: decimals away from zero at a half, floats to the even.
///
/// # Errors
/// When a rounded decimal has more digits than there can be.
pub fn to_whole(numbers: &ArrayRef) -> Result<ArrayRef> {
    match numbers.data_type() {
        Arrow::Decimal128(_, 1..) => Ok(cast_with_options(
            numbers,
            &Arrow::Decimal128(DECIMAL_PRECISION_MAX, 0),
            &CastOptions { safe: false, ..CastOptions::default() },
        )?),
        _ => Ok(round(numbers)),
    }
}

/// Floats rounded to whole ones, halves to the even; others as they are.
pub fn round(float: &ArrayRef) -> ArrayRef {
    match float.data_type() {
        Arrow::Float32 => Arc::new(float.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even)),
        Arrow::Float64 => Arc::new(float.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
        _ => Arc::clone(float),
    }
}

/// An array of a column's type from its texts; `place` names a row for messages.
pub fn parse_column<'t>(
    column: &Column,
    texts: impl Iterator<Item = Option<&'t str>>,
    place: impl Fn(usize) -> String,
    by: &dyn Conversions,
) -> Result<ArrayRef> {
    let mut values = Vec::new();
    for (row, text) in texts.enumerate() {
        values.push(match text {
            None => Value::Null,
            // PostgreSQL's words, by which programs tell it.
            Some(text) if matches!(column.data_type, DataType::Enum(_)) => Value::parse(column.data_type, text)?,
            Some(text) => by.read(column.data_type, text).map_err(|error| SqlError {
                message: format!("{}, column {:?}: {}", place(row), column.name, error.message),
                ..error
            })?,
        });
    }
    Ok(array_of(column.data_type, &values))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Decimal128Array, Float64Array, Int64Array};
    use proptest::prelude::*;

    use super::*;
    use crate::columns::ColumnReader;
    use crate::fixture::{TYPES, column, table, value};

    fn parsed(data_type: DataType, text: &str) -> Result<Value> {
        let column = column("x", data_type, true);
        let array = parse_column(&column, std::iter::once(Some(text)), |row| format!("row {}", row + 1), &Plain)?;
        Ok(ColumnReader::new(&array, &column)?.value(0).into())
    }

    #[test]
    fn texts_become_values() {
        let cases = [
            (DataType::Bool, "t", Value::Bool(true)),
            (DataType::Int2, " -7 ", Value::Int2(-7)),
            (DataType::Decimal { precision: 5, scale: 2 }, "1.005", Value::Decimal(101)),
            (DataType::Char(4), "ab", Value::Text("ab".into())),
            (DataType::Bytea, "\\x00ff", Value::Bytea(vec![0, 255])),
            (DataType::Date, "1970-01-02", Value::Date(1)),
            (DataType::Timestamp, "1970-01-01 00:00:00.000001", Value::Timestamp(1)),
        ];
        for (data_type, text, expected) in cases {
            assert_eq!(parsed(data_type, text).unwrap(), expected, "{text} as {data_type}");
        }
    }

    #[test]
    fn a_text_that_is_no_value_says_where_it_is_and_why() {
        for (data_type, text, code) in [
            (DataType::Int4, "seven", "22P02"),
            (DataType::Int2, "40000", "22003"),
            (DataType::Decimal { precision: 3, scale: 0 }, "1000", "22003"),
            (DataType::Varchar(2), "abc", "22001"),
            (DataType::Date, "2024-02-30", "22008"),
            (DataType::Text, "a\0b", "22021"),
        ] {
            let error = parsed(data_type, text).unwrap_err();
            assert_eq!(error.sqlstate(), code, "{text} as {data_type}: {error}");
            assert!(error.message.starts_with("row 1, column \"x\": "), "{error}");
        }
    }

    #[test]
    fn columns_that_are_not_named_are_null_and_others_take_the_tables_types() {
        let columns = vec![
            column("a", DataType::Int4, false),
            column("b", DataType::Text, true),
            column("c", DataType::Decimal { precision: 5, scale: 1 }, true),
        ];
        let table = table("t", columns, vec![0]);
        let arrays: [(&str, ArrayRef); 2] =
            [("x", Arc::new(Float64Array::from(vec![1.25, -0.04]))), ("y", Arc::new(Int64Array::from(vec![2, 3])))];
        let batch = conform(&RecordBatch::try_from_iter(arrays).unwrap(), &table, &[2, 0], 1, &Plain).unwrap();
        let column = |at: usize| {
            let reader = ColumnReader::new(batch.column(at), &table.columns[at]).unwrap();
            [0, 1].map(|row| Value::from(reader.value(row)))
        };
        assert_eq!(column(0), [Value::Int4(2), Value::Int4(3)]);
        assert_eq!(column(1), [Value::Null, Value::Null]);
        assert_eq!(column(2)[1], Value::Decimal(0));
    }

    #[test]
    fn a_number_that_does_not_fit_names_its_column() {
        let table = table("t", vec![column("a", DataType::Int2, false)], vec![0]);
        let batch =
            RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1, 70_000])) as ArrayRef)]).unwrap();
        let error = conform(&batch, &table, &[0], 1, &Plain).unwrap_err();
        assert_eq!((error.sqlstate(), error.kind), ("22003", crate::error::ErrorKind::Data));
        assert!(error.message.contains("column \"a\" of type smallint"), "{error}");
    }

    #[test]
    fn texts_in_a_batch_are_read_as_the_columns_type() {
        let table = table("t", vec![column("a", DataType::Int4, true)], Vec::new());
        let texts = |texts: Vec<Option<&str>>| {
            RecordBatch::try_from_iter([("a", Arc::new(StringArray::from(texts)) as ArrayRef)]).unwrap()
        };
        let batch = conform(&texts(vec![Some("12"), None]), &table, &[0], 1, &Plain).unwrap();
        assert_eq!(batch.column(0).null_count(), 1);
        let error = conform(&texts(vec![Some("1"), Some("x")]), &table, &[0], 11, &Plain).unwrap_err();
        assert!(error.message.starts_with("row 12, column \"a\""), "{error}");
    }

    #[test]
    fn numbers_become_whole_as_postgresql_rounds_them() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, -0.5, 2.4]));
        assert_eq!(round(&floats).as_primitive::<Float64Type>().values(), &[0.0, 2.0, -0.0, 2.0], "halves to the even");
        let decimals = Decimal128Array::from(vec![5, 15, -5, 24]).with_precision_and_scale(10, 1).unwrap();
        let whole = to_whole(&(Arc::new(decimals) as ArrayRef)).unwrap();
        let whole = whole.as_primitive::<arrow_array::types::Decimal128Type>();
        assert_eq!(whole.values(), &[1, 2, -1, 2], "halves away from zero");
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["1.5"]));
        assert_eq!(round(&texts).data_type(), &Arrow::Utf8, "what is no number stays");
    }

    proptest! {
        #[test]
        fn an_array_has_the_values_it_was_made_of(
            columns in TYPES.map(|data_type| prop::collection::vec(value(data_type, true), 0..8)).to_vec(),
        ) {
            for (data_type, values) in TYPES.iter().zip(columns) {
                let array = array_of(*data_type, &values);
                let column = column("x", *data_type, true);
                let reader = ColumnReader::new(&array, &column).unwrap();
                let read: Vec<Value> = (0..array.len()).map(|row| reader.value(row).into()).collect();
                prop_assert_eq!(read, values);
            }
        }
    }
}
