//! The syntax that the parser is told to read.

use std::any::TypeId;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, visit_expressions};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// PostgreSQL's syntax, but that names of arguments are identifiers: `f(a => 1)`. Were they expressions, the parser
/// would read every argument once as a name and once more as a value, and calls in calls would take twice as long for
/// each level. PostgreSQL 15 has no such names.
#[derive(Clone, Copy, Debug)]
pub struct Syntax;

const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

/// How tight a sign binds: above `^`, AT TIME ZONE (110) and COLLATE (120), below `[` (130) and `::` (140).
const SIGN: u8 = 125;

/// Methods that answer as PostgreSQL's do.
macro_rules! as_postgresql {
    ($($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $method(&self $(, $argument: $type)*) -> $result { POSTGRESQL.$method($($argument),*) })*
    };
}

impl Dialect for Syntax {
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    /// A word that the parser does not try as a name as well, when what it begins cannot be read. That is so of all
    /// that PostgreSQL reserves, and tells at once that something deep inside is wrong.
    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        matches!(keyword, Keyword::ARRAY | Keyword::CASE | Keyword::CAST | Keyword::NOT)
            || POSTGRESQL.is_reserved_for_identifier(keyword)
    }

    /// Signs bind tighter than all operators between two operands, every other operator before its operand as loosely
    /// as `||`: `-3 ^ 2` is 9, and `~5 + 1` is -7.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let (op, precedence) = match parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, SIGN),
            Token::Plus => (UnaryOperator::Plus, SIGN),
            Token::Tilde => (UnaryOperator::BitwiseNot, self.prec_value(Precedence::PgOther)),
            Token::AtSign => (UnaryOperator::PGAbs, self.prec_value(Precedence::PgOther)),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, self.prec_value(Precedence::PgOther)),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, self.prec_value(Precedence::PgOther)),
            _ => return None,
        };
        parser.advance_token();
        Some(parser.parse_subexpr(precedence).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    /// The right side of IS DISTINCT FROM ends before AND, where the parser would go on to the end of the condition.
    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        if let Some(read) = between(parser, left).or_else(|| among(parser, left)) {
            return Some(read);
        }
        let is_negated = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            false
        } else if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            true
        } else {
            return None;
        };
        let left = Box::new(left.clone());
        Some(parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new).map(|right| match is_negated {
            false => Expr::IsDistinctFrom(left, right),
            true => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    /// Matches of patterns are operators as any other, not comparisons.
    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => Some(Ok(self.prec_value(Precedence::PgOther))),
            Token::Word(word) if word.keyword == Keyword::OPERATOR => Some(Ok(self.prec_value(Precedence::PgOther))),
            _ => POSTGRESQL.get_next_precedence(parser),
        }
    }

    // All that PostgreSQL's overrides, and what it is taken for.
    as_postgresql! {
        dialect() -> TypeId;
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(letter: char) -> bool;
        is_identifier_start(letter: char) -> bool;
        is_identifier_part(letter: char) -> bool;
        is_custom_operator_part(letter: char) -> bool;
        prec_value(precedence: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_comment_on() -> bool;
        supports_comment_optimizer_hint() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_empty_projections() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_factorial_operator() -> bool;
        supports_filter_during_aggregation() -> bool;
        supports_geometric_types() -> bool;
        supports_group_by_expr() -> bool;
        supports_insert_table_alias() -> bool;
        supports_interval_options() -> bool;
        supports_listen_notify() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_nested_comments() -> bool;
        supports_notnull_operator() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_set_names() -> bool;
        supports_string_escape_constant() -> bool;
        supports_unicode_string_literal() -> bool;
        supports_xml_expressions() -> bool;
    }
}

/// Nodes of an operand of BETWEEN SYMMETRIC at most: it stands twice in what that means.
const DOUBLED_MAX: usize = 1_000;
/// Tokens within which the first bracket of an IN list has to end for its kind to be told.
const BRACKET_TOKENS: usize = 1_000;

