//! Conditions that are disjunctions: `(w, d) IN ((1, 2), (3, 4))` and its like leave few keys, though no column by
//! itself is bounded.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use saki_base::DataType;
use saki_catalog::{ColumnTest, Table, guesses};

use super::conditions;

/// More are looked at row by row.
const ALTERNATIVES_MAX: usize = 1 << 17;

/// Of one condition: what must hold of a row in each of its alternatives. More may have to hold.
pub type Alternatives = Vec<Vec<ColumnTest>>;

/// The alternatives of a condition; `None` where it has none, or one of them that no test of columns follows from.
pub fn of(condition: &Arc<dyn PhysicalExpr>, type_of: &dyn Fn(usize) -> Option<DataType>) -> Option<Alternatives> {
    let mut alternatives = Vec::new();
    // A long list is as deep as it is long.
    let mut open = vec![condition];
    while let Some(condition) = open.pop() {
        match condition.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == Operator::Or => open.extend([binary.right(), binary.left()]),
            _ => {
                let (mut tests, mut rest) = (Vec::new(), Vec::new());
                conditions::split(condition, type_of, &mut tests, &mut rest);
                alternatives.push(tests);
            }
        }
        if alternatives.last().is_some_and(Vec::is_empty) || alternatives.len() > ALTERNATIVES_MAX {
            return None;
        }
    }
    (alternatives.len() > 1).then_some(alternatives)
}

/// The share of a table's rows that conditions leave: by their alternatives, or a guess for those without.
pub fn selectivity(table: &Table, conditions: usize, alternatives: &[Alternatives]) -> f64 {
    let of_one = |alternatives: &Alternatives| -> f64 {
        alternatives.iter().map(|tests| table.selectivity(tests)).sum::<f64>().min(1.0)
    };
    let known: f64 = alternatives.iter().map(of_one).product();
    known * guesses::conditions(conditions - alternatives.len())
}
