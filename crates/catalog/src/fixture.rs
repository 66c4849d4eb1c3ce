//! Tables and values for the tests of this crate.

use proptest::prelude::*;
use saki_base::civil::MICROS_PER_DAY;
use saki_base::value::Value;
use saki_base::{Column, DataType, Interval, TableId, TreeId};
use saki_tree::TreeRoot;

use crate::PUBLIC;
use crate::catalog::{ColumnDetail, Index, IndexColumn, Sequence, SequencePosition, Table, View};

/// A type of each kind.
pub const TYPES: [DataType; 19] = [
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Float4,
    DataType::Float8,
    DataType::Decimal { precision: 12, scale: 2 },
    DataType::Text,
    DataType::Varchar(20),
    DataType::Char(20),
    DataType::Bytea,
    DataType::Date,
    DataType::Timestamp,
    DataType::Timestamptz,
    DataType::Time,
    DataType::Interval,
    DataType::Uuid,
    DataType::Json,
    DataType::Jsonb,
];

pub fn column(name: &str, data_type: DataType, nullable: bool) -> Column {
    Column { name: name.to_owned(), data_type, nullable }
}

/// A table `name` of these columns, with nothing in it.
pub fn table(name: &str, columns: Vec<Column>, primary_key: Vec<usize>) -> Table {
    let details =
        (0..columns.len() as u32).map(|id| ColumnDetail { id, ..ColumnDetail::default() }).collect::<Vec<_>>();
    Table {
        id: TableId(1),
        name: name.to_owned(),
        schema: PUBLIC.to_owned(),
        next_column_id: details.len() as u32,
        columns,
        details,
        stored: crate::StoredColumns::default(),
        layout_version: 0,
        primary_key,
        primary_key_constraint: None,
        primary_key_comment: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        resident: false,
        tier: crate::TableTier::Auto,
        comment: None,
        next_row_id: 0,
        root: TreeRoot::empty(TreeId(1)),
        indexes: Vec::new(),
        segments: None,
        bloom: Vec::new(),
        statistics: None,
        delta: TableId(0),
        merged_through: 0,
    }
}

/// An index on columns, each with whether it descends.
pub fn index(name: &str, columns: &[(usize, bool)], unique: bool, include: &[usize]) -> Index {
    Index {
        name: name.to_owned(),
        schema: PUBLIC.to_owned(),
        columns: columns
            .iter()
            .map(|(column, descending)| IndexColumn { column: *column, descending: *descending })
            .collect(),
        unique,
        include: include.to_vec(),
        constraint: false,
        constraint_comment: None,
        comment: None,
        root: TreeRoot::empty(TreeId(2)),
    }
}

/// Values of a type, NULL now and then if `nullable`. Floats are finite: their order is no question here.
pub fn value(data_type: DataType, nullable: bool) -> BoxedStrategy<Value> {
    let present: BoxedStrategy<Value> = match data_type {
        DataType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        DataType::Int2 => any::<i16>().prop_map(Value::Int2).boxed(),
        DataType::Int4 => any::<i32>().prop_map(Value::Int4).boxed(),
        DataType::Int8 | DataType::Enum(_) => any::<i64>().prop_map(Value::Int8).boxed(),
        DataType::Float4 => (-1e9_f32..1e9).prop_map(Value::Float4).boxed(),
        DataType::Float8 => (-1e9_f64..1e9).prop_map(Value::Float8).boxed(),
        DataType::Decimal { .. } => (-999_999_999_999_i128..=999_999_999_999).prop_map(Value::Decimal).boxed(),
        DataType::Text | DataType::Varchar(_) => "[a-zé ]{0,12}".prop_map(Value::Text).boxed(),
        // Without the blanks that pad it.
        DataType::Char(_) => "[a-z]{0,12}".prop_map(Value::Text).boxed(),
        DataType::Array(element) => {
            let array = move |values: Vec<Value>| {
                let mut array = Vec::new();
                for value in &values {
                    saki_base::array::push(element, value.as_ref(), &mut array).expect("of its elements");
                }
                Value::Bytea(array)
            };
            prop::collection::vec(value(element.data_type(), true), 0..4).prop_map(array).boxed()
        }
        DataType::Bytea => prop::collection::vec(any::<u8>(), 0..12).prop_map(Value::Bytea).boxed(),
        DataType::Date => any::<i32>().prop_map(Value::Date).boxed(),
        DataType::Timestamp => any::<i64>().prop_map(Value::Timestamp).boxed(),
        DataType::Timestamptz => any::<i64>().prop_map(Value::Timestamptz).boxed(),
        DataType::Time => (0..=MICROS_PER_DAY).prop_map(Value::Time).boxed(),
        DataType::Interval => {
            let parts = (any::<i32>(), any::<i32>(), i64::MIN / 1_000..=i64::MAX / 1_000);
            parts.prop_map(|(months, days, micros)| Value::Interval(Interval { months, days, micros })).boxed()
        }
        DataType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        DataType::Json | DataType::Jsonb => any::<i64>().prop_map(|n| Value::Text(format!("[{n}]"))).boxed(),
    };
    if nullable { prop_oneof![5 => present, 1 => Just(Value::Null)].boxed() } else { present }
}

/// A sequence of bigints from 1 on that nothing has been drawn from.
pub fn sequence(id: TableId, name: &str) -> Sequence {
    Sequence {
        id,
        name: name.to_owned(),
        schema: PUBLIC.to_owned(),
        data_type: DataType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        cache: 1,
        owner: None,
        position: SequencePosition { last_value: 1, is_called: false },
        version: 0,
        comment: None,
    }
}

/// A view over relations, of whose columns it needs none.
pub fn view(id: TableId, name: &str, relations: &[&str]) -> View {
    View {
        id,
        name: name.to_owned(),
        schema: PUBLIC.to_owned(),
        sql: String::new(),
        columns: Vec::new(),
        relations: relations.iter().map(|name| (*name).to_owned()).collect(),
        uses: [].into(),
        comment: None,
    }
}