/// `[NOT] BETWEEN SYMMETRIC low AND high`, which the parser does not know: between them, or the other way round.
fn between(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let keyword = |at: usize| keyword_at(parser, at);
    let at = usize::from(keyword(0) == Keyword::NOT);
    let is_symmetric = match (keyword(at), keyword(at + 1)) {
        (Keyword::BETWEEN, Keyword::SYMMETRIC) => true,
        (Keyword::BETWEEN, Keyword::ASYMMETRIC) => false,
        _ => return None,
    };
    for _ in 0..at + 2 {
        parser.advance_token();
    }
    Some(parser.parse_between(left.clone(), at == 1).and_then(|between| match between {
        Expr::Between { expr, negated, low, high } if is_symmetric => {
            let is_large = [&expr, &low, &high].iter().any(|operand| is_large(operand));
            if is_large {
                return Err(ParserError::RecursionLimitExceeded);
            }
            let turned = Expr::Between { expr: expr.clone(), negated, low: high.clone(), high: low.clone() };
            let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
            let between = Expr::Between { expr, negated, low, high };
            let both = Expr::BinaryOp { left: Box::new(between), op, right: Box::new(turned) };
            Ok(Expr::Nested(Box::new(both)))
        }
        other => Ok(other),
    }))
}

fn is_large(expr: &Expr) -> bool {
    let mut left = DOUBLED_MAX;
    let mut count = |_: &Expr| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    saki_base::stack::with_room(|| visit_expressions(expr, &mut count).is_break())
}

