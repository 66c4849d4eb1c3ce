//! `GENERATED … AS IDENTITY (options)`: PostgreSQL takes the options in any order, the SQL parser in one.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// The tokens of a text with the options of identities in the parser's order; `None`: it has no identities.
pub fn in_order(sql: &str, dialect: &dyn Dialect) -> Result<Option<Vec<TokenWithSpan>>, ParserError> {
    if !sql.to_ascii_lowercase().contains("identity") {
        return Ok(None);
    }
    let tokens = Tokenizer::new(dialect, sql).tokenize_with_location()?;
    let mut tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut start = 0;
    while start + 1 < tokens.len() {
        let opens = keyword(&tokens[start]) == Keyword::IDENTITY && tokens[start + 1].token == Token::LParen;
        start += if opens { 2 } else { 1 };
        if opens {
            let length = tokens[start..].iter().take_while(|token| token.token != Token::RParen).count();
            sort(&mut tokens[start..start + length]);
            start += length;
        }
    }
    Ok(Some(tokens))
}

fn sort(options: &mut [TokenWithSpan]) {
    let mut sorted: Vec<&[TokenWithSpan]> = Vec::new();
    let mut start = 0;
    for end in 1..=options.len() {
        // NO stands before what it denies.
        let begins =
            end < options.len() && rank(&options[end..]).is_some() && keyword(&options[end - 1]) != Keyword::NO;
        if begins || end == options.len() {
            sorted.push(&options[start..end]);
            start = end;
        }
    }
    sorted.sort_by_key(|option| rank(option));
    let sorted: Vec<TokenWithSpan> = sorted.concat();
    options.clone_from_slice(&sorted);
}

/// The place of an option that begins here.
fn rank(tokens: &[TokenWithSpan]) -> Option<usize> {
    const ORDER: [Keyword; 6] =
        [Keyword::INCREMENT, Keyword::MINVALUE, Keyword::MAXVALUE, Keyword::START, Keyword::CACHE, Keyword::CYCLE];
    let first = match tokens.first().map(keyword) {
        Some(Keyword::NO) => tokens.get(1).map(keyword),
        first => first,
    };
    ORDER.iter().position(|keyword| Some(*keyword) == first)
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}
