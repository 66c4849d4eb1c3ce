//! `EXPLAIN (options) statement`. `ANALYZE` and `FORMAT` have their effect; the others say how much PostgreSQL shows.

use datafusion::sql::sqlparser::ast::{AnalyzeFormat, AnalyzeFormatKind, DescribeAlias, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

type Parsed<T> = Result<T, ParserError>;

/// Reads it if a bracket follows, which may be the query's own; any other is left to the parser. `statement` reads what
/// is explained.
pub fn parse(
    parser: &mut Parser<'_>,
    statement: fn(&mut Parser<'_>) -> Parsed<Statement>,
) -> Parsed<Option<Statement>> {
    if parser.peek_nth_token(1).token != Token::LParen {
        return Ok(None);
    }
    parser.advance_token();
    let mut options = Vec::new();
    if !begins_query(&parser.peek_nth_token(1).token) {
        parser.expect_token(&Token::LParen)?;
        options = parser.parse_comma_separated(option)?;
        parser.expect_token(&Token::RParen)?;
    }
    let (mut analyze, mut verbose, mut format) = (false, false, None);
    for option in options {
        match option {
            ExplainOption::Analyze(on) => analyze = on,
            ExplainOption::Verbose(on) => verbose = on,
            ExplainOption::Format(form) => format = Some(AnalyzeFormatKind::Keyword(form)),
            ExplainOption::Shown => {}
        }
    }
    let statement = statement(parser)?;
    Ok(Some(Statement::Explain {
        describe_alias: DescribeAlias::Explain,
        analyze,
        verbose,
        query_plan: false,
        estimate: false,
        statement: Box::new(statement),
        format,
        options: None,
    }))
}

enum ExplainOption {
    Analyze(bool),
    Verbose(bool),
    Format(AnalyzeFormat),
    /// Costs, buffers and times, which are shown as they are.
    Shown,
}

fn option(parser: &mut Parser<'_>) -> Parsed<ExplainOption> {
    let name = parser.parse_identifier()?.value.to_lowercase();
    if name == "format" {
        let form = parser.next_token();
        let form = match form.token.to_string().trim_matches('\'').to_lowercase().as_str() {
            "text" => AnalyzeFormat::TEXT,
            "json" => AnalyzeFormat::JSON,
            other => return Err(ParserError::ParserError(format!("EXPLAIN in the format {other}: text and json are"))),
        };
        return Ok(ExplainOption::Format(form));
    }
    let on = match parser.peek_token().token {
        Token::Comma | Token::RParen => true,
        _ => {
            let value = parser.next_token();
            match value.token.to_string().trim_matches('\'').to_lowercase().as_str() {
                "true" | "on" | "1" => true,
                "false" | "off" | "0" => false,
                _ => return parser.expected("a Boolean value", value),
            }
        }
    };
    match name.as_str() {
        "analyze" | "analyse" => Ok(ExplainOption::Analyze(on)),
        "verbose" => Ok(ExplainOption::Verbose(on)),
        "costs" | "settings" | "buffers" | "wal" | "timing" | "summary" => Ok(ExplainOption::Shown),
        _ => Err(ParserError::ParserError(format!("unrecognized EXPLAIN option \"{name}\""))),
    }
}

/// Whether the bracket is a query's own.
fn begins_query(token: &Token) -> bool {
    match token {
        Token::LParen => true,
        Token::Word(word) => matches!(word.keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH | Keyword::TABLE),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn options_of_explain_are_read() {
        check(
            &[
                ("EXPLAIN (COSTS OFF) SELECT 1", "EXPLAIN SELECT 1"),
                ("EXPLAIN (ANALYZE, BUFFERS on, TIMING off) SELECT 1", "EXPLAIN ANALYZE SELECT 1"),
                ("EXPLAIN (ANALYZE false, VERBOSE) SELECT 1", "EXPLAIN VERBOSE SELECT 1"),
                ("EXPLAIN (FORMAT JSON) DELETE FROM t", "EXPLAIN FORMAT JSON DELETE FROM t"),
                ("EXPLAIN (SELECT 1)", "EXPLAIN (SELECT 1)"),
                ("EXPLAIN ((SELECT 1))", "EXPLAIN ((SELECT 1))"),
                ("EXPLAIN (FORMAT xml) SELECT 1", "42601"),
                ("EXPLAIN (NOSUCH) SELECT 1", "42601"),
                ("EXPLAIN (COSTS maybe) SELECT 1", "42601 at 1:16"),
            ],
            read,
        );
    }

    #[test]
    fn older_words_are_read() {
        check(
            &[
                ("ABORT", "ROLLBACK"),
                ("ABORT TRANSACTION AND CHAIN", "ROLLBACK AND CHAIN"),
                ("RESET TIME ZONE", "RESET timezone"),
            ],
            read,
        );
    }
}
