//! `OPERATOR(schema.op)` is the operator; there is one collation, so COLLATE says nothing; patterns are escaped by
//! backslashes.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, VisitorMut};

use super::{call, take};
use crate::error::SqlError;

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
