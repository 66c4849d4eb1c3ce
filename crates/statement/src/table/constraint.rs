//! Constraints as CREATE TABLE and ALTER TABLE spell them, of columns and of tables.

use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, Expr,
    ForeignKeyConstraint, Ident, IndexColumn, IndexType, NullsDistinctOption, PrimaryKeyConstraint,
    ReferentialAction as Action, TableConstraint, UniqueConstraint,
};

use crate::{RelationName, name_of, position_of};
use saki_catalog::{Deferral, Position, ReferentialAction, Result, SqlError};

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
    pub deferral: Deferral,
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
        refuse_deferral(key.characteristics.as_ref())?;
        Ok(Self::new(name, NewConstraintKind::PrimaryKey(key_columns(&key.columns, of, "a primary key")?)))
    }

    pub fn unique(unique: &UniqueConstraint, name: Option<&Ident>, of: Option<&Ident>) -> Result<Self> {
        check_index(unique.index_type.as_ref(), unique.index_options.is_empty())?;
        refuse_deferral(unique.characteristics.as_ref())?;
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
        let deferral = deferral(key.characteristics.as_ref())?;
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
            deferral,
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

/// When a constraint is to be checked.
///
/// # Errors
/// 42601 for what contradicts itself.
pub fn deferral(characteristics: Option<&ConstraintCharacteristics>) -> Result<Deferral> {
    let Some(said) = characteristics else { return Ok(Deferral::Never) };
    if said.enforced == Some(false) {
        return Err(SqlError::unsupported("constraints that are NOT ENFORCED are not supported"));
    }
    match (said.deferrable, &said.initially) {
        (Some(false), Some(DeferrableInitial::Deferred)) => {
            Err(SqlError::invalid("constraint declared INITIALLY DEFERRED must be DEFERRABLE").code("42601"))
        }
        (_, Some(DeferrableInitial::Deferred)) => Ok(Deferral::InitiallyDeferred),
        (Some(true), _) => Ok(Deferral::InitiallyImmediate),
        _ => Ok(Deferral::Never),
    }
}

/// Of keys of trees: they are kept while rows are written.
fn refuse_deferral(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    match deferral(characteristics)? {
        Deferral::Never => Ok(()),
        _ => Err(SqlError::unsupported("DEFERRABLE unique and primary keys are not supported")
            .hint("each statement checks them; foreign keys may be DEFERRABLE")),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;
    use crate::fixture::{check, code, parsed};

    fn read_text(constraint: &str) -> Result<NewConstraint> {
        match parsed(&format!("CREATE TABLE t (a int, {constraint})")) {
            Statement::CreateTable(create) => NewConstraint::read(&create.constraints[0]),
            other => panic!("{other} makes no table"),
        }
    }

    fn names(columns: &[ColumnName]) -> String {
        columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(",")
    }

    fn shown(constraint: &str) -> String {
        let new = match read_text(constraint) {
            Ok(new) => new,
            Err(error) => return code(&error),
        };
        let kind = match &new.kind {
            NewConstraintKind::PrimaryKey(columns) => format!("primary key {}", names(columns)),
            NewConstraintKind::Unique(columns) => format!("unique {}", names(columns)),
            NewConstraintKind::Check(condition) => format!("check {condition}"),
            NewConstraintKind::ForeignKey(key) => format!(
                "{} refers to {}({}), {:?} on update, {:?} on delete{}",
                names(&key.columns),
                key.table.name,
                names(&key.referenced),
                key.on_update,
                key.on_delete,
                key.deferral.words()
            ),
        };
        format!("{}: {kind}", new.name.as_deref().unwrap_or("-"))
    }

    #[test]
    fn keys_and_checks_of_a_table_are_read_with_and_without_names() {
        check(
            &[
                ("PRIMARY KEY (a)", "-: primary key a"),
                ("CONSTRAINT p PRIMARY KEY (a, \"B c\")", "p: primary key a,B c"),
                ("CONSTRAINT \"P\" PRIMARY KEY (A)", "P: primary key a"),
                ("PRIMARY KEY (a ASC)", "-: primary key a"),
                ("UNIQUE (a, b)", "-: unique a,b"),
                ("CONSTRAINT U UNIQUE (a)", "u: unique a"),
                ("UNIQUE NULLS DISTINCT (a)", "-: unique a"),
                ("CHECK (a > 0 AND a < 10)", "-: check a > 0 AND a < 10"),
                ("CONSTRAINT c CHECK ((a))", "c: check (a)"),
                ("UNIQUE (a) NOT DEFERRABLE INITIALLY IMMEDIATE", "-: unique a"),
            ],
            shown,
        );
    }

    #[test]
    fn foreign_keys_are_read_with_their_actions() {
        check(
            &[
                ("FOREIGN KEY (a) REFERENCES u", "-: a refers to u(), NoAction on update, NoAction on delete"),
                (
                    "CONSTRAINT f FOREIGN KEY (a, b) REFERENCES s.u (x, y)",
                    "f: a,b refers to s.u(x,y), NoAction on update, NoAction on delete",
                ),
                (
                    "FOREIGN KEY (a) REFERENCES u ON DELETE CASCADE",
                    "-: a refers to u(), NoAction on update, Cascade on delete",
                ),
                (
                    "FOREIGN KEY (a) REFERENCES u ON UPDATE SET NULL ON DELETE SET DEFAULT",
                    "-: a refers to u(), SetNull on update, SetDefault on delete",
                ),
                (
                    "FOREIGN KEY (a) REFERENCES u ON DELETE RESTRICT ON UPDATE NO ACTION",
                    "-: a refers to u(), NoAction on update, Restrict on delete",
                ),
                (
                    "FOREIGN KEY (a) REFERENCES u (b) MATCH SIMPLE",
                    "-: a refers to u(b), NoAction on update, NoAction on delete",
                ),
                ("FOREIGN KEY (a) REFERENCES u (b) MATCH FULL", "0A000"),
            ],
            shown,
        );
    }

    #[test]
    fn foreign_keys_may_wait_for_the_end_of_a_transaction() {
        const KEY: &str = "-: a refers to u(), NoAction on update, NoAction on delete";
        for (said, words) in [
            ("DEFERRABLE", " DEFERRABLE"),
            ("DEFERRABLE INITIALLY IMMEDIATE", " DEFERRABLE"),
            ("DEFERRABLE INITIALLY DEFERRED", " DEFERRABLE INITIALLY DEFERRED"),
            ("INITIALLY DEFERRED DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED"),
            ("INITIALLY DEFERRED", " DEFERRABLE INITIALLY DEFERRED"),
            ("NOT DEFERRABLE", ""),
            ("INITIALLY IMMEDIATE", ""),
        ] {
            assert_eq!(shown(&format!("FOREIGN KEY (a) REFERENCES u {said}")), format!("{KEY}{words}"), "{said}");
        }
    }

    #[test]
    fn what_constraints_cannot_be_here_is_refused() {
        check(
            &[
                ("PRIMARY KEY (a DESC)", "0A000 at 1:37"),
                ("PRIMARY KEY (lower(a))", "0A000"),
                ("UNIQUE (a + 1)", "0A000"),
                ("UNIQUE NULLS NOT DISTINCT (a)", "0A000"),
                ("PRIMARY KEY (a) DEFERRABLE", "0A000"),
                ("UNIQUE (a) INITIALLY DEFERRED", "0A000"),
                ("UNIQUE (a) NOT DEFERRABLE INITIALLY DEFERRED", "42601"),
                ("FOREIGN KEY (a) REFERENCES u NOT DEFERRABLE INITIALLY DEFERRED", "42601"),
                ("FOREIGN KEY (a) REFERENCES u INITIALLY DEFERRED NOT DEFERRABLE", "42601"),
                ("CHECK (a > 0) NOT ENFORCED", "0A000"),
                ("FOREIGN KEY (a) REFERENCES x.y.z", "0A000 at 1:55"),
            ],
            shown,
        );
    }

    #[test]
    fn names_say_where_they_stand() {
        let new = read_text("CONSTRAINT f FOREIGN KEY (a) REFERENCES u (b)").unwrap();
        assert_eq!(new.position, Some(Position { line: 1, column: 35 }));
        let NewConstraintKind::ForeignKey(key) = new.kind else { panic!("no foreign key") };
        assert_eq!(key.columns[0].position, Some(Position { line: 1, column: 50 }));
        assert_eq!(key.table.position, Some(Position { line: 1, column: 64 }));
        assert_eq!(key.referenced[0].position, Some(Position { line: 1, column: 67 }));
    }
}
