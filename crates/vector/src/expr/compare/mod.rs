//! Comparisons: values of a column with a constant or with those of another.

mod value_set;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, StringViewArray};
use arrow_schema::DataType;
use saki_base::CompareOp;
use saki_base::value::Value;

use super::mask::Mask;
use super::operand::{Integers, Operand, constant, integer};
use super::text;
use crate::{Bounds, Column, Result, VectorError, form, view};

pub use value_set::ValueSet;

/// Whether a comparison holds for all values within bounds, or (false) for none of them.
fn decided_by(op: CompareOp, bounds: Bounds, constant: i128) -> Option<bool> {
    let least = op.holds(i128::from(bounds.min).cmp(&constant));
    let greatest = op.holds(i128::from(bounds.max).cmp(&constant));
    let inside = i128::from(bounds.min) < constant && constant < i128::from(bounds.max);
    // An order that holds at both ends holds between them; equality may hold in the middle alone.
    (least == greatest && !(inside && matches!(op, CompareOp::Equal | CompareOp::NotEqual))).then_some(least)
}

/// Keeps the rows for which `left op right` is true.
pub(crate) fn narrow(
    op: CompareOp,
    left: Operand,
    right: Operand,
    data_type: &DataType,
    mask: &mut Mask,
) -> Result<()> {
    if left.is_null() || right.is_null() {
        mask.clear();
        return Ok(());
    }
    for nulls in [left.nulls(), right.nulls()].into_iter().flatten() {
        mask.intersect_bits(nulls.inner());
    }
    match (left, right) {
        (Operand::Column(left), Operand::Column(right)) => narrow_columns(op, left.array(), right.array(), mask),
        (Operand::Column(left), Operand::Constant(right)) => narrow_constant(op, &left, &right, data_type, mask),
        (Operand::Constant(left), Operand::Column(right)) => {
            narrow_constant(op.mirrored(), &right, &left, data_type, mask)
        }
        (left @ Operand::Constant(_), Operand::Constant(right)) => {
            let left = left.into_column(data_type, mask.rows())?;
            narrow_constant(op, &left, &right, data_type, mask)
        }
    }
}

fn narrow_constant(op: CompareOp, column: &Column, value: &Value, data_type: &DataType, mask: &mut Mask) -> Result<()> {
    let array = column.array();
    if let (Some(integers), Some(value)) = (Integers::of(array), integer(value)) {
        match column.known_bounds().and_then(|bounds| decided_by(op, bounds, value)) {
            Some(true) => {}
            Some(false) => mask.clear(),
            None => narrow_integers(op, integers, value, mask),
        }
        return Ok(());
    }
    match (array.data_type(), value) {
        (DataType::Float32, Value::Float4(value)) => {
            narrow_floats(op, array.as_primitive::<Float32Type>().values(), *value, mask);
        }
        (DataType::Float64, Value::Float8(value)) => {
            narrow_floats(op, array.as_primitive::<Float64Type>().values(), *value, mask);
        }
        (DataType::Utf8View | DataType::Dictionary(..), Value::Text(value)) => {
            text::narrow(array, mask, |texts, mask| {
                narrow_text(op, texts, value.as_bytes(), mask);
                Ok(())
            })?;
        }
        (DataType::BinaryView, Value::Bytea(value)) => {
            let values = array.as_binary_view();
            mask.narrow_rows(|row| op.holds(values.value(row).cmp(value)));
        }
        (DataType::FixedSizeBinary(_), Value::Uuid(value)) => {
            let values = array.as_fixed_size_binary();
            mask.narrow_rows(|row| op.holds(values.value(row).cmp(value)));
        }
        (DataType::Boolean, Value::Bool(value)) => {
            let values = array.as_boolean();
            mask.narrow_rows(|row| op.holds(values.value(row).cmp(value)));
        }
        _ => narrow_columns(op, array, constant(value, data_type, array.len())?.array(), mask)?,
    }
    Ok(())
}

