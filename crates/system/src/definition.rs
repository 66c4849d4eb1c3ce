//! The relations that PostgreSQL's system schemas have, with the columns and types of PostgreSQL 15: clients name any
//! of them. Kept as text, one relation a line; those whose rows nobody makes are empty.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The key of a field's metadata that says which PostgreSQL type a column has where Arrow's says less
/// (`oid`, `name`, `int2vector`…).
pub const PG_TYPE: &str = "pg_type";

/// The key of a field's metadata that has PostgreSQL's type modifier: the length of `varchar(20)`, in its way of
/// counting.
pub const PG_MODIFIER: &str = "pg_modifier";

/// The key of a field's metadata that has the oid of the table that it is a column of.
pub const PG_TABLE: &str = "pg_table";

/// The key of a field's metadata that has the column's number in that table, from 1.
pub const PG_COLUMN: &str = "pg_column";

/// A relation of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub struct Definition {
    pub schema: &'static str,
    pub name: &'static str,
    pub oid: i64,
    /// `r` for a table, `v` for a view.
    pub kind: &'static str,
    pub columns: Vec<ColumnDefinition>,
    pub arrow: SchemaRef,
}

/// One column of it.
#[derive(Debug)]
pub struct ColumnDefinition {
    pub name: &'static str,
    /// PostgreSQL's name of the type, as in `pg_type.typname`.
    pub type_name: &'static str,
    pub not_null: bool,
}

static ALL: LazyLock<Vec<Definition>> =
    LazyLock::new(|| include_str!("data/relations.txt").lines().filter_map(parse).collect());

static BY_NAME: LazyLock<HashMap<(&'static str, &'static str), &'static Definition>> =
    LazyLock::new(|| ALL.iter().map(|definition| ((definition.schema, definition.name), definition)).collect());

/// All of them, by schema and name.
pub fn all() -> &'static [Definition] {
    &ALL
}

pub fn find(schema: &str, name: &str) -> Option<&'static Definition> {
    BY_NAME.get(&(schema, name)).copied()
}

/// Whether a column of a system relation is of type `"char"`, a single letter. Not said by its field: the planner
/// refuses to put texts together of which one is and another is not.
pub fn is_letter(schema: &str, relation: &str, column: &str) -> bool {
    let columns = find(schema, relation).map_or(&[][..], |definition| &definition.columns);
    columns.iter().any(|known| known.name == column && known.type_name == "char")
}

/// `schema.name oid kind column:type! …`, where `!` is NOT NULL.
fn parse(line: &'static str) -> Option<Definition> {
    let mut words = line.split(' ');
    let (schema, name) = words.next()?.split_once('.')?;
    let oid = words.next()?.parse().ok()?;
    let kind = words.next()?;
    let columns: Vec<ColumnDefinition> = words.filter_map(parse_column).collect();
    let fields = columns.iter().map(|column| {
        let field = Field::new(column.name, arrow_type(column.type_name), !column.not_null);
        if !says_more(column.type_name) {
            return field;
        }
        field.with_metadata([(PG_TYPE.to_owned(), column.type_name.to_owned())].into())
    });
    let arrow = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Some(Definition { schema, name, oid, kind, columns, arrow })
}

fn parse_column(word: &'static str) -> Option<ColumnDefinition> {
    let (name, type_name) = word.split_once(':')?;
    let not_null = type_name.ends_with('!');
    Some(ColumnDefinition { name, type_name: type_name.trim_end_matches('!'), not_null })
}

/// Whether a type's name says more than how its values are represented.
fn says_more(name: &str) -> bool {
    matches!(name, "oid" | "name" | "xid" | "int2vector" | "oidvector") || name.starts_with("reg")
}

/// How values of a PostgreSQL type are represented.
pub fn arrow_type(name: &str) -> DataType {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
    match name {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" | "oid" | "xid" | "xid8" | "cid" => DataType::Int64,
        name if name.starts_with("reg") => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" | "numeric" => DataType::Float64,
        "timestamptz" => DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, Some("UTC".into())),
        "int2vector" => list(DataType::Int16),
        "oidvector" => list(DataType::Int64),
        name => match name.strip_prefix('_') {
            Some(item) => list(arrow_type(item)),
            None => DataType::Utf8,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_defines_a_relation_with_columns() {
        assert_eq!(all().len(), include_str!("data/relations.txt").lines().count());
        assert!(all().iter().all(|definition| !definition.columns.is_empty()));
        let class = find("pg_catalog", "pg_class").unwrap();
        assert_eq!((class.oid, class.columns[0].name, class.columns[0].not_null), (1259, "oid", true));
    }
}
