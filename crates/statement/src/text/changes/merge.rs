//! `MERGE`, as PostgreSQL 15 has it. The SQL parser does not know all that its clauses may say; what it does not know
//! stands as what it knows, under names in quotes:
//!
//! | text | read as |
//! |---|---|
//! | `WHEN MATCHED THEN DO NOTHING` | `UPDATE SET "do nothing" = 0` |
//! | `WHEN NOT MATCHED THEN DO NOTHING` | `INSERT ("do nothing") VALUES (0)` |
//! | `INSERT DEFAULT VALUES` | `INSERT ("default values") VALUES (0)` |
//! | `INSERT (a) OVERRIDING USER VALUE VALUES (1)` | `INSERT ("overriding user value", a) VALUES (1)` |

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr,
    MergeInsertKind, ObjectName,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::overriding::Overriding;
use saki_catalog::{ErrorKind, Result, SqlError};

const NOTHING: &str = "do nothing";
const DEFAULTS: &str = "default values";

/// What becomes of a row of the source, if a condition is met.
pub struct WhenClause<'m> {
    /// Whether it is about rows that have met one of the table.
    pub is_matched: bool,
    /// What follows AND.
    pub condition: Option<&'m Expr>,
    pub action: MergedAs<'m>,
}

/// What a clause of MERGE does.
#[derive(Clone, Copy)]
pub enum MergedAs<'m> {
    Nothing,
    Delete,
    Update(&'m [Assignment]),
    Insert(MergedRow<'m>),
}

/// The row that a clause inserts.
#[derive(Clone, Copy)]
pub struct MergedRow<'m> {
    /// None: the first of the table.
    pub columns: &'m [ObjectName],
    /// `None`: DEFAULT VALUES.
    pub values: Option<&'m [Expr]>,
    pub overriding: Option<Overriding>,
}

/// The clauses of a MERGE.
///
/// # Errors
/// 42601 for what is other databases' syntax, and for a clause that no row can come to.
pub fn when_clauses(merge: &Merge) -> Result<Vec<WhenClause<'_>>> {
    let refused = if !merge.into {
        "MERGE without INTO"
    } else if merge.clauses.is_empty() {
        "MERGE without WHEN"
    } else if merge.output.is_some() || !merge.optimizer_hints.is_empty() {
        "RETURNING"
    } else {
        let clauses = merge.clauses.iter().map(clause).collect::<Result<Vec<_>>>()?;
        for is_matched in [true, false] {
            let mut of_kind = clauses.iter().filter(|clause| clause.is_matched == is_matched);
            if of_kind.any(|clause| clause.condition.is_none()) && of_kind.next().is_some() {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(SqlError::invalid(message).code("42601"));
            }
        }
        return Ok(clauses);
    };
    Err(unknown(refused))
}

fn unknown(what: &str) -> SqlError {
    SqlError::new(ErrorKind::Syntax, format!("syntax error: {what} is not part of MERGE"))
}

fn clause(clause: &MergeClause) -> Result<WhenClause<'_>> {
    let is_matched = match clause.clause_kind {
        MergeClauseKind::Matched => true,
        MergeClauseKind::NotMatched => false,
        MergeClauseKind::NotMatchedByTarget => return Err(unknown("NOT MATCHED BY TARGET")),
        MergeClauseKind::NotMatchedBySource => return Err(unknown("NOT MATCHED BY SOURCE")),
    };
    let action = match &clause.action {
        MergeAction::Delete { .. } => MergedAs::Delete,
        MergeAction::Update(update) => {
            if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                return Err(unknown("WHERE"));
            }
            match &update.assignments[..] {
                [Assignment { target: AssignmentTarget::ColumnName(name), .. }] if is_marked(name, NOTHING) => {
                    MergedAs::Nothing
                }
                assignments => MergedAs::Update(assignments),
            }
        }
        MergeAction::Insert(insert) => inserted(insert)?,
    };
    Ok(WhenClause { is_matched, condition: clause.predicate.as_ref(), action })
}

