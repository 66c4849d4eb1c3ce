//! Long chains of operators, as `a + b + c`: one call of a function with all of their operands. The planner would ask
//! for the type of each operator anew for each that is around it, and take minutes for some hundred of them.
//!
//! What a chain means is what its operators mean one after the other, from the left: each step is planned by itself,
//! for the types of its two sides, as the operator would be that is written alone.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    binary_expr, col,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};
use parking_lot::Mutex;

use super::literals::narrow;
use super::meaning::Meaning;
use super::operators::{self, Planned};
use crate::statement::{call, take};
use saki_catalog::SqlError;

/// The function; its first argument is the operators, a letter for each.
const FOLD: &str = "fold_operators";
/// Operands from which on a chain becomes a call.
const LONG: usize = 32;
/// Steps that are kept planned.
const STEPS_KEPT: usize = 256;

/// Makes calls of long chains.
pub struct Folds;

impl VisitorMut for Folds {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let links = std::iter::successors(Some(&*expr), |expr| match expr {
            Expr::BinaryOp { left, .. } => Some(left),
            _ => None,
        });
        if links.map_while(link).take(LONG).count() == LONG && !has_placeholder(expr) {
            fold(expr);
        }
        ControlFlow::Continue(())
    }
}

/// The letter of an expression's operator, if it may be one of a chain.
fn link(expr: &Expr) -> Option<char> {
    let Expr::BinaryOp { op, .. } = expr else { return None };
    Some(match op {
        BinaryOperator::Plus => '+',
        BinaryOperator::Minus => '-',
        BinaryOperator::Multiply => '*',
        BinaryOperator::StringConcat => '|',
        _ => return None,
    })
}

/// Whether an operand is a parameter, whose type is found by the operator that it is written beside.
fn has_placeholder(mut expr: &Expr) -> bool {
    let is_placeholder =
        |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    while let (Some(_), Expr::BinaryOp { left, right, .. }) = (link(expr), expr) {
        if is_placeholder(right) {
            return true;
        }
        expr = left;
    }
    is_placeholder(expr)
}

fn fold(expr: &mut Expr) {
    let (mut letters, mut operands) = (String::new(), Vec::new());
    let mut rest = take(expr);
    loop {
        match (link(&rest), rest) {
            (Some(letter), Expr::BinaryOp { left, right, .. }) => {
                letters.push(letter);
                operands.push(*right);
                rest = *left;
            }
            (_, first) => {
                operands.push(first);
                break;
            }
        }
    }
    let letters: String = letters.chars().rev().collect();
    // Beside an operator the planner would see to it.
    operands.iter_mut().for_each(narrow);
    operands.push(Expr::value(Value::SingleQuotedString(letters)));
    operands.reverse();
    *expr = call(FOLD, operands);
}

/// The function that chains become.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(Fold { signature: Signature::variadic_any(Volatility::Immutable), steps: Arc::default() })
}

/// An operator between two types, planned.
struct Step {
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    result: DataType,
}

type Sides = (Operator, DataType, DataType);

#[derive(Clone)]
struct Fold {
    signature: Signature,
    steps: Arc<Mutex<HashMap<Sides, Arc<Step>>>>,
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FOLD)
    }
}

