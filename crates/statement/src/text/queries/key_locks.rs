//! `FOR NO KEY UPDATE` and `FOR KEY SHARE`, which the SQL parser does not know. Rows are held in one way only, so they
//! are FOR UPDATE and FOR SHARE.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens with these as what they are.
pub fn as_plain(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    for phrase in [&["for", "no", "key", "update"][..], &["for", "key", "share"]] {
        while let Some(start) = tokens.windows(phrase.len()).position(|window| says(window, phrase)) {
            tokens.drain(start + 1..start + phrase.len() - 1);
        }
    }
    tokens
}

fn says(tokens: &[TokenWithSpan], phrase: &[&str]) -> bool {
    tokens.iter().zip(phrase).all(|(token, word)| {
        let Token::Word(found) = &token.token else { return false };
        found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn rows_are_held_in_one_way() {
        check(
            &[
                ("SELECT a FROM t FOR NO KEY UPDATE", "SELECT a FROM t FOR UPDATE"),
                ("SELECT a FROM t for no key update OF t SKIP LOCKED", "SELECT a FROM t FOR UPDATE OF t SKIP LOCKED"),
                ("SELECT a FROM t FOR KEY SHARE NOWAIT", "SELECT a FROM t FOR SHARE NOWAIT"),
                ("SELECT key FROM no", "SELECT key FROM no"),
            ],
            read,
        );
    }
}
