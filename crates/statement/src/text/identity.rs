//! `GENERATED … AS IDENTITY (options)`: PostgreSQL takes the options in any order, the SQL parser in one.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a text with the options of identities in the parser's order, without those between words.
pub fn in_order(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
    tokens
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

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::fixture::{check, code, parsed};
    use crate::parse;
    use crate::table::column::NewColumn;

    fn options(text: &str) -> String {
        let sql = format!("CREATE TABLE t (a bigint GENERATED ALWAYS AS IDENTITY ({text}), b int)");
        if let Err(error) = parse(&sql) {
            return code(&error);
        }
        let Statement::CreateTable(create) = parsed(&sql) else { panic!("{sql} makes no table") };
        assert_eq!(create.columns.len(), 2, "{sql}");
        let read = match NewColumn::read(&create.columns[0]) {
            Ok(new) => new.generated.unwrap().options,
            Err(error) => return code(&error),
        };
        let mut shown = Vec::new();
        shown.extend(read.increment.map(|by| format!("by {by}")));
        shown.extend(read.min.map(|min| min.map_or("no min".to_owned(), |min| format!("min {min}"))));
        shown.extend(read.max.map(|max| max.map_or("no max".to_owned(), |max| format!("max {max}"))));
        shown.extend(read.start.map(|start| format!("start {start}")));
        shown.extend(read.cache.map(|cache| format!("cache {cache}")));
        shown.extend(read.cycle.map(|cycle| if cycle { "cycle".to_owned() } else { "no cycle".to_owned() }));
        shown.join(", ")
    }

    #[test]
    fn options_are_read_in_whatever_order_they_stand() {
        let all = "by 2, min -5, max 50, start 7, cache 3, cycle";
        check(
            &[
                ("INCREMENT BY 2 MINVALUE -5 MAXVALUE 50 START WITH 7 CACHE 3 CYCLE", all),
                ("CYCLE CACHE 3 START WITH 7 MAXVALUE 50 MINVALUE -5 INCREMENT BY 2", all),
                ("START 7 CYCLE INCREMENT 2 CACHE 3 MAXVALUE 50 MINVALUE -5", all),
                ("MAXVALUE 50 INCREMENT 2 CYCLE MINVALUE -5 CACHE 3 START WITH 7", all),
                ("NO CYCLE NO MAXVALUE NO MINVALUE", "no min, no max, no cycle"),
                ("NO MAXVALUE START 3", "no max, start 3"),
                ("START WITH -3 INCREMENT BY -1", "by -1, start -3"),
                ("START WITH 3 NO CYCLE", "start 3, no cycle"),
                ("START +3", "start 3"),
                ("cycle Start With 3 /* from here */ increment\n by 2", "by 2, start 3, cycle"),
            ],
            options,
        );
    }

    #[test]
    fn what_is_no_option_or_no_number_is_refused() {
        check(
            &[
                ("START WITH 99999999999999999999", "22023 at 1:17"),
                ("START WITH 1.5", "22023 at 1:17"),
                ("START WITH x", "42601 at 1:67"),
                ("NOSUCH 1", "42601 at 1:56"),
            ],
            options,
        );
    }

    #[test]
    fn a_text_without_identities_keeps_its_tokens() {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, "SELECT identity (b, a)").tokenize_with_location().unwrap();
        let shown: Vec<String> = in_order(tokens).iter().map(|token| token.token.to_string()).collect();
        assert_eq!(shown, ["SELECT", "identity", "(", "b", ",", "a", ")"], "commas divide no options");
    }

    #[test]
    fn text_about_identities_is_read_as_any_other() {
        for sql in [
            "SELECT 'identity' AS \"identity\" FROM identity",
            "SELECT identity(1) -- identity (CYCLE START 1)",
            "INSERT INTO t VALUES ('GENERATED ALWAYS AS IDENTITY (CYCLE START 1)')",
        ] {
            assert_eq!(parse(sql).unwrap().len(), 1, "{sql}");
        }
        let unclosed = parse("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (START 1").unwrap_err();
        assert_eq!(unclosed.sqlstate(), "42601");
    }

    #[test]
    fn an_error_behind_an_identity_has_its_own_place() {
        let error = parse("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (CYCLE START 1),\n  b ?)").unwrap_err();
        assert_eq!(code(&error), "42601 at 2:5");
    }
}
