//! Window functions that number rows or take a number: their numbers are bigints, and those of `ntile` integers, where
//! the planner's are unsigned, and `row_number() - 2` would be out of range. A number below one is refused.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, SortOptions};
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::{nth_value, ntile, rank, row_number};
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use saki_catalog::SqlError;

/// The functions, under the names that they replace.
pub fn all() -> impl Iterator<Item = WindowUDF> {
    let bigint = Some(DataType::Int64);
    [
        (row_number::row_number_udwf(), bigint.clone()),
        (rank::rank_udwf(), bigint.clone()),
        (rank::dense_rank_udwf(), bigint),
        (ntile::ntile_udwf(), Some(DataType::Int32)),
        (nth_value::nth_value_udwf(), None),
    ]
    .into_iter()
    .map(|(function, data_type)| WindowUDF::from(Numbers { function, data_type }))
}

/// One of the planner's functions, and the type of its numbers here; `None`: its values are no numbers of rows.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Numbers {
    function: Arc<WindowUDF>,
    data_type: Option<DataType>,
}

impl Numbers {
    /// Refuses a number of rows below one: the planner's `nth_value` counts from the end by it.
    fn check(&self, args: &PartitionEvaluatorArgs) -> Result<()> {
        let (place, code) = match self.function.name() {
            "ntile" => (0, "22014"),
            "nth_value" => (1, "22016"),
            _ => return Ok(()),
        };
        let number = args.input_exprs().get(place).and_then(|number| number.downcast_ref::<Literal>());
        let number = number.and_then(|literal| literal.value().cast_to(&DataType::Int64).ok());
        if !matches!(number, Some(ScalarValue::Int64(Some(..1)))) {
            return Ok(());
        }
        let refused = format!("argument of {} must be greater than zero", self.function.name());
        Err(SqlError::data(refused).code(code).into())
    }
}

impl WindowUDFImpl for Numbers {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.function.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        self.check(&args)?;
        let numbers = self.function.partition_evaluator_factory(args)?;
        Ok(match self.data_type.clone() {
            Some(data_type) => Box::new(Evaluator { numbers, data_type }),
            None => numbers,
        })
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        match self.data_type.clone() {
            Some(data_type) => Ok(Arc::new(Field::new(args.name(), data_type, false))),
            None => self.function.field(args),
        }
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.function.sort_options()
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        self.function.reverse_expr()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.function.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct Evaluator {
    numbers: Box<dyn PartitionEvaluator>,
    data_type: DataType,
}

impl PartitionEvaluator for Evaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.numbers.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.numbers.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.numbers.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.numbers.evaluate_all(values, rows)?, &self.data_type)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.numbers.evaluate(values, range)?.cast_to(&self.data_type)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.numbers.evaluate_all_with_rank(rows, ranks)?, &self.data_type)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.numbers.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.numbers.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.numbers.include_rank()
    }
}