/// `[NOT] IN ((SELECT 1), 2)`: a list whose first value is a query, which the parser takes for the query that follows
/// IN.
fn among(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let at = usize::from(keyword_at(parser, 0) == Keyword::NOT);
    let token = |at: usize| parser.peek_nth_token_ref(at).token.clone();
    let is_open = keyword_at(parser, at) == Keyword::IN && token(at + 1) == Token::LParen;
    if !is_open || token(at + 2) != Token::LParen || !begins_query(parser, at + 3) {
        return None;
    }
    let mut depth = 0_usize;
    let end = (at + 2..at + BRACKET_TOKENS).find(|at| {
        match parser.peek_nth_token_ref(*at).token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    if token(end + 1) != Token::Comma {
        return None;
    }
    for _ in 0..at + 2 {
        parser.advance_token();
    }
    let list = parser.parse_comma_separated(Parser::parse_expr);
    Some(list.and_then(|list| {
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::InList { expr: Box::new(left.clone()), list, negated: at == 1 })
    }))
}

fn begins_query(parser: &Parser<'_>, at: usize) -> bool {
    matches!(keyword_at(parser, at), Keyword::SELECT | Keyword::WITH | Keyword::VALUES)
        || parser.peek_nth_token_ref(at).token == Token::LParen
}

fn keyword_at(parser: &Parser<'_>, at: usize) -> Keyword {
    match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// An identifier as the catalog spells it: lower case unless quoted.
pub fn name_of(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Expr;

    use crate::fixture::{check, parsed, refused};
    use crate::parse_expression;

    #[test]
    fn arguments_are_named_by_identifiers() {
        check(
            &[
                ("SELECT f(a => 1, b => g(c => 2))", "SELECT f(a => 1, b => g(c => 2))"),
                ("SELECT f(a := 1)", "SELECT f(a := 1)"),
                (
                    "SELECT f(*), f(DISTINCT a ORDER BY b), f(VARIADIC_, t.*)",
                    "SELECT f(*), f(DISTINCT a ORDER BY b), f(VARIADIC_, t.*)",
                ),
            ],
            |sql| parsed(sql).to_string(),
        );
    }

    #[test]
    fn what_is_postgresqls_own_is_read() {
        for sql in [
            "SELECT a #> b, a @> b, a <@ b, a ~ b, a || b",
            "SELECT U&'d\\0061t', E'a\\n'",
            "SELECT a FROM t WHERE b NOTNULL",
            "SELECT FROM t",
            "SELECT count(*) FILTER (WHERE a > 1) FROM t",
            "SELECT interval '1' year, interval(3) '1 second'",
            "SELECT NULL::int[][], ARRAY[1, 2][1]",
            "COMMENT ON TABLE t IS 'x'",
            "EXPLAIN (ANALYZE, VERBOSE) SELECT 1",
            "INSERT INTO t AS u VALUES (1)",
            "SELECT EXTRACT('year' FROM a), EXTRACT(epoch FROM a)",
            "SELECT /* a /* b */ c */ 1",
            "SELECT case_, not_, array_ FROM \"cast\"",
        ] {
            parsed(sql);
        }
    }

    /// Operands with the brackets that precedence puts around them.
    fn bracketed(expr: &Expr) -> String {
        let of = |expr: &Expr| bracketed(expr);
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", of(left), of(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", of(expr)),
            Expr::IsNull(expr) => format!("({} IS NULL)", of(expr)),
            Expr::IsDistinctFrom(left, right) => format!("({} IS DISTINCT FROM {})", of(left), of(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} IS NOT DISTINCT FROM {})", of(left), of(right)),
            Expr::Between { expr, low, high, .. } => format!("({} BETWEEN {} AND {})", of(expr), of(low), of(high)),
            Expr::Like { expr, pattern, .. } => format!("({} LIKE {})", of(expr), of(pattern)),
            Expr::InList { expr, .. } => format!("({} IN)", of(expr)),
            Expr::Cast { expr, data_type, .. } => format!("({}::{data_type})", of(expr)),
            other => other.to_string(),
        }
    }

    #[test]
    fn operators_bind_as_tight_as_in_postgresql() {
        check(
            &[
                ("-a ^ 2", "((- a) ^ 2)"),
                ("2 ^ -a ^ 3", "((2 ^ (- a)) ^ 3)"),
                ("-a::int", "(- (a::INT))"),
                ("- - a * b", "((- (- a)) * b)"),
                ("-a[1] + b", "((- a[1]) + b)"),
                ("~a + b", "(~ (a + b))"),
                ("@ -a + b = c", "((@ ((- a) + b)) = c)"),
                ("|/ a + b | c", "((|/ (a + b)) | c)"),
                ("a ~ b || c", "((a ~ b) || c)"),
                ("a || b !~~ c = d", "(((a || b) !~~ c) = d)"),
                ("a << b + c", "(a << (b + c))"),
                ("a | b = c", "((a | b) = c)"),
                ("a = b IS NULL", "((a = b) IS NULL)"),
                ("NOT a = b IS NULL", "(NOT ((a = b) IS NULL))"),
                ("a || b LIKE c || d = e", "(((a || b) LIKE (c || d)) = e)"),
                ("a BETWEEN b + 1 AND c + 1 = d", "((a BETWEEN (b + 1) AND (c + 1)) = d)"),
                ("NOT a IN (1) AND b", "((NOT (a IN)) AND b)"),
                ("a IS DISTINCT FROM b AND c", "((a IS DISTINCT FROM b) AND c)"),
                ("a IS NOT DISTINCT FROM b = c OR d", "((a IS NOT DISTINCT FROM (b = c)) OR d)"),
            ],
            |text| bracketed(&parse_expression(text).unwrap()),
        );
    }

    #[test]
    fn bounds_may_stand_the_other_way_round() {
        check(
            &[
                ("a BETWEEN SYMMETRIC 3 AND 1", "(a BETWEEN 3 AND 1 OR a BETWEEN 1 AND 3)"),
                ("a NOT BETWEEN SYMMETRIC b AND 1", "(a NOT BETWEEN b AND 1 AND a NOT BETWEEN 1 AND b)"),
                ("a BETWEEN ASYMMETRIC 1 AND 3 AND c", "a BETWEEN 1 AND 3 AND c"),
                ("a BETWEEN SYMMETRIC 3 AND 1 OR c", "(a BETWEEN 3 AND 1 OR a BETWEEN 1 AND 3) OR c"),
            ],
            |text| parse_expression(text).unwrap().to_string(),
        );
        let nested = |depth: usize| {
            let open = "(".repeat(depth);
            let closed = " BETWEEN SYMMETRIC true AND false)".repeat(depth);
            crate::parse(&format!("SELECT {open}true{closed}"))
        };
        nested(5).unwrap();
        assert_eq!(nested(40).unwrap_err().sqlstate(), "54001", "each stands twice in the next");
    }

    #[test]
    fn a_list_may_begin_with_a_query() {
        check(
            &[
                ("a IN ((SELECT 1), 2)", "a IN ((SELECT 1), 2)"),
                ("a NOT IN ((VALUES (1)), (SELECT 2)) AND b", "a NOT IN ((VALUES(1)), (SELECT 2)) AND b"),
                ("a IN ((SELECT 1))", "a IN ((SELECT 1))"),
                ("(SELECT 1) IN (1, 2)", "(SELECT 1) IN (1, 2)"),
                ("(a, b) IN ((1, 2), (3, 4))", "(a, b) IN ((1, 2), (3, 4))"),
                ("(SELECT 1) IN ((SELECT 2) UNION SELECT 3)", "(SELECT 1) IN ((SELECT 2) UNION SELECT 3)"),
            ],
            |text| parse_expression(text).unwrap().to_string(),
        );
    }

    #[test]
    fn words_that_are_reserved_are_no_names() {
        for sql in ["SELECT case", "SELECT cast", "SELECT not"] {
            assert_eq!(refused(sql).sqlstate(), "42601", "{sql}");
        }
    }
}
