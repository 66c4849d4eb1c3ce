//! What can go wrong with a statement: what, where in its text, and what to do about it.

use std::fmt;

use datafusion::common::{DataFusionError, SchemaError};

use crate::catalog::Table;
use crate::dialect;

/// What the caller may do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The text is not SQL: mend it.
    Syntax,
    /// It names something that is not there, or is there already, or has the wrong type.
    Invalid,
    /// Meaningful, and not implemented.
    Unsupported,
    /// The data would break a constraint; nothing was changed.
    Constraint,
    /// A value cannot be read or represented; nothing was changed.
    Data,
    /// A device or file failed.
    Storage,
    /// A stored page or row is not what was written.
    Corrupt,
    /// A broken invariant of ours.
    Internal,
}

/// Line and column in the statement text, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

/// The objects that an error is about, so that a program need not read them out of the message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Objects {
    pub schema: String,
    pub table: String,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

/// A failed statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlError {
    pub kind: ErrorKind,
    pub message: String,
    pub position: Option<Position>,
    /// What exactly it was about: the row, the key, the objects.
    pub detail: Option<Box<str>>,
    pub hint: Option<String>,
    /// A PostgreSQL condition more exact than the kind's.
    pub code: Option<&'static str>,
    pub objects: Option<Box<Objects>>,
}

pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, position: None, detail: None, hint: None, code: None, objects: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    pub fn constraint(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Constraint, message)
    }

    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, message)
    }

    pub fn storage(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Storage, message.to_string())
    }

    /// A device has no space left.
    pub fn disk_full(message: impl fmt::Display) -> Self {
        Self::storage(message).code("53100")
    }

    pub fn corrupt(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, message.to_string())
    }

    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, format!("internal error: {message}; please report it"))
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into().into());
        self
    }

    /// States the exact PostgreSQL condition, five characters.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Says which constraint of a table is not kept.
    #[must_use]
    pub fn of_constraint(mut self, table: &Table, constraint: &str) -> Self {
        self.objects = Some(Box::new(Objects { constraint: Some(constraint.to_owned()), ..Objects::of(table) }));
        self
    }

    /// Says which column of a table has a value that it must not have.
    #[must_use]
    pub fn of_column(mut self, table: &Table, column: &str) -> Self {
        self.objects = Some(Box::new(Objects { column: Some(column.to_owned()), ..Objects::of(table) }));
        self
    }

    /// Keeps a position that is already known.
    #[must_use]
    pub fn at(mut self, position: Option<Position>) -> Self {
        self.position = self.position.or(position);
        self
    }

    /// The PostgreSQL condition this corresponds to.
    pub fn sqlstate(&self) -> &'static str {
        if let Some(code) = self.code {
            return code;
        }
        match self.kind {
            ErrorKind::Syntax => "42601",
            ErrorKind::Invalid => "42000",
            ErrorKind::Unsupported => "0A000",
            ErrorKind::Constraint => "23000",
            ErrorKind::Data => "22000",
            ErrorKind::Storage => "58030",
            ErrorKind::Corrupt => "XX001",
            ErrorKind::Internal => "XX000",
        }
    }
}

impl Objects {
    fn of(table: &Table) -> Self {
        Self { schema: table.schema.clone(), table: table.bare_name().to_owned(), column: None, constraint: None }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, "\ndetail: {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        let position =
            error.diagnostic().and_then(|d| d.span).map(|s| Position { line: s.start.line, column: s.start.column });
        let root = error.find_root();
        if let DataFusionError::External(inner) = root
            && let Some(ours) = inner.downcast_ref::<SqlError>()
        {
            return ours.clone().at(position);
        }
        if let DataFusionError::ResourcesExhausted(reason) = root {
            return Self::invalid(format!("the query needs more memory than saki.query_memory: {}", clean(reason)))
                .code("53200")
                .hint("SET saki.query_memory to more, or let fewer rows be joined or grouped");
        }
        let kind = match root {
            DataFusionError::SQL(..) => ErrorKind::Syntax,
            DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
            DataFusionError::Plan(_) | DataFusionError::SchemaError(..) | DataFusionError::Configuration(_) => {
                ErrorKind::Invalid
            }
            DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => ErrorKind::Data,
            DataFusionError::IoError(_) | DataFusionError::ParquetError(_) => ErrorKind::Storage,
            DataFusionError::Internal(_) => ErrorKind::Internal,
            _ => ErrorKind::Invalid,
        };
        let message = match root {
            DataFusionError::SchemaError(missing, _) => match missing.as_ref() {
                SchemaError::FieldNotFound { field, .. } if field.relation.is_none() => {
                    format!("column {:?} does not exist", field.name)
                }
                _ => clean(&root.to_string()),
            },
            _ => clean(&root.to_string()),
        };
        let (message, stated) = take_position(&message);
        let code = dialect::condition(root);
        Self { position: position.or(stated), code, ..Self::new(kind, message) }
    }
}

impl From<arrow::error::ArrowError> for SqlError {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self { code: dialect::condition_of_kernel(&error), ..Self::data(clean(&error.to_string())) }
    }
}

impl From<datafusion::sql::sqlparser::parser::ParserError> for SqlError {
    fn from(error: datafusion::sql::sqlparser::parser::ParserError) -> Self {
        let text = clean(&error.to_string());
        let (message, position) = take_position(&text);
        Self { position, ..Self::new(ErrorKind::Syntax, message) }
    }
}

/// Drops the layer names that libraries put before their messages.
fn clean(message: &str) -> String {
    const PREFIXES: [&str; 9] = [
        "sql parser error: ",
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "SQL error: ",
        "This feature is not implemented: ",
        "Schema error: ",
        "Cast error: ",
        "Parser error: ",
    ];
    let mut rest = message;
    while let Some(cut) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = cut;
    }
    rest.lines().next().unwrap_or_default().trim_end().to_owned()
}

/// Splits the parser's ` at Line: 1, Column: 8` off a message.
fn take_position(message: &str) -> (String, Option<Position>) {
    let Some(start) = message.find(" at Line: ") else { return (message.to_owned(), None) };
    let numbers: Vec<u64> = message[start..]
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    match numbers[..] {
        [line, column, ..] => (message[..start].to_owned(), Some(Position { line, column })),
        _ => (message.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parsers_position_becomes_ours() {
        let (message, position) = take_position("Expected: an expression, found: FROM at Line: 2, Column: 8");
        assert_eq!(message, "Expected: an expression, found: FROM");
        assert_eq!(position, Some(Position { line: 2, column: 8 }));
    }

    #[test]
    fn our_errors_survive_the_way_through_a_plan() {
        let ours = SqlError::constraint("duplicate key").hint("use ON CONFLICT");
        assert_eq!(SqlError::from(DataFusionError::from(ours.clone())), ours);
    }
}
