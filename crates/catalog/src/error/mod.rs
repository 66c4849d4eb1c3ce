//! What can go wrong with a statement: what, where in its text, and what to do about it.

mod conditions;
mod layers;
#[cfg(feature = "planner")]
mod planner;

use std::fmt;

pub use self::conditions::data_error;
#[cfg(feature = "planner")]
pub use self::planner::InPlan;

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

/// The error for a name that no relation has.
pub fn undefined(name: &str) -> SqlError {
    SqlError::invalid(format!("relation {name:?} does not exist")).code("42P01")
}
