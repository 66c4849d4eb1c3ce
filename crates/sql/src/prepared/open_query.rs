//! Queries that leave parameters open, so that one plan serves all their values ([`saki_plan::plan_cache`]).
//!
//! Open is a parameter that the query does nothing with but compare columns with it for equality: whatever it is, the
//! same access paths fit. The others (bounds of ranges, LIMIT, arguments) become literals, as the best plan depends on
//! what they are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr};

use super::literal::literal;
use super::parameters::{number, placeholder, replace};
use saki_catalog::Result;
use saki_context::statement::Parsed;
use saki_postgres::statement::changes_of;
use saki_postgres::statement::walk::{walk_expressions, walk_expressions_mut};
use saki_postgres::types::storage_type;

/// A query with some of its parameters open.
#[derive(Clone, Debug)]
pub struct OpenQuery {
    query: Parsed,
    /// By number from 1: those that are not open.
    closed: Vec<usize>,
}

impl OpenQuery {
    /// `None`: the statement is no query, locks rows, or uses all parameters otherwise. `types` are the parameters', by
    /// number.
    pub fn of(parsed: &Parsed, types: &[DataType]) -> Option<Self> {
        let Parsed(Statement::Statement(statement), _) = parsed else { return None };
        match statement.as_ref() {
            ast::Statement::Query(query) if query.locks.is_empty() && changes_of(query).next().is_none() => {}
            _ => return None,
        }
        let uses = Uses::of(statement, types);
        let is_open = |number: usize| uses.all.get(&number) == uses.compared.get(&number);
        let (open, closed): (Vec<usize>, Vec<usize>) = uses.all.keys().partition(|number| is_open(**number));
        if open.is_empty() {
            return None;
        }
        let mut query = parsed.clone();
        if let Parsed(Statement::Statement(statement), _) = &mut query {
            let _ = walk_expressions_mut(statement.as_mut(), |expr: &mut Expr| {
                if let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr {
                    let (beside_left, beside_right) = (is_column(right), is_column(left));
                    strip_cast(beside_left, left, &open, types);
                    strip_cast(beside_right, right, &open, types);
                }
                ControlFlow::<()>::Continue(())
            });
        }
        Some(Self { query, closed })
    }

    /// The statement with values for the parameters that are not open.
    pub fn bind(&self, values: &[ScalarValue]) -> Result<Cow<'_, Parsed>> {
        if self.closed.is_empty() {
            return Ok(Cow::Borrowed(&self.query));
        }
        let of_closed = |number: usize, value: &ScalarValue| match self.closed.contains(&number) {
            true => literal(value).map(Some),
            false => Ok(None),
        };
        Ok(Cow::Owned(replace(&self.query, values, of_closed)?))
    }
}

/// How often parameters are named, by number.
#[derive(Default)]
struct Uses {
    all: HashMap<usize, usize>,
    /// Beside a column, on either side of `=`.
    compared: HashMap<usize, usize>,
}

impl Uses {
    fn of(statement: &ast::Statement, types: &[DataType]) -> Self {
        let mut uses = Self::default();
        let _ = walk_expressions(statement, |expr: &Expr| {
            if let Some(number) = placeholder(expr).and_then(|name| number(name).ok()) {
                *uses.all.entry(number).or_default() += 1;
            }
            if let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr {
                let operand = match (is_column(left), is_column(right)) {
                    (true, false) => compared(right, types),
                    (false, true) => compared(left, types),
                    _ => None,
                };
                if let Some(number) = operand.filter(|number| types.get(number - 1).is_some_and(has_exact_equality)) {
                    *uses.compared.entry(number).or_default() += 1;
                }
            }
            ControlFlow::<()>::Continue(())
        });
        uses
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// The number of a parameter that stands by itself, or in a cast to the type that it has.
fn compared(operand: &Expr, types: &[DataType]) -> Option<usize> {
    match operand {
        Expr::Cast { expr, data_type, .. } => {
            let number = number(placeholder(expr)?).ok()?;
            let stated = saki_exec::arrow_type(storage_type(data_type).ok()?);
            (types.get(number - 1) == Some(&stated)).then_some(number)
        }
        bare => number(placeholder(bare)?).ok(),
    }
}

/// A parameter that is open has its type: a cast to it says nothing.
fn strip_cast(beside_column: bool, operand: &mut Expr, open: &[usize], types: &[DataType]) {
    let is_open = beside_column && compared(operand, types).is_some_and(|number| open.contains(&number));
    if let (true, Expr::Cast { expr, .. }) = (is_open, &mut *operand) {
        let parameter = std::mem::replace(expr.as_mut(), Expr::value(ast::Value::Null));
        *operand = parameter;
    }
}

/// Whether equal values of a type are stored as the same bytes, whatever they were written as.
fn has_exact_equality(data_type: &DataType) -> bool {
    data_type.is_signed_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::Date32
                | DataType::Time64(TimeUnit::Microsecond)
                | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Second, _)
                | DataType::FixedSizeBinary(16)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use saki_context::statement::parse;

    const INT: DataType = DataType::Int32;

    fn opened(sql: &str, types: &[DataType]) -> Option<String> {
        let open = OpenQuery::of(&parse(sql).unwrap().pop().unwrap(), types)?;
        let values = vec![ScalarValue::Int32(Some(7)); types.len()];
        let Parsed(statement, _) = open.bind(&values).unwrap().into_owned();
        Some(statement.to_string())
    }

    #[test]
    fn what_is_compared_with_a_column_stays_open_and_the_rest_is_bound() {
        let sql = "SELECT a FROM t WHERE t.b = $1 AND $2 = c AND d > $3 LIMIT $4";
        let bound = "CAST('7' AS INTEGER)";
        let wanted = format!("SELECT a FROM t WHERE t.b = $1 AND $2 = c AND d > {bound} LIMIT {bound}");
        assert_eq!(opened(sql, &[INT, INT, INT, INT]), Some(wanted));
    }

    #[test]
    fn a_parameter_that_is_used_otherwise_too_is_not_open() {
        assert_eq!(opened("SELECT $1 FROM t WHERE b = $1", &[INT]), None);
        assert_eq!(opened("SELECT a FROM t WHERE b = $1 + 1", &[INT]), None);
        assert_eq!(opened("SELECT a FROM t WHERE b = $1", &[DataType::Float64]), None);
        assert_eq!(opened("SELECT a FROM t WHERE b = $1 FOR UPDATE", &[INT]), None);
        assert_eq!(opened("DELETE FROM t WHERE b = $1", &[INT]), None);
    }

    #[test]
    fn a_cast_to_the_type_that_a_parameter_has_goes() {
        let bare = Some("SELECT a FROM t WHERE b = $1".to_owned());
        assert_eq!(opened("SELECT a FROM t WHERE b = $1::integer", &[INT]), bare);
        assert_eq!(opened("SELECT a FROM t WHERE b = $1::bigint", &[INT]), None);
    }
}
