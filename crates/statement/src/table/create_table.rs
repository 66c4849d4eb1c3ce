//! CREATE TABLE: columns, constraints, options, and the query of CREATE TABLE AS; everything else is refused by name.

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{CreateTable, CreateTableOptions, DataType as SqlType, Ident, Query};

use super::column::NewColumn;
use super::constraint::NewConstraint;
use super::table_options::TableOptions;
use crate::{RelationName, beyond, name_of, position_of};
use saki_catalog::{Result, SqlError};

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
        // What is done at a commit is for the session that the table is of.
        .on_commit(create.on_commit)
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

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;
    use crate::fixture::{check, code, parsed};

    fn created(sql: &str) -> CreateTable {
        match parsed(sql) {
            Statement::CreateTable(create) => create,
            other => panic!("{other} makes no table"),
        }
    }

    fn shown(sql: &str) -> String {
        match NewTable::read(&created(sql)) {
            Ok(new) => {
                let columns = new.columns.iter().map(|new| new.column.name.as_str()).collect::<Vec<_>>().join(",");
                let there = if new.if_not_exists { " unless there" } else { "" };
                format!("{}{there} ({columns}) with {} constraints", new.name.name, new.constraints.len())
            }
            Err(error) => code(&error),
        }
    }

    fn shown_as(sql: &str) -> String {
        let create = created(sql);
        match NewTableAs::read(&create, create.query.as_ref().unwrap()) {
            Ok(new) => {
                let columns = new.columns.iter().map(name_of).collect::<Vec<_>>().join(",");
                let there = if new.if_not_exists { " unless there" } else { "" };
                format!("{}{there} ({columns}) of {}, columns {:?}", new.name.name, new.query, new.options.columns)
            }
            Err(error) => code(&error),
        }
    }

    #[test]
    fn tables_are_made_of_columns_and_constraints() {
        check(
            &[
                ("CREATE TABLE t (a int)", "t (a) with 0 constraints"),
                ("CREATE TABLE IF NOT EXISTS t (a int, b text)", "t unless there (a,b) with 0 constraints"),
                ("CREATE TABLE s.\"T\" (a int, PRIMARY KEY (a), CHECK (a > 0))", "s.T (a) with 2 constraints"),
                ("CREATE TABLE T (A int, \"A\" int)", "t (a,A) with 0 constraints"),
                ("CREATE TABLE t (a int) WITH (columns = off)", "t (a) with 0 constraints"),
                ("CREATE TABLE t (a int) WITH (fillfactor = 70)", "t (a) with 0 constraints"),
                ("CREATE TABLE t (a int) ON COMMIT DROP", "t (a) with 0 constraints"),
            ],
            shown,
        );
    }

    #[test]
    fn what_tables_cannot_be_here_is_refused() {
        check(
            &[
                ("CREATE TABLE t (a int, b int, A text)", "42701 at 1:31"),
                ("CREATE TABLE t ()", "0A000 at 1:14"),
                ("CREATE TABLE t (a int) PARTITION BY (a)", "0A000"),
                ("CREATE TABLE t (LIKE u)", "0A000"),
                ("CREATE TABLE t (a int) INHERITS (u)", "0A000"),
                ("CREATE TABLE a.b.c (x int)", "0A000 at 1:18"),
                ("CREATE TABLE t (a int) WITH (nosuch = 1)", "0A000 at 1:30"),
            ],
            shown,
        );
    }

    #[test]
    fn a_refusal_names_the_clause() {
        let error = NewTable::read(&created("CREATE TABLE t (a int) INHERITS (u)")).unwrap_err();
        assert!(error.message.contains("INHERITS"), "{error}");
    }

    #[test]
    fn a_table_has_so_many_columns_and_no_more() {
        let columns = |count: usize| (0..count).map(|i| format!("c{i} int")).collect::<Vec<_>>().join(", ");
        let most = NewTable::read(&created(&format!("CREATE TABLE t ({})", columns(COLUMNS_MAX)))).unwrap();
        assert_eq!(most.columns.len(), COLUMNS_MAX);
        assert_eq!(shown(&format!("CREATE TABLE t ({})", columns(COLUMNS_MAX + 1))), "54011 at 1:14");
    }

    #[test]
    fn a_table_of_a_query_may_name_columns_and_not_their_types() {
        check(
            &[
                ("CREATE TABLE t AS SELECT 1", "t () of SELECT 1, columns None"),
                ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", "t unless there () of SELECT 1, columns None"),
                ("CREATE TABLE s.t (a, \"B\") AS SELECT 1, 2", "s.t (a,B) of SELECT 1, 2, columns None"),
                ("CREATE TABLE t (a) WITH (columns = on) AS SELECT 1", "t (a) of SELECT 1, columns Some(true)"),
                ("CREATE TABLE t WITH (columns = off) AS SELECT 1", "t () of SELECT 1, columns Some(false)"),
                ("CREATE TABLE t AS VALUES (1)", "t () of VALUES (1), columns None"),
                ("CREATE TABLE t AS (SELECT 1)", "t () of (SELECT 1), columns None"),
                ("CREATE TABLE t (a int) AS SELECT 1", "42601"),
                ("CREATE TABLE t (a int PRIMARY KEY) AS SELECT 1", "42601"),
                ("CREATE TEMP TABLE t AS SELECT 1", "0A000"),
            ],
            shown_as,
        );
    }
}
