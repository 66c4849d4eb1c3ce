//! Conditions of fast statements: alternatives, of which each is conditions on single columns.

use std::cmp::Ordering;

use arrow_array::Array;
use datafusion::common::ScalarValue;
use saki_base::{CompareOp, DataType};

use super::expr::{Expr, Inputs, Misfit, Scaled, scalar};

/// What a column is compared with.
#[derive(Clone, Debug)]
pub enum Test {
    /// It equals one of these.
    OneOf(Values),
    Compare(CompareOp, Expr),
}

/// Several values.
#[derive(Clone, Debug)]
pub enum Values {
    List(Vec<Expr>),
    /// The elements of a parameter.
    Elements(usize),
}

/// A condition on a column.
#[derive(Clone, Debug)]
pub struct Condition {
    pub column: usize,
    pub data_type: DataType,
    pub test: Test,
}

/// Holds where all conditions of one alternative do.
pub type Alternatives = Vec<Vec<Condition>>;

impl Values {
    /// Visits the columns that they are made of.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        if let Self::List(list) = self {
            list.iter().for_each(|expr| expr.columns(visit));
        }
    }

    /// Whether there is exactly one.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::List(list) if list.len() == 1)
    }

    /// Visits the values.
    pub fn visit(
        &self,
        inputs: &Inputs<'_>,
        mut visit: impl FnMut(Scaled<'_>) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        match self {
            Self::List(list) => list.iter().try_for_each(|expr| visit(expr.value(inputs)?)),
            Self::Elements(parameter) => {
                let ScalarValue::List(list) = &inputs.parameters[*parameter] else { return Err(Misfit::Ordinary) };
                if list.is_empty() || list.is_null(0) {
                    return Ok(());
                }
                let elements = list.value(0);
                for place in 0..elements.len() {
                    let element = ScalarValue::try_from_array(&elements, place).map_err(|_| Misfit::Ordinary)?;
                    visit(scalar(&element)?)?;
                }
                Ok(())
            }
        }
    }
}

/// Whether a row, as `inputs` has it, meets one of the alternatives.
pub fn holds(alternatives: &Alternatives, inputs: &Inputs<'_>) -> Result<bool, Misfit> {
    for conditions in alternatives {
        let mut all = true;
        for condition in conditions {
            if !condition.holds(inputs)? {
                all = false;
                break;
            }
        }
        if all {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Condition {
    /// Visits the columns that it compares with its own.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        match &self.test {
            Test::OneOf(values) => values.columns(visit),
            Test::Compare(_, expr) => expr.columns(visit),
        }
    }

    /// Whether it compares its column with others.
    pub fn has_columns(&self) -> bool {
        let mut has_any = false;
        self.columns(&mut |_| has_any = true);
        has_any
    }

    fn holds(&self, inputs: &Inputs<'_>) -> Result<bool, Misfit> {
        let value = Scaled::of(inputs.row[self.column], self.data_type);
        match &self.test {
            Test::Compare(operator, expr) => {
                let ordering = value.compared(expr.value(inputs)?.trimmed(self.data_type))?;
                Ok(ordering.is_some_and(|ordering| operator.holds(ordering)))
            }
            Test::OneOf(values) => {
                let mut found = false;
                values.visit(inputs, |other| {
                    found |= value.compared(other.trimmed(self.data_type))? == Some(Ordering::Equal);
                    Ok(())
                })?;
                Ok(found)
            }
        }
    }
}
