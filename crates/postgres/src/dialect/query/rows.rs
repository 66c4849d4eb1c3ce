//! Rows compared with rows, as conditions on their values; and long chains of conditions, made shallow.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value, VisitorMut,
};

use saki_catalog::SqlError;

/// Operands of AND or OR from which on a chain is balanced: what looks at every operand of a chain, and from there at
/// all that is below, would look at half of them for each.
const LONG_CHAIN: usize = 32;

pub struct Rows;

impl VisitorMut for Rows {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. } = expr {
            balance(expr);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let rewritten = match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => match (row(left), row(right)) {
                (Some(left), Some(right)) => compared(&left, op, &right),
                _ => return ControlFlow::Continue(()),
            },
            Expr::InList { expr: needle, list, negated } => match row(needle) {
                Some(needle) if list.iter().all(|item| row(item).is_some()) => among(&needle, list, *negated),
                _ => return ControlFlow::Continue(()),
            },
            Expr::IsNull(inner) => match row(inner) {
                Some(values) => Ok(all(values.iter().map(|value| Expr::IsNull(boxed(value))))),
                None => return ControlFlow::Continue(()),
            },
            Expr::IsNotNull(inner) => match row(inner) {
                Some(values) => Ok(all(values.iter().map(|value| Expr::IsNotNull(boxed(value))))),
                None => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        match rewritten {
            Ok(rewritten) => {
                *expr = rewritten;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Whether an operator compares by order.
pub fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The values of a row that is written as one, with `ROW` or without.
pub fn row(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Tuple(values) if !values.is_empty() => Some(values.iter().collect()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) => {
            let (is_row, FunctionArguments::List(list)) = (is_named(function, "row"), &function.args) else {
                return None;
            };
            let value = |argument| match argument {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
                _ => None,
            };
            list.args.iter().map(value).collect::<Option<Vec<_>>>().filter(|values| is_row && !values.is_empty())
        }
        _ => None,
    }
}

fn is_named(function: &Function, name: &str) -> bool {
    let [only] = &function.name.0[..] else { return false };
    only.as_ident().is_some_and(|ident| ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(name))
}

fn compared(left: &[&Expr], op: &BinaryOperator, right: &[&Expr]) -> Result<Expr, SqlError> {
    if left.len() != right.len() {
        return Err(SqlError::invalid("unequal number of entries in row expressions").code("42601"));
    }
    let pairs =
        || left.iter().zip(right).map(|(left, right)| binary((*left).clone(), BinaryOperator::Eq, (*right).clone()));
    Ok(match op {
        BinaryOperator::Eq => all(pairs()),
        BinaryOperator::NotEq => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(all(pairs())) },
        _ => ordered(left, op, right),
    })
}

/// The first values that differ decide; the operator itself says what rows that are equal are.
fn ordered(left: &[&Expr], op: &BinaryOperator, right: &[&Expr]) -> Expr {
    let strict = match op {
        BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::Gt,
        other => other.clone(),
    };
    match (left, right) {
        ([left, more @ ..], [right, others @ ..]) if !more.is_empty() => {
            let equal = binary((*left).clone(), BinaryOperator::Eq, (*right).clone());
            let rest = binary(equal, BinaryOperator::And, ordered(more, op, others));
            let first = binary((*left).clone(), strict, (*right).clone());
            Expr::Nested(Box::new(binary(first, BinaryOperator::Or, Expr::Nested(Box::new(rest)))))
        }
        ([left], [right]) => binary((*left).clone(), op.clone(), (*right).clone()),
        _ => Expr::value(Value::Boolean(false)),
    }
}

fn among(needle: &[&Expr], list: &[Expr], negated: bool) -> Result<Expr, SqlError> {
    let equal = |item| compared(needle, &BinaryOperator::Eq, &row(item).unwrap_or_default());
    let all = list.iter().map(equal).collect::<Result<Vec<_>, _>>()?;
    let count = all.len();
    let found = match count {
        0 => Expr::value(Value::Boolean(false)),
        _ => joined(&BinaryOperator::Or, &mut all.into_iter(), count),
    };
    let found = Expr::Nested(Box::new(found));
    Ok(if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) } } else { found })
}

/// Gives a chain that leans to the left, as it is read, the least depth; its operands stay in their order.
fn balance(expr: &mut Expr) {
    let Expr::BinaryOp { op, .. } = &*expr else { return };
    let op = op.clone();
    let (mut depth, mut inner) = (1, &*expr);
    while let Expr::BinaryOp { left, op: own, .. } = inner
        && *own == op
    {
        (depth, inner) = (depth + 1, &**left);
    }
    if depth < LONG_CHAIN {
        return;
    }
    let (mut operands, mut rest) = (Vec::with_capacity(depth), taken(expr));
    loop {
        match rest {
            Expr::BinaryOp { left, op: own, right } if own == op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    let count = operands.len();
    *expr = joined(&op, &mut operands.into_iter().rev(), count);
}

/// The next so many operands, as a tree of halves.
fn joined(op: &BinaryOperator, operands: &mut impl Iterator<Item = Expr>, count: usize) -> Expr {
    if count < 2 {
        return operands.next().unwrap_or_else(|| Expr::value(Value::Null));
    }
    let left = joined(op, operands, count / 2);
    binary(left, op.clone(), joined(op, operands, count - count / 2))
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

fn all(conditions: impl Iterator<Item = Expr>) -> Expr {
    let all = conditions.reduce(|before, next| binary(before, BinaryOperator::And, next));
    Expr::Nested(Box::new(all.unwrap_or_else(|| Expr::value(Value::Boolean(true)))))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn boxed(expr: &Expr) -> Box<Expr> {
    Box::new(expr.clone())
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check_refused, check_values};

    #[test]
    fn rows_are_compared_as_postgresql_does() {
        check_values(&[
            ("(1, 2) = (1, 2)", "true"),
            ("(1, 2) <> (1, 2)", "false"),
            ("(1, 2) < (1, 3)", "true"),
            ("(2, 1) < (1, 3)", "false"),
            ("(1, 2) <= (1, 2)", "true"),
            ("(1, 2) > (1, 2)", "false"),
            ("(1, 2, 3) >= (1, 2, 4)", "false"),
            ("(1, null) = (1, 2)", "NULL"),
            ("(1, null) = (2, null)", "false"),
            ("(1, null) < (2, 0)", "true"),
            ("(1, 2) in ((1, 2), (3, 4))", "true"),
            ("(1, 2) not in ((1, 3), (3, 4))", "true"),
            ("(1, null) in ((1, 2))", "NULL"),
            ("(1, 2) is null", "false"),
            ("(null, null) is null", "true"),
            ("(1, null) is not null", "false"),
            ("row(1, 2) = row(1, 2)", "true"),
        ]);
    }

    #[test]
    fn long_chains_are_shallow_and_mean_the_same() {
        let chain = |op: &str, last: &str| {
            let all: Vec<_> = (0..3000).map(|i| format!("{i} = {}", if op == "or" { i + 1 } else { i })).collect();
            format!("{} {op} {last}", all.join(&format!(" {op} ")))
        };
        check_values(&[
            (&chain("or", "1 = 1"), "true"),
            (&chain("or", "1 = 2"), "false"),
            (&chain("or", "null"), "NULL"),
            (&chain("and", "1 = 2"), "false"),
            (&chain("and", "null"), "NULL"),
        ]);
    }

    #[test]
    fn rows_of_different_lengths_are_refused() {
        check_refused(&[("(1, 2) = (1, 2, 3)", "42601")]);
    }
}
