//! Constraints as CREATE TABLE and ALTER TABLE spell them, of columns and of tables.

use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, Expr,
    ForeignKeyConstraint, Ident, IndexColumn, IndexType, NullsDistinctOption, PrimaryKeyConstraint,
    ReferentialAction as Action, TableConstraint, UniqueConstraint,
};

use super::{RelationName, name_of, position_of};
use crate::catalog::ReferentialAction;
use crate::error::{Position, Result, SqlError};

/// A constraint to be made; its columns are names still.
#[derive(Clone, Debug)]
pub struct NewConstraint {
    pub name: Option<String>,
    pub position: Option<Position>,
    pub kind: NewConstraintKind,
}

#[derive(Clone, Debug)]
pub enum NewConstraintKind {
    PrimaryKey(Vec<ColumnName>),
    Unique(Vec<ColumnName>),
    Check(Box<Expr>),
    ForeignKey(NewForeignKey),
}

#[derive(Clone, Debug)]
pub struct NewForeignKey {
    pub columns: Vec<ColumnName>,
    pub table: RelationName,
    /// Empty: the primary key.
    pub referenced: Vec<ColumnName>,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
}

/// A column's name, and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnName {
    pub name: String,
    pub position: Option<Position>,
}

impl ColumnName {
    pub fn of(ident: &Ident) -> Self {
        Self { name: name_of(ident), position: position_of(ident) }
    }
}

impl NewConstraint {
    /// Reads a constraint of a table.
    pub fn read(constraint: &TableConstraint) -> Result<Self> {
        match constraint {
            TableConstraint::PrimaryKey(key) => Self::primary_key(key, key.name.as_ref(), None),
            TableConstraint::Unique(unique) => Self::unique(unique, unique.name.as_ref(), None),
            TableConstraint::Check(check) => Self::check(check, check.name.as_ref()),
            TableConstraint::ForeignKey(key) => Self::foreign_key(key, key.name.as_ref(), None),
            other => Err(SqlError::unsupported(format!("{other} is not supported"))
                .hint("PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY are")),
        }
    }

    pub fn primary_key(key: &PrimaryKeyConstraint, name: Option<&Ident>, of: Option<&Ident>) -> Result<Self> {
        check_index(key.index_type.as_ref(), key.index_options.is_empty())?;
        check_characteristics(key.characteristics.as_ref())?;
        Ok(Self::new(name, NewConstraintKind::PrimaryKey(key_columns(&key.columns, of, "a primary key")?)))
    }

    pub fn unique(unique: &UniqueConstraint, name: Option<&Ident>, of: Option<&Ident>) -> Result<Self> {
        check_index(unique.index_type.as_ref(), unique.index_options.is_empty())?;
        check_characteristics(unique.characteristics.as_ref())?;
        if unique.nulls_distinct == NullsDistinctOption::NotDistinct {
            return Err(SqlError::unsupported("UNIQUE NULLS NOT DISTINCT is not supported"));
        }
        Ok(Self::new(name, NewConstraintKind::Unique(key_columns(&unique.columns, of, "a unique constraint")?)))
    }

    pub fn check(check: &CheckConstraint, name: Option<&Ident>) -> Result<Self> {
        if check.enforced == Some(false) {
            return Err(SqlError::unsupported("CHECK … NOT ENFORCED is not supported"));
        }
        Ok(Self::new(name, NewConstraintKind::Check(check.expr.clone())))
    }

    pub fn foreign_key(key: &ForeignKeyConstraint, name: Option<&Ident>, of: Option<&Ident>) -> Result<Self> {
        check_characteristics(key.characteristics.as_ref())?;
        if !matches!(key.match_kind, None | Some(ConstraintReferenceMatchKind::Simple)) {
            return Err(SqlError::unsupported("MATCH FULL and MATCH PARTIAL are not supported")
                .hint("MATCH SIMPLE is; NOT NULL columns make it the same"));
        }
        let columns = match of {
            Some(column) => vec![ColumnName::of(column)],
            None => key.columns.iter().map(ColumnName::of).collect(),
        };
        let kind = NewConstraintKind::ForeignKey(NewForeignKey {
            columns,
            table: RelationName::read(&key.foreign_table)?,
            referenced: key.referred_columns.iter().map(ColumnName::of).collect(),
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
        });
        Ok(Self::new(name, kind))
    }

    fn new(name: Option<&Ident>, kind: NewConstraintKind) -> Self {
        Self { name: name.map(name_of), position: name.and_then(position_of), kind }
    }
}

fn action(action: Option<Action>) -> ReferentialAction {
    match action {
        None | Some(Action::NoAction) => ReferentialAction::NoAction,
        Some(Action::Restrict) => ReferentialAction::Restrict,
        Some(Action::Cascade) => ReferentialAction::Cascade,
        Some(Action::SetNull) => ReferentialAction::SetNull,
        Some(Action::SetDefault) => ReferentialAction::SetDefault,
    }
}

/// Columns of a key; `of`: the column whose option it is.
fn key_columns(columns: &[IndexColumn], of: Option<&Ident>, what: &str) -> Result<Vec<ColumnName>> {
    if let Some(column) = of {
        return Ok(vec![ColumnName::of(column)]);
    }
    let mut names: Vec<ColumnName> = Vec::with_capacity(columns.len());
    for column in columns {
        let Expr::Identifier(ident) = &column.column.expr else {
            return Err(SqlError::unsupported(format!("{what} over {} is not supported", column.column.expr))
                .hint("name columns"));
        };
        if column.column.options.asc == Some(false) {
            return Err(SqlError::unsupported(format!("{what} with a descending column is not supported"))
                .hint("make an index with the descending column")
                .at(position_of(ident)));
        }
        names.push(ColumnName::of(ident));
    }
    Ok(names)
}

fn check_index(index_type: Option<&IndexType>, plain: bool) -> Result<()> {
    if plain && matches!(index_type, None | Some(IndexType::BTree)) {
        return Ok(());
    }
    Err(SqlError::unsupported("index options of a constraint are not supported"))
}

fn check_characteristics(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    let Some(said) = characteristics else { return Ok(()) };
    if said.deferrable == Some(true) || said.initially == Some(DeferrableInitial::Deferred) {
        return Err(SqlError::unsupported("DEFERRABLE constraints are not supported")
            .hint("constraints are checked by each statement"));
    }
    if said.enforced == Some(false) {
        return Err(SqlError::unsupported("constraints that are NOT ENFORCED are not supported"));
    }
    Ok(())
}