fn inserted(insert: &MergeInsertExpr) -> Result<MergedAs<'_>> {
    if insert.insert_predicate.is_some() {
        return Err(unknown("WHERE"));
    }
    let MergeInsertKind::Values(values) = &insert.kind else { return Err(unknown("ROW")) };
    let [row] = &values.rows[..] else { return Err(unknown("a second row of VALUES")) };
    let (overriding, columns) = match &insert.columns[..] {
        [only] if is_marked(only, NOTHING) => return Ok(MergedAs::Nothing),
        [first, rest @ ..] => match Overriding::named(&text(first)) {
            Some(overriding) => (Some(overriding), rest),
            None => (None, &insert.columns[..]),
        },
        [] => (None, &insert.columns[..]),
    };
    Ok(MergedAs::Insert(match columns {
        [only] if is_marked(only, DEFAULTS) => MergedRow { columns: &[], values: None, overriding },
        columns => MergedRow { columns, values: Some(&row.content), overriding },
    }))
}

fn text(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone()).unwrap_or_default()
}

fn is_marked(name: &ObjectName, mark: &str) -> bool {
    text(name) == mark
}

/// The tokens of a text with clauses as the parser knows them.
pub fn as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut told = Vec::with_capacity(tokens.len());
    let mut is_matched = false;
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        if begins(rest, &["when", "matched"]) {
            is_matched = true;
        } else if begins(rest, &["when", "not", "matched"]) {
            is_matched = false;
        }
        let (known, length) = match rest {
            _ if begins(rest, &["then", "do", "nothing"]) => (nothing(is_matched), 3),
            _ if begins(rest, &["then", "insert", "default", "values"]) => (marked_row(DEFAULTS), 4),
            _ => match overriding(rest) {
                Some(found) => found,
                None => {
                    told.push(rest[0].clone());
                    at += 1;
                    continue;
                }
            },
        };
        let span = rest[0].span;
        told.extend(known.into_iter().map(|token| TokenWithSpan { token, span }));
        at += length;
    }
    told
}

fn begins(tokens: &[TokenWithSpan], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| is_word(&token.token, word))
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(it) if it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word))
}

fn nothing(is_matched: bool) -> Vec<Token> {
    match is_matched {
        true => {
            let mut tokens = ["THEN", "UPDATE", "SET"].map(Token::make_keyword).to_vec();
            tokens.extend([Token::make_word(NOTHING, Some('"')), Token::Eq, zero()]);
            tokens
        }
        false => marked_row(NOTHING),
    }
}

fn zero() -> Token {
    Token::Number("0".to_owned(), false)
}

/// `THEN INSERT ("mark") VALUES (0)`.
fn marked_row(mark: &str) -> Vec<Token> {
    let mut tokens = ["THEN", "INSERT"].map(Token::make_keyword).to_vec();
    tokens.extend([Token::LParen, Token::make_word(mark, Some('"')), Token::RParen]);
    tokens.extend([Token::make_keyword("VALUES"), Token::LParen, zero(), Token::RParen]);
    tokens
}

