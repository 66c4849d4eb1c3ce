//! Words, names and lists of these statements.

use datafusion::sql::sqlparser::ast::{Expr, Value};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::said::Read;

/// Whether the next token is this word, without quotes.
pub fn is_word(parser: &Parser<'_>, text: &str) -> bool {
    matches!(parser.peek_token().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// Takes the word, if it is the next.
pub fn take_word(parser: &mut Parser<'_>, text: &str) -> bool {
    let is_next = is_word(parser, text);
    if is_next {
        parser.next_token();
    }
    is_next
}

pub fn expect_word(parser: &mut Parser<'_>, text: &str) -> Read<()> {
    match take_word(parser, text) {
        true => Ok(()),
        false => parser.expected(&text.to_uppercase(), parser.peek_token()),
    }
}

pub fn name(parser: &mut Parser<'_>) -> Read<String> {
    let name = parser.parse_identifier()?;
    Ok(if name.quote_style.is_some() { name.value } else { name.value.to_lowercase() })
}

/// A parameter's value as text.
pub fn setting_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}
