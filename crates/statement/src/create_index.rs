//! CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table (column [ASC | DESC], …) [INCLUDE (column, …)].

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, Ident, IndexType, ObjectName, ObjectNamePart};
use saki_base::DataType;

use super::{RelationName, name_of, object_name, position_of};
use saki_catalog::{IndexColumn, Position, Result, SqlError, Table};
use saki_catalog::{qualified, undefined_column};

/// An index to be made.
#[derive(Debug)]
pub struct NewIndex {
    pub name: String,
    /// Whether the statement says the name.
    pub named: bool,
    pub position: Option<Position>,
    pub if_not_exists: bool,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    pub include: Vec<usize>,
}

/// The table a CREATE INDEX is about.
pub fn table_name(create: &CreateIndex) -> Result<(String, Option<Position>)> {
    object_name(&create.table_name)
}

impl NewIndex {
    pub fn read(create: &CreateIndex, table: &Table) -> Result<Self> {
        refuse_other_clauses(create)?;
        let mut columns: Vec<IndexColumn> = Vec::with_capacity(create.columns.len());
        for key in &create.columns {
            let Expr::Identifier(ident) = &key.column.expr else {
                return Err(SqlError::unsupported(format!("an index over {} is not supported", key.column.expr))
                    .hint("index columns"));
            };
            let descending = key.column.options.asc == Some(false);
            // NULLs sort last upwards and first downwards, as PostgreSQL's default has it.
            if key.column.options.nulls_first.is_some_and(|first| first != descending) {
                return Err(SqlError::unsupported("NULLS FIRST and LAST other than the default are not supported")
                    .at(position_of(ident)));
            }
            let column = find(table, ident)?;
            if let Some(class) = &key.operator_class {
                check_class(class, table.column_type(column).1).map_err(|error| error.at(position_of(ident)))?;
            }
            if columns.iter().any(|present| present.column == column) {
                return Err(SqlError::invalid(format!("column {:?} is twice in the index", name_of(ident)))
                    .at(position_of(ident)));
            }
            columns.push(IndexColumn { column, descending });
        }
        let mut include = Vec::new();
        for ident in &create.include {
            let column = find(table, ident)?;
            if !include.contains(&column) && !columns.iter().any(|present| present.column == column) {
                include.push(column);
            }
        }
        let (name, position) = match &create.name {
            // An index is in its table's schema.
            Some(name) => {
                let named = RelationName::read(name)?;
                (qualified(&table.schema, named.bare()), named.position)
            }
            None => {
                let columns: Vec<&str> = columns.iter().map(|c| table.column_type(c.column).0).collect();
                (qualified(&table.schema, &format!("{}_{}_idx", table.bare_name(), columns.join("_"))), None)
            }
        };
        let named = create.name.is_some();
        Ok(Self { name, named, position, if_not_exists: create.if_not_exists, columns, unique: create.unique, include })
    }
}

fn find(table: &Table, ident: &Ident) -> Result<usize> {
    let name = name_of(ident);
    table.column(&name).ok_or_else(|| undefined_column(table, &name).at(position_of(ident)))
}

/// Takes the operator classes that order a text as indexes order every text here: by its bytes. Those of patterns are
/// what makes an index serve `LIKE 'a%'` in PostgreSQL under other orders.
fn check_class(class: &ObjectName, of: DataType) -> Result<()> {
    let name = class.0.last().and_then(ObjectNamePart::as_ident).map(name_of).unwrap_or_default();
    let takes = match name.as_str() {
        "text_ops" | "text_pattern_ops" | "varchar_ops" | "varchar_pattern_ops" => {
            matches!(of, DataType::Text | DataType::Varchar(_))
        }
        "bpchar_ops" | "bpchar_pattern_ops" => matches!(of, DataType::Char(_)),
        _ => return Err(SqlError::unsupported(format!("operator class {class} is not supported")).hint("leave it out")),
    };
    if takes {
        return Ok(());
    }
    let message = format!("operator class {name:?} does not accept data type {of}");
    Err(SqlError::invalid(message).code("42804"))
}

fn refuse_other_clauses(create: &CreateIndex) -> Result<()> {
    let refused = if create.predicate.is_some() {
        "WHERE"
    } else if create.nulls_distinct == Some(false) {
        "NULLS NOT DISTINCT"
    } else if !create.index_options.is_empty() || !create.alter_options.is_empty() {
        "an index option"
    } else if !matches!(create.using, None | Some(IndexType::BTree)) {
        "USING other than btree"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(format!("CREATE INDEX: {refused} is not supported")))
}
