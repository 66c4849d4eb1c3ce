//! `OPERATOR(schema.op)` is the operator; there is one collation, so COLLATE says nothing; patterns are escaped by
//! backslashes.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, VisitorMut};

use saki_catalog::SqlError;
use saki_statement::{call, take};

pub struct Operators;

impl VisitorMut for Operators {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Collate { expr: inner, .. } => *expr = take(inner),
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(known) = parts.last().and_then(|spelled| operator(spelled))
                {
                    *op = known;
                }
            }
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                if let Some(escape) = escape_char.take() {
                    **pattern = call("like_escape", vec![take(pattern), Expr::value(escape)]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn operator(spelled: &str) -> Option<BinaryOperator> {
    use BinaryOperator as Op;
    Some(match spelled {
        "=" => Op::Eq,
        "<>" | "!=" => Op::NotEq,
        "<" => Op::Lt,
        "<=" => Op::LtEq,
        ">" => Op::Gt,
        ">=" => Op::GtEq,
        "+" => Op::Plus,
        "-" => Op::Minus,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "||" => Op::StringConcat,
        "~" => Op::PGRegexMatch,
        "~*" => Op::PGRegexIMatch,
        "!~" => Op::PGRegexNotMatch,
        "!~*" => Op::PGRegexNotIMatch,
        "~~" => Op::PGLikeMatch,
        "~~*" => Op::PGILikeMatch,
        "!~~" => Op::PGNotLikeMatch,
        "!~~*" => Op::PGNotILikeMatch,
        "@>" => Op::AtArrow,
        "<@" => Op::ArrowAt,
        "&&" => Op::PGOverlap,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::Operators;
    use crate::fixture::{check, library};

    #[test]
    fn operators_of_a_schema_are_the_operators() {
        let spelled = ["=", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "~", "~*", "!~", "!~*", "~~", "!~~", "@>"];
        for operator in spelled {
            let sql = format!("SELECT a OPERATOR(pg_catalog.{operator}) b");
            assert_eq!(passed(&sql, &mut Operators), format!("SELECT a {operator} b"));
        }
        let unknown = "SELECT a OPERATOR(pg_catalog.<->) b";
        assert_eq!(passed(unknown, &mut Operators), unknown);
    }

    #[test]
    fn collations_say_nothing_and_patterns_are_escaped_by_backslashes() {
        check(
            &[
                ("SELECT a COLLATE \"C\" = b", "SELECT a = b"),
                ("SELECT a LIKE 'b' ESCAPE '!'", "SELECT a LIKE like_escape('b', '!')"),
                ("SELECT a NOT ILIKE 'b' ESCAPE '!'", "SELECT a NOT ILIKE like_escape('b', '!')"),
                ("SELECT a LIKE 'b'", "SELECT a LIKE 'b'"),
            ],
            |sql| passed(sql, &mut Operators),
        );
        library().check(&[
            ("select 'a_b' like 'a!_b' escape '!', 'axb' like 'a!_b' escape '!'", "true|false"),
            ("select 'A%' ilike 'a!%' escape '!', 'a!' like 'a!!' escape '!'", "true|true"),
            ("select 'book' operator(pg_catalog.~) '^b' collate pg_catalog.default", "true"),
        ]);
    }
}
