//! Functions of arrays that PostgreSQL has and the planner has not, and those that set-returning functions become:
//! they give a list, which is then unnested.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use datafusion::common::{Result, ScalarValue};

use super::super::system::SystemCatalog;
use super::function::{Arguments, Definition, Returns, integer, lax, position_fields, position_type, strict, text};

/// Set-returning functions, each with the function that gives the same rows as one list.
pub const UNNESTED: &[(&str, &str)] = &[
    ("generate_subscripts", "pg_subscripts"),
    ("_pg_expandarray", "pg_expand_array"),
    ("generate_series", "pg_series"),
    ("regexp_matches", "pg_matches"),
    ("regexp_split_to_table", "regexp_split_to_array"),
    ("string_to_table", "string_to_array"),
    ("pg_partition_ancestors", "pg_no_ancestors"),
];

pub const FUNCTIONS: &[Definition] = &[
    strict("pg_subscripts", Returns::Int4List, |_, args| {
        let length = length(args.get(0)).filter(|_| args.integer(1).unwrap_or(1) == 1).unwrap_or(0);
        // `int2vector` counts from zero: the rewrite of its subscripts says so.
        let first = i64::from(!args.truth(2));
        let subscripts = (0..length as i64).map(|at| ScalarValue::Int32(i32::try_from(at + first).ok()));
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&subscripts.collect::<Vec<_>>(), &DataType::Int32)))
    }),
    // No table is a part of another.
    strict("pg_no_ancestors", Returns::Int8List, |_, _| Ok(integer_list(std::iter::empty()))),
    strict("pg_expand_array", Returns::Positions, expand_array),
    strict("array_lower", Returns::Int4, |_, args| Ok(ScalarValue::Int32(extent(args).map(|_| 1)))),
    strict("array_upper", Returns::Int4, |_, args| {
        Ok(ScalarValue::Int32(extent(args).and_then(|length| length.try_into().ok())))
    }),
    lax("pg_list_equals", Returns::Bool, |_, args| {
        // A text that looks like a list is compared as it is.
        let own = args.text(0).map(str::to_owned).or_else(|| spelled(args.get(0)));
        Ok(ScalarValue::Boolean(match (own, args.text(1)) {
            (Some(list), Some(wanted)) => Some(list == wanted),
            _ => None,
        }))
    }),
    lax("pg_or_empty", Returns::First, |_, args| {
        Ok(match args.get(0).data_type() {
            DataType::List(item) if args.get(0).is_null() => {
                ScalarValue::List(ScalarValue::new_list_nullable(&[], item.data_type()))
            }
            _ => args.get(0).clone(),
        })
    }),
    strict("pg_vector_text", Returns::Text, |_, args| {
        Ok(text(
            items(args.get(0)).map(|items| items.iter().map(|item| item.to_string()).collect::<Vec<_>>().join(" ")),
        ))
    }),
    lax("format", Returns::Text, super::format::format),
    strict("pg_char", Returns::Text, |_, args| Ok(text(args.text(0).map(|text| text.chars().take(1).collect())))),
];

/// Elements of a list.
fn items(value: &ScalarValue) -> Option<Vec<ScalarValue>> {
    let ScalarValue::List(list) = value else { return None };
    if list.is_null(0) {
        return None;
    }
    let values = list.value(0);
    (0..values.len()).map(|at| ScalarValue::try_from_array(&values, at).ok()).collect()
}

fn length(value: &ScalarValue) -> Option<usize> {
    items(value).map(|items| items.len())
}

/// The length of the first argument in the dimension that the second names; lists have one.
fn extent(args: &Arguments<'_>) -> Option<usize> {
    length(args.get(0)).filter(|length| *length > 0 && args.integer(1) == Some(1))
}

/// A list as PostgreSQL writes it.
fn spelled(value: &ScalarValue) -> Option<String> {
    let items = items(value)?;
    let item = |item: &ScalarValue| if item.is_null() { "NULL".to_owned() } else { item.to_string() };
    Some(format!("{{{}}}", items.iter().map(item).collect::<Vec<_>>().join(",")))
}

pub fn text_list(texts: Vec<String>) -> ScalarValue {
    let texts: Vec<ScalarValue> = texts.into_iter().map(|item| ScalarValue::Utf8(Some(item))).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8))
}

fn integer_list(values: impl Iterator<Item = i64>) -> ScalarValue {
    let values: Vec<ScalarValue> = values.map(|value| ScalarValue::Int64(Some(value))).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))
}

fn expand_array(_: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let items = items(args.get(0)).unwrap_or_default();
    let elements: ArrayRef = Arc::new(Int64Array::from_iter(items.iter().map(integer)));
    let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=items.len() as i64));
    let rows = StructArray::try_new(position_fields(), vec![elements, positions], None)?;
    let field = Arc::new(Field::new_list_field(position_type(), true));
    let list = ListArray::try_new(field, OffsetBuffer::from_lengths([items.len()]), Arc::new(rows), None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}
