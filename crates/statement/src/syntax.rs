//! The syntax that the parser is told to read.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// PostgreSQL's syntax, but that names of arguments are identifiers: `f(a => 1)`. Were they expressions, the parser
/// would read every argument once as a name and once more as a value, and calls in calls would take twice as long for
/// each level. PostgreSQL 15 has no such names.
#[derive(Clone, Copy, Debug)]
pub struct Syntax;

const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

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

    // All that PostgreSQL's overrides, and what it is taken for.
    as_postgresql! {
        dialect() -> TypeId;
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(letter: char) -> bool;
        is_identifier_start(letter: char) -> bool;
        is_identifier_part(letter: char) -> bool;
        is_custom_operator_part(letter: char) -> bool;
        get_next_precedence(parser: &Parser<'_>) -> Option<Result<u8, ParserError>>;
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

#[cfg(test)]
mod tests {
    use crate::fixture::{check, parsed, refused};

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
            "SELECT U&'d\\0061t', E'a\\n', 1_000",
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

    #[test]
    fn words_that_are_reserved_are_no_names() {
        for sql in ["SELECT case", "SELECT cast", "SELECT not"] {
            assert_eq!(refused(sql).sqlstate(), "42601", "{sql}");
        }
    }
}
