//! Averages of decimals, with sixteen digits behind the point and rounded: the planner gives four more than their
//! arguments have, and cuts.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal256Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array};
use arrow_buffer::i256;
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
    TypeSignature, TypeSignatureClass,
};

use crate::arithmetic::QUOTIENT_SCALE;
use saki_base::types::DECIMAL_PRECISION_MAX as PRECISION_MAX;
use saki_catalog::SqlError;

/// The function, under the name that it replaces.
pub fn average() -> AggregateUDF {
    let function = avg_udaf();
    // Those of intervals are computed by a function of their own, once the types of arguments are known.
    let interval = TypeSignature::Coercible(vec![Coercion::new_exact(TypeSignatureClass::Interval)]);
    let of_numbers = function.signature();
    let forms = vec![of_numbers.type_signature.clone(), interval];
    let signature = Signature::one_of(forms, of_numbers.volatility);
    AggregateUDF::from(Average { function, signature })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Average {
    function: Arc<AggregateUDF>,
    signature: Signature,
}

/// What sums and averages have to do with each other.
#[derive(Clone, Debug)]
struct Scale {
    precision: u8,
    scale: i8,
    /// By what a sum is multiplied so that it has the average's scale.
    factor: i256,
}

impl Scale {
    /// `None`: the planner's function has no digits to cut, or cuts none.
    fn of(args: &AccumulatorArgs<'_>) -> Option<Self> {
        match (args.expr_fields.first()?.data_type(), args.return_field.data_type()) {
            (DataType::Decimal128(_, from), DataType::Decimal128(precision, scale)) if !args.is_distinct => {
                let factor = i256::from(10).checked_pow(u32::try_from(scale - from).ok()?)?;
                Some(Self { precision: *precision, scale: *scale, factor })
            }
            _ => None,
        }
    }

    /// # Errors
    /// 22003 for more digits than the type has.
    fn averages(&self, counts: &ArrayRef, sums: &ArrayRef) -> Result<Decimal128Array> {
        let scale = match sums.data_type() {
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
            other => return Err(SqlError::internal(format!("an average of {other} is one of decimals")).into()),
        };
        let sums = cast(sums, &DataType::Decimal256(76, scale))?;
        let pairs = sums.as_primitive::<Decimal256Type>().iter().zip(counts.as_primitive::<UInt64Type>());
        let average = |(sum, count): (Option<i256>, Option<u64>)| match (sum, count) {
            (Some(sum), Some(count @ 1..)) => match self.quotient(sum, i256::from_i128(count.into())) {
                Some(average) => Ok(Some(average)),
                None => Err(SqlError::data("numeric field overflow").code("22003")),
            },
            _ => Ok(None),
        };
        let averages = pairs.map(average).collect::<std::result::Result<Decimal128Array, _>>()?;
        Ok(averages.with_precision_and_scale(self.precision, self.scale)?)
    }

    /// Halves are rounded away from zero.
    fn quotient(&self, sum: i256, count: i256) -> Option<i128> {
        let scaled = sum.checked_mul(self.factor)?;
        let (whole, rest) = (scaled.checked_div(count)?, scaled.checked_rem(count)?);
        let is_more = rest.wrapping_abs().checked_mul(i256::from(2))? >= count;
        let step = if is_more { scaled.signum() } else { i256::ZERO };
        let limit = 10i128.checked_pow(self.precision.into())?;
        whole.checked_add(step)?.to_i128().filter(|average| average.unsigned_abs() < limit.unsigned_abs())
    }
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match arguments {
            // As a quotient has.
            [DataType::Decimal128(_, scale)] => DataType::Decimal128(PRECISION_MAX, QUOTIENT_SCALE.max(*scale)),
            [interval @ DataType::Interval(_)] => interval.clone(),
            _ => self.function.return_type(arguments)?,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let scale = Scale::of(&args);
        let sums = self.function.accumulator(args)?;
        Ok(match scale {
            Some(scale) => Box::new(Rounded { sums, scale }),
            None => sums,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.function.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.function.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let scale = Scale::of(&args);
        let sums = self.function.create_groups_accumulator(args)?;
        Ok(match scale {
            Some(scale) => Box::new(RoundedGroups { sums, scale }),
            None => sums,
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The planner's counts and sums, divided here.
#[derive(Debug)]
struct Rounded {
    sums: Box<dyn Accumulator>,
    scale: Scale,
}

impl Accumulator for Rounded {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sums.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let [count, sum] = &self.sums.state()?[..] else { return Err(no_pair()) };
        let averages: ArrayRef = Arc::new(self.scale.averages(&count.to_array()?, &sum.to_array()?)?);
        ScalarValue::try_from_array(&averages, 0)
    }

    fn size(&self) -> usize {
        self.sums.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.sums.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.sums.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sums.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.sums.supports_retract_batch()
    }
}

struct RoundedGroups {
    sums: Box<dyn GroupsAccumulator>,
    scale: Scale,
}

impl GroupsAccumulator for RoundedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let [counts, sums] = &self.sums.state(emit_to)?[..] else { return Err(no_pair()) };
        Ok(Arc::new(self.scale.averages(counts, sums)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.sums.merge_batch(values, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.sums.size()
    }
}

fn no_pair() -> datafusion::common::DataFusionError {
    SqlError::internal("an average is a count and a sum").into()
}