impl PartialEq for Fold {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Fold {}

impl Hash for Fold {
    fn hash<H: Hasher>(&self, state: &mut H) {
        FOLD.hash(state);
    }
}

impl Fold {
    /// A step; one over times belongs to the session whose options these are.
    fn step(
        &self,
        operator: Operator,
        left: &DataType,
        right: &DataType,
        options: &Arc<ConfigOptions>,
    ) -> Result<Arc<Step>> {
        if left.is_temporal() || right.is_temporal() {
            return Ok(Arc::new(Step::plan(operator, left, right, options)?));
        }
        let sides = (operator, left.clone(), right.clone());
        if let Some(step) = self.steps.lock().get(&sides) {
            return Ok(Arc::clone(step));
        }
        let step = Arc::new(Step::plan(operator, left, right, options)?);
        let mut steps = self.steps.lock();
        if steps.len() >= STEPS_KEPT {
            steps.clear();
        }
        steps.insert(sides, Arc::clone(&step));
        Ok(step)
    }
}

impl Step {
    fn plan(operator: Operator, left: &DataType, right: &DataType, options: &Arc<ConfigOptions>) -> Result<Self> {
        let field = |name, data_type: &DataType| Field::new(name, data_type.clone(), true);
        let schema = SchemaRef::new(Schema::new(vec![field("l", left), field("r", right)]));
        let columns = DFSchema::try_from(Arc::clone(&schema))?;
        let planned = match operators::operator(col("l"), operator, col("r"), &columns)? {
            Planned::Whole(planned) => planned,
            Planned::Operands(left, right) => binary_expr(left, operator, right),
        };
        let meant = planned.transform_up(|expr| Meaning.rewrite(expr, &columns, options))?.data;
        let typed = meant.rewrite(&mut TypeCoercionRewriter::new(&columns))?.data;
        let (mut properties, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        properties.config_options = Some(Arc::clone(options));
        let expr = create_physical_expr(&typed, &columns, &properties, &planning)?;
        let result = expr.data_type(&schema)?;
        Ok(Self { expr, schema, result })
    }

    fn run(&self, left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
        let are_scalars = [left, right].iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { rows };
        let arrays = vec![left.to_array(rows)?, right.to_array(rows)?];
        let result = self.expr.evaluate(&RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)?;
        if !are_scalars {
            return Ok(result);
        }
        let array: ArrayRef = result.into_array(1)?;
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
    }
}

impl ScalarUDFImpl for Fold {
    fn name(&self) -> &str {
        FOLD
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(SqlError::internal("the type of a chain depends on its operators").into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let operators = operators(args.scalar_arguments.first().copied().flatten())?;
        // The session changes no type.
        let options = Arc::new(ConfigOptions::default());
        let mut types = args.arg_fields.iter().skip(1).map(|field| field.data_type());
        let mut result = types.next().cloned().unwrap_or(DataType::Null);
        for (operator, data_type) in operators.into_iter().zip(types) {
            result = self.step(operator, &result, data_type, &options)?.result.clone();
        }
        Ok(Arc::new(Field::new(FOLD, result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values = args.args.into_iter();
        let letters = match values.next() {
            Some(ColumnarValue::Scalar(letters)) => letters,
            _ => return Err(SqlError::internal("the operators of a chain are no constant").into()),
        };
        let mut result = values.next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null));
        for (operator, value) in operators(Some(&letters))?.into_iter().zip(values) {
            let step = self.step(operator, &result.data_type(), &value.data_type(), &args.config_options)?;
            result = step.run(&result, &value, args.number_rows)?;
        }
        Ok(result)
    }
}

fn operators(letters: Option<&ScalarValue>) -> Result<Vec<Operator>> {
    let Some(Some(Some(letters))) = letters.map(ScalarValue::try_as_str) else {
        return Err(SqlError::internal("a chain without its operators").into());
    };
    let operator = |letter| match letter {
        '+' => Operator::Plus,
        '-' => Operator::Minus,
        '*' => Operator::Multiply,
        _ => Operator::StringConcat,
    };
    Ok(letters.chars().map(operator).collect())
}

#[cfg(test)]
mod tests {
    use crate::fixture::{answer, bare};

    const TABLE: &str = "(VALUES (1, 2.50, 'x', DATE '2024-01-31')) AS t(a, b, s, d)";

    fn chain(operands: &[&str], by: &str, count: usize) -> String {
        (0..count).map(|n| operands[n % operands.len()]).collect::<Vec<_>>().join(by)
    }

    #[test]
    fn a_long_chain_says_what_its_operators_say() {
        let cases = [
            (chain(&["a"], " + ", 2000), "2000"),
            (chain(&["a", "b"], " + ", 100), "175.00"),
            (chain(&["a", "2"], " * ", 40), "1048576"),
            (chain(&["s", "'y'"], " || ", 40), &"xy".repeat(20)),
            (chain(&["s", "a"], " || ", 40), &"x1".repeat(20)),
            (chain(&["1.5::float8"], " + ", 64), "96"),
            (format!("d + {}", chain(&["a"], " + ", 40)), "2024-03-11"),
            (format!("{} - 7", chain(&["a", "NULL"], " + ", 50)), "NULL"),
            (format!("100 - {}", chain(&["a"], " - ", 50)), "50"),
        ];
        for (expression, wanted) in cases {
            let sql = format!("SELECT ({expression})::text FROM {TABLE}");
            let (_, rows) = answer(bare(), &sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(rows[0][0].as_deref().unwrap_or("NULL"), wanted, "{sql}");
        }
    }

    #[test]
    fn each_step_is_refused_as_its_operator_would_be() {
        for (operand, from) in [("a", TABLE), ("1", "(VALUES (1)) AS t(a)")] {
            let sql = format!("SELECT {} + 2147483640 FROM {from}", chain(&[operand], " + ", 40));
            assert_eq!(answer(bare(), &sql).unwrap_err().sqlstate(), "22003", "{sql}");
        }
    }
}
