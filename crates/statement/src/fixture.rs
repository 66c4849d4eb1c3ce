//! What tests of statements share.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use saki_catalog::SqlError;

/// The one statement of a text.
pub fn parsed(sql: &str) -> ast::Statement {
    let mut statements = crate::parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match (statements.pop(), statements.len()) {
        (Some(Statement::Statement(statement)), 0) => *statement,
        _ => panic!("{sql}: not one statement of SQL"),
    }
}

/// The trees of a text as text, or its error's condition and place.
pub fn read(sql: &str) -> String {
    match crate::parse(sql) {
        Ok(statements) => statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(error) => code(&error),
    }
}

/// The error of a text that cannot be read.
pub fn refused(sql: &str) -> SqlError {
    match crate::parse(sql) {
        Err(error) => error,
        Ok(statements) => panic!("{sql}: read as {statements:?}"),
    }
}

/// What `show` makes of each text is what stands beside it. All that is not is said at once.
pub fn check<T: AsRef<str>>(cases: &[(T, &str)], show: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let found = show(text.as_ref());
        if found != *expected {
            wrong.push(format!("{}\n  gives {found}\n  not   {expected}", text.as_ref()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An error's condition, and where it is.
pub fn code(error: &SqlError) -> String {
    match error.position {
        Some(position) => format!("{} at {}:{}", error.sqlstate(), position.line, position.column),
        None => error.sqlstate().to_owned(),
    }
}
