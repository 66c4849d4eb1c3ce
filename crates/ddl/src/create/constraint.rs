//! Constraints becoming a table's: named, resolved, and given the index that keeps them.

use saki_base::{Column, DataType, Element};
use saki_tree::TreeRoot;

use crate::names::stored_text;
use saki_catalog::{Catalog, Check, ForeignKey, Index, IndexColumn, RelationKind, Result, SqlError, Table};
use saki_catalog::{qualified, undefined, undefined_column};
use saki_parameters::is_temporary;
use saki_postgres::statement::create_index::refuse_unordered;
use saki_postgres::{ColumnName, NewConstraint, NewConstraintKind, NewForeignKey};

/// What a new constraint asks of rows that are there already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Added {
    /// The rows' key is another: positions of columns that must not be NULL.
    PrimaryKey(Vec<usize>),
    /// An index, the table's last.
    Unique,
    /// The table's last one.
    Check,
    ForeignKey,
}

/// Adds a constraint to a table that is in `catalog` or about to be.
pub fn add(catalog: &mut Catalog, table: &mut Table, new: &NewConstraint) -> Result<Added> {
    if let Some(name) = &new.name
        && table.has_constraint(name)
    {
        return Err(SqlError::invalid(format!(
            "constraint {name:?} for relation {:?} already exists",
            table.bare_name()
        ))
        .code("42710")
        .at(new.position));
    }
    let added = match &new.kind {
        NewConstraintKind::PrimaryKey(columns) => add_primary_key(catalog, table, new.name.as_deref(), columns),
        NewConstraintKind::Unique(columns) => add_unique(catalog, table, new.name.as_deref(), columns),
        NewConstraintKind::Check(expression) => {
            let named = checked_column(table, expression);
            let name = new.name.clone().unwrap_or_else(|| free_constraint(table, named.as_deref(), "check"));
            table.checks.push(Check { name, expression: stored_text(expression)?, comment: None });
            Ok(Added::Check)
        }
        NewConstraintKind::ForeignKey(key) => add_foreign_key(catalog, table, new.name.as_deref(), key),
    };
    added.map_err(|error| error.at(new.position))
}

fn add_primary_key(catalog: &Catalog, table: &mut Table, name: Option<&str>, columns: &[ColumnName]) -> Result<Added> {
    if !table.primary_key.is_empty() {
        return Err(SqlError::invalid(format!(
            "multiple primary keys for table {:?} are not allowed",
            table.bare_name()
        ))
        .code("42P16"));
    }
    let positions = key_positions(table, columns)?;
    if let Some(name) = name {
        catalog.refuse_taken(&qualified(&table.schema, name))?;
        table.primary_key_constraint = Some(name.to_owned());
    }
    for position in &positions {
        table.columns[*position].nullable = false;
    }
    table.primary_key.clone_from(&positions);
    Ok(Added::PrimaryKey(positions))
}

fn add_unique(catalog: &mut Catalog, table: &mut Table, name: Option<&str>, columns: &[ColumnName]) -> Result<Added> {
    let positions = key_positions(table, columns)?;
    let name = match name {
        Some(name) => qualified(&table.schema, name),
        None => {
            let columns = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join("_");
            free_name(catalog, table, &table.schema, &format!("{}_{columns}_key", table.bare_name()))
        }
    };
    catalog.refuse_taken(&name)?;
    if table.indexes.iter().any(|index| index.name == name) {
        return Err(SqlError::invalid(format!("relation {name:?} already exists")).code("42P07"));
    }
    table.indexes.push(Index {
        name,
        schema: table.schema.clone(),
        columns: positions.into_iter().map(|column| IndexColumn { column, descending: false }).collect(),
        unique: true,
        include: Vec::new(),
        constraint: true,
        constraint_comment: None,
        comment: None,
        root: TreeRoot::empty(catalog.new_tree_id()),
    });
    Ok(Added::Unique)
}

fn add_foreign_key(catalog: &Catalog, table: &mut Table, name: Option<&str>, key: &NewForeignKey) -> Result<Added> {
    let columns = positions(table, &key.columns)?;
    // A table may refer to itself, and is not in the catalog while it is made.
    let referenced = if key.table.name == table.name {
        &*table
    } else {
        let found = catalog.get(&key.table.name).ok_or_else(|| match catalog.kind_of(&key.table.name) {
            Some(RelationKind::View | RelationKind::Sequence | RelationKind::Index) => {
                SqlError::invalid(format!("referenced relation {:?} is not a table", key.table.name)).code("42809")
            }
            _ => undefined(&key.table.name),
        });
        found.map_err(|error| error.at(key.table.position))?.as_ref()
    };
    if is_temporary(&table.schema) != is_temporary(&referenced.schema) {
        let kind = if is_temporary(&table.schema) { "temporary" } else { "permanent" };
        let message = format!("constraints on {kind} tables may reference only {kind} tables");
        return Err(SqlError::invalid(message).code("42P16").at(key.table.position));
    }
    let keys = if key.referenced.is_empty() {
        if referenced.primary_key.is_empty() {
            return Err(SqlError::invalid(format!(
                "there is no primary key for referenced table {:?}",
                referenced.bare_name()
            ))
            .code("42704"));
        }
        referenced.primary_key.clone()
    } else {
        positions(referenced, &key.referenced)?
    };
    if keys.len() != columns.len() {
        return Err(
            SqlError::invalid("number of referencing and referenced columns for foreign key disagree").code("42830")
        );
    }
    if !referenced.is_unique_by(&keys) {
        return Err(SqlError::invalid(format!(
            "there is no unique constraint matching given keys for referenced table {:?}",
            referenced.bare_name()
        ))
        .code("42830"));
    }
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let columns = key.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join("_");
            free_constraint(table, Some(&columns), "fkey")
        }
    };
    check_types(&name, table, &columns, referenced, &keys)?;
    let key = ForeignKey {
        name,
        columns,
        table: referenced.id,
        referenced: keys.iter().map(|position| referenced.details[*position].id).collect(),
        on_delete: key.on_delete,
        on_update: key.on_update,
        deferral: key.deferral,
        comment: None,
    };
    table.foreign_keys.push(key);
    Ok(Added::ForeignKey)
}

