//! `x ISNULL`, PostgreSQL's other way to write `x IS NULL`. The parser takes the word for a name.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a token is this word, without quotes.
fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The tokens with `IS NULL` for each `ISNULL`, but where it is a name: behind AS or a dot, or before a bracket.
pub fn written_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len() + 1);
    let mut before = None;
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        let follows_name = before.as_ref().is_none_or(|token| is_word(token, "as") || *token == Token::Period);
        let is_called = rest.peek().is_some_and(|next| next.token == Token::LParen);
        if is_word(&token.token, "isnull") && !follows_name && !is_called {
            let at = |token: Token, written: &TokenWithSpan| TokenWithSpan { token, span: written.span };
            written.push(at(Token::make_keyword("IS"), &token));
            written.push(at(Token::make_keyword("NULL"), &token));
        } else {
            if !matches!(token.token, Token::Whitespace(_)) {
                before = Some(token.token.clone());
            }
            written.push(token);
            continue;
        }
        before = Some(Token::make_keyword("NULL"));
    }
    written
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn isnull_asks_and_is_a_name_where_it_can_only_be_one() {
        check(
            &[
                ("SELECT 5 ISNULL", "false"),
                ("SELECT NULL ISNULL, (1 isnull) = false", "true|true"),
                ("SELECT count(*) FROM (VALUES (1), (NULL)) AS t(a) WHERE a ISNULL", "1"),
                ("SELECT 5 AS isnull", "5"),
                ("SELECT t.\"isnull\" FROM (VALUES (5)) AS t(\"isnull\")", "5"),
            ],
            shown,
        );
    }
}
