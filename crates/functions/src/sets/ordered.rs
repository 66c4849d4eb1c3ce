//! Aggregates over values in an order: `mode` and `percentile_disc`, which give one of their values.
//!
//! Values of a group are kept until its end, without NULLs, and sorted there.

use std::sync::Arc;

use arrow::compute::{SortOptions, filter, is_not_null, kernels::partition::partition, sort_to_indices, take};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use saki_catalog::SqlError;

/// What an array costs beside its values.
const ARRAY_BYTES: usize = 160;

/// `mode() WITHIN GROUP (ORDER BY …)` and `percentile_disc(…) WITHIN GROUP (ORDER BY …)`.
pub fn ordered_sets() -> impl Iterator<Item = AggregateUDF> {
    [Kind::Mode, Kind::Percentile].into_iter().map(|kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(OrderedSet { kind, signature })
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// The value that there is most often; of several the first.
    Mode,
    /// The first value whose place is at least a fraction of all; of an array of fractions, an array of them.
    Percentile,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct OrderedSet {
    kind: Kind,
    signature: Signature,
}

fn list_of(of: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of.clone(), true)))
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Mode => "mode",
            Kind::Percentile => "percentile_disc",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The value, and the fractions.
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, arguments) {
            (Kind::Mode, [value]) => Ok(vec![value.clone()]),
            (Kind::Percentile, [value, DataType::List(_)]) => Ok(vec![value.clone(), list_of(&DataType::Float64)]),
            (Kind::Percentile, [value, fraction]) if fraction.is_numeric() || fraction.is_null() => {
                Ok(vec![value.clone(), DataType::Float64])
            }
            _ => Err(undefined(self.name())),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [value] => Ok(value.clone()),
            [value, DataType::List(_)] => Ok(list_of(value)),
            [value, _] => Ok(value.clone()),
            _ => Err(undefined(self.name())),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let mut inputs = args.input_fields.iter().map(|field| field.data_type());
        let values = list_of(inputs.next().unwrap_or(&DataType::Null));
        let values = Field::new(format_state_name(args.name, "values"), values, true);
        let fractions = inputs.map(|of| Field::new(format_state_name(args.name, "fraction"), of.clone(), true));
        Ok(std::iter::once(values).chain(fractions).map(Arc::new).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let of = |at: usize| args.expr_fields.get(at).map_or(DataType::Null, |field| field.data_type().clone());
        let descending = args.order_bys.first().is_some_and(|key| key.options.descending);
        let fractions = match self.kind {
            Kind::Mode => None,
            Kind::Percentile => Some(ScalarValue::try_from(of(1))?),
        };
        Ok(Box::new(Values { of: of(0), held: Vec::new(), bytes: 0, descending, fractions }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

fn undefined(name: &str) -> datafusion::common::DataFusionError {
    let error = SqlError::data(format!("{name} does not take these arguments"));
    error.code("42883").hint(format!("{name} is written with WITHIN GROUP (ORDER BY ...)")).into()
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    of: DataType,
    held: Vec<ArrayRef>,
    bytes: usize,
    descending: bool,
    /// Of a percentile: what was asked for; NULL before there are rows.
    fractions: Option<ScalarValue>,
}

impl Values {
    fn hold(&mut self, values: &ArrayRef) -> Result<()> {
        // A copy: the array may be a part of something large.
        let values = filter(values, &is_not_null(values)?)?;
        if !values.is_empty() {
            self.bytes += values.get_array_memory_size() + ARRAY_BYTES;
            self.held.push(values);
        }
        Ok(())
    }

    fn ask(&mut self, fractions: Option<&ArrayRef>) -> Result<()> {
        let Some((asked, fractions)) = self.fractions.as_mut().zip(fractions) else { return Ok(()) };
        if asked.is_null() && !fractions.is_empty() {
            *asked = ScalarValue::try_from_array(fractions, 0)?;
        }
        Ok(())
    }

    fn all(&self) -> Result<Option<ArrayRef>> {
        let held: Vec<&dyn Array> = self.held.iter().map(AsRef::as_ref).collect();
        Ok(match held[..] {
            [] => None,
            [_] => Some(Arc::clone(&self.held[0])),
            _ => Some(arrow::compute::concat(&held)?),
        })
    }

    fn most_frequent(&self, values: &ArrayRef) -> Result<ScalarValue> {
        let keys = sorting_keys(values);
        let order = sort_to_indices(&keys, Some(self.options()), None)?;
        let runs = partition(&[take(&keys, &order, None)?])?.ranges();
        // The first of the longest.
        let longest = runs.iter().rev().max_by_key(|run| run.len()).map_or(0, |run| run.start);
        ScalarValue::try_from_array(values, order.value(longest) as usize)
    }

    fn percentiles(&self, values: &ArrayRef, fractions: &ScalarValue) -> Result<ScalarValue> {
        let order = sort_to_indices(&sorting_keys(values), Some(self.options()), None)?;
        let at = |fraction: Option<f64>| -> Result<ScalarValue> {
            let Some(fraction) = fraction else { return ScalarValue::try_from(&self.of) };
            let place = place_of(fraction, values.len())?;
            ScalarValue::try_from_array(values, order.value(place) as usize)
        };
        match fractions {
            ScalarValue::Float64(fraction) => at(*fraction),
            ScalarValue::List(fractions) if fractions.is_valid(0) => {
                let fractions = fractions.value(0);
                let found = fractions.as_primitive::<Float64Type>().iter().map(at).collect::<Result<Vec<_>>>()?;
                let found = ScalarValue::iter_to_array(found)?;
                Ok(SingleRowListArrayBuilder::new(found).build_list_scalar())
            }
            _ => self.nothing(),
        }
    }

    fn options(&self) -> SortOptions {
        SortOptions { descending: self.descending, nulls_first: false }
    }

    /// NULL.
    fn nothing(&self) -> Result<ScalarValue> {
        match &self.fractions {
            Some(ScalarValue::List(_)) => ScalarValue::try_from(list_of(&self.of)),
            _ => ScalarValue::try_from(&self.of),
        }
    }
}

/// The place, from 0 on, of the first of so many values that a fraction of them does not exceed.
///
/// # Errors
/// 22003 for what is no fraction.
fn place_of(fraction: f64, values: usize) -> Result<usize> {
    if !(0.0..=1.0).contains(&fraction) {
        let error = SqlError::data(format!("percentile value {fraction} is not between 0 and 1"));
        return Err(error.code("22003").into());
    }
    Ok(((fraction * values as f64).ceil() as usize).saturating_sub(1))
}

/// What values are sorted by: -0 is 0, and an interval is its length.
fn sorting_keys(values: &ArrayRef) -> ArrayRef {
    fn without_negative_zero<T: ArrowPrimitiveType>(
        values: &ArrayRef,
        add: impl Fn(T::Native) -> T::Native,
    ) -> ArrayRef {
        let values: &PrimitiveArray<T> = values.as_primitive();
        Arc::new(values.unary::<_, T>(add))
    }
    match values.data_type() {
        DataType::Float32 => without_negative_zero::<Float32Type>(values, |value| value + 0.0),
        DataType::Float64 => without_negative_zero::<Float64Type>(values, |value| value + 0.0),
        DataType::Interval(IntervalUnit::MonthDayNano) => saki_times::lengths(values.as_primitive()),
        _ => Arc::clone(values),
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        self.ask(arguments.get(1))?;
        arguments.first().map_or(Ok(()), |values| self.hold(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else { return Ok(()) };
        for (row, list) in lists.as_list::<i32>().iter().enumerate() {
            if let Some(values) = list {
                self.hold(&values)?;
                self.ask(states.get(1).map(|fractions| fractions.slice(row, 1)).as_ref())?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = match self.all()? {
            Some(values) => SingleRowListArrayBuilder::new(values).build_list_scalar(),
            None => ScalarValue::try_from(list_of(&self.of))?,
        };
        Ok(std::iter::once(values).chain(self.fractions.clone()).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match (self.all()?, &self.fractions) {
            (Some(values), None) => self.most_frequent(&values),
            (Some(values), Some(fractions)) => self.percentiles(&values, fractions),
            (None, _) => self.nothing(),
        }
    }

    fn size(&self) -> usize {
        // Twice: at the end they are put together.
        size_of_val(self) + self.held.capacity() * size_of::<ArrayRef>() + 2 * self.bytes
    }
}