/// Whether values of a foreign key's columns can be keys of what it refers to: types must be of one family.
pub fn check_types(name: &str, table: &Table, columns: &[usize], referenced: &Table, keys: &[usize]) -> Result<()> {
    for (column, key) in columns.iter().zip(keys) {
        let (column, key) = (&table.columns[*column], &referenced.columns[*key]);
        // As in PostgreSQL: an integer becomes a numeric by itself, a numeric no integer.
        let is_narrowed = matches!(column.data_type, DataType::Decimal { .. })
            && matches!(key.data_type, DataType::Int2 | DataType::Int4 | DataType::Int8);
        if is_narrowed || family(column.data_type) != family(key.data_type) {
            return Err(SqlError::invalid(format!("foreign key constraint {name:?} cannot be implemented"))
                .code("42804")
                .detail(format!(
                    "Key columns {:?} and {:?} are of incompatible types: {} and {}.",
                    column.name, key.name, column.data_type, key.data_type
                )));
        }
    }
    Ok(())
}

/// Types whose values are compared with one another.
fn family(data_type: DataType) -> (u64, Option<Element>) {
    use DataType as Type;
    let family = match data_type {
        Type::Bool => 0,
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Decimal { .. } => 1,
        Type::Float4 | Type::Float8 => 2,
        Type::Text | Type::Varchar(_) | Type::Char(_) => 3,
        Type::Bytea => 4,
        Type::Date => 5,
        Type::Timestamp => 6,
        Type::Timestamptz => 7,
        // As many as there are, each a kind of its own.
        Type::Enum(of) => 1_000 + u64::from(of.id()),
        Type::Time => 8,
        Type::Interval => 9,
        Type::Uuid => 10,
        Type::Json | Type::Jsonb => 11,
        Type::Array(element) => return (12, Some(element)),
    };
    (family, None)
}

/// Positions of the columns of a key that is kept in order, each once.
///
/// # Errors
/// As [`positions`] and [`refuse_unordered`].
fn key_positions(table: &Table, columns: &[ColumnName]) -> Result<Vec<usize>> {
    let positions = positions(table, columns)?;
    for (position, column) in positions.iter().zip(columns) {
        let Column { name, data_type, .. } = &table.columns[*position];
        refuse_unordered(name, *data_type).map_err(|error| error.at(column.position))?;
    }
    Ok(positions)
}

/// Positions of columns that a key names, each once.
pub fn positions(table: &Table, columns: &[ColumnName]) -> Result<Vec<usize>> {
    let mut positions = Vec::with_capacity(columns.len());
    for ColumnName { name, position } in columns {
        let found = table.column(name).ok_or_else(|| {
            SqlError::invalid(format!("column {name:?} named in key does not exist"))
                .code("42703")
                .hint(undefined_column(table, name).hint.unwrap_or_default())
                .at(*position)
        })?;
        if positions.contains(&found) {
            return Err(SqlError::invalid(format!("column {name:?} appears twice in the key"))
                .code("42701")
                .at(*position));
        }
        positions.push(found);
    }
    Ok(positions)
}

/// The one column that a condition is about, for its name.
fn checked_column(table: &Table, expression: &datafusion::sql::sqlparser::ast::Expr) -> Option<String> {
    let named = saki_postgres::statement::columns_named(table, expression);
    match named[..] {
        [column] => Some(table.columns[column].name.clone()),
        _ => None,
    }
}

/// `table_columns_suffix`, or the first with a number behind it that the table has not.
fn free_constraint(table: &Table, columns: Option<&str>, suffix: &str) -> String {
    let base = match columns {
        Some(columns) => format!("{}_{columns}_{suffix}", table.bare_name()),
        None => format!("{}_{suffix}", table.bare_name()),
    };
    numbered(&base, |name| table.has_constraint(name))
}

/// A catalog name that no relation has, nor an index of a table that is being made.
pub fn free_name(catalog: &Catalog, table: &Table, schema: &str, base: &str) -> String {
    numbered(&qualified(schema, base), |name| {
        catalog.kind_of(name).is_some() || table.indexes.iter().any(|index| index.name == name)
    })
}

fn numbered(base: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = base.to_owned();
    let mut number = 0;
    while taken(&name) {
        number += 1;
        name = format!("{base}{number}");
    }
    name
}
