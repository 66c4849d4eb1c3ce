//! Window functions that number rows: their numbers are bigints, and those of `ntile` integers, where the planner's are
//! unsigned, and `row_number() - 2` would be out of range.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, SortOptions};
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::{ntile, rank, row_number};
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;

/// The functions, under the names that they replace.
pub fn all() -> impl Iterator<Item = WindowUDF> {
    let bigint = DataType::Int64;
    [
        (row_number::row_number_udwf(), bigint.clone()),
        (rank::rank_udwf(), bigint.clone()),
        (rank::dense_rank_udwf(), bigint),
        (ntile::ntile_udwf(), DataType::Int32),
    ]
    .into_iter()
    .map(|(function, data_type)| WindowUDF::from(Numbers { function, data_type }))
}

/// One of the planner's functions, and the type of its numbers here.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Numbers {
    function: Arc<WindowUDF>,
    data_type: DataType,
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
        let numbers = self.function.partition_evaluator_factory(args)?;
        Ok(Box::new(Evaluator { numbers, data_type: self.data_type.clone() }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), self.data_type.clone(), false)))
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
