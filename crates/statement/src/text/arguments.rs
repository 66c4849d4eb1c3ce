//! Arguments that SQL writes with words the parser does not know there: `trim(LEADING FROM x)`, and
//! `substring(x SIMILAR y ESCAPE z)`, which is `substring(x FROM y FOR z)`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// The tokens without the `FROM` that has nothing before it in a `trim`, and with `FROM` and `FOR` in a `substring` by
/// a pattern.
pub fn spelled(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let mut dropped = Vec::new();
    for (number, at) in words.iter().enumerate() {
        let opens = words.get(number + 1).is_some_and(|next| tokens[*next].token == Token::LParen);
        match keyword(&tokens[*at]) {
            Keyword::TRIM if opens => dropped.extend(lone_from(&tokens, &words[number + 2..])),
            Keyword::SUBSTRING if opens => similar(&mut tokens, &words[number + 2..]),
            _ => {}
        }
    }
    for at in dropped.into_iter().rev() {
        tokens.remove(at);
    }
    tokens
}

/// Where a `FROM` stands that begins the arguments, behind at most one word.
fn lone_from(tokens: &[TokenWithSpan], words: &[usize]) -> Option<usize> {
    let of = |number: usize| words.get(number).map_or(Keyword::NoKeyword, |at| keyword(&tokens[*at]));
    let number = usize::from(matches!(of(0), Keyword::LEADING | Keyword::TRAILING | Keyword::BOTH));
    (of(number) == Keyword::FROM).then(|| words[number])
}

fn similar(tokens: &mut [TokenWithSpan], words: &[usize]) {
    let (mut depth, mut is_similar) = (0_usize, false);
    for (number, at) in words.iter().enumerate() {
        match &tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let next = words.get(number + 1).map_or(Keyword::NoKeyword, |next| keyword(&tokens[*next]));
        let word = match keyword(&tokens[*at]) {
            Keyword::SIMILAR if depth == 0 && next != Keyword::TO => "FROM",
            Keyword::ESCAPE if depth == 0 && is_similar => "FOR",
            _ => continue,
        };
        is_similar = true;
        tokens[*at].token = Token::make_keyword(word);
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn arguments_are_spelled_as_the_parser_knows_them() {
        check(
            &[
                ("SELECT trim(LEADING FROM a), trim ( both from b)", "SELECT TRIM(LEADING a), TRIM(BOTH b)"),
                ("SELECT trim(FROM a), trim(both 'x' from a)", "SELECT TRIM(a), TRIM(BOTH 'x' FROM a)"),
                ("SELECT substring(a SIMILAR '%' ESCAPE '#')", "SELECT SUBSTRING(a FROM '%' FOR '#')"),
                ("SELECT substring(f(a) SIMILAR (b) ESCAPE c)", "SELECT SUBSTRING(f(a) FROM (b) FOR c)"),
                (
                    "SELECT substring(a FROM 2) SIMILAR TO 'b' ESCAPE 'c'",
                    "SELECT SUBSTRING(a FROM 2) SIMILAR TO 'b' ESCAPE 'c'",
                ),
            ],
            read,
        );
    }
}