/// `THEN INSERT [(columns)] OVERRIDING … VALUE`, with what it says among the columns; how many tokens it has.
fn overriding(tokens: &[TokenWithSpan]) -> Option<(Vec<Token>, usize)> {
    if !begins(tokens, &["then", "insert"]) {
        return None;
    }
    let has_columns = tokens.get(2).is_some_and(|token| token.token == Token::LParen);
    let end = match has_columns {
        true => 3 + tokens[3..].iter().position(|token| token.token == Token::RParen)?,
        false => 2,
    };
    let columns = if has_columns { &tokens[3..end] } else { &[] };
    let after = if has_columns { end + 1 } else { end };
    let overriding = super::overriding::said(tokens.get(after..after + 3)?)?;
    let mut known = ["THEN", "INSERT"].map(Token::make_keyword).to_vec();
    known.extend([Token::LParen, Token::make_word(overriding.words(), Some('"'))]);
    if has_columns {
        known.push(Token::Comma);
        known.extend(columns.iter().map(|token| token.token.clone()));
    }
    known.push(Token::RParen);
    Some((known, after + 3))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;
    use crate::fixture::{check, parsed};
    use crate::parse;

    fn said(sql: &str) -> String {
        if let Err(error) = parse(sql) {
            return error.sqlstate().to_owned();
        }
        let Statement::Merge(merge) = parsed(sql) else { return "no MERGE".to_owned() };
        let clauses = match when_clauses(&merge) {
            Ok(clauses) => clauses,
            Err(error) => return error.sqlstate().to_owned(),
        };
        let clause = |clause: &WhenClause<'_>| {
            let action = match &clause.action {
                MergedAs::Nothing => "nothing".to_owned(),
                MergedAs::Delete => "delete".to_owned(),
                MergedAs::Update(assignments) => format!("update {}", assignments.len()),
                MergedAs::Insert(MergedRow { columns, values, overriding }) => {
                    format!("insert {} {:?} {overriding:?}", columns.len(), values.map(<[Expr]>::len))
                }
            };
            let condition = if clause.condition.is_some() { " if" } else { "" };
            format!("{}{condition}: {action}", if clause.is_matched { "matched" } else { "new" })
        };
        clauses.iter().map(clause).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn clauses_are_read_as_postgresql_has_them() {
        let merge = |clauses: &str| said(&format!("MERGE INTO t AS x USING u ON x.a = u.a {clauses}"));
        check(
            &[
                ("WHEN MATCHED THEN DO NOTHING", "matched: nothing"),
                ("WHEN NOT MATCHED THEN DO NOTHING", "new: nothing"),
                (
                    "WHEN MATCHED AND x.a > 1 THEN UPDATE SET a = 1, (b, c) = (2, 3) WHEN MATCHED THEN DELETE",
                    "matched if: update 2; matched: delete",
                ),
                ("WHEN NOT MATCHED THEN INSERT VALUES (1, 2)", "new: insert 0 Some(2) None"),
                ("WHEN NOT MATCHED THEN INSERT (a) VALUES (1)", "new: insert 1 Some(1) None"),
                ("WHEN NOT MATCHED THEN INSERT DEFAULT VALUES", "new: insert 0 None None"),
                (
                    "WHEN NOT MATCHED AND u.b THEN INSERT (a, b) OVERRIDING SYSTEM VALUE VALUES (1, 2)",
                    "new if: insert 2 Some(2) Some(System)",
                ),
                ("WHEN NOT MATCHED THEN INSERT OVERRIDING USER VALUE VALUES (1)", "new: insert 0 Some(1) Some(User)"),
                ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING", "42601"),
                ("WHEN NOT MATCHED BY SOURCE THEN DELETE", "42601"),
                ("WHEN MATCHED THEN UPDATE SET a = 1 WHERE true", "42601"),
                ("WHEN NOT MATCHED THEN INSERT VALUES (1), (2)", "42601"),
                ("WHEN NOT MATCHED THEN DELETE", "42601"),
                ("WHEN MATCHED THEN INSERT VALUES (1)", "42601"),
                ("WHEN MATCHED THEN DELETE RETURNING a", "42601"),
                ("", "42601"),
            ],
            |clauses| merge(clauses),
        );
        assert_eq!(said("MERGE t USING u ON true WHEN MATCHED THEN DELETE"), "42601");
    }

    #[test]
    fn what_is_written_again_says_the_same() {
        for sql in [
            "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING",
            "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT (a) OVERRIDING USER VALUE VALUES (1)",
            "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
        ] {
            assert_eq!(said(&parsed(sql).to_string()), said(sql), "{sql}");
        }
    }
}
