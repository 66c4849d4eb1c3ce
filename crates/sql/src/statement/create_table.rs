//! CREATE TABLE: columns, constraints, options, and the query of CREATE TABLE AS; everything else is refused by name.

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{CreateTable, CreateTableOptions, DataType as SqlType, Ident, Query};

use super::column::NewColumn;
use super::constraint::NewConstraint;
use super::table_options::TableOptions;
use super::{RelationName, beyond, name_of, position_of};
use crate::error::{Result, SqlError};

/// Columns of a table at most.
pub const COLUMNS_MAX: usize = 1600;

/// A table to be made.
#[derive(Debug)]
pub struct NewTable {
    pub name: RelationName,
    pub if_not_exists: bool,
    pub columns: Vec<NewColumn>,
    /// Of the table; columns have theirs.
    pub constraints: Vec<NewConstraint>,
    pub options: TableOptions,
}

/// A table to be made of a query's rows.
#[derive(Debug)]
pub struct NewTableAs {
    pub name: RelationName,
    pub if_not_exists: bool,
    /// Names for the query's first columns.
    pub columns: Vec<Ident>,
    pub options: TableOptions,
    pub query: Box<Query>,
}

impl NewTable {
    pub fn read(create: &CreateTable) -> Result<Self> {
        let name = RelationName::read(&create.name)?;
        refuse_other_clauses(create)?;
        let mut columns: Vec<NewColumn> = Vec::with_capacity(create.columns.len());
        for definition in &create.columns {
            let (column_name, at) = (name_of(&definition.name), position_of(&definition.name));
            if columns.iter().any(|new| new.column.name == column_name) {
                return Err(SqlError::invalid(format!("column {column_name:?} specified more than once"))
                    .code("42701")
                    .at(at));
            }
            columns.push(NewColumn::read(definition)?);
        }
        if columns.is_empty() {
            return Err(SqlError::unsupported(format!("table {:?} has no columns", name.name)).at(name.position));
        }
        if columns.len() > COLUMNS_MAX {
            return Err(SqlError::invalid(format!("a table has at most {COLUMNS_MAX} columns"))
                .code("54011")
                .at(name.position));
        }
        let constraints = create.constraints.iter().map(NewConstraint::read).collect::<Result<_>>()?;
        Ok(Self { name, if_not_exists: create.if_not_exists, columns, constraints, options: options(create)? })
    }
}

impl NewTableAs {
    pub fn read(create: &CreateTable, query: &Query) -> Result<Self> {
        refuse_other_clauses(create)?;
        let typed = create.columns.iter().any(|c| c.data_type != SqlType::Unspecified || !c.options.is_empty());
        if typed || !create.constraints.is_empty() {
            return Err(SqlError::invalid("CREATE TABLE AS names columns; their types are the query's").code("42601"));
        }
        Ok(Self {
            name: RelationName::read(&create.name)?,
            if_not_exists: create.if_not_exists,
            columns: create.columns.iter().map(|column| column.name.clone()).collect(),
            options: options(create)?,
            query: Box::new(query.clone()),
        })
    }
}

fn options(create: &CreateTable) -> Result<TableOptions> {
    match &create.table_options {
        CreateTableOptions::With(options) => TableOptions::read(options),
        _ => Ok(TableOptions::default()),
    }
}

fn refuse_other_clauses(create: &CreateTable) -> Result<()> {
    let supported = CreateTableBuilder::new(create.name.clone())
        .if_not_exists(create.if_not_exists)
        .columns(create.columns.clone())
        .constraints(create.constraints.clone())
        .hive_distribution(create.hive_distribution.clone())
        .hive_formats(create.hive_formats.clone())
        .query(create.query.clone())
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
