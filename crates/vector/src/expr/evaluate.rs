//! What an expression is worth for the rows of a batch.

use arrow_array::BooleanArray;

use super::operand::Operand;
use super::tree::Expr;
use super::{arithmetic, case, cast, dates, text};
use crate::{Batch, Column, Result, VectorError, form};

impl Expr {
    /// The value for each row.
    pub fn evaluate(&self, batch: &Batch) -> Result<Column> {
        self.operand(batch)?.into_column(&self.data_type(), batch.rows)
    }

    /// The rows for which a condition is true (NULL is not); `None`: for all of them.
    pub fn select(&self, batch: &Batch) -> Result<Option<BooleanArray>> {
        let rows = self.holds(batch)?;
        Ok((rows.count() < batch.rows).then(|| rows.into_array()))
    }

    /// The value for each row, or the one value that all rows have.
    pub(super) fn operand(&self, batch: &Batch) -> Result<Operand> {
        Ok(match self {
            Self::Column { index, .. } => Operand::Column(
                batch.columns.get(*index).ok_or_else(|| VectorError::internal(format!("no column {index}")))?.clone(),
            ),
            Self::Literal { value, .. } => Operand::Constant(value.clone()),
            Self::Arithmetic { op, left, right, data_type } => {
                let operands = (left.operand(batch)?, right.operand(batch)?);
                let types = (left.data_type(), right.data_type());
                arithmetic::evaluate(*op, operands, (&types.0, &types.1), data_type, batch.rows)?
            }
            Self::Negate(expr) => arithmetic::negate(expr.operand(batch)?, &expr.data_type(), batch.rows)?,
            Self::Case { branches, otherwise, data_type } => {
                case::evaluate(branches, otherwise.as_deref(), data_type, batch)?
            }
            Self::Cast { expr, data_type } => {
                let column = expr.evaluate(batch)?;
                Operand::Column(cast::evaluate(&column, &expr.data_type(), data_type)?)
            }
            Self::DatePart { part, expr } => Operand::Column(dates::part(*part, &expr.evaluate(batch)?)?),
            Self::Substring { expr, start, length } => {
                Operand::Column(text::substring(&expr.evaluate(batch)?, *start, *length)?)
            }
            Self::Foreign { call, arguments, data_type } => {
                let arguments = arguments
                    .iter()
                    .map(|argument| form::to_surface(&argument.evaluate(batch)?, &argument.data_type()))
                    .collect::<Result<Vec<_>>>()?;
                let result = call.evaluate(&arguments, batch.rows)?;
                if result.len() != batch.rows || result.data_type() != data_type {
                    return Err(VectorError::internal(format!("{call:?} gave something else than it promised")));
                }
                Operand::Column(form::from_surface(&result)?)
            }
            Self::Compare { .. }
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::IsNotNull(_)
            | Self::Like { .. }
            | Self::InList { .. } => Operand::Column(self.truth(batch)?),
        })
    }
}
