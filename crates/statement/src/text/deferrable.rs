//! `[NOT] DEFERRABLE` as a mode of a transaction, which the SQL parser does not know. It asks to wait for a snapshot on
//! which a serializable transaction that only reads cannot fail; here each snapshot is one, so it changes nothing.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a text without this mode in BEGIN, START TRANSACTION and SET TRANSACTION, and without those between
/// words.
pub fn left_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut kept: Vec<TokenWithSpan> = Vec::new();
    let mut start = 0;
    for token in words {
        let ends = token.token == Token::SemiColon;
        if keyword(&token) == Keyword::DEFERRABLE && is_about_transaction(&kept[start..]) {
            if kept.last().is_some_and(|last| keyword(last) == Keyword::NOT) {
                kept.pop();
            }
            if kept.last().is_some_and(|last| last.token == Token::Comma) {
                kept.pop();
            }
        } else {
            kept.push(token);
        }
        if ends {
            start = kept.len();
        }
    }
    kept
}

/// Whether a statement that begins so sets modes of transactions.
fn is_about_transaction(tokens: &[TokenWithSpan]) -> bool {
    let word = |at: usize| tokens.get(at).map_or(Keyword::NoKeyword, keyword);
    match word(0) {
        Keyword::BEGIN => true,
        Keyword::START | Keyword::SET => matches!(word(1), Keyword::TRANSACTION | Keyword::SESSION),
        _ => false,
    }
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn it_stands_anywhere_among_the_modes() {
        let serializable = "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY";
        check(
            &[
                ("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE", serializable),
                ("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY NOT DEFERRABLE", serializable),
                ("begin transaction isolation level serializable, not deferrable, read only", serializable),
                ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, DEFERRABLE", {
                    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
                }),
                ("BEGIN; SELECT deferrable FROM t", "BEGIN; SELECT deferrable FROM t"),
                ("SELECT 'x' AS deferrable; BEGIN DEFERRABLE", "SELECT 'x' AS deferrable; BEGIN"),
            ],
            read,
        );
    }
}
