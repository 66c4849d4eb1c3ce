//! Intervals compared, times numbers and over them, as PostgreSQL has them: a part of a month becomes days, thirty to
//! a month, and a part of a day becomes time.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::{ArrowError, DataType, IntervalUnit};
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use saki_base::Interval;
use saki_catalog::SqlError;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// Microseconds of the longest interval have fewer digits.
const LENGTH: DataType = DataType::Decimal128(38, 0);
const DAYS_OF_MONTH: f64 = 30.0;
const SECONDS_OF_DAY: f64 = 86_400.0;

/// `interval * number`.
pub fn times(interval: Expr, number: Expr) -> Expr {
    static TIMES: LazyLock<ScalarUDF> = LazyLock::new(|| function("interval_mul", Scaling::Times));
    scaled(&TIMES, interval, number)
}

/// `interval / number`.
pub fn over(interval: Expr, number: Expr) -> Expr {
    static OVER: LazyLock<ScalarUDF> = LazyLock::new(|| function("interval_div", Scaling::Over));
    scaled(&OVER, interval, number)
}

/// What intervals are compared by: their microseconds, in months of thirty days of twenty-four hours.
pub fn length(interval: Expr) -> Expr {
    static LENGTH: LazyLock<ScalarUDF> = LazyLock::new(|| {
        ScalarUDF::from(Length { signature: Signature::exact(vec![INTERVAL], Volatility::Immutable) })
    });
    LENGTH.call(vec![cast(interval, INTERVAL)])
}

/// The same of intervals that there are, as numbers.
pub fn lengths(intervals: &PrimitiveArray<IntervalMonthDayNanoType>) -> ArrayRef {
    let micros = |of: IntervalMonthDayNano| Interval::of_nanos(of.months, of.days, of.nanoseconds).length();
    Arc::new(intervals.unary::<_, Decimal128Type>(micros).with_data_type(LENGTH))
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Length {
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_first = |arrays: &[ArrayRef]| -> Result<ArrayRef> { Ok(lengths(arrays[0].as_primitive())) };
        make_scalar_function(of_first, Vec::new())(&args.args)
    }
}

fn scaled(function: &ScalarUDF, interval: Expr, number: Expr) -> Expr {
    function.call(vec![cast(interval, INTERVAL), cast(number, DataType::Float64)])
}

fn function(name: &'static str, scaling: Scaling) -> ScalarUDF {
    let signature = Signature::exact(vec![INTERVAL, DataType::Float64], Volatility::Immutable);
    ScalarUDF::from(Scaled { name, scaling, signature })
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Scaling {
    Times,
    Over,
}

impl Scaling {
    fn apply(self, part: f64, number: f64) -> f64 {
        match self {
            Self::Times => part * number,
            Self::Over => part / number,
        }
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Scaled {
    name: &'static str,
    scaling: Scaling,
    signature: Signature,
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| self.scale_all(arrays), Vec::new())(&args.args)
    }
}

impl Scaled {
    fn scale_all(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let [intervals, numbers] = arrays else {
            return Err(SqlError::internal(format!("{} of {} operands", self.name, arrays.len())).into());
        };
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let pairs = intervals.iter().zip(numbers.as_primitive::<Float64Type>());
        let found = pairs.map(|(interval, number)| {
            interval.zip(number).map(|(interval, number)| scale(interval, self.scaling, number)).transpose()
        });
        Ok(Arc::new(found.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?))
    }
}

/// An interval over a number, as `/` has it.
///
/// # Errors
/// 22012 for a division by zero, 22008 for what no interval can hold.
pub fn quotient(interval: IntervalMonthDayNano, divisor: f64) -> Result<IntervalMonthDayNano> {
    scale(interval, Scaling::Over, divisor)
}

/// # Errors
/// 22012 for a division by zero, 22008 for what no interval can hold.
fn scale(interval: IntervalMonthDayNano, scaling: Scaling, number: f64) -> Result<IntervalMonthDayNano> {
    if scaling == Scaling::Over && number == 0.0 {
        return Err(ArrowError::DivideByZero.into());
    }
    let of = |part: f64| scaling.apply(part, number);
    let (months, days) = (of(f64::from(interval.months)), of(f64::from(interval.days)));
    let days_of_months = to_micros((months - months.trunc()) * DAYS_OF_MONTH);
    let seconds = to_micros((days - days.trunc() + days_of_months - days_of_months.trunc()) * SECONDS_OF_DAY);
    let more_days = (seconds / SECONDS_OF_DAY).trunc();
    let micros = of(interval.nanoseconds as f64 / 1e3) + (seconds - more_days * SECONDS_OF_DAY) * 1e6;
    let (months, days) = (months.trunc(), days.trunc() + days_of_months.trunc() + more_days);
    let fits =
        [months, days].iter().all(|part| part.abs() <= f64::from(i32::MAX)) && micros.abs() <= i64::MAX as f64 / 1e3;
    if !fits {
        return Err(SqlError::data("interval out of range").code("22008").into());
    }
    let nanoseconds = (micros.round_ties_even() as i64).saturating_mul(1000);
    Ok(IntervalMonthDayNano::new(months as i32, days as i32, nanoseconds))
}

/// Without what is left of fractions that are none in binary, below a microsecond.
fn to_micros(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanoseconds)
    }

    #[test]
    fn parts_spill_from_months_to_days_and_from_days_to_time() {
        let all = interval(14, 3, 4 * HOUR + HOUR / 12 + 6_000_000_000);
        let expected = interval(35, 7, 22 * HOUR + HOUR / 5 + 45_000_000_000);
        assert_eq!(scale(all, Scaling::Times, 2.5).unwrap(), expected);
        assert_eq!(scale(interval(1, 0, 0), Scaling::Times, 1.5).unwrap(), interval(1, 15, 0));
        assert_eq!(scale(interval(0, 1, 0), Scaling::Over, 3.0).unwrap(), interval(0, 0, 8 * HOUR));
        assert_eq!(scale(interval(0, 0, HOUR), Scaling::Times, -2.0).unwrap(), interval(0, 0, -2 * HOUR));
        assert_eq!(scale(interval(1, 0, 0), Scaling::Over, 3.0).unwrap(), interval(0, 10, 0));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(scale(interval(1, 0, 0), Scaling::Over, 0.0).is_err());
        assert!(scale(interval(i32::MAX, 0, 0), Scaling::Times, 2.0).is_err());
        assert!(scale(interval(0, 0, i64::MAX), Scaling::Times, 2.0).is_err());
        assert!(scale(interval(1, 1, 1), Scaling::Times, f64::NAN).is_err());
    }
}
