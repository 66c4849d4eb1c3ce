//! A column as CREATE TABLE and ALTER TABLE … ADD COLUMN spell it: type, default, identity, and its constraints.

use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, DataType as SqlType, Expr, GeneratedAs, Ident};
use saki_base::{Column, DataType};

use super::constraint::NewConstraint;
use crate::sequence::SequenceOptions;
use crate::types::storage_type;
use crate::{name_of, position_of};
use saki_catalog::{Identity, Position, Result, SqlError};

/// A column to be made.
#[derive(Debug)]
pub struct NewColumn {
    pub column: Column,
    pub position: Option<Position>,
    pub default: Option<Expr>,
    pub generated: Option<Generated>,
    pub constraints: Vec<NewConstraint>,
}

/// A column that has a sequence of its own.
#[derive(Debug)]
pub struct Generated {
    /// `None`: a serial column, whose default draws from the sequence.
    pub identity: Option<Identity>,
    pub options: SequenceOptions,
}

impl NewColumn {
    pub fn read(definition: &ColumnDef) -> Result<Self> {
        let at = position_of(&definition.name);
        Self::read_options(definition).map_err(|error| error.at(at))
    }

    fn read_options(definition: &ColumnDef) -> Result<Self> {
        let (data_type, serial) = match serial_type(&definition.data_type) {
            Some(data_type) => (data_type, true),
            None => (storage_type(&definition.data_type)?, false),
        };
        let mut new = Self {
            column: Column { name: name_of(&definition.name), data_type, nullable: !serial },
            position: position_of(&definition.name),
            default: None,
            generated: serial.then(|| Generated { identity: None, options: SequenceOptions::default() }),
            constraints: Vec::new(),
        };
        for option in &definition.options {
            new.read_option(&definition.name, option.name.as_ref(), &option.option)?;
        }
        let says_null = definition.options.iter().any(|option| matches!(option.option, ColumnOption::Null));
        let says_not_null = definition.options.iter().any(|option| matches!(option.option, ColumnOption::NotNull));
        if says_null && (says_not_null || new.generated.is_some()) {
            let message = format!("conflicting NULL/NOT NULL declarations for column {:?}", new.column.name);
            return Err(SqlError::invalid(message).code("42601"));
        }
        if new.default.is_some() && new.generated.is_some() {
            return Err(SqlError::invalid(format!(
                "both default and identity specified for column {:?}",
                new.column.name
            ))
            .code("42601"));
        }
        Ok(new)
    }

    fn read_option(&mut self, column: &Ident, name: Option<&Ident>, option: &ColumnOption) -> Result<()> {
        let column = Some(column);
        match option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => self.column.nullable = false,
            ColumnOption::PrimaryKey(key) => {
                self.column.nullable = false;
                self.constraints.push(NewConstraint::primary_key(key, name.or(key.name.as_ref()), column)?);
            }
            ColumnOption::Unique(unique) => {
                self.constraints.push(NewConstraint::unique(unique, name.or(unique.name.as_ref()), column)?);
            }
            ColumnOption::Check(check) => {
                self.constraints.push(NewConstraint::check(check, name.or(check.name.as_ref()))?);
            }
            ColumnOption::ForeignKey(key) => {
                self.constraints.push(NewConstraint::foreign_key(key, name.or(key.name.as_ref()), column)?);
            }
            ColumnOption::Default(expression) => {
                if self.default.replace(expression.clone()).is_some() {
                    return Err(SqlError::invalid(format!(
                        "multiple default values specified for column {:?}",
                        self.column.name
                    ))
                    .code("42601"));
                }
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                let identity = match generated_as {
                    GeneratedAs::Always => Identity::Always,
                    GeneratedAs::ByDefault => Identity::ByDefault,
                    GeneratedAs::ExpStored => return Err(unsupported(&self.column.name, option)),
                };
                self.make_identity(identity, SequenceOptions::read(sequence_options.iter().flatten())?)?;
            }
            // The collation of bytes is the only one, under the names that PostgreSQL has for it.
            ColumnOption::Collation(collation)
                if ["default", "c", "posix", "ucs_basic"].iter().any(|known| {
                    collation
                        .0
                        .last()
                        .and_then(|part| part.as_ident())
                        .is_some_and(|i| i.value.eq_ignore_ascii_case(known))
                }) => {}
            other => return Err(unsupported(&self.column.name, other)),
        }
        Ok(())
    }

    fn make_identity(&mut self, identity: Identity, options: SequenceOptions) -> Result<()> {
        if !matches!(self.column.data_type, DataType::Int2 | DataType::Int4 | DataType::Int8) {
            return Err(SqlError::invalid("identity column type must be smallint, integer, or bigint").code("22023"));
        }
        self.column.nullable = false;
        if self.generated.replace(Generated { identity: Some(identity), options }).is_some() {
            return Err(SqlError::invalid(format!(
                "multiple identity specifications for column {:?}",
                self.column.name
            ))
            .code("42601"));
        }
        Ok(())
    }
}

