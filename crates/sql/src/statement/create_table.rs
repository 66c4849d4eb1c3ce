//! CREATE TABLE: columns, types, NOT NULL, the primary key and options; everything else is refused by name.

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, CreateTableOptions, Expr, IndexColumn, TableConstraint,
};
use saki_base::Column;

use super::table_options::TableOptions;
use super::{beyond, name_of, object_name, position_of};
use crate::error::{Position, Result, SqlError};
use crate::types::storage_type;

/// Columns of a table at most.
const COLUMNS_MAX: usize = 1600;

/// A table to be made.
#[derive(Debug)]
pub struct NewTable {
    pub name: String,
    pub position: Option<Position>,
    pub if_not_exists: bool,
    pub columns: Vec<Column>,
    pub primary_key: Vec<usize>,
    /// Whether the rows are stored column by column too.
    pub segments: bool,
    /// Columns with Bloom filters.
    pub bloom: Vec<usize>,
}

impl NewTable {
    pub fn read(create: &CreateTable) -> Result<Self> {
        let (name, position) = object_name(&create.name)?;
        refuse_other_clauses(create)?;
        let mut columns: Vec<Column> = Vec::with_capacity(create.columns.len());
        let mut primary_key: Option<Vec<usize>> = None;
        for definition in &create.columns {
            let column_name = name_of(&definition.name);
            let at = position_of(&definition.name);
            if columns.iter().any(|column| column.name == column_name) {
                return Err(SqlError::invalid(format!("column {column_name:?} is there twice")).at(at));
            }
            let data_type = storage_type(&definition.data_type).map_err(|error| error.at(at))?;
            let mut nullable = true;
            for option in &definition.options {
                match &option.option {
                    ColumnOption::Null => {}
                    ColumnOption::NotNull => nullable = false,
                    ColumnOption::PrimaryKey(_) => {
                        if primary_key.replace(vec![columns.len()]).is_some() {
                            return Err(SqlError::invalid("a table has one primary key").at(at));
                        }
                    }
                    other => {
                        return Err(
                            SqlError::unsupported(format!("column {column_name:?}: {other} is not supported")).at(at)
                        );
                    }
                }
            }
            columns.push(Column { name: column_name, data_type, nullable });
        }
        for constraint in &create.constraints {
            let TableConstraint::PrimaryKey(key) = constraint else {
                return Err(SqlError::unsupported(format!("{constraint} is not supported"))
                    .hint("PRIMARY KEY is; uniqueness can be had by CREATE UNIQUE INDEX"));
            };
            let named = key.columns.iter().map(|column| key_column(column, &columns)).collect::<Result<Vec<_>>>()?;
            if primary_key.replace(named).is_some() {
                return Err(SqlError::invalid("a table has one primary key"));
            }
        }
        if columns.is_empty() {
            return Err(SqlError::invalid(format!("table {name:?} has no columns")).at(position));
        }
        if columns.len() > COLUMNS_MAX {
            return Err(SqlError::invalid(format!("a table has at most {COLUMNS_MAX} columns")).at(position));
        }
        let primary_key = primary_key.unwrap_or_default();
        for (place, column) in primary_key.iter().enumerate() {
            if primary_key[..place].contains(column) {
                return Err(SqlError::invalid(format!(
                    "column {:?} is twice in the primary key",
                    columns[*column].name
                )));
            }
            columns[*column].nullable = false;
        }
        let options = match &create.table_options {
            CreateTableOptions::With(options) => TableOptions::read(options)?,
            _ => TableOptions::default(),
        };
        let segments = options.columns.unwrap_or(true);
        let bloom = options.bloom_columns(&columns, segments, &[])?;
        Ok(Self { name, position, if_not_exists: create.if_not_exists, columns, primary_key, segments, bloom })
    }
}

fn key_column(column: &IndexColumn, columns: &[Column]) -> Result<usize> {
    let Expr::Identifier(ident) = &column.column.expr else {
        return Err(SqlError::unsupported(format!("primary key over {} is not supported", column.column.expr))
            .hint("name columns"));
    };
    if column.column.options.asc == Some(false) {
        return Err(SqlError::unsupported("a descending primary key is not supported")
            .hint("make an index with the descending column"));
    }
    let name = name_of(ident);
    columns
        .iter()
        .position(|column| column.name == name)
        .ok_or_else(|| SqlError::invalid(format!("the primary key names no column: {name:?}")).at(position_of(ident)))
}

fn refuse_other_clauses(create: &CreateTable) -> Result<()> {
    let supported = CreateTableBuilder::new(create.name.clone())
        .if_not_exists(create.if_not_exists)
        .columns(create.columns.clone())
        .constraints(create.constraints.clone())
        .hive_distribution(create.hive_distribution.clone())
        .hive_formats(create.hive_formats.clone())
        .table_options(match &create.table_options {
            CreateTableOptions::With(options) => CreateTableOptions::With(options.clone()),
            _ => CreateTableOptions::None,
        })
        .build();
    if *create == supported {
        return Ok(());
    }
    let clause = beyond(&create.to_string(), &supported.to_string());
    Err(SqlError::unsupported(format!("CREATE TABLE: {clause:?} is not supported")))
}
