//! Comparisons with the rows of a subquery. The planner knows one value IN a subquery; ANY and ALL of other operators
//! follow from the least and the greatest of its values, rows are among others if there is one like them, and NULLs are
//! what nothing is known of.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, Select, UnaryOperator, VisitorMut};

use super::rows::is_comparison;
use crate::statement::{parse_expression, parse_query, take};
use saki_catalog::SqlError;

/// What the subquery is called, and the beginning of its columns' names: none that a statement uses itself.
const SET: &str = "\"\u{1}set\"";

pub struct Quantified;

impl VisitorMut for Quantified {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let Some(condition) = &mut select.selection else { return ControlFlow::Continue(()) };
        done(filter(condition))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match value(expr) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

fn done(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Of a condition that keeps rows only unknown is as good as false: whether there is a row is enough.
fn filter(condition: &mut Expr) -> Result<(), SqlError> {
    match condition {
        Expr::Nested(inner) => filter(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            filter(left)?;
            filter(right)
        }
        Expr::InSubquery { expr, subquery, negated } => {
            let Some(values) = tuple(expr) else { return Ok(()) };
            let equal = if *negated { possibly_equal(values) } else { equal(values) };
            *condition = Expr::Exists { subquery: some(subquery, values.len(), &equal)?, negated: *negated };
            Ok(())
        }
        _ => Ok(()),
    }
}

fn value(expr: &mut Expr) -> Result<Option<Expr>, SqlError> {
    Ok(match expr {
        Expr::InSubquery { expr: needle, subquery, negated } => match tuple(needle) {
            Some(values) => Some(among(values, subquery, *negated)?),
            None => None,
        },
        Expr::AnyOp { left, compare_op, right, .. } => match subquery(right) {
            Some(set) if *compare_op == BinaryOperator::Eq => Some(is_in(left, set, false)?),
            Some(set) if is_comparison(compare_op) && tuple(left).is_none() => Some(any(left, compare_op, set)?),
            _ => None,
        },
        Expr::AllOp { left, compare_op, right } => match subquery(right) {
            Some(set) if *compare_op == BinaryOperator::NotEq => Some(is_in(left, set, true)?),
            Some(set) if is_comparison(compare_op) && tuple(left).is_none() => Some(all(left, compare_op, set)?),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } if is_comparison(op) => match (tuple(left), subquery(right)) {
            (Some(values), Some(set)) => Some(row(values, op, set)?),
            _ => None,
        },
        _ => None,
    })
}

fn is_in(left: &mut Expr, set: &Query, negated: bool) -> Result<Expr, SqlError> {
    if let Some(values) = tuple(left) {
        return among(values, set, negated);
    }
    Ok(Expr::InSubquery { expr: Box::new(take(left)), subquery: Box::new(set.clone()), negated })
}

fn tuple(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) => Some(values),
        Expr::Nested(inner) => tuple(inner),
        _ => None,
    }
}

fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

fn column(number: usize) -> String {
    format!("\"\u{1}{number}\"")
}

/// A subquery as a relation.
fn relation(set: &Query, width: usize) -> String {
    let columns: Vec<String> = (1..=width).map(column).collect();
    format!("({set}) AS {SET} ({})", columns.join(", "))
}

fn pairs(values: &[Expr], show: impl Fn(&Expr, String) -> String) -> String {
    let pairs = values.iter().enumerate().map(|(at, value)| show(value, format!("{SET}.{}", column(at + 1))));
    pairs.collect::<Vec<_>>().join(" AND ")
}

fn equal(values: &[Expr]) -> String {
    pairs(values, |value, column| format!("({value}) = {column}"))
}

fn possibly_equal(values: &[Expr]) -> String {
    pairs(values, |value, column| format!("(({value}) = {column}) IS NOT FALSE"))
}

fn some(set: &Query, width: usize, condition: &str) -> Result<Box<Query>, SqlError> {
    parse_query(&format!("SELECT 1 FROM {} WHERE {condition}", relation(set, width)))
}

/// `(a, b) IN (SELECT c, d …)`.
fn among(values: &[Expr], set: &Query, negated: bool) -> Result<Expr, SqlError> {
    let is_there = some(set, values.len(), &equal(values))?;
    let may_be_there = some(set, values.len(), &possibly_equal(values))?;
    let found = parse_expression(&format!(
        "(CASE WHEN EXISTS ({is_there}) THEN true WHEN EXISTS ({may_be_there}) THEN NULL::boolean ELSE false END)"
    ))?;
    Ok(if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) } } else { found })
}

