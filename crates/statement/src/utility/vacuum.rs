//! VACUUM with its options, REINDEX, and DROP INDEX CONCURRENTLY.

use datafusion::sql::sqlparser::ast::{self, ObjectName, Statement, VacuumStatement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

type Parsed<T> = Result<T, ParserError>;

pub fn vacuum(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.expect_keyword(Keyword::VACUUM)?;
    let (mut analyze, mut skip_locked) = (false, false);
    if parser.consume_token(&Token::LParen) {
        let options = parser.parse_comma_separated(vacuum_option)?;
        parser.expect_token(&Token::RParen)?;
        let last = |name: &str| options.iter().rfind(|(option, _)| option == name).is_some_and(|(_, on)| *on);
        (analyze, skip_locked) = (last("analyze"), last("skip_locked"));
        if analyze && skip_locked {
            return parser.expected("either ANALYZE or SKIP_LOCKED", parser.peek_token());
        }
    } else {
        while let Token::Word(word) = parser.peek_token().token {
            match word.value.to_lowercase().as_str() {
                _ if word.quote_style.is_some() => break,
                "analyze" | "analyse" => analyze = true,
                "full" | "freeze" | "verbose" => {}
                _ => break,
            }
            parser.next_token();
        }
    }
    let at_end = matches!(parser.peek_token().token, Token::EOF | Token::SemiColon);
    let table_name = if at_end { None } else { Some(parser.parse_object_name(false)?) };
    if analyze {
        let columns = Vec::new();
        return Ok(Statement::Analyze(ast::Analyze {
            table_name,
            partitions: None,
            for_columns: false,
            columns,
            cache_metadata: false,
            noscan: false,
            compute_statistics: false,
            has_table_keyword: false,
        }));
    }
    Ok(Statement::Vacuum(VacuumStatement { boost: skip_locked, ..plain_vacuum(table_name, false) }))
}

/// An option of VACUUM, and whether it is on. But for two they say how PostgreSQL's storage is to be cleaned.
fn vacuum_option(parser: &mut Parser<'_>) -> Parsed<(String, bool)> {
    let found = parser.peek_token();
    let option = match parser.parse_identifier()?.value.to_lowercase() {
        option if option == "analyse" => "analyze".to_owned(),
        option => option,
    };
    let value = match parser.peek_token().token {
        Token::Comma | Token::RParen => None,
        _ => Some(parser.next_token()),
    };
    let text = value.as_ref().map(|token| token.to_string().trim_matches('\'').to_lowercase());
    let is_truth = text.as_deref().is_none_or(|text| matches!(text, "true" | "on" | "1" | "false" | "off" | "0"));
    let is_value = match option.as_str() {
        "full"
        | "freeze"
        | "verbose"
        | "analyze"
        | "disable_page_skipping"
        | "skip_locked"
        | "process_main"
        | "process_toast"
        | "truncate"
        | "skip_database_stats"
        | "only_database_stats" => is_truth,
        "index_cleanup" => is_truth || text.as_deref() == Some("auto"),
        "parallel" => text.as_deref().is_some_and(|text| text.parse().is_ok_and(|workers: u32| workers <= 1024)),
        "buffer_usage_limit" => text.is_some(),
        _ => return parser.expected("an option of VACUUM", found),
    };
    match is_value {
        true => Ok((option, !matches!(text.as_deref(), Some("false" | "off" | "0")))),
        false => parser.expected(&format!("a value of {}", option.to_uppercase()), value.unwrap_or(found)),
    }
}

pub fn reindex(parser: &mut Parser<'_>) -> Parsed<Statement> {
    // REINDEX is no keyword of the parser's in every position.
    parser.next_token();
    let kind = parser.parse_identifier()?.value.to_lowercase();
    if !matches!(kind.as_str(), "table" | "index" | "schema" | "database" | "system") {
        return parser.expected("TABLE, INDEX, SCHEMA, DATABASE or SYSTEM after REINDEX", parser.peek_token());
    }
    let boost = parser.parse_keyword(Keyword::CONCURRENTLY);
    let name = parser.parse_object_name(false)?;
    // All trees of a schema or of the database.
    let name = matches!(kind.as_str(), "table" | "index").then_some(name);
    Ok(Statement::Vacuum(VacuumStatement { boost, ..plain_vacuum(name, true) }))
}

/// DROP INDEX CONCURRENTLY; any other is left to the parser.
pub fn drop_index(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.expect_keywords(&[Keyword::DROP, Keyword::INDEX, Keyword::CONCURRENTLY])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    let restrict = !cascade && parser.parse_keyword(Keyword::RESTRICT);
    let object_type = ast::ObjectType::Index;
    let (purge, temporary, table) = (true, false, None);
    Ok(Statement::Drop { object_type, if_exists, names, cascade, restrict, purge, temporary, table })
}

fn plain_vacuum(table_name: Option<ObjectName>, reindex: bool) -> VacuumStatement {
    VacuumStatement {
        full: false,
        sort_only: false,
        delete_only: false,
        reindex,
        recluster: false,
        table_name,
        threshold: None,
        boost: false,
    }
}
