//! CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table (column | (expression) [ASC | DESC], …) [INCLUDE (column, …)]
//! [WHERE condition].

use datafusion::sql::sqlparser::ast::{self, CreateIndex, Expr, Ident, IndexType, ObjectName, ObjectNamePart};
use saki_base::DataType;

use super::expression::column_name;
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
    pub keys: Vec<NewKey>,
    /// WHERE.
    pub predicate: Option<Expr>,
    pub unique: bool,
    pub include: Vec<usize>,
}

/// A key of an index to be made.
#[derive(Debug)]
pub struct NewKey {
    pub of: KeyOf,
    pub descending: bool,
    /// Checked already where the key is a column.
    pub class: Option<ObjectName>,
}

/// What a key's values are.
#[derive(Debug)]
pub enum KeyOf {
    Column(usize),
    Expression(Box<Expr>),
}

/// The table a CREATE INDEX is about.
pub fn table_name(create: &CreateIndex) -> Result<(String, Option<Position>)> {
    object_name(&create.table_name)
}

/// Whether the index has a key that is an expression, or a condition.
pub fn is_over_expressions(create: &CreateIndex) -> bool {
    create.predicate.is_some()
        || create.columns.iter().any(|key| !matches!(bare(&key.column.expr), Expr::Identifier(_)))
}

/// A key without the parentheses around it.
fn bare(mut key: &Expr) -> &Expr {
    while let Expr::Nested(inner) = key {
        key = inner;
    }
    key
}

impl NewIndex {
    pub fn read(create: &CreateIndex, table: &Table) -> Result<Self> {
        refuse_other_clauses(create)?;
        let mut keys: Vec<NewKey> = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let key = NewKey::read(column, table)?;
            if let (KeyOf::Column(column), Expr::Identifier(ident)) = (&key.of, bare(&column.column.expr))
                && keys.iter().any(|present| matches!(present.of, KeyOf::Column(other) if other == *column))
            {
                return Err(SqlError::invalid(format!("column {:?} is twice in the index", name_of(ident)))
                    .at(position_of(ident)));
            }
            keys.push(key);
        }
        let mut include = Vec::new();
        for ident in &create.include {
            let column = find(table, ident)?;
            let is_key = keys.iter().any(|key| matches!(key.of, KeyOf::Column(key) if key == column));
            if !include.contains(&column) && !is_key {
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
                let names = key_names(&keys, table).join("_");
                (qualified(&table.schema, &format!("{}_{names}_idx", table.bare_name())), None)
            }
        };
        let (named, predicate) = (create.name.is_some(), create.predicate.clone());
        let (if_not_exists, unique) = (create.if_not_exists, create.unique);
        Ok(Self { name, named, position, if_not_exists, keys, predicate, unique, include })
    }

    /// Its keys, if they are columns and it has no condition.
    pub fn columns(&self) -> Option<Vec<IndexColumn>> {
        let column = |key: &NewKey| match key.of {
            KeyOf::Column(column) => Some(IndexColumn { column, descending: key.descending }),
            KeyOf::Expression(_) => None,
        };
        self.keys.iter().map(column).collect::<Option<Vec<_>>>().filter(|_| self.predicate.is_none())
    }
}

impl NewKey {
    fn read(key: &ast::IndexColumn, table: &Table) -> Result<Self> {
        let expression = bare(&key.column.expr);
        let at = match expression {
            Expr::Identifier(ident) => position_of(ident),
            _ => None,
        };
        let descending = key.column.options.asc == Some(false);
        // NULLs sort last upwards and first downwards, as PostgreSQL's default has it.
        if key.column.options.nulls_first.is_some_and(|first| first != descending) {
            return Err(SqlError::unsupported("NULLS FIRST and LAST other than the default are not supported").at(at));
        }
        let class = key.operator_class.clone();
        let of = match expression {
            Expr::Identifier(ident) => {
                let column = find(table, ident)?;
                let (name, data_type, _) = table.column_type(column);
                refuse_unordered(name, data_type).map_err(|error| error.at(at))?;
                if let Some(class) = &class {
                    check_class(class, table.column_type(column).1).map_err(|error| error.at(at))?;
                }
                KeyOf::Column(column)
            }
            collated @ Expr::Collate { .. } => {
                return Err(SqlError::unsupported(format!("an index over {collated} is not supported"))
                    .hint("texts are ordered by their bytes, as by the collation \"C\""));
            }
            expression => KeyOf::Expression(Box::new(expression.clone())),
        };
        Ok(Self { of, descending, class })
    }
}

/// What keys are called in the name of an index: as PostgreSQL has it, of columns and of most expressions.
fn key_names(keys: &[NewKey], table: &Table) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(keys.len());
    for key in keys {
        let base = match &key.of {
            KeyOf::Column(column) => table.column_type(*column).0.to_owned(),
            KeyOf::Expression(expression) => expression_name(expression).unwrap_or_else(|| "expr".to_owned()),
        };
        let mut name = base.clone();
        let mut number = 0;
        while names.contains(&name) {
            number += 1;
            name = format!("{base}{number}");
        }
        names.push(name);
    }
    names
}

fn expression_name(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => expression_name(inner),
        Expr::Function(function) => function.name.0.last()?.as_ident().map(name_of),
        other => column_name(other),
    }
}

fn find(table: &Table, ident: &Ident) -> Result<usize> {
    let name = name_of(ident);
    table.column(&name).ok_or_else(|| undefined_column(table, &name).at(position_of(ident)))
}

/// Refuses types whose values cannot be keys of a table or an index, which have one order and give back what they hold.
///
/// # Errors
/// 42704 for `json`, 0A000 for `jsonb` and `interval`.
pub fn refuse_unordered(column: &str, data_type: DataType) -> Result<()> {
    match data_type {
        DataType::Json => {
            let message = "data type json has no default operator class for access method \"btree\"";
            Err(SqlError::invalid(message).code("42704"))
        }
        DataType::Jsonb => Err(SqlError::unsupported("an index or key over a value of type jsonb is not supported")
            .hint("an index over an expression finds what is in it, as over (data ->> 'name')")),
        DataType::Interval => {
            let message = format!("column {column:?} of type {data_type} in a key or an index is not supported");
            Err(SqlError::unsupported(message)
                .detail("Intervals that are equal, as a month and 30 days, need not be the same."))
        }
        DataType::Array(element) => refuse_unordered(column, element.data_type()),
        _ => Ok(()),
    }
}

/// Takes the operator classes that order a text as indexes order every text here: by its bytes. Those of patterns are
/// what makes an index serve `LIKE 'a%'` in PostgreSQL under other orders.
///
/// # Errors
/// 0A000 for others, 42804 for one that is of another type.
pub fn check_class(class: &ObjectName, of: DataType) -> Result<()> {
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
    let refused = if create.nulls_distinct == Some(false) {
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