/// `(a, b) < (SELECT c, d …)`: of a subquery without a row NULL.
fn row(values: &[Expr], op: &BinaryOperator, set: &Query) -> Result<Expr, SqlError> {
    let left: Vec<String> = values.iter().map(ToString::to_string).collect();
    let right: Vec<String> = (1..=values.len()).map(column).collect();
    let compared = format!("({}) {op} ({})", left.join(", "), right.join(", "));
    parse_expression(&format!("(SELECT {compared} FROM {})", relation(set, values.len())))
}

fn of_set(aggregate: &str, set: &Query) -> String {
    let aggregate = aggregate.replace('#', &format!("{SET}.{}", column(1)));
    format!("(SELECT {aggregate} FROM {})", relation(set, 1))
}

/// What a comparison with values that decide for all others is.
fn decided(left: &Expr, op: &BinaryOperator, decisive: &[&str], set: &Query, and: &str) -> String {
    let compared = decisive.iter().map(|aggregate| format!("({left}) {op} {}", of_set(aggregate, set)));
    format!("({})", compared.collect::<Vec<_>>().join(and))
}

fn all(left: &Expr, op: &BinaryOperator, set: &Query) -> Result<Expr, SqlError> {
    let decisive: &[&str] = match op {
        BinaryOperator::Gt | BinaryOperator::GtEq => &["max(#)"],
        BinaryOperator::Lt | BinaryOperator::LtEq => &["min(#)"],
        _ => &["min(#)", "max(#)"],
    };
    let (rows, nulls) = (of_set("count(*)", set), of_set("count(*) - count(#)", set));
    let decided = decided(left, op, decisive, set, " AND ");
    parse_expression(&format!("({rows} = 0 OR ({decided} AND CASE WHEN {nulls} > 0 THEN NULL::boolean ELSE true END))"))
}

fn any(left: &Expr, op: &BinaryOperator, set: &Query) -> Result<Expr, SqlError> {
    let decisive: &[&str] = match op {
        BinaryOperator::Gt | BinaryOperator::GtEq => &["min(#)"],
        BinaryOperator::Lt | BinaryOperator::LtEq => &["max(#)"],
        _ => &["min(#)", "max(#)"],
    };
    let (rows, nulls) = (of_set("count(*)", set), of_set("count(*) - count(#)", set));
    let decided = decided(left, op, decisive, set, " OR ");
    parse_expression(&format!(
        "({rows} > 0 AND ({decided} OR CASE WHEN {nulls} > 0 THEN NULL::boolean ELSE false END))"
    ))
}

#[cfg(test)]
mod tests {
    use crate::fixture::check_values;

    #[test]
    fn values_are_compared_with_all_or_any_of_a_subquery() {
        check_values(&[
            ("3 > all (select a from (values (1), (2)) as t(a))", "true"),
            ("2 > all (select a from (values (1), (2)) as t(a))", "false"),
            ("3 > all (select a from (values (1), (null)) as t(a))", "NULL"),
            ("0 > all (select a from (values (1), (null)) as t(a))", "false"),
            ("0 > all (select a from (values (1)) as t(a) where false)", "true"),
            ("null > all (select a from (values (1)) as t(a) where false)", "true"),
            ("2 > any (select a from (values (1), (null)) as t(a))", "true"),
            ("1 > any (select a from (values (1), (null)) as t(a))", "NULL"),
            ("1 > any (select a from (values (1), (2)) as t(a))", "false"),
            ("1 <> any (select a from (values (1), (2)) as t(a))", "true"),
            ("1 <> any (select a from (values (1), (1)) as t(a))", "false"),
            ("1 = all (select a from (values (1), (1)) as t(a))", "true"),
            ("1 = all (select a from (values (1), (null)) as t(a))", "NULL"),
            ("2 < some (select a from (values (1), (3)) as t(a))", "true"),
        ]);
    }

    #[test]
    fn rows_are_compared_with_the_row_of_a_subquery() {
        check_values(&[
            ("(1, 2) = (select a, b from (values (1, 2)) as t(a, b))", "true"),
            ("(1, 2) < (select a, b from (values (1, 3)) as t(a, b))", "true"),
            ("(1, 2) = (select a, b from (values (1, 2)) as t(a, b) where false)", "NULL"),
        ]);
    }
}
