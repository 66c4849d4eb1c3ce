//! Variances and standard deviations: of whole and decimal numbers exact, and numbers with sixteen digits behind the
//! point; of floats by the sums that PostgreSQL keeps (Youngs and Cramer), of which an infinite one makes NaN.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float64Type, UInt64Type};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::{stddev, variance};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use num_bigint::BigInt;

use super::functions::{divide, quotient, root};
use super::number::Number;
use saki_base::types::DECIMAL_PRECISION_MAX as PRECISION_MAX;
use saki_catalog::SqlError;

/// Digits behind the point of a variance.
const SCALE: i8 = 16;
const SUM_PRECISION: u8 = 76;

/// The functions, under the names that they replace.
pub fn deviations() -> impl Iterator<Item = AggregateUDF> {
    let kind = |is_population, is_root| Kind { is_population, is_root };
    [
        (variance::var_samp_udaf(), kind(false, false)),
        (variance::var_pop_udaf(), kind(true, false)),
        (stddev::stddev_udaf(), kind(false, true)),
        (stddev::stddev_pop_udaf(), kind(true, true)),
    ]
    .into_iter()
    .map(|(function, kind)| {
        let mut aliases = function.aliases().to_vec();
        if function.name() == "var" {
            aliases.push("variance".to_owned());
        }
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(Deviation { function, aliases, kind, signature })
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Kind {
    /// Of all there is, not of a sample.
    is_population: bool,
    is_root: bool,
}

impl Kind {
    /// By what a sum of squares is divided; `None`: there are too few values.
    fn divisor(self, count: u64) -> Option<u64> {
        let divisor = if self.is_population { count } else { count.saturating_sub(1) };
        (divisor > 0).then_some(divisor)
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Deviation {
    /// The planner's function, which is asked for distinct floats.
    function: Arc<AggregateUDF>,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Deviation {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let digits = match arguments {
            [DataType::Decimal128(..)] => return Ok(arguments.to_vec()),
            [DataType::Int16] => 5,
            [DataType::Int32] => 10,
            [DataType::Int64] => 19,
            _ => {
                let fields = arguments.iter().map(|of| Arc::new(Field::new("argument", of.clone(), true)));
                let fields = fields_with_udf(&fields.collect::<Vec<_>>(), self.function.as_ref())?;
                return Ok(fields.iter().map(|field| field.data_type().clone()).collect());
            }
        };
        Ok(vec![DataType::Decimal128(digits, 0)])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match arguments {
            [of] if *of == DataType::Decimal128(0, 0) || scale_of(of).is_some() => {
                DataType::Decimal128(PRECISION_MAX, SCALE)
            }
            _ => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let of = args.input_fields.first().map(|field| field.data_type().clone()).unwrap_or(DataType::Null);
        let sums = match (scale_of(&of), args.is_distinct) {
            (Some(scale), false) => [sum_type(scale), sum_type(scale * 2)],
            (None, false) => [DataType::Float64, DataType::Float64],
            (Some(_), true) => {
                let list = DataType::List(Arc::new(Field::new_list_field(of, true)));
                return Ok(vec![Arc::new(Field::new(format_state_name(args.name, "distinct"), list, true))]);
            }
            (None, true) => return self.function.state_fields(args),
        };
        let names = ["sum", "squares"];
        let count = Field::new(format_state_name(args.name, "count"), DataType::UInt64, true);
        let sums =
            names.into_iter().zip(sums).map(|(name, of)| Field::new(format_state_name(args.name, name), of, true));
        Ok(std::iter::once(count).chain(sums).map(Arc::new).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let of = args.expr_fields.first().map(|field| field.data_type().clone()).unwrap_or(DataType::Null);
        Ok(match (scale_of(&of), args.is_distinct) {
            (Some(scale), false) => Box::new(Exact { sums: Sums::new(self.kind, scale) }),
            (Some(_), true) => Box::new(Distinct { kind: self.kind, of, values: HashSet::new() }),
            (None, false) => Box::new(Floats { kind: self.kind, count: 0, sum: 0.0, squares: 0.0 }),
            (None, true) => self.function.accumulator(args)?,
        })
    }
}

fn scale_of(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    }
}

fn sum_type(scale: i8) -> DataType {
    DataType::Decimal256(SUM_PRECISION, scale)
}

/// Sums of decimals and of their squares.
#[derive(Debug)]
struct Sums {
    kind: Kind,
    /// Of the values; that of the squares is twice as much.
    scale: i8,
    count: u64,
    sum: i256,
    squares: i256,
}

impl Sums {
    fn new(kind: Kind, scale: i8) -> Self {
        Self { kind, scale, count: 0, sum: i256::ZERO, squares: i256::ZERO }
    }

    fn add(&mut self, value: i128) -> Result<()> {
        let value = i256::from_i128(value);
        self.put(1, value, value.checked_mul(value))
    }

    fn put(&mut self, count: u64, sum: i256, squares: Option<i256>) -> Result<()> {
        let sums = self.sum.checked_add(sum).zip(squares.and_then(|squares| self.squares.checked_add(squares)));
        let (sum, squares) = sums.ok_or_else(out_of_range)?;
        (self.count, self.sum, self.squares) = (self.count + count, sum, squares);
        Ok(())
    }

    fn take(&mut self, value: i128) {
        let value = i256::from_i128(value);
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(value);
        self.squares = self.squares.wrapping_sub(value.wrapping_mul(value));
    }

    /// # Errors
    /// 22003 for more digits than a numeric has.
    fn result(&self) -> Result<ScalarValue> {
        let null = ScalarValue::Decimal128(None, PRECISION_MAX, SCALE);
        let Some(divisor) = self.kind.divisor(self.count) else { return Ok(null) };
        let (sum, squares) = (big(self.sum), big(self.squares));
        let excess =
            Number { unscaled: squares * self.count - sum.pow(2), scale: 2 * u32::from(self.scale.unsigned_abs()) };
        let divisor = Number { unscaled: BigInt::from(self.count) * divisor, scale: 0 };
        let least = u32::from(SCALE.unsigned_abs());
        // With fewer digits than these PostgreSQL's has no more that count.
        let mut variance = divide(&excess, &divisor)?;
        if variance.scale < least {
            variance = quotient(&excess, &divisor, least);
        }
        let scale = variance.scale;
        let result = if self.kind.is_root { root(&variance, scale) } else { variance }.rounded(least);
        if result.digits() > u32::from(PRECISION_MAX) {
            return Err(out_of_range());
        }
        Ok(ScalarValue::Decimal128(i128::try_from(result.unscaled).ok(), PRECISION_MAX, SCALE))
    }
}

fn big(number: i256) -> BigInt {
    BigInt::from_signed_bytes_le(&number.to_le_bytes())
}

fn out_of_range() -> datafusion::common::DataFusionError {
    let error = SqlError::data("numeric out of range: variances here have at most 22 digits before the point");
    error.code("22003").hint("cast the argument to double precision").into()
}

fn decimals(values: &[ArrayRef]) -> impl Iterator<Item = i128> + '_ {
    values.iter().take(1).flat_map(|array| array.as_primitive::<Decimal128Type>().iter().flatten())
}

#[derive(Debug)]
struct Exact {
    sums: Sums,
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        decimals(values).try_for_each(|value| self.sums.add(value))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        decimals(values).for_each(|value| self.sums.take(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Sums { scale, count, sum, squares, .. } = self.sums;
        let of = |sum, scale| ScalarValue::Decimal256(Some(sum), SUM_PRECISION, scale);
        Ok(vec![ScalarValue::UInt64(Some(count)), of(sum, scale), of(squares, scale * 2)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums, squares] = states else { return Err(no_state()) };
        let (sums, squares) = (sums.as_primitive::<Decimal256Type>(), squares.as_primitive::<Decimal256Type>());
        for (row, count) in counts.as_primitive::<UInt64Type>().iter().enumerate() {
            self.sums.put(count.unwrap_or(0), sums.value(row), Some(squares.value(row)))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.sums.result()
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Values that differ.
#[derive(Debug)]
struct Distinct {
    kind: Kind,
    of: DataType,
    values: HashSet<i128>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(decimals(values));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let DataType::Decimal128(precision, scale) = self.of else { return Err(no_state()) };
        let values = self.values.iter().map(|value| ScalarValue::Decimal128(Some(*value), precision, scale));
        let list = ScalarValue::new_list(&values.collect::<Vec<_>>(), &self.of, true);
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else { return Err(no_state()) };
        for list in lists.as_list::<i32>().iter().flatten() {
            self.values.extend(decimals(&[list]));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sums = Sums::new(self.kind, scale_of(&self.of).unwrap_or(0));
        self.values.iter().try_for_each(|value| sums.add(*value))?;
        sums.result()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i128>()
    }
}

/// Sums of floats, and of the squares of their distances from the average.
#[derive(Debug)]
struct Floats {
    kind: Kind,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Floats {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        if self.count > 1 {
            self.squares += self.step(value);
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
    }

    /// What a value adds that the sum has already.
    fn step(&self, value: f64) -> f64 {
        let count = self.count as f64;
        let distance = value * count - self.sum;
        distance * distance / (count * (count - 1.0))
    }
}

impl Accumulator for Floats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let floats = values.iter().take(1).flat_map(|array| array.as_primitive::<Float64Type>().iter().flatten());
        floats.for_each(|value| self.add(value));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.count.into(), self.sum.into(), self.squares.into()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums, squares] = states else { return Err(no_state()) };
        let (sums, squares) = (sums.as_primitive::<Float64Type>(), squares.as_primitive::<Float64Type>());
        for (row, count) in counts.as_primitive::<UInt64Type>().iter().enumerate() {
            let (count, sum) = (count.unwrap_or(0), sums.value(row));
            let (before, more) = (self.count as f64, count as f64);
            if self.count > 0 && count > 0 {
                let apart = self.sum / before - sum / more;
                self.squares += before * more * apart * apart / (before + more);
            }
            if count > 0 {
                self.squares += squares.value(row);
            }
            (self.count, self.sum) = (self.count + count, self.sum + sum);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let variance = self.kind.divisor(self.count).map(|divisor| self.squares / divisor as f64);
        Ok(ScalarValue::Float64(variance.map(|of| if self.kind.is_root { of.sqrt() } else { of })))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

fn no_state() -> datafusion::common::DataFusionError {
    SqlError::internal("a variance is a count and two sums").into()
}