fn narrow_integers(op: CompareOp, values: Integers<'_>, constant: i128, mask: &mut Mask) {
    fn of<T: Copy + Ord + TryFrom<i128>>(op: CompareOp, values: &[T], constant: i128, mask: &mut Mask) {
        match T::try_from(constant) {
            Ok(constant) => narrow_ordered(op, values, constant, mask),
            // Every value is on the same side of a constant that the type cannot hold.
            Err(_) if op.holds(0.cmp(&constant)) => {}
            Err(_) => mask.clear(),
        }
    }
    match values {
        Integers::I16(values) => of(op, values, constant, mask),
        Integers::I32(values) => of(op, values, constant, mask),
        Integers::I64(values) => of(op, values, constant, mask),
        Integers::I128(values) => of(op, values, constant, mask),
    }
}

/// One loop for each comparison: the choice is made once.
fn narrow_ordered<T: Copy + Ord>(op: CompareOp, values: &[T], constant: T, mask: &mut Mask) {
    match op {
        CompareOp::Equal => mask.narrow(values, |value| value == constant),
        CompareOp::NotEqual => mask.narrow(values, |value| value != constant),
        CompareOp::Less => mask.narrow(values, |value| value < constant),
        CompareOp::LessOrEqual => mask.narrow(values, |value| value <= constant),
        CompareOp::Greater => mask.narrow(values, |value| value > constant),
        CompareOp::GreaterOrEqual => mask.narrow(values, |value| value >= constant),
    }
}

fn narrow_pairs<A: Copy + Into<T>, B: Copy + Into<T>, T: Ord>(op: CompareOp, left: &[A], right: &[B], mask: &mut Mask) {
    match op {
        CompareOp::Equal => mask.narrow_pairs(left, right, |left, right| left.into() == right.into()),
        CompareOp::NotEqual => mask.narrow_pairs(left, right, |left, right| left.into() != right.into()),
        CompareOp::Less => mask.narrow_pairs(left, right, |left, right| left.into() < right.into()),
        CompareOp::LessOrEqual => mask.narrow_pairs(left, right, |left, right| left.into() <= right.into()),
        CompareOp::Greater => mask.narrow_pairs(left, right, |left, right| left.into() > right.into()),
        CompareOp::GreaterOrEqual => mask.narrow_pairs(left, right, |left, right| left.into() >= right.into()),
    }
}

/// A float as PostgreSQL orders it.
trait Float: Copy + PartialOrd {
    fn is_nan(self) -> bool;

    fn equal(self, other: Self) -> bool {
        self == other || (self.is_nan() && other.is_nan())
    }

    fn less(self, other: Self) -> bool {
        self < other || (other.is_nan() && !self.is_nan())
    }
}

