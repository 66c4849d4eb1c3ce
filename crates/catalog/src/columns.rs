//! Typed readers of Arrow columns: prepared once per batch, then a value costs a match and a load.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, BinaryViewArray, PrimitiveArray, RecordBatch};
use arrow_buffer::NullBuffer;
use saki_base::value::Value;
use saki_base::{Column, DataType, Element, ValueRef};

use crate::catalog::Table;
use crate::error::{Result, SqlError};

/// Reads one column of one batch.
pub struct ColumnReader<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Bool(&'a arrow_array::BooleanArray),
    Int2(&'a PrimitiveArray<Int16Type>),
    Int4(&'a PrimitiveArray<Int32Type>),
    Int8(&'a PrimitiveArray<Int64Type>),
    Float4(&'a PrimitiveArray<Float32Type>),
    Float8(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>),
    Text(&'a arrow_array::StringArray),
    Blank(&'a arrow_array::StringArray),
    TextView(&'a arrow_array::StringViewArray),
    BlankView(&'a arrow_array::StringViewArray),
    Bytea(&'a arrow_array::BinaryArray),
    Json(&'a arrow_array::LargeBinaryArray),
    Jsonb(&'a arrow_array::LargeStringArray),
    Date(&'a PrimitiveArray<Date32Type>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    Timestamptz(&'a PrimitiveArray<TimestampMicrosecondType>),
    Time(&'a PrimitiveArray<Time64MicrosecondType>),
    Interval(&'a PrimitiveArray<IntervalMonthDayNanoType>),
    Uuid(&'a arrow_array::FixedSizeBinaryArray),
    Label(&'a PrimitiveArray<TimestampSecondType>),
    /// Held as bytes.
    Array(BinaryViewArray),
    RowId(i64),
}

impl<'a> ColumnReader<'a> {
    /// A reader of `array` as a column; the Arrow type must be the column's own (text may be a view).
    pub fn new(array: &'a ArrayRef, column: &Column) -> Result<Self> {
        use arrow_schema::DataType as Arrow;
        let values = match (column.data_type, array.data_type()) {
            (DataType::Bool, Arrow::Boolean) => Values::Bool(array.as_boolean()),
            (DataType::Int2, Arrow::Int16) => Values::Int2(array.as_primitive()),
            (DataType::Int4, Arrow::Int32) => Values::Int4(array.as_primitive()),
            (DataType::Int8, Arrow::Int64) => Values::Int8(array.as_primitive()),
            (DataType::Float4, Arrow::Float32) => Values::Float4(array.as_primitive()),
            (DataType::Float8, Arrow::Float64) => Values::Float8(array.as_primitive()),
            (DataType::Decimal { scale, .. }, Arrow::Decimal128(_, s)) if *s == scale as i8 => {
                Values::Decimal(array.as_primitive())
            }
            (DataType::Text | DataType::Varchar(_), Arrow::Utf8) => Values::Text(array.as_string()),
            (DataType::Text | DataType::Varchar(_), Arrow::Utf8View) => Values::TextView(array.as_string_view()),
            (DataType::Char(_), Arrow::Utf8) => Values::Blank(array.as_string()),
            (DataType::Char(_), Arrow::Utf8View) => Values::BlankView(array.as_string_view()),
            (DataType::Bytea, Arrow::Binary) => Values::Bytea(array.as_binary()),
            (DataType::Array(element), Arrow::List(_)) => {
                Values::Array(saki_exec::lists::encode(element, array).map_err(SqlError::data)?)
            }
            (DataType::Enum(of), labels) if saki_exec::enumeration(labels) == Some(of) => {
                Values::Label(array.as_primitive())
            }
            (DataType::Json, Arrow::LargeBinary) => Values::Json(array.as_binary()),
            (DataType::Jsonb, Arrow::LargeUtf8) => Values::Jsonb(array.as_string()),
            (DataType::Json | DataType::Jsonb, Arrow::Utf8View) => Values::TextView(array.as_string_view()),
            (DataType::Date, Arrow::Date32) => Values::Date(array.as_primitive()),
            (DataType::Timestamp, Arrow::Timestamp(arrow_schema::TimeUnit::Microsecond, None)) => {
                Values::Timestamp(array.as_primitive())
            }
            (DataType::Timestamptz, Arrow::Timestamp(arrow_schema::TimeUnit::Microsecond, Some(_))) => {
                Values::Timestamptz(array.as_primitive())
            }
            (DataType::Time, Arrow::Time64(arrow_schema::TimeUnit::Microsecond)) => Values::Time(array.as_primitive()),
            (DataType::Interval, Arrow::Interval(arrow_schema::IntervalUnit::MonthDayNano)) => {
                Values::Interval(array.as_primitive())
            }
            (DataType::Uuid, Arrow::FixedSizeBinary(16)) => Values::Uuid(array.as_fixed_size_binary()),
            (expected, found) => {
                return Err(SqlError::data(format!(
                    "column {:?} is {expected}, and its input is {found}",
                    column.name
                )));
            }
        };
        Ok(Self { nulls: array.nulls(), values })
    }

    /// The hidden row id: counts from `first`.
    pub fn row_ids(first: i64) -> Self {
        Self { nulls: None, values: Values::RowId(first) }
    }

    /// Readers of all columns of a table, the hidden row id last if the table has one.
    pub fn of_batch(batch: &'a RecordBatch, table: &Table, first_row_id: i64) -> Result<Vec<Self>> {
        if batch.num_columns() != table.columns.len() {
            return Err(SqlError::data(format!(
                "table {} has {} columns, and its input {}",
                table.name,
                table.columns.len(),
                batch.num_columns()
            )));
        }
        let mut readers = Vec::with_capacity(table.columns.len() + 1);
        for (array, column) in batch.columns().iter().zip(&table.columns) {
            readers.push(Self::new(array, column)?);
        }
        if table.primary_key.is_empty() {
            readers.push(Self::row_ids(first_row_id));
        }
        Ok(readers)
    }

    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    #[inline]
    pub fn value(&self, row: usize) -> ValueRef<'_> {
        if self.is_null(row) {
            return ValueRef::Null;
        }
        match &self.values {
            Values::Bool(a) => ValueRef::Bool(a.value(row)),
            Values::Int2(a) => ValueRef::Int2(a.value(row)),
            Values::Int4(a) => ValueRef::Int4(a.value(row)),
            Values::Int8(a) => ValueRef::Int8(a.value(row)),
            Values::Float4(a) => ValueRef::Float4(a.value(row)),
            Values::Float8(a) => ValueRef::Float8(a.value(row)),
            Values::Decimal(a) => ValueRef::Decimal(a.value(row)),
            Values::Text(a) => ValueRef::Text(a.value(row)),
            Values::Blank(a) => ValueRef::Text(a.value(row).trim_end_matches(' ')),
            Values::TextView(a) => ValueRef::Text(a.value(row)),
            Values::BlankView(a) => ValueRef::Text(a.value(row).trim_end_matches(' ')),
            Values::Bytea(a) => ValueRef::Bytea(a.value(row)),
            Values::Array(a) => ValueRef::Bytea(a.value(row)),
            Values::Json(a) => ValueRef::Text(std::str::from_utf8(a.value(row)).unwrap_or("null")),
            Values::Jsonb(a) => ValueRef::Text(a.value(row)),
            Values::Date(a) => ValueRef::Date(a.value(row)),
            Values::Timestamp(a) => ValueRef::Timestamp(a.value(row)),
            Values::Timestamptz(a) => ValueRef::Timestamptz(a.value(row)),
            Values::Time(a) => ValueRef::Time(a.value(row)),
            Values::Interval(a) => ValueRef::Interval(saki_exec::interval(a.value(row))),
            Values::Uuid(a) => ValueRef::Uuid(a.value(row).try_into().unwrap_or([0; 16])),
            Values::Label(a) => ValueRef::Int8(a.value(row)),
            Values::RowId(first) => ValueRef::Int8(first + row as i64),
        }
    }
}

/// Checks what types alone do not: lengths and NOT NULL. `first_row` counts input rows from 1, for the message.
pub fn check_batch(batch: &RecordBatch, table: &Table, first_row: u64) -> Result<()> {
    for (array, column) in batch.columns().iter().zip(&table.columns) {
        if !column.nullable && array.null_count() > 0 {
            let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
            return Err(SqlError::constraint(format!(
                "row {}: column {:?} of table {} is NOT NULL",
                first_row + row as u64,
                column.name,
                table.name
            ))
            .code("23502")
            .of_column(table, &column.name));
        }
    }
    check_lengths(batch, table, first_row)
}

/// Checks lengths alone. PostgreSQL does so before it looks at constraints: a value that is too long is none of its
/// type.
pub fn check_lengths(batch: &RecordBatch, table: &Table, first_row: u64) -> Result<()> {
    for (array, column) in batch.columns().iter().zip(&table.columns) {
        if let (DataType::Array(element), Some(lists)) = (column.data_type, array.as_list_opt::<i32>()) {
            check_elements(lists.values(), element, &column.name)?;
            continue;
        }
        let Some(limit) = limit(column) else { continue };
        let reader = ColumnReader::new(array, column)?;
        for row in 0..array.len() {
            let ValueRef::Text(text) = reader.value(row) else { continue };
            if is_longer(text, limit) {
                return Err(SqlError::data(format!(
                    "row {}: value too long for column {:?} of type {}: {} characters",
                    first_row + row as u64,
                    column.name,
                    column.data_type,
                    text.chars().count()
                ))
                .code("22001"));
            }
        }
    }
    Ok(())
}

/// Checks the lengths of elements of arrays.
///
/// # Errors
/// 22001.
pub fn check_elements(elements: &ArrayRef, element: Element, name: &str) -> Result<()> {
    let column = Column { name: name.to_owned(), data_type: element.data_type(), nullable: true };
    let (Some(_), Some(texts)) = (limit(&column), elements.as_string_opt::<i32>()) else { return Ok(()) };
    texts.iter().flatten().try_for_each(|text| check_length(ValueRef::Text(text.trim_end_matches(' ')), &column))
}

/// Characters that a column's values have at most.
fn limit(column: &Column) -> Option<usize> {
    match column.data_type {
        DataType::Varchar(limit) | DataType::Char(limit) => Some(limit as usize),
        _ => None,
    }
}

fn is_longer(text: &str, limit: usize) -> bool {
    // Bytes bound characters from above: counting is rarely needed.
    text.len() > limit && text.chars().count() > limit
}

/// A text without the blanks that are more than a varchar of so many characters has room for: being assigned it loses
/// these, and nothing else.
pub fn without_excess(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    match text.char_indices().nth(limit) {
        Some((end, _)) if text[end..].bytes().all(|byte| byte == b' ') => &text[..end],
        _ => text,
    }
}

/// Checks the length of one value, which has no blanks at its end if these mean nothing.
///
/// # Errors
/// 22001.
pub fn check_length(value: ValueRef<'_>, column: &Column) -> Result<()> {
    match (value, limit(column)) {
        (ValueRef::Text(text), Some(limit)) if is_longer(text, limit) => {
            Err(SqlError::data(format!("value too long for type {}", column.data_type)).code("22001"))
        }
        _ => Ok(()),
    }
}

/// Checks that a row has a value where its table wants one.
///
/// # Errors
/// 23502.
pub fn check_row(values: &[ValueRef<'_>], table: &Table) -> Result<()> {
    let is_missing = |(value, column): &(&ValueRef<'_>, &Column)| **value == ValueRef::Null && !column.nullable;
    match values.iter().zip(&table.columns).find(is_missing) {
        Some((_, column)) => Err(missing(column, table, values.iter().copied())),
        None => Ok(()),
    }
}

/// The error of a row that has no value for a column.
pub fn missing<'v>(column: &Column, table: &Table, row: impl Iterator<Item = ValueRef<'v>>) -> SqlError {
    let (name, relation) = (&column.name, table.bare_name());
    SqlError::constraint(format!("null value in column {name:?} of relation {relation:?} violates not-null constraint"))
        .code("23502")
        .detail(failing(table, row))
        .of_column(table, name)
}

/// A row that is refused, in PostgreSQL's words.
pub fn failing<'v>(table: &Table, row: impl Iterator<Item = ValueRef<'v>>) -> String {
    let values = row.zip(table.visible()).map(|(value, column)| shown(value, column.data_type));
    format!("Failing row contains ({}).", values.collect::<Vec<_>>().join(", "))
}

/// A value as SQL writes it, for messages and EXPLAIN.
pub fn literal(value: ValueRef<'_>, data_type: DataType) -> String {
    let text = saki_base::display(value, data_type).to_string();
    match value {
        ValueRef::Int8(_) if matches!(data_type, DataType::Enum(_)) => format!("'{}'", text.replace('\'', "''")),
        ValueRef::Null
        | ValueRef::Int2(_)
        | ValueRef::Int4(_)
        | ValueRef::Int8(_)
        | ValueRef::Float4(_)
        | ValueRef::Float8(_)
        | ValueRef::Decimal(_) => text,
        ValueRef::Bool(v) => v.to_string(),
        _ => format!("'{}'", text.trim_end().replace('\'', "''")),
    }
}

/// [`literal`] of an owned value.
pub fn value_literal(value: &Value, data_type: DataType) -> String {
    literal(value.as_ref(), data_type)
}

/// A value as messages of constraints show it.
pub fn shown(value: ValueRef<'_>, data_type: DataType) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        value => saki_base::display(value, data_type).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringArray, StringViewArray};

    use super::*;
    use crate::fixture::{column, table};

    fn batch(numbers: Vec<Option<i32>>, texts: Vec<Option<&str>>) -> RecordBatch {
        let arrays: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int32Array::from(numbers))), ("b", Arc::new(StringArray::from(texts)))];
        RecordBatch::try_from_iter(arrays).unwrap()
    }

    fn pair() -> Table {
        table("t", vec![column("a", DataType::Int4, false), column("b", DataType::Varchar(2), true)], Vec::new())
    }

    #[test]
    fn a_column_of_another_type_is_refused_by_name() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let error = ColumnReader::new(&array, &column("a", DataType::Int8, false)).map(|_| ()).unwrap_err();
        assert_eq!(error.message, "column \"a\" is bigint, and its input is Int32");
    }

    #[test]
    fn padding_of_char_is_not_read_from_plain_text_nor_from_views() {
        let plain: ArrayRef = Arc::new(StringArray::from(vec!["ab  "]));
        let view: ArrayRef = Arc::new(StringViewArray::from(vec!["ab  "]));
        for array in [plain, view] {
            let read = |data_type| -> Value {
                ColumnReader::new(&array, &column("c", data_type, false)).unwrap().value(0).into()
            };
            assert_eq!(read(DataType::Char(4)), Value::Text("ab".into()));
            assert_eq!(read(DataType::Text), Value::Text("ab  ".into()));
        }
    }

    #[test]
    fn a_table_without_a_key_reads_row_ids_behind_its_columns() {
        let (batch, table) = (batch(vec![Some(1), Some(2)], vec![None, Some("x")]), pair());
        let readers = ColumnReader::of_batch(&batch, &table, 40).unwrap();
        assert_eq!(readers.len(), 3);
        assert_eq!((readers[2].value(0), readers[2].value(1)), (ValueRef::Int8(40), ValueRef::Int8(41)));
        assert!(readers[1].is_null(0) && !readers[1].is_null(1));
    }

    #[test]
    fn a_batch_with_too_few_columns_is_refused() {
        let table = table("t", vec![column("a", DataType::Int4, false)], vec![0]);
        let error = ColumnReader::of_batch(&batch(vec![Some(1)], vec![None]), &table, 0).map(|_| ()).unwrap_err();
        assert_eq!(error.message, "table t has 1 columns, and its input 2");
    }

    #[test]
    fn null_and_length_are_checked_with_the_rows_number() {
        let table = pair();
        assert!(check_batch(&batch(vec![Some(1)], vec![Some("éé")]), &table, 1).is_ok(), "characters count, not bytes");
        let missing = check_batch(&batch(vec![Some(1), None], vec![None, None]), &table, 10).unwrap_err();
        assert_eq!((missing.sqlstate(), &*missing.message), ("23502", "row 11: column \"a\" of table t is NOT NULL"));
        assert_eq!(missing.objects.unwrap().column.as_deref(), Some("a"));
        let long = check_batch(&batch(vec![Some(1)], vec![Some("abc")]), &table, 1).unwrap_err();
        assert_eq!(long.sqlstate(), "22001");
        assert!(long.message.starts_with("row 1: value too long"), "{long}");
        let missing = check_row(&[ValueRef::Null, ValueRef::Text("a")], &table).unwrap_err();
        assert_eq!((missing.sqlstate(), missing.detail.as_deref()), ("23502", Some("Failing row contains (null, a).")));
        assert_eq!(check_length(ValueRef::Text("abc"), &table.columns[1]).unwrap_err().sqlstate(), "22001");
        assert!(check_row(&[ValueRef::Int4(1), ValueRef::Null], &table).is_ok());
    }

    #[test]
    fn literals_are_read_back_as_what_they_were() {
        let cases = [
            (Value::Null, DataType::Text, "NULL"),
            (Value::Bool(true), DataType::Bool, "true"),
            (Value::Int4(-7), DataType::Int4, "-7"),
            (Value::Decimal(-105), DataType::Decimal { precision: 5, scale: 2 }, "-1.05"),
            (Value::Text("it's".into()), DataType::Text, "'it''s'"),
            (Value::Text("ab".into()), DataType::Char(4), "'ab'"),
            (Value::Date(0), DataType::Date, "'1970-01-01'"),
        ];
        for (value, data_type, expected) in cases {
            assert_eq!(value_literal(&value, data_type), expected);
        }
    }

    #[test]
    fn values_in_messages_are_as_they_are_read() {
        let cases = [
            (Value::Null, DataType::Int4, "null"),
            (Value::Text("it's".into()), DataType::Text, "it's"),
            (Value::Bool(true), DataType::Bool, "t"),
            (Value::Date(19_753), DataType::Date, "2024-01-31"),
            (Value::Decimal(5), DataType::Decimal { precision: 5, scale: 2 }, "0.05"),
            (Value::Bytea(vec![0, 255]), DataType::Bytea, "\\x00ff"),
        ];
        for (value, data_type, expected) in cases {
            assert_eq!(shown(value.as_ref(), data_type), expected);
        }
    }

    #[test]
    fn every_column_is_checked_and_the_first_fault_is_told() {
        let mut table = pair();
        table.columns[1].nullable = false;
        let error = check_batch(&batch(vec![Some(1), Some(2)], vec![Some("a"), None]), &table, 1).unwrap_err();
        assert_eq!(error.message, "row 2: column \"b\" of table t is NOT NULL");
        let error = check_length(ValueRef::Text("abc"), &table.columns[1]).unwrap_err();
        assert_eq!(error.message, "value too long for type character varying(2)");
        assert!(check_length(ValueRef::Text("日本"), &table.columns[1]).is_ok());
    }

    #[test]
    fn blanks_beyond_a_chars_length_do_not_count() {
        let table = table("t", vec![column("c", DataType::Char(2), false)], Vec::new());
        let texts = |text: &str| {
            RecordBatch::try_from_iter([("c", Arc::new(StringArray::from(vec![text])) as ArrayRef)]).unwrap()
        };
        assert!(check_batch(&texts("ab    "), &table, 1).is_ok());
        assert_eq!(check_batch(&texts("abc"), &table, 1).unwrap_err().sqlstate(), "22001");
    }
}
