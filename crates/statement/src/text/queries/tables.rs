//! `TABLE t` as a query: `SELECT * FROM t`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens with each such query written out.
pub fn as_queries(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 2);
    let mut rest = tokens.into_iter().peekable();
    // The word or sign before, blanks left out, and the one before that.
    let (mut before, mut first) = (Token::SemiColon, Token::SemiColon);
    let mut inserts = false;
    while let Some(token) = rest.next() {
        if matches!(token.token, Token::Whitespace(_)) {
            written.push(token);
            continue;
        }
        if before == Token::SemiColon {
            inserts = is(&token.token, Keyword::INSERT);
        }
        // `INSERT INTO a TABLE b`: no other table is spoken of there.
        let begins = begins_query(&before, &first) || inserts && matches!(before, Token::Word(_));
        if is(&token.token, Keyword::TABLE) && begins && is_followed(&mut rest.clone()) {
            let made = |made| TokenWithSpan { token: made, span: token.span };
            let blank = || made(Token::Whitespace(Whitespace::Space));
            let (select, from) = (Token::make_keyword("SELECT"), Token::make_keyword("FROM"));
            written.extend([made(select), blank(), made(Token::Mul), blank(), made(from)]);
        } else {
            written.push(token.clone());
        }
        first = std::mem::replace(&mut before, token.token);
    }
    written
}

/// Whether a query may begin behind a token.
fn begins_query(before: &Token, first: &Token) -> bool {
    match before {
        Token::SemiColon | Token::LParen | Token::RParen => true,
        Token::Word(word) => match word.keyword {
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::AS | Keyword::EXPLAIN => true,
            Keyword::ALL | Keyword::DISTINCT => {
                [Keyword::UNION, Keyword::INTERSECT, Keyword::EXCEPT].into_iter().any(|set| is(first, set))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether a name follows, not a definition's bracket or an option.
fn is_followed(rest: &mut (impl Iterator<Item = TokenWithSpan> + Clone)) -> bool {
    let next = rest.find(|token| !matches!(token.token, Token::Whitespace(_)));
    matches!(next, Some(TokenWithSpan { token: Token::Word(_), .. }))
}

fn is(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn a_table_is_a_query() {
        check(
            &[
                ("TABLE t", "SELECT * FROM t"),
                ("table s.\"T\" ORDER BY 1 LIMIT 2", "SELECT * FROM s.\"T\" ORDER BY 1 LIMIT 2"),
                ("TABLE a UNION ALL TABLE b", "SELECT * FROM a UNION ALL SELECT * FROM b"),
                ("SELECT 1 WHERE 1 IN (TABLE t)", "SELECT 1 WHERE 1 IN (SELECT * FROM t)"),
                ("WITH w AS (TABLE t) TABLE w", "WITH w AS (SELECT * FROM t) SELECT * FROM w"),
                ("INSERT INTO a TABLE b", "INSERT INTO a SELECT * FROM b"),
                ("CREATE TABLE a AS TABLE b", "CREATE TABLE a AS SELECT * FROM b"),
                ("EXPLAIN TABLE t", "EXPLAIN SELECT * FROM t"),
                ("LOCK TABLE t", "CALL \"lock table\"(t)"),
                ("CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"),
                ("TABLE (SELECT 1)", "42601 at 1:1"),
            ],
            read,
        );
    }
}
