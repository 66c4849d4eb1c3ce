//! Conditions: which rows an expression is true, or false, for.
//!
//! A condition is asked for the rows where it is what is `wanted`, true or false; NULL is neither. So `NOT` asks its
//! operand for the other, `AND` for false is `OR` of falses, and no third value is ever stored.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, NullArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use saki_base::value::Value;

use super::mask::Mask;
use super::operand::Operand;
use super::tree::Expr;
use super::{compare, text};
use crate::column::Keep;
use crate::{Batch, Column, Result, VectorError};

/// What compacting a value costs, in units of [`Expr::cost`].
const COMPACTION_COST: u32 = 4;

impl Expr {
    /// The rows for which the condition is true.
    pub(super) fn holds(&self, batch: &Batch) -> Result<Mask> {
        let mut mask = Mask::all(batch.rows);
        self.narrow(batch, true, &mut mask)?;
        Ok(mask)
    }

    /// Of some rows, those for which the condition is true.
    pub(super) fn holds_among(&self, rows: &Mask, batch: &Batch) -> Result<Mask> {
        let mut mask = rows.clone();
        narrow_in_order(&[self], batch, true, &mut mask)?;
        Ok(mask)
    }

    /// Whether computing the value for `left` of `rows` rows pays for gathering them.
    pub(super) fn worth_compacting(&self, left: usize, rows: usize) -> bool {
        saves_more_than_it_costs(self.cost(), &[self], left, rows)
    }

    /// The condition as a column of values.
    pub(super) fn truth(&self, batch: &Batch) -> Result<Column> {
        let truths = self.holds(batch)?;
        let mut known = truths.clone();
        let mut falses = Mask::all(batch.rows);
        falses.subtract(&truths);
        self.narrow(batch, false, &mut falses)?;
        known.unite(&falses);
        let nulls = (known.count() < batch.rows).then(|| NullBuffer::new(known.into_bits()));
        Ok(Column::new(Arc::new(BooleanArray::new(truths.into_bits(), nulls))))
    }

    /// Keeps the rows for which the condition is `wanted`.
    pub(super) fn narrow(&self, batch: &Batch, wanted: bool, mask: &mut Mask) -> Result<()> {
        match (self, wanted) {
            (Self::And(parts), true) | (Self::Or(parts), false) => narrow_by_all(parts, batch, wanted, mask),
            (Self::Or(parts), true) | (Self::And(parts), false) => narrow_by_any(parts, batch, wanted, mask),
            (Self::Not(expr), _) => expr.narrow(batch, !wanted, mask),
            (Self::IsNull(expr), _) => expr.narrow_nulls(batch, wanted, mask),
            (Self::IsNotNull(expr), _) => expr.narrow_nulls(batch, !wanted, mask),
            (Self::Compare { op, left, right }, _) => {
                let op = if wanted { *op } else { op.negated() };
                compare::narrow(op, left.operand(batch)?, right.operand(batch)?, &left.data_type(), mask)
            }
            (Self::InList { expr, values, negated }, _) => {
                let operand = expr.operand(batch)?;
                narrow_or_negate(&operand.clone(), wanted != *negated, mask, |mask| {
                    values.narrow(operand, &expr.data_type(), mask)
                })
            }
            (Self::Like { expr, pattern, negated }, _) => {
                let operand = expr.operand(batch)?;
                narrow_or_negate(&operand.clone(), wanted != *negated, mask, |mask| {
                    let column = operand.into_column(&expr.data_type(), batch.rows)?;
                    text::narrow(column.array(), mask, |texts, mask| pattern.narrow(texts, mask))
                })
            }
            _ => {
                let operand = self.operand(batch)?;
                if operand.is_null() {
                    mask.clear();
                    return Ok(());
                }
                let column = operand.into_column(&DataType::Boolean, batch.rows)?;
                let values = column
                    .array()
                    .as_boolean_opt()
                    .ok_or_else(|| VectorError::internal(format!("{} is no condition", column.array().data_type())))?;
                if let Some(nulls) = values.nulls() {
                    mask.intersect_bits(nulls.inner());
                }
                if wanted {
                    mask.intersect_bits(values.values())
                } else {
                    mask.subtract_bits(values.values())
                }
                Ok(())
            }
        }
    }

    /// Keeps the rows whose value is NULL, or those whose value is not.
    fn narrow_nulls(&self, batch: &Batch, wanted: bool, mask: &mut Mask) -> Result<()> {
        let operand = self.operand(batch)?;
        let all_null = match &operand {
            Operand::Constant(value) => *value == Value::Null,
            Operand::Column(column) => column.array().data_type() == &DataType::Null,
        };
        match operand.nulls() {
            _ if all_null && wanted => {}
            _ if all_null => mask.clear(),
            Some(nulls) if wanted => mask.subtract_bits(nulls.inner()),
            Some(nulls) => mask.intersect_bits(nulls.inner()),
            None if wanted => mask.clear(),
            None => {}
        }
        Ok(())
    }

    /// What the expression takes for a row, roughly: a comparison of integers is 1.
    fn cost(&self) -> u32 {
        let mut cost: u32 = match self {
            Self::Column { .. } | Self::Literal { .. } => 0,
            Self::And(_) | Self::Or(_) | Self::Not(_) | Self::IsNull(_) | Self::IsNotNull(_) => 0,
            Self::Compare { left, .. } | Self::InList { expr: left, .. } if is_text(left) => 4,
            Self::Compare { .. } | Self::Arithmetic { .. } | Self::Negate(_) => 1,
            Self::InList { .. } | Self::DatePart { .. } => 3,
            Self::Case { .. } | Self::Cast { .. } => 4,
            Self::Like { .. } | Self::Substring { .. } => 30,
            Self::Foreign { .. } => 60,
        };
        self.for_each_operand(&mut |operand| cost = cost.saturating_add(operand.cost()));
        cost
    }

