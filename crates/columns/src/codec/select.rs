//! Tests decided on encoded values.
//!
//! ```text
//!   constant        test the one value
//!   dictionary      test each distinct value once ─► which codes pass ─► compare codes
//!   run-end         test each run's value once ─► fill the runs
//!   bit-packed      shift the constant as the values are, compare while unpacking:
//!   (frame of ref.) one bit is written for each value, not eight bytes
//! ```
//!
//! Everything else is as fast decoded and compared, and left to that.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{ArrowPrimitiveType, BooleanArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use saki_base::value::Value;
use saki_base::{DataType, Interval, ValueRef};
use saki_vector::expr::CompareOp;
use saki_vector::{Column, form};
use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::{BoolArray, Constant, ConstantArray, Dict, PrimitiveArray};
use vortex_array::builtins::ArrayBuiltins;
use vortex_array::dtype::{Nullability, PType};
use vortex_array::scalar::Scalar;
use vortex_array::scalar_fn::fns::operators::Operator;
use vortex_array::{ArrayRef, ExecutionCtx, IntoArray};
use vortex_error::{VortexResult, vortex_bail, vortex_err};
use vortex_fastlanes::{BitPacked, FoR, FoRArrayExt, FoRArraySlotsExt, FoRReferences};
use vortex_runend::{RunEnd, RunEndArrayExt, RunEndArraySlotsExt};

use super::decode;
use crate::test::Test;

/// Ranges of passing codes up to which codes are compared packed; more are looked up one by one.
const RANGES_MAX: usize = 3;

/// Rows of a run, on average, from which runs are filled faster than values are compared.
const RUN_ROWS: usize = 32;

