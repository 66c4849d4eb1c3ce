//! Strings that go on in the next line, `'a'` and `'b'` below it: they are one. The parser would take the second for
//! the name of a column.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use saki_catalog::{ErrorKind, Position, Result, SqlError};

/// The tokens with each such string whole.
///
/// Names and values of OPTIONS stand beside each other, each by itself.
///
/// # Errors
/// 42601 for two strings in one line.
pub fn joined(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !tokens.windows(2).any(|pair| string(&pair[0].token).is_some() && matches!(pair[1].token, Token::Whitespace(_)))
    {
        return Ok(tokens);
    }
    let mut told: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The last string, and whether its line has ended since.
    let (mut last, mut has_ended): (Option<usize>, bool) = (None, false);
    let mut is_in_options = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(space) => {
                has_ended |= matches!(space, Whitespace::Newline | Whitespace::SingleLineComment { .. });
                // A comment of several lines may stand before the line's end, not behind it.
                if has_ended && matches!(space, Whitespace::MultiLineComment(_)) {
                    last = None;
                }
            }
            Token::Word(word) if word.keyword == Keyword::OPTIONS => is_in_options = true,
            Token::RParen => (is_in_options, last) = (false, None),
            Token::SingleQuotedString(_) if is_in_options => {}
            Token::SingleQuotedString(more) => match last {
                Some(at) if has_ended && !escapes(&told[at].token, more) => {
                    if let Some(text) = string_mut(&mut told[at].token) {
                        text.push_str(more);
                    }
                    has_ended = false;
                    continue;
                }
                Some(_) => return Err(unexpected(&token)),
                None => (last, has_ended) = (Some(told.len()), false),
            },
            other => (last, has_ended) = (string(other).map(|_| told.len()), false),
        }
        told.push(token);
    }
    Ok(told)
}

fn string(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(text),
        _ => None,
    }
}

fn string_mut(token: &mut Token) -> Option<&mut String> {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(text),
        _ => None,
    }
}

/// Whether the rest of a string of the form `E'…'` has backslashes, which say something there.
fn escapes(first: &Token, more: &str) -> bool {
    matches!(first, Token::EscapedStringLiteral(_)) && more.contains('\\')
}

fn unexpected(token: &TokenWithSpan) -> SqlError {
    let start = token.span.start;
    SqlError::new(ErrorKind::Syntax, format!("syntax error at or near \"{}\"", token.token))
        .at(Some(Position { line: start.line, column: start.column }))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn strings_go_on_in_the_next_line() {
        check(
            &[
                ("SELECT 'a'\n'b'", "SELECT 'ab'"),
                ("SELECT 'a' -- of two\n  'b'\n\t'c' || 'd'", "SELECT 'abc' || 'd'"),
                ("SELECT 'it''s '\n'one'", "SELECT 'it''s one'"),
                ("SELECT E'a\\n'\n'b'", "SELECT E'a\\nb'"),
                ("SELECT 'a' AS b,\n'c'", "SELECT 'a' AS b, 'c'"),
                ("SELECT 'a'\n\"b\"", "SELECT 'a' AS \"b\""),
                ("SELECT 'a' 'b'", "42601 at 1:12"),
                ("SELECT 'a' /* no\nline */ 'b'", "42601 at 2:9"),
                ("SELECT E'a'\n'\\n'", "42601 at 2:1"),
            ],
            read,
        );
    }
}
