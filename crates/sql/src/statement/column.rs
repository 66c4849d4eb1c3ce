//! A column as CREATE TABLE and ALTER TABLE … ADD COLUMN spell it: type, default, identity, and its constraints.

use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, DataType as SqlType, Expr, GeneratedAs, Ident};
use saki_base::{Column, DataType};

use super::constraint::NewConstraint;
use super::sequence::SequenceOptions;
use super::{name_of, position_of};
use crate::catalog::Identity;
use crate::error::{Position, Result, SqlError};
use crate::types::storage_type;

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
