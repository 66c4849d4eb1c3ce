//! `x ISNULL`, PostgreSQL's other way to write `x IS NULL`. The parser takes the word for a name.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a token is this word, without quotes.
fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Whether what comes next can only be a name: behind AS or a dot, or at the beginning.
fn expects_name(written: &[TokenWithSpan]) -> bool {
    let before = written.iter().rev().map(|token| &token.token).find(|token| !matches!(token, Token::Whitespace(_)));
    before.is_none_or(|token| is_word(token, "as") || *token == Token::Period)
}

/// The tokens with `IS NULL` for each `ISNULL`, but where it is a name, or called as a function.
pub fn written_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len() + 1);
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        let is_called = rest.peek().is_some_and(|next| next.token == Token::LParen);
        if is_word(&token.token, "isnull") && !is_called && !expects_name(&written) {
            let keyword = |word| TokenWithSpan { token: Token::make_keyword(word), span: token.span };
            written.extend(["IS", "NULL"].map(keyword));
        } else {
            written.push(token);
        }
    }
    written
}
