//! What goes wrong, as a client is told of it.

use saki_sql::{Objects, SqlError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Warning,
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }

    pub fn is_error(self) -> bool {
        self != Self::Warning
    }
}

/// An error or a notice. Codes: PostgreSQL's documentation, appendix A.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub severity: Severity,
    pub code: &'static str,
    pub message: String,
    pub detail: Option<Box<str>>,
    pub hint: Option<Box<str>>,
    pub objects: Option<Box<Objects>>,
    /// The function of PostgreSQL's source that says the same, where drivers ask for it.
    pub routine: Option<&'static str>,
    /// Character of the statement's text, from 1.
    pub position: Option<usize>,
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            severity: Severity::Error,
            code,
            message,
            detail: None,
            hint: None,
            objects: None,
            routine: None,
            position: None,
        }
    }

    /// A statement that has panicked; what with, the log says.
    pub fn internal() -> Self {
        Self::new("XX000", "internal error: the statement failed in a way that it should not")
            .hint("please report it; the server's log says where")
    }

    pub fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Fatal, ..Self::new(code, message) }
    }

    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::new(code, message) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    pub fn is_fatal(&self) -> bool {
        self.severity == Severity::Fatal
    }

    /// A statement's error; `sql` is the text that its position is in.
    pub fn of_statement(error: SqlError, sql: &str) -> Self {
        let position = error.position.map(|position| characters_before(sql, position.line, position.column));
        Self { position, ..Self::from(error) }
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let code = error.sqlstate();
        let SqlError { message, detail, hint, objects, .. } = error;
        let hint = hint.map(String::into_boxed_str);
        Self { detail, hint, objects, ..Self::new(code, message) }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::fatal("08006", format!("the connection failed: {error}"))
    }
}

/// The place of a line and column, both from 1, as a count of characters from 1.
fn characters_before(sql: &str, line: u64, column: u64) -> usize {
    let before: usize = sql
        .split_inclusive('\n')
        .take(usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1))
        .map(|line| line.chars().count())
        .sum();
    before + usize::try_from(column).unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        assert_eq!(characters_before("SELECT 'ä',\nx", 2, 1), 13);
        assert_eq!(characters_before("SELECT x", 1, 8), 8);
    }
}
