//! What ON CONFLICT names beside columns, and the SQL parser does not know: expressions, and the condition of an index.
//! They are read as one column, whose name no statement can spell, and taken apart where the index is looked for.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Begins the name, and the condition in it.
const MARK: char = '\0';

/// What ON CONFLICT names by more than columns: the keys, and the condition, which is empty if there is none.
pub fn conflict_keys(columns: &[Ident]) -> Option<(&str, &str)> {
    let [column] = columns else { return None };
    column.value.strip_prefix(MARK)?.split_once(MARK)
}

/// The tokens of a text with such targets as one column each.
pub fn as_columns(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let rest: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut told = Vec::with_capacity(rest.len());
    let mut at = 0;
    while at < rest.len() {
        let Some((name, end)) = target(&rest[at..]) else {
            told.push(rest[at].clone());
            at += 1;
            continue;
        };
        let span = rest[at].span;
        // ON CONFLICT (
        told.extend_from_slice(&rest[at..at + 3]);
        let name = [Token::make_word(&name, Some('"')), Token::RParen];
        told.extend(name.map(|token| TokenWithSpan { token, span }));
        at += end;
    }
    told
}

/// The name for what stands in `ON CONFLICT (…) [WHERE …]`, where that is more than columns, and where it ends.
fn target(tokens: &[TokenWithSpan]) -> Option<(String, usize)> {
    let keyword = |at: usize| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let begins = keyword(0) == Keyword::ON && keyword(1) == Keyword::CONFLICT && tokens.get(2)?.token == Token::LParen;
    if !begins {
        return None;
    }
    let keys = closing(&tokens[3..])?;
    let after = 3 + keys + 1;
    let has_condition = keyword(after) == Keyword::WHERE;
    let columns = tokens[3..3 + keys].iter().all(|token| matches!(token.token, Token::Word(_) | Token::Comma));
    if columns && !has_condition {
        return None;
    }
    let mut end = after;
    if has_condition {
        end += tokens[after..].iter().position(is_do)?;
    }
    let condition = if has_condition { spelled(&tokens[after + 1..end]) } else { String::new() };
    Some((format!("{MARK}{}{MARK}{condition}", spelled(&tokens[3..3 + keys])), end))
}

/// Where the parenthesis closes that is open where the tokens begin.
fn closing(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0;
    tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            _ => {}
        }
        false
    })
}

fn is_do(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::DO)
}

/// Tokens as text. Those that were in quotes have lost the doubling of quotes within them.
fn spelled(tokens: &[TokenWithSpan]) -> String {
    let within = |quote: char, text: &str| format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")));
    let spelled = |token: &Token| match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => within('\'', text),
        Token::Word(word) if word.quote_style == Some('"') => within('"', &word.value),
        token => token.to_string(),
    };
    tokens.iter().map(|token| spelled(&token.token)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{ConflictTarget, OnInsert, Statement};

    use super::*;
    use crate::fixture::{check, code, parsed};
    use crate::parse;

    fn read(sql: &str) -> String {
        if let Err(error) = parse(sql) {
            return code(&error);
        }
        let Statement::Insert(insert) = parsed(sql) else { panic!("{sql} inserts nothing") };
        let Some(OnInsert::OnConflict(clause)) = &insert.on else { return "none".to_owned() };
        let Some(ConflictTarget::Columns(columns)) = &clause.conflict_target else { return "any".to_owned() };
        let again = parsed(&insert.to_string()).to_string();
        assert_eq!(again, insert.to_string(), "what is written again says the same");
        match conflict_keys(columns) {
            None => format!("{} columns", columns.len()),
            Some((keys, condition)) => format!("{keys} where {condition}"),
        }
    }

    #[test]
    fn keys_are_told_from_columns() {
        check(
            &[
                ("INSERT INTO t VALUES (1)", "none"),
                ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "any"),
                ("INSERT INTO t VALUES (1) ON CONFLICT (a, \"b c\") DO NOTHING", "2 columns"),
                ("INSERT INTO t VALUES (1) ON CONFLICT (lower(a)) DO NOTHING", "lower ( a ) where "),
                ("insert into t values (1) on conflict (a, (b + 1)) do update set a = 2", "a , ( b + 1 ) where "),
                (
                    "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE b IS NULL AND \"c\"\"d\" = 'x''y' \
                     DO UPDATE SET a = 1 WHERE t.a > 0",
                    "a where b IS NULL AND \"c\"\"d\" = 'x''y'",
                ),
            ],
            read,
        );
    }
}
