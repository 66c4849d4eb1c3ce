//! The least and the greatest of arrays.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility};
use saki_base::Element;
use saki_catalog::SqlError;
use saki_exec::lists;

/// The aggregate that stands for `min` or `max` of arrays; `None`: it is another.
pub fn of_arrays(name: &str) -> Option<Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
        [false, true].map(|greatest| {
            let signature = Signature::any(1, Volatility::Immutable);
            Arc::new(AggregateUDF::from(OfArrays { greatest, signature }))
        })
    });
    match name {
        "min" => Some(Arc::clone(&FUNCTIONS[0])),
        "max" => Some(Arc::clone(&FUNCTIONS[1])),
        _ => None,
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct OfArrays {
    greatest: bool,
    signature: Signature,
}

impl AggregateUDFImpl for OfArrays {
    fn name(&self) -> &'static str {
        if self.greatest { "array_max_of" } else { "array_min_of" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Field::new(format_state_name(args.name, "found"), DataType::Binary, true).into()])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let element = lists::element_of(args.return_field.data_type());
        let element = element.ok_or_else(|| SqlError::internal("an extreme of what is no array"))?;
        Ok(Box::new(Extreme { greatest: self.greatest, element, found: None }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The least or the greatest so far, as its bytes.
#[derive(Debug)]
struct Extreme {
    greatest: bool,
    element: Element,
    found: Option<Vec<u8>>,
}

impl Extreme {
    fn meet<'b>(&mut self, arrays: impl Iterator<Item = &'b [u8]>) {
        let best = if self.greatest { arrays.max() } else { arrays.min() };
        let Some(best) = best else { return };
        let stays =
            self.found.as_deref().is_some_and(|found| if self.greatest { found >= best } else { found <= best });
        if !stays {
            self.found = Some(best.to_owned());
        }
    }
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let Some(arrays) = arguments.first() else { return Ok(()) };
        let arrays = lists::encode(self.element, arrays).map_err(SqlError::data)?;
        self.meet(arrays.iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(states) = states.first() else { return Ok(()) };
        self.meet(states.as_binary::<i32>().iter().flatten());
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(self.found.clone())])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let lists = lists::decode(self.element, std::iter::once(self.found.as_deref())).map_err(SqlError::internal)?;
        ScalarValue::try_from_array(&lists as &dyn Array, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.found.as_ref().map_or(0, Vec::capacity)
    }
}
