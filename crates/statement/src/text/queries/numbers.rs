//! Numbers end where no letter follows: `123abc` is no number with a name.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use saki_catalog::{ErrorKind, Position, Result, SqlError};

/// # Errors
/// 42601 for letters right behind a number.
pub fn refuse_junk(tokens: &[TokenWithSpan]) -> Result<()> {
    for (at, token) in tokens.iter().enumerate() {
        let (start, end) = (token.span.start, token.span.end);
        let (digits, junk) = match &token.token {
            Token::Number(digits, true) => (digits.clone(), "L"),
            Token::Number(digits, _) if digits.contains('_') => (digits.clone(), ""),
            Token::Number(digits, _) => match tokens.get(at + 1).map(|next| &next.token) {
                Some(Token::Word(word)) if word.quote_style.is_none() => (digits.clone(), word.value.as_str()),
                _ => continue,
            },
            // Not X'1F', which has quotes.
            Token::HexStringLiteral(digits) if end == after(start, digits.chars().count() + 2) => {
                (format!("0x{digits}"), "")
            }
            _ => continue,
        };
        let message = format!("trailing junk after numeric literal at or near \"{digits}{junk}\"");
        let position = Position { line: start.line, column: start.column };
        return Err(SqlError::new(ErrorKind::Syntax, message).at(Some(position)));
    }
    Ok(())
}

fn after(start: Location, letters: usize) -> Location {
    Location { line: start.line, column: start.column.saturating_add(letters as u64) }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn letters_behind_numbers_are_refused() {
        check(
            &[
                ("SELECT 123abc", "42601 at 1:8"),
                ("SELECT 0x0o", "42601 at 1:8"),
                ("SELECT 1_000", "42601 at 1:8"),
                ("SELECT 0.0e1a", "42601 at 1:8"),
                ("SELECT 1L", "42601 at 1:8"),
                ("SELECT 0x1F", "42601 at 1:8"),
                ("SELECT X'1F'", "SELECT X'1F'"),
                ("SELECT 123 abc", "SELECT 123 AS abc"),
                ("SELECT 1.5e3, .5, 1.", "SELECT 1.5e3, .5, 1."),
            ],
            read,
        );
    }
}
