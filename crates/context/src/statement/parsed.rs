//! Texts cut into statements.

use datafusion::sql::parser::Statement;

use saki_catalog::Result;
use saki_parameters::OWN_TEMPORARY;
use saki_postgres::statement;

/// A statement that was read and not run yet.
#[derive(Clone, Debug)]
pub struct Parsed(pub Statement, pub Names);

/// How the relations of a statement are named, as far as its text tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// By themselves, or behind the name of their schema.
    Short,
    /// Some perhaps behind a database's as well, or behind the session's own word for its temporary schema.
    Long,
}

impl Parsed {
    /// A statement that was made, and not read.
    pub fn made(statement: Statement) -> Self {
        Self(statement, Names::Long)
    }
}

/// Cuts a text into statements.
///
/// # Errors
/// `Syntax`, with the position.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    let names = Names::of(sql);
    Ok(statement::parse(sql)?.into_iter().map(|statement| Parsed(statement, names)).collect())
}

impl Names {
    /// Of a text. What is between two dots of a name is an identifier: in quotes, or without spaces and signs. That
    /// `Long` is said of more texts than have such names costs them a look.
    fn of(sql: &str) -> Self {
        let is_said =
            |word: &str| sql.as_bytes().windows(word.len()).any(|at| at.eq_ignore_ascii_case(word.as_bytes()));
        let is_identifier = |between: &str| {
            let between = between.trim();
            let is_plain = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
            between.starts_with('"') || between.ends_with('"') || between.chars().all(is_plain)
        };
        // Behind the first dot and before the last.
        let mut parts = sql.split('.').skip(1).peekable();
        let has_long = std::iter::from_fn(|| parts.next().filter(|_| parts.peek().is_some())).any(is_identifier);
        let has_comments = || sql.contains("/*") || sql.contains("--");
        if has_long || sql.contains('.') && (has_comments() || is_said(OWN_TEMPORARY)) {
            Self::Long
        } else {
            Self::Short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_database_are_told_from_their_texts() {
        for short in [
            "SELECT 1",
            "SELECT t.a FROM s.t WHERE t.a = u.b AND t.c > 1.5",
            "SELECT t.a, u.b FROM s.t JOIN s.u ON t.a=u.b",
            "INSERT INTO t VALUES (1.5, 'a.b c.d')",
            "UPDATE pg_temp SET a = 1",
        ] {
            assert_eq!(Names::of(short), Names::Short, "{short}");
        }
        for long in [
            "SELECT * FROM shop.s.t",
            "SELECT shop.s.t.a FROM t",
            "SELECT * FROM shop . s . t",
            "SELECT * FROM shop.\"s t\".u",
            "SELECT * FROM shop.\"a.b c.d\".u",
            "SELECT * FROM \"a b\".\"c.d\" .\"e\"",
            "SELECT * FROM shop /* . */ . /**/ s . t",
            "SELECT * FROM shop. -- s\n s.t",
            "CREATE TABLE PG_Temp.t (a INT)",
        ] {
            assert_eq!(Names::of(long), Names::Long, "{long}");
        }
    }
}