/// The rows whose value passes, for a test other than of NULL.
pub fn select(
    values: &ArrayRef,
    data_type: DataType,
    test: &Test,
    context: &mut ExecutionCtx,
) -> VortexResult<Option<BooleanBuffer>> {
    let rows = values.len();
    if values.is::<Constant>() {
        let passes = passing(values.slice(0..1)?, data_type, test, context)?;
        return Ok(Some(uniform(passes.first() == Some(&true), rows)));
    }
    if let Some(dictionary) = values.as_opt::<Dict>() {
        let passes = passing(dictionary.values().clone(), data_type, test, context)?;
        return codes(dictionary.codes(), &passes, context).map(Some);
    }
    if let Some(runs) = values.as_opt::<RunEnd>().filter(|runs| rows / RUN_ROWS >= runs.values().len()) {
        let passes = passing(runs.values().clone(), data_type, test, context)?;
        let ends = runs.ends().clone().execute::<PrimitiveArray>(context)?;
        return fill_runs(&ends, runs.offset(), &passes, rows).map(Some);
    }
    match test {
        Test::Compare(op, constant) => match integer(constant) {
            Some(constant) => packed(values, *op, constant, context),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn uniform(passes: bool, rows: usize) -> BooleanBuffer {
    if passes { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) }
}

/// A constant of a type whose values are encoded as integers.
fn integer(constant: &Value) -> Option<i128> {
    match constant {
        Value::Int2(value) => Some(i128::from(*value)),
        Value::Int4(value) | Value::Date(value) => Some(i128::from(*value)),
        Value::Int8(value) | Value::Timestamp(value) | Value::Timestamptz(value) | Value::Time(value) => {
            Some(i128::from(*value))
        }
        Value::Decimal(value) => Some(*value),
        _ => None,
    }
}

/// Compares bit-packed values with a constant, behind a frame of reference or without one.
fn packed(
    values: &ArrayRef,
    op: CompareOp,
    constant: i128,
    context: &mut ExecutionCtx,
) -> VortexResult<Option<BooleanBuffer>> {
    if let Some(frame) = values.as_opt::<FoR>() {
        let FoRReferences::Global(reference) = frame.references() else { return Ok(None) };
        let Some(reference) = reference.as_primitive().as_::<i64>() else { return Ok(None) };
        return packed(frame.encoded(), op, constant.saturating_sub(i128::from(reference)), context);
    }
    if !values.is::<BitPacked>() {
        return Ok(None);
    }
    // Packed values are not negative and have a bit to spare: what is out of the type's reach is decided without a
    // look.
    let number = values.dtype().as_ptype();
    let largest = match number {
        PType::I16 => i128::from(i16::MAX),
        PType::I32 => i128::from(i32::MAX),
        PType::I64 => i128::from(i64::MAX),
        _ => return Ok(None),
    };
    let below = matches!(op, CompareOp::Less | CompareOp::LessOrEqual | CompareOp::NotEqual);
    let above = matches!(op, CompareOp::Greater | CompareOp::GreaterOrEqual | CompareOp::NotEqual);
    if constant < 0 {
        return Ok(Some(uniform(above, values.len())));
    }
    if constant > largest {
        return Ok(Some(uniform(below, values.len())));
    }
    let constant = match number {
        PType::I16 => Scalar::primitive(constant as i16, Nullability::NonNullable),
        PType::I32 => Scalar::primitive(constant as i32, Nullability::NonNullable),
        _ => Scalar::primitive(constant as i64, Nullability::NonNullable),
    };
    compare(values, operator(op), constant, context).map(Some)
}

fn operator(op: CompareOp) -> Operator {
    match op {
        CompareOp::Equal => Operator::Eq,
        CompareOp::NotEqual => Operator::NotEq,
        CompareOp::Less => Operator::Lt,
        CompareOp::LessOrEqual => Operator::Lte,
        CompareOp::Greater => Operator::Gt,
        CompareOp::GreaterOrEqual => Operator::Gte,
    }
}

/// Compares by the library, which does it while unpacking.
fn compare(
    values: &ArrayRef,
    op: Operator,
    constant: Scalar,
    context: &mut ExecutionCtx,
) -> VortexResult<BooleanBuffer> {
    let constant = ConstantArray::new(constant, values.len()).into_array();
    let bits = values.binary(constant, op)?.execute::<BoolArray>(context)?;
    Ok(bits.into_bit_buffer().into())
}

/// The rows whose code passes.
fn codes(codes: &ArrayRef, passes: &[bool], context: &mut ExecutionCtx) -> VortexResult<BooleanBuffer> {
    let passing = ranges(passes, true);
    if passing == [(0, passes.len().saturating_sub(1))] {
        return Ok(uniform(true, codes.len()));
    }
    if passing.len() <= RANGES_MAX {
        return in_ranges(codes, &passing, passes.len(), context);
    }
    let failing = ranges(passes, false);
    if failing.len() <= RANGES_MAX {
        return Ok(!&in_ranges(codes, &failing, passes.len(), context)?);
    }
    looked_up(&codes.clone().execute::<PrimitiveArray>(context)?, passes)
}

/// The longest ranges of codes, both ends included, that pass or do not.
fn ranges(passes: &[bool], wanted: bool) -> Vec<(usize, usize)> {
    let mut start = 0;
    let mut ranges = Vec::new();
    for same in passes.chunk_by(|left, right| left == right) {
        if same[0] == wanted {
            ranges.push((start, start + same.len() - 1));
        }
        start += same.len();
    }
    ranges
}

fn in_ranges(
    codes: &ArrayRef,
    ranges: &[(usize, usize)],
    count: usize,
    context: &mut ExecutionCtx,
) -> VortexResult<BooleanBuffer> {
    let mut found: Option<BooleanBuffer> = None;
    for (first, last) in ranges {
        let within = match (*first, *last) {
            (first, last) if first == last => compare(codes, Operator::Eq, code(codes, first)?, context)?,
            (0, last) => compare(codes, Operator::Lte, code(codes, last)?, context)?,
            (first, last) if last + 1 == count => compare(codes, Operator::Gte, code(codes, first)?, context)?,
            (first, last) => {
                let from = compare(codes, Operator::Gte, code(codes, first)?, context)?;
                &from & &compare(codes, Operator::Lte, code(codes, last)?, context)?
            }
        };
        found = Some(found.map_or(within.clone(), |found| &found | &within));
    }
    Ok(found.unwrap_or_else(|| uniform(false, codes.len())))
}

fn code(codes: &ArrayRef, code: usize) -> VortexResult<Scalar> {
    Ok(match codes.dtype().as_ptype() {
        PType::U8 => Scalar::primitive(u8::try_from(code)?, Nullability::NonNullable),
        PType::U16 => Scalar::primitive(u16::try_from(code)?, Nullability::NonNullable),
        PType::U32 => Scalar::primitive(u32::try_from(code)?, Nullability::NonNullable),
        other => vortex_bail!("codes of type {other}"),
    })
}

fn looked_up(codes: &PrimitiveArray, passes: &[bool]) -> VortexResult<BooleanBuffer> {
    fn each<T: Copy + Into<u32>>(codes: &[T], passes: &[bool]) -> BooleanBuffer {
        // A code that is not in the dictionary passes nothing; decoding refuses it.
        let pass = |row: usize| passes.get(codes[row].into() as usize).copied().unwrap_or(false);
        BooleanBuffer::collect_bool(codes.len(), pass)
    }
    Ok(match codes.ptype() {
        PType::U8 => each(codes.as_slice::<u8>(), passes),
        PType::U16 => each(codes.as_slice::<u16>(), passes),
        PType::U32 => each(codes.as_slice::<u32>(), passes),
        other => vortex_bail!("codes of type {other}"),
    })
}

fn fill_runs(ends: &PrimitiveArray, offset: usize, passes: &[bool], rows: usize) -> VortexResult<BooleanBuffer> {
    fn fill<T: Copy + Into<u64>>(ends: &[T], offset: usize, passes: &[bool], rows: usize) -> BooleanBuffer {
        let mut bits = BooleanBufferBuilder::new(rows);
        for (end, passes) in ends.iter().zip(passes) {
            let end = (Into::<u64>::into(*end) as usize).saturating_sub(offset).clamp(bits.len(), rows);
            bits.append_n(end - bits.len(), *passes);
        }
        bits.resize(rows);
        bits.finish()
    }
    Ok(match ends.ptype() {
        PType::U8 => fill(ends.as_slice::<u8>(), offset, passes, rows),
        PType::U16 => fill(ends.as_slice::<u16>(), offset, passes, rows),
        PType::U32 => fill(ends.as_slice::<u32>(), offset, passes, rows),
        PType::U64 => fill(ends.as_slice::<u64>(), offset, passes, rows),
        other => vortex_bail!("ends of runs of type {other}"),
    })
}

/// Which values of a short array pass.
fn passing(values: ArrayRef, data_type: DataType, test: &Test, context: &mut ExecutionCtx) -> VortexResult<Vec<bool>> {
    fn numbers<T: ArrowPrimitiveType>(column: &Column, test: &Test, value: fn(T::Native) -> Value) -> Vec<bool> {
        let values = column.array().as_primitive::<T>().values();
        values.iter().map(|number| test.passes(value(*number).as_ref())).collect()
    }
    let column = decode::column(values, data_type, None, context)?;
    let array = column.array();
    Ok(match data_type {
        DataType::Bool => array.as_boolean().values().iter().map(|value| test.passes(ValueRef::Bool(value))).collect(),
        DataType::Int2 => numbers::<Int16Type>(&column, test, Value::Int2),
        DataType::Int4 => numbers::<Int32Type>(&column, test, Value::Int4),
        DataType::Int8 | DataType::Enum(_) => numbers::<Int64Type>(&column, test, Value::Int8),
        DataType::Float4 => numbers::<Float32Type>(&column, test, Value::Float4),
        DataType::Float8 => numbers::<Float64Type>(&column, test, Value::Float8),
        DataType::Date => numbers::<Date32Type>(&column, test, Value::Date),
        DataType::Timestamp => numbers::<TimestampMicrosecondType>(&column, test, Value::Timestamp),
        DataType::Timestamptz => numbers::<TimestampMicrosecondType>(&column, test, Value::Timestamptz),
        DataType::Time => numbers::<Time64MicrosecondType>(&column, test, Value::Time),
        DataType::Interval => numbers::<IntervalMonthDayNanoType>(&column, test, |of| {
            Value::Interval(Interval::of_nanos(of.months, of.days, of.nanoseconds))
        }),
        DataType::Decimal { .. } => match array.as_primitive_opt::<Decimal128Type>() {
            Some(_) => numbers::<Decimal128Type>(&column, test, Value::Decimal),
            None => numbers::<Int64Type>(&column, test, |value| Value::Decimal(i128::from(value))),
        },
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            let views = form::text_views(&column).map_err(|error| vortex_err!("{error}"))?;
            views.as_string_view().iter().flatten().map(|text| test.passes(ValueRef::Text(text))).collect()
        }
        DataType::Bytea | DataType::Array(_) => {
            array.as_binary_view().iter().flatten().map(|bytes| test.passes(ValueRef::Bytea(bytes))).collect()
        }
        DataType::Uuid => {
            let uuid = |bytes: &[u8]| bytes.first_chunk().is_some_and(|bytes| test.passes(ValueRef::Uuid(*bytes)));
            array.as_fixed_size_binary().iter().flatten().map(uuid).collect()
        }
    })
}

/// A test of NULL, which needs no values.
pub fn of_null(nulls: Option<&NullBuffer>, rows: usize, wanted: bool) -> BooleanArray {
    let valid = nulls.map_or_else(|| uniform(true, rows), |nulls| nulls.inner().clone());
    BooleanArray::new(if wanted { !&valid } else { valid }, None)
}