fn unsupported(column: &str, option: &ColumnOption) -> SqlError {
    SqlError::unsupported(format!("column {column:?}: {option} is not supported"))
}

/// The type of a column of type serial.
fn serial_type(spelled: &SqlType) -> Option<DataType> {
    let SqlType::Custom(name, modifiers) = spelled else { return None };
    let [part] = &name.0[..] else { return None };
    if !modifiers.is_empty() {
        return None;
    }
    match part.as_ident()?.value.to_lowercase().as_str() {
        "smallserial" | "serial2" => Some(DataType::Int2),
        "serial" | "serial4" => Some(DataType::Int4),
        "bigserial" | "serial8" => Some(DataType::Int8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::super::constraint::NewConstraintKind;
    use super::*;
    use crate::fixture::{check, code, parsed};

    /// The first column of a table made by `CREATE TABLE t (column)`.
    fn read_column(column: &str) -> Result<NewColumn> {
        match parsed(&format!("CREATE TABLE t ({column})")) {
            Statement::CreateTable(create) => NewColumn::read(&create.columns[0]),
            other => panic!("{other} makes no table"),
        }
    }

    fn shown(column: &str) -> String {
        let new = match read_column(column) {
            Ok(new) => new,
            Err(error) => return code(&error),
        };
        let mut shown = format!("{} {}", new.column.name, new.column.data_type);
        if !new.column.nullable {
            shown.push_str(" not null");
        }
        if let Some(default) = &new.default {
            shown.push_str(&format!(" default {default}"));
        }
        if let Some(generated) = &new.generated {
            shown.push_str(&generated.identity.map_or(" serial".to_owned(), |identity| format!(" {identity:?}")));
        }
        for constraint in &new.constraints {
            let kind = match &constraint.kind {
                NewConstraintKind::PrimaryKey(columns) => format!("primary key {}", columns[0].name),
                NewConstraintKind::Unique(columns) => format!("unique {}", columns[0].name),
                NewConstraintKind::Check(condition) => format!("check {condition}"),
                NewConstraintKind::ForeignKey(key) => format!("references {}", key.table.name),
            };
            shown.push_str(&format!(
                ", {}{kind}",
                constraint.name.as_ref().map(|n| format!("{n}: ")).unwrap_or_default()
            ));
        }
        shown
    }

    #[test]
    fn types_have_the_names_that_postgresql_knows_them_by() {
        check(
            &[
                ("a bool", "a boolean"),
                ("a boolean", "a boolean"),
                ("a smallint", "a smallint"),
                ("a int2", "a smallint"),
                ("a int", "a integer"),
                ("a integer", "a integer"),
                ("a int4", "a integer"),
                ("a bigint", "a bigint"),
                ("a int8", "a bigint"),
                ("a real", "a real"),
                ("a float4", "a real"),
                ("a float(24)", "a real"),
                ("a float(25)", "a double precision"),
                ("a float", "a double precision"),
                ("a float8", "a double precision"),
                ("a double precision", "a double precision"),
                ("a numeric(10, 2)", "a numeric(10,2)"),
                ("a decimal(10)", "a numeric(10,0)"),
                ("a dec(5,5)", "a numeric(5,5)"),
                ("a text", "a text"),
                ("a varchar", "a text"),
                ("a varchar(7)", "a character varying(7)"),
                ("a character varying(7)", "a character varying(7)"),
                ("a char", "a character(1)"),
                ("a char(3)", "a character(3)"),
                ("a character(3)", "a character(3)"),
                ("a bytea", "a bytea"),
                ("a date", "a date"),
                ("a timestamp", "a timestamp without time zone"),
                ("a timestamp without time zone", "a timestamp without time zone"),
                ("a timestamp with time zone", "a timestamp with time zone"),
                ("a timestamptz", "a timestamp with time zone"),
                ("a uuid", "a uuid"),
                ("a smallserial", "a smallint not null serial"),
                ("a serial", "a integer not null serial"),
                ("a serial4", "a integer not null serial"),
                ("a bigserial", "a bigint not null serial"),
                ("a SERIAL8", "a bigint not null serial"),
            ],
            shown,
        );
    }

    #[test]
    fn types_that_do_not_fit_or_are_not_there_are_refused_at_the_column() {
        check(
            &[
                ("a point", "0A000 at 1:17"),
                ("a point[]", "0A000 at 1:17"),
                ("a point", "0A000 at 1:17"),
                ("a nosuch", "0A000 at 1:17"),
                ("a varchar(0)", "22023 at 1:17"),
                ("a char(0)", "22023 at 1:17"),
                ("a numeric(0)", "22023 at 1:17"),
                ("a numeric(39)", "22023 at 1:17"),
                ("a numeric(5, 6)", "22023 at 1:17"),
                ("a varchar(99999999999)", "22023 at 1:17"),
            ],
            shown,
        );
    }

    #[test]
    fn options_of_a_column_are_read_in_any_order() {
        check(
            &[
                ("a int NOT NULL", "a integer not null"),
                ("a int NULL", "a integer"),
                ("A int", "a integer"),
                ("\"A\" int", "A integer"),
                ("a int DEFAULT 7", "a integer default 7"),
                ("a int DEFAULT 7 NOT NULL", "a integer not null default 7"),
                ("a int NOT NULL DEFAULT 7 + 1", "a integer not null default 7 + 1"),
                ("a int PRIMARY KEY", "a integer not null, primary key a"),
                ("a int NULL PRIMARY KEY", "a integer not null, primary key a"),
                ("a int NOT NULL NOT NULL", "a integer not null"),
                ("a int CONSTRAINT p PRIMARY KEY", "a integer not null, p: primary key a"),
                ("a int UNIQUE", "a integer, unique a"),
                ("a int CHECK (a > 0) UNIQUE", "a integer, check a > 0, unique a"),
                ("a int CONSTRAINT c CHECK (a > 0)", "a integer, c: check a > 0"),
                ("a int REFERENCES u", "a integer, references u"),
                ("a int CONSTRAINT k REFERENCES u DEFERRABLE INITIALLY DEFERRED", "a integer, k: references u"),
                ("a int REFERENCES s.u (x) NOT NULL", "a integer not null, references s.u"),
                ("a int GENERATED ALWAYS AS IDENTITY", "a integer not null Always"),
                ("a bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", "a bigint not null ByDefault, primary key a"),
                ("a text COLLATE \"C\"", "a text"),
                ("a text COLLATE pg_catalog.\"default\" NOT NULL", "a text not null"),
            ],
            shown,
        );
    }

    #[test]
    fn options_that_contradict_one_another_are_refused_as_postgresql_does() {
        check(
            &[
                ("a int DEFAULT 1 DEFAULT 2", "42601 at 1:17"),
                ("a int DEFAULT 1 GENERATED ALWAYS AS IDENTITY", "42601 at 1:17"),
                ("a serial DEFAULT 1", "42601 at 1:17"),
                ("a serial GENERATED ALWAYS AS IDENTITY", "42601 at 1:17"),
                ("a int GENERATED ALWAYS AS IDENTITY GENERATED ALWAYS AS IDENTITY", "42601 at 1:17"),
                ("a text GENERATED ALWAYS AS IDENTITY", "22023 at 1:17"),
                ("a int NULL NOT NULL", "42601 at 1:17"),
                ("a int NOT NULL NULL", "42601 at 1:17"),
                ("a serial NULL", "42601 at 1:17"),
                ("a int NULL GENERATED ALWAYS AS IDENTITY", "42601 at 1:17"),
                ("a int GENERATED ALWAYS AS (b + 1) STORED", "0A000 at 1:17"),
                ("a text COLLATE \"de_DE\"", "0A000 at 1:17"),
                ("a int UNIQUE DEFERRABLE", "0A000 at 1:17"),
                ("a int REFERENCES u NOT DEFERRABLE INITIALLY DEFERRED", "42601 at 1:17"),
            ],
            shown,
        );
    }
}
