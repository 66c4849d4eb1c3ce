//! CASE: each branch's value for the rows that take it, put together.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringViewArray, UInt16Array, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::interleave::interleave;
use saki_base::value::Value;

use super::logic::compacted;
use super::mask::Mask;
use super::operand::{Operand, constant, integer};
use super::tree::Expr;
use crate::form::{self, TextDictionary};
use crate::{Batch, Bounds, Column, Result, VectorError};

/// Values for some rows. Those of a column lie at the rows' places.
struct Piece {
    rows: Mask,
    values: Operand,
}

/// The first branch whose condition is true; else `otherwise`, else NULL.
pub(crate) fn evaluate(
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    data_type: &DataType,
    batch: &Batch,
) -> Result<Operand> {
    let mut open = Mask::all(batch.rows);
    let mut pieces = Vec::with_capacity(branches.len() + 1);
    for (when, then) in branches {
        let rows = when.holds_among(&open, batch)?;
        open.subtract(&rows);
        push(&mut pieces, rows, Some(then), batch)?;
    }
    push(&mut pieces, open, otherwise, batch)?;
    blend(&pieces, data_type, batch.rows)
}

fn push(pieces: &mut Vec<Piece>, rows: Mask, expr: Option<&Expr>, batch: &Batch) -> Result<()> {
    if !rows.is_empty() {
        let values = expr.map_or(Ok(Operand::Constant(Value::Null)), |expr| values_of(expr, batch, &rows))?;
        pieces.push(Piece { rows, values });
    }
    Ok(())
}

/// The value of `expr` for `rows`; anything for others.
fn values_of(expr: &Expr, batch: &Batch, rows: &Mask) -> Result<Operand> {
    let count = rows.count();
    if !expr.worth_compacting(count, batch.rows) {
        match expr.operand(batch) {
            // It may be the error of a row that takes another branch.
            Err(_) if count < batch.rows => {}
            result => return result,
        }
    }
    match expr.operand(&compacted(batch, &[expr], rows)?)? {
        Operand::Column(column) => {
            let mut places = vec![0; batch.rows];
            let mut next = 0;
            rows.for_each(|row| {
                places[row] = next;
                next += 1;
            });
            Ok(Operand::Column(column.take(&UInt32Array::from(places))?))
        }
        constant => Ok(constant),
    }
}

fn blend(pieces: &[Piece], data_type: &DataType, rows: usize) -> Result<Operand> {
    match pieces {
        [] => return Ok(Operand::Constant(Value::Null)),
        [only] => return Ok(only.values.clone()),
        _ => {}
    }
    let column = match data_type {
        DataType::Int16 => primitives::<Int16Type>(pieces, rows, |value| i16::try_from(integer(value)?).ok())?,
        DataType::Int32 => primitives::<Int32Type>(pieces, rows, |value| i32::try_from(integer(value)?).ok())?,
        DataType::Int64 | DataType::Timestamp(TimeUnit::Second, _) => {
            primitives::<Int64Type>(pieces, rows, |value| i64::try_from(integer(value)?).ok())?
        }
        DataType::Date32 => primitives::<Date32Type>(pieces, rows, |value| i32::try_from(integer(value)?).ok())?,
        DataType::Float32 => {
            primitives::<Float32Type>(pieces, rows, |v| if let Value::Float4(v) = v { Some(*v) } else { None })?
        }
        DataType::Float64 => {
            primitives::<Float64Type>(pieces, rows, |v| if let Value::Float8(v) = v { Some(*v) } else { None })?
        }
        DataType::Decimal128(..) => decimals(pieces, rows)?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::LargeBinary | DataType::Utf8View => {
            texts(pieces, data_type, rows)?
        }
        _ => any(pieces, data_type, rows)?,
    };
    Ok(Operand::Column(column))
}

/// Narrow if all pieces are.
fn decimals(pieces: &[Piece], rows: usize) -> Result<Column> {
    let is_narrow = |piece: &Piece| match &piece.values {
        Operand::Constant(value) => integer(value).is_none_or(|value| i64::try_from(value).is_ok()),
        Operand::Column(column) => column.array().data_type() == &DataType::Int64,
    };
    if pieces.iter().all(is_narrow) {
        return primitives::<Int64Type>(pieces, rows, |value| i64::try_from(integer(value)?).ok());
    }
    let wide = |piece: &Piece| {
        let values = match &piece.values {
            Operand::Column(column) => Operand::Column(Column::new(Arc::new(form::wide_decimals(column)?))),
            constant => constant.clone(),
        };
        Ok(Piece { rows: piece.rows.clone(), values })
    };
    let pieces = pieces.iter().map(wide).collect::<Result<Vec<_>>>()?;
    primitives::<Decimal128Type>(&pieces, rows, integer)
}