    /// What of that is spent on every row, whichever are asked for: computing operands. Tests look at the rows asked
    /// for.
    fn unguarded_cost(&self) -> u32 {
        let mut cost = 0_u32;
        match self {
            Self::And(_) | Self::Or(_) | Self::Not(_) => {
                self.for_each_operand(&mut |part| cost = cost.saturating_add(part.unguarded_cost()));
            }
            _ => self.for_each_operand(&mut |operand| cost = cost.saturating_add(operand.cost())),
        }
        cost
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr.data_type(), DataType::Utf8 | DataType::Utf8View)
}

/// Keeps the rows that `narrow` keeps, or (not `wanted`) those that it does not, of rows where `operand` is not NULL.
fn narrow_or_negate(
    operand: &Operand,
    wanted: bool,
    mask: &mut Mask,
    narrow: impl FnOnce(&mut Mask) -> Result<()>,
) -> Result<()> {
    if operand.is_null() {
        mask.clear();
        return Ok(());
    }
    if let Some(nulls) = operand.nulls() {
        mask.intersect_bits(nulls.inner());
    }
    if wanted {
        return narrow(mask);
    }
    let mut passing = mask.clone();
    narrow(&mut passing)?;
    mask.subtract(&passing);
    Ok(())
}

/// Keeps the rows for which all parts are `wanted`: the cheap ones first, the rest on fewer and fewer rows.
fn narrow_by_all(parts: &[Expr], batch: &Batch, wanted: bool, mask: &mut Mask) -> Result<()> {
    let mut parts: Vec<&Expr> = parts.iter().collect();
    parts.sort_by_cached_key(|part| part.cost());
    narrow_in_order(&parts, batch, wanted, mask)
}

fn narrow_in_order(parts: &[&Expr], batch: &Batch, wanted: bool, mask: &mut Mask) -> Result<()> {
    for (index, part) in parts.iter().enumerate() {
        let left = mask.count();
        if left == 0 {
            return Ok(());
        }
        let rest = &parts[index..];
        if worth_compacting(rest, left, batch.rows) {
            return narrow_compacted(rest, batch, wanted, mask);
        }
        let before = (left < batch.rows).then(|| mask.clone());
        if let Err(error) = part.narrow(batch, wanted, mask) {
            // It may be of a row that another part has ruled out.
            let Some(before) = before else { return Err(error) };
            *mask = before;
            return narrow_compacted(rest, batch, wanted, mask);
        }
    }
    Ok(())
}

/// Whether deciding the rest on the `left` of `rows` rows pays for gathering them.
fn worth_compacting(parts: &[&Expr], left: usize, rows: usize) -> bool {
    let cost = parts.iter().map(|part| part.unguarded_cost()).fold(0, u32::saturating_add);
    saves_more_than_it_costs(cost, parts, left, rows)
}

fn saves_more_than_it_costs(cost: u32, exprs: &[&Expr], left: usize, rows: usize) -> bool {
    if cost <= COMPACTION_COST || left == rows {
        return false;
    }
    let mut columns = Vec::new();
    exprs.iter().for_each(|expr| expr.columns(&mut columns));
    let saved = (rows - left) as u64 * u64::from(cost);
    saved > (left * columns.len()) as u64 * u64::from(COMPACTION_COST) + rows as u64
}

/// Decides the rest on the rows that are left, gathered.
fn narrow_compacted(parts: &[&Expr], batch: &Batch, wanted: bool, mask: &mut Mask) -> Result<()> {
    let compact = compacted(batch, parts, mask)?;
    let mut kept = Mask::all(compact.rows);
    narrow_in_order(parts, &compact, wanted, &mut kept)?;
    mask.narrow_compacted(&kept);
    Ok(())
}

/// Keeps the rows for which at least one part is `wanted`: each part decides what those before it have not.
fn narrow_by_any(parts: &[Expr], batch: &Batch, wanted: bool, mask: &mut Mask) -> Result<()> {
    let mut parts: Vec<&Expr> = parts.iter().collect();
    parts.sort_by_cached_key(|part| part.cost());
    let mut open = mask.clone();
    for part in parts {
        let mut passing = open.clone();
        narrow_in_order(&[part], batch, wanted, &mut passing)?;
        open.subtract(&passing);
        if open.is_empty() {
            break;
        }
    }
    mask.subtract(&open);
    Ok(())
}

/// The rows of `mask`, with the columns that `exprs` name; others are empty.
pub(super) fn compacted(batch: &Batch, exprs: &[&Expr], mask: &Mask) -> Result<Batch> {
    let mut needed = Vec::new();
    exprs.iter().for_each(|expr| expr.columns(&mut needed));
    let keep = Keep::of(&mask.clone().into_array(), needed.len());
    let absent = Column::new(Arc::new(NullArray::new(0)));
    let mut columns = vec![absent; batch.columns.len()];
    for index in needed {
        if let (Some(compact), Some(column)) = (columns.get_mut(index), batch.columns.get(index)) {
            *compact = column.keep(&keep)?;
        }
    }
    Ok(Batch { columns, rows: mask.count() })
}