impl Float for f32 {
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Float for f64 {
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

fn narrow_floats<T: Float>(op: CompareOp, values: &[T], constant: T, mask: &mut Mask) {
    match op {
        CompareOp::Equal => mask.narrow(values, |value| value.equal(constant)),
        CompareOp::NotEqual => mask.narrow(values, |value| !value.equal(constant)),
        CompareOp::Less => mask.narrow(values, |value| value.less(constant)),
        CompareOp::LessOrEqual => mask.narrow(values, |value| !constant.less(value)),
        CompareOp::Greater => mask.narrow(values, |value| constant.less(value)),
        CompareOp::GreaterOrEqual => mask.narrow(values, |value| !value.less(constant)),
    }
}

fn narrow_float_pairs<T: Float>(op: CompareOp, left: &[T], right: &[T], mask: &mut Mask) {
    match op {
        CompareOp::Equal => mask.narrow_pairs(left, right, |left, right| left.equal(right)),
        CompareOp::NotEqual => mask.narrow_pairs(left, right, |left, right| !left.equal(right)),
        CompareOp::Less => mask.narrow_pairs(left, right, |left, right| left.less(right)),
        CompareOp::LessOrEqual => mask.narrow_pairs(left, right, |left, right| !right.less(left)),
        CompareOp::Greater => mask.narrow_pairs(left, right, |left, right| right.less(left)),
        CompareOp::GreaterOrEqual => mask.narrow_pairs(left, right, |left, right| !left.less(right)),
    }
}

fn narrow_text(op: CompareOp, texts: &StringViewArray, constant: &[u8], mask: &mut Mask) {
    match op {
        CompareOp::Equal => text::narrow_equal(texts, constant, mask),
        CompareOp::NotEqual => {
            let mut equal = mask.clone();
            text::narrow_equal(texts, constant, &mut equal);
            mask.subtract(&equal);
        }
        _ => {
            let (views, start) = (texts.views(), view::prefix_of(constant));
            // The first bytes decide, but for the few texts that share them.
            let mut same = mask.clone();
            same.narrow(views, |view| view::prefix(view) == start);
            same.narrow_rows(|row| op.holds(texts.value(row).as_bytes().cmp(constant)));
            if matches!(op, CompareOp::Less | CompareOp::LessOrEqual) {
                mask.narrow(views, |view| view::prefix(view) < start);
            } else {
                mask.narrow(views, |view| view::prefix(view) > start);
            }
            mask.unite(&same);
        }
    }
}

fn narrow_columns(op: CompareOp, left: &ArrayRef, right: &ArrayRef, mask: &mut Mask) -> Result<()> {
    let is_text = |array: &ArrayRef| matches!(array.data_type(), DataType::Utf8View | DataType::Dictionary(..));
    match (Integers::of(left), Integers::of(right)) {
        (Some(Integers::I16(left)), Some(Integers::I16(right))) => narrow_pairs::<_, _, i16>(op, left, right, mask),
        (Some(Integers::I32(left)), Some(Integers::I32(right))) => narrow_pairs::<_, _, i32>(op, left, right, mask),
        (Some(Integers::I64(left)), Some(Integers::I64(right))) => narrow_pairs::<_, _, i64>(op, left, right, mask),
        (Some(Integers::I128(left)), Some(Integers::I128(right))) => narrow_pairs::<_, _, i128>(op, left, right, mask),
        (Some(Integers::I64(left)), Some(Integers::I128(right))) => narrow_pairs::<_, _, i128>(op, left, right, mask),
        (Some(Integers::I128(left)), Some(Integers::I64(right))) => narrow_pairs::<_, _, i128>(op, left, right, mask),
        (None, None) => match (left.data_type(), right.data_type()) {
            (DataType::Float32, DataType::Float32) => {
                let (left, right) = (left.as_primitive::<Float32Type>(), right.as_primitive::<Float32Type>());
                narrow_float_pairs(op, left.values(), right.values(), mask);
            }
            (DataType::Float64, DataType::Float64) => {
                let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
                narrow_float_pairs(op, left.values(), right.values(), mask);
            }
            _ if is_text(left) && is_text(right) => narrow_text_pairs(op, left, right, mask)?,
            _ => {
                let result = ordered_by_arrow(op, left, right)?;
                mask.intersect_bits(result.values());
            }
        },
        _ => {
            return Err(VectorError::internal(format!("{} compared with {}", left.data_type(), right.data_type())));
        }
    }
    Ok(())
}

fn narrow_text_pairs(op: CompareOp, left: &ArrayRef, right: &ArrayRef, mask: &mut Mask) -> Result<()> {
    let (left, right) = (form::text_views_of(left)?, form::text_views_of(right)?);
    let (left, right) = (left.as_string_view(), right.as_string_view());
    let (left_views, right_views) = (left.views(), right.views());
    if matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
        let wanted = op == CompareOp::Equal;
        mask.narrow_rows(|row| {
            let (left_view, right_view) = (left_views[row], right_views[row]);
            // Length and first bytes differ, or are all there is; else the bytes decide.
            let equal = left_view as u64 == right_view as u64
                && (left_view == right_view
                    || (view::length(left_view) > view::INLINE && left.value(row) == right.value(row)));
            equal == wanted
        });
    } else {
        mask.narrow_rows(|row| {
            let ordering = view::prefix(left_views[row]).cmp(&view::prefix(right_views[row]));
            op.holds(ordering.then_with(|| left.value(row).as_bytes().cmp(right.value(row).as_bytes())))
        });
    }
    Ok(())
}

fn ordered_by_arrow(op: CompareOp, left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
    use arrow_ord::cmp;
    Ok(match op {
        CompareOp::Equal => cmp::eq(left, right),
        CompareOp::NotEqual => cmp::neq(left, right),
        CompareOp::Less => cmp::lt(left, right),
        CompareOp::LessOrEqual => cmp::lt_eq(left, right),
        CompareOp::Greater => cmp::gt(left, right),
        CompareOp::GreaterOrEqual => cmp::gt_eq(left, right),
    }?)
}