fn primitives<T: ArrowPrimitiveType>(
    pieces: &[Piece],
    rows: usize,
    of_constant: impl Fn(&Value) -> Option<T::Native>,
) -> Result<Column> {
    let mut values = vec![T::Native::default(); rows];
    let mut nulls = Mask::none(rows);
    for Piece { rows, values: source } in pieces {
        match source {
            Operand::Constant(Value::Null) => nulls.unite(rows),
            Operand::Constant(value) => {
                let constant =
                    of_constant(value).ok_or_else(|| VectorError::internal(format!("{value:?} in a CASE")))?;
                // The places are zero already.
                if constant != T::Native::default() {
                    rows.fill(&mut values, constant);
                }
            }
            Operand::Column(column) => {
                let array = column.array().as_primitive_opt::<T>().ok_or_else(|| {
                    VectorError::internal(format!("{} in a CASE of {}", column.array().data_type(), T::DATA_TYPE))
                })?;
                rows.copy(&mut values, array.values());
                if let Some(valid) = array.nulls() {
                    let mut missing = rows.clone();
                    missing.subtract_bits(valid.inner());
                    nulls.unite(&missing);
                }
            }
        }
    }
    let array: ArrayRef = Arc::new(PrimitiveArray::<T>::new(values.into(), valid_outside(nulls)));
    Ok(match bounds(pieces) {
        Some(bounds) => Column::with_bounds(array, bounds),
        None => Column::new(array),
    })
}

fn valid_outside(nulls: Mask) -> Option<NullBuffer> {
    (!nulls.is_empty()).then(|| {
        let mut valid = Mask::all(nulls.rows());
        valid.subtract(&nulls);
        NullBuffer::new(valid.into_bits())
    })
}

/// Bounds that hold for all pieces, if they came with them.
fn bounds(pieces: &[Piece]) -> Option<Bounds> {
    let of = |values: &Operand| match values {
        Operand::Constant(value) => {
            let value = i64::try_from(integer(value)?).ok()?;
            Some(Bounds { min: value, max: value })
        }
        Operand::Column(column) => column.known_bounds(),
    };
    let valued = pieces.iter().filter(|piece| !piece.values.is_null());
    valued.map(|piece| of(&piece.values)).reduce(|a, b| Some(a?.union(b?))).flatten()
}

/// A dictionary if all pieces are constants, else views.
fn texts(pieces: &[Piece], data_type: &DataType, rows: usize) -> Result<Column> {
    if pieces.iter().any(|piece| matches!(piece.values, Operand::Column(_))) {
        return any(pieces, data_type, rows);
    }
    let (mut codes, mut values, mut nulls) = (vec![0; rows], Vec::new(), Mask::none(rows));
    for Piece { rows, values: constant } in pieces {
        match constant {
            // More than the codes: no query text has as many branches.
            Operand::Constant(Value::Text(text)) => {
                let code =
                    u16::try_from(values.len()).map_err(|_| VectorError::internal("a CASE of too many texts"))?;
                values.push(text);
                rows.fill(&mut codes, code);
            }
            _ => nulls.unite(rows),
        }
    }
    let codes = UInt16Array::new(codes.into(), valid_outside(nulls));
    let values = Arc::new(StringViewArray::from_iter_values(values));
    Ok(Column::new(Arc::new(TextDictionary::try_new(codes, values)?)))
}

/// Of any type.
fn any(pieces: &[Piece], data_type: &DataType, rows: usize) -> Result<Column> {
    let mut places = vec![(0, 0); rows];
    let mut arrays = Vec::with_capacity(pieces.len());
    for (index, Piece { rows, values }) in pieces.iter().enumerate() {
        match values {
            Operand::Constant(value) => {
                rows.fill(&mut places, (index, 0));
                arrays.push(form::text_views(&constant(value, data_type, 1)?)?);
            }
            Operand::Column(column) => {
                rows.for_each(|row| places[row] = (index, row));
                arrays.push(form::text_views(column)?);
            }
        }
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(Column::new(interleave(&arrays, &places)?))
}
