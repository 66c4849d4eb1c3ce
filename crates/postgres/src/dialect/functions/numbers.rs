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

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn rows_are_numbered_by_signed_numbers() {
        let rows = "FROM (VALUES (10), (20), (20), (30)) AS t(a)";
        let ranks = "row_number() OVER (ORDER BY a, a), rank() OVER (ORDER BY a), dense_rank() OVER (ORDER BY a)";
        check(
            &[
                (
                    format!("SELECT {ranks}, ntile(2) OVER (ORDER BY a) {rows} ORDER BY 1"),
                    "1|1|1|1 2|2|2|1 3|2|2|2 4|4|3|2",
                ),
                (format!("SELECT row_number() OVER (ORDER BY a) - 5 {rows} ORDER BY 1"), "-4 -3 -2 -1"),
                (
                    format!("SELECT ntile(4) OVER (ORDER BY a) - rank() OVER (ORDER BY a DESC) {rows} ORDER BY 1"),
                    "-3 0 1 3",
                ),
                (format!("SELECT -row_number() OVER () {rows} ORDER BY 1"), "-4 -3 -2 -1"),
                (format!("SELECT count(*) FROM (SELECT rank() OVER (ORDER BY a) AS r {rows}) AS t WHERE r <= 2"), "3"),
            ],
            shown,
        );
    }
}
