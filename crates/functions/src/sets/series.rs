//! `generate_series`: the numbers or moments of a series as one list, which is then unnested.

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use saki_catalog::SqlError;
use saki_parameters::{Interval, SessionTime};
use saki_times::session_time;

/// What the function is called.
pub const SERIES: &str = "pg_series";
/// The most values that a series may have as one list.
const VALUES_MAX: usize = 10_000_000;

pub fn function() -> ScalarUDF {
    ScalarUDF::from(Series { signature: Signature::user_defined(Volatility::Stable) })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Series {
    signature: Signature,
}

/// What the arguments of a series become; the first is what it is made of.
///
/// # Errors
/// 42883 for what makes no series.
pub fn argument_types(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_moment = |of: &DataType| matches!(of, DataType::Timestamp(..) | DataType::Date32);
    let is_number = |of: &DataType| of.is_integer() || matches!(of, DataType::Decimal128(..));
    let is_open = |of: &DataType| matches!(of, DataType::Utf8 | DataType::Null);
    let all = |is: fn(&DataType) -> bool| types.iter().all(is);
    if (2..=3).contains(&types.len()) && types.iter().all(|of| is_number(of) || is_open(of)) {
        let element = match types.iter().find(|of| matches!(of, DataType::Decimal128(..))) {
            // As many digits behind the point as the one that has the most.
            Some(_) => DataType::Decimal128(38, types.iter().map(scale).max().unwrap_or(0)),
            None if all(|of| matches!(of, DataType::Int32 | DataType::Int16 | DataType::Null)) => DataType::Int32,
            None => DataType::Int64,
        };
        return Ok(vec![element; types.len()]);
    }
    match types {
        [first, last, step]
            if [first, last].into_iter().any(is_moment)
                && [first, last].into_iter().all(|of| is_moment(of) || is_open(of))
                && (is_open(step) || matches!(step, DataType::Interval(_) | DataType::Duration(_))) =>
        {
            // Dates are moments of the session's zone.
            let is_local = [first, last].into_iter().all(|of| is_open(of) || *of == saki_times::TIMESTAMP);
            let moment = if is_local { saki_times::TIMESTAMP } else { saki_times::timestamptz() };
            Ok(vec![moment.clone(), moment, saki_times::INTERVAL])
        }
        _ => Err(saki_times::no_function("generate_series", types).into()),
    }
}

fn scale(of: &DataType) -> i8 {
    match of {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        SERIES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// What makes no series is told with the type that it would have: here the planner would put it into words of its
    /// own.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(argument_types(types).unwrap_or_else(|_| types.to_vec()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let element = argument_types(types)?.swap_remove(0);
        Ok(DataType::List(Arc::new(Field::new_list_field(element, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = session_time(&args.config_options);
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let DataType::List(field) = args.return_field.data_type() else {
            return Err(SqlError::internal("a series is a list").into());
        };
        let (mut lengths, mut valid, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..rows {
            let arguments = arrays.iter().map(|array| ScalarValue::try_from_array(array, row));
            let series = series(&arguments.collect::<Result<Vec<_>>>()?, session)?;
            lengths.push(series.as_ref().map_or(0, Vec::len));
            valid.push(series.is_some());
            values.extend(series.unwrap_or_default());
        }
        let elements: ArrayRef = match values.is_empty() {
            true => arrow_array::new_empty_array(field.data_type()),
            false => ScalarValue::iter_to_array(values)?,
        };
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::try_new(Arc::clone(field), offsets, elements, Some(NullBuffer::from(valid)))?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::List(Arc::new(lists))),
            false => ColumnarValue::Array(Arc::new(lists)),
        })
    }
}

/// The values of a series; `None` if one of its arguments is NULL.
///
/// # Errors
/// 22023 for a step of zero, 54000 for too many values.
fn series(arguments: &[ScalarValue], session: &SessionTime) -> Result<Option<Vec<ScalarValue>>> {
    if arguments.iter().any(ScalarValue::is_null) {
        return Ok(None);
    }
    match arguments {
        [
            ScalarValue::TimestampMicrosecond(Some(first), zone),
            ScalarValue::TimestampMicrosecond(Some(last), _),
            ScalarValue::IntervalMonthDayNano(Some(step)),
        ] => {
            let micros = step.nanoseconds.div_euclid(1_000);
            let step = Interval { months: step.months, days: step.days, micros };
            let has_zone = zone.is_some();
            let moments = saki_times::series(*first, *last, step, has_zone, session, VALUES_MAX)?;
            let moment = |micros| ScalarValue::TimestampMicrosecond(Some(micros), zone.clone());
            Ok(Some(moments.into_iter().map(moment).collect()))
        }
        [first, last, step @ ..] => {
            let (data_type, from) = (first.data_type(), whole(first)?);
            let step = step.first().map(whole).transpose()?.unwrap_or(10i128.pow(scale(&data_type).max(0) as u32));
            let count = count(from, whole(last)?, step)?;
            let number = |at: usize| value(from + at as i128 * step, &data_type);
            Ok(Some((0..count).map(number).collect()))
        }
        _ => Err(SqlError::internal("a series has two ends").into()),
    }
}

fn count(first: i128, last: i128, step: i128) -> Result<usize> {
    if step == 0 {
        return Err(SqlError::data("step size cannot equal zero").code("22023").into());
    }
    let span = if step > 0 { last - first } else { first - last };
    if span < 0 {
        return Ok(0);
    }
    let count = usize::try_from(span / step.abs()).unwrap_or(usize::MAX).saturating_add(1);
    if count > VALUES_MAX {
        let message = format!("generate_series gives {count} values here; the most is {VALUES_MAX}");
        return Err(SqlError::data(message).code("54000").into());
    }
    Ok(count)
}

/// An integer, or the digits of a decimal.
fn whole(value: &ScalarValue) -> Result<i128> {
    match value {
        ScalarValue::Int32(Some(value)) => Ok((*value).into()),
        ScalarValue::Int64(Some(value)) => Ok((*value).into()),
        ScalarValue::Decimal128(Some(value), ..) => Ok(*value),
        other => Err(SqlError::internal(format!("a series of {}", other.data_type())).into()),
    }
}

fn value(number: i128, data_type: &DataType) -> ScalarValue {
    match data_type {
        DataType::Int32 => ScalarValue::Int32(i32::try_from(number).ok()),
        DataType::Int64 => ScalarValue::Int64(i64::try_from(number).ok()),
        DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(number), *precision, *scale),
        _ => ScalarValue::Null,
    }
}
