//! A subquery as a function of the values it refers to.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch, StructArray, new_empty_array};
use arrow_schema::{DataType, Field, Fields};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::outer::argument;
use saki_base::stack::STACK_BYTES;
use saki_catalog::SqlError;

/// What is asked of the subquery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The one value of its one row; NULL if it has none.
    Value,
    /// Whether it has a row.
    Exists,
    /// Whether the first argument is among its values.
    Contains,
    /// All its rows, as a list of structures whose fields are `c0`, `c1`…
    Rows,
}

/// Values of the row outside for which the subquery is being run.
type OuterRow = Arc<RwLock<Vec<ScalarValue>>>;

/// The subquery, ready to run any number of times, one after another.
pub struct NestedLoop {
    id: u64,
    form: Form,
    plan: LogicalPlan,
    state: Arc<SessionState>,
    outer: OuterRow,
    returns: DataType,
    signature: Signature,
    /// Made when it runs first; held while it runs, since there is one row outside at a time.
    physical: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl NestedLoop {
    /// The plan has parameters for the arguments.
    pub fn new(form: Form, plan: LogicalPlan, state: Arc<SessionState>, volatility: Volatility) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let returns = match form {
            Form::Exists | Form::Contains => DataType::Boolean,
            Form::Value => plan.schema().field(0).data_type().clone(),
            Form::Rows => list_of(row_type(&plan)),
        };
        let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            form,
            plan,
            state,
            outer: OuterRow::default(),
            returns,
            signature: Signature::new(any, volatility),
            physical: Mutex::default(),
        })
    }

    /// A name that no other has.
    pub fn name(&self) -> String {
        format!("nested_loop_{}", self.id)
    }

    /// The function called with what the parameters stand for.
    pub fn call(self, arguments: Vec<Expr>) -> Expr {
        ScalarUDF::from(Callable { name: self.name(), nested: Arc::new(self) }).call(arguments)
    }

    /// The plan to run, whose parameters read the row outside.
    async fn prepare(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let optimized = self.state.optimize(&self.plan)?;
        let outer = Arc::clone(&self.outer);
        let bound = optimized.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            let changed = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let replaced = expr.transform_up(|expr| Ok(read_outer(expr, &outer)))?;
                Ok(replaced.update_data(|expr| name.restore(expr)))
            })?;
            if changed.transformed { Ok(Transformed::yes(changed.data.recompute_schema()?)) } else { Ok(changed) }
        })?;
        self.state.query_planner().create_physical_plan(&bound.data, self.state.as_ref()).await
    }

    /// Answers for each row, in a thread of its own: it waits for the subquery, and the caller's may not wait.
    fn answer(&self, rows: &[Vec<ScalarValue>]) -> Result<Vec<ScalarValue>> {
        let stop = saki_store::Stop::current();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("nested-loop".to_owned()).stack_size(STACK_BYTES);
            let worker = thread.spawn_scoped(scope, || {
                let _working = stop.enter();
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.answer_rows(rows))
            })?;
            worker.join().map_err(|_| DataFusionError::Execution("a subquery's thread panicked".to_owned()))?
        })
    }

    async fn answer_rows(&self, rows: &[Vec<ScalarValue>]) -> Result<Vec<ScalarValue>> {
        let mut physical = self.physical.lock().await;
        let plan = match physical.as_ref() {
            Some(plan) => Arc::clone(plan),
            None => Arc::clone(physical.insert(self.prepare().await?)),
        };
        let mut known: HashMap<&[ScalarValue], ScalarValue> = HashMap::new();
        let mut values: HashMap<&[ScalarValue], Values> = HashMap::new();
        let mut answers = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(answer) = known.get(row.as_slice()) {
                answers.push(answer.clone());
                continue;
            }
            let answer = match (self.form, row.split_first()) {
                (Form::Contains, Some((needle, outer))) => match values.get(outer) {
                    Some(values) => values.contain(needle),
                    None => {
                        let new = Values::of(&self.run(&plan, outer).await?)?;
                        values.entry(outer).or_insert(new).contain(needle)
                    }
                },
                _ => self.shape(&self.run(&plan, row).await?)?,
            };
            known.insert(row, answer.clone());
            answers.push(answer);
        }
        Ok(answers)
    }

    /// The subquery's rows for a row outside, unless the statement was told to stop.
    async fn run(&self, plan: &Arc<dyn ExecutionPlan>, outer: &[ScalarValue]) -> Result<Vec<RecordBatch>> {
        saki_store::Stop::current().check()?;
        *self.outer.write() = outer.to_vec();
        collect(reset_plan_states(Arc::clone(plan))?, self.state.task_ctx()).await
    }

    fn shape(&self, batches: &[RecordBatch]) -> Result<ScalarValue> {
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        match self.form {
            Form::Exists => Ok(ScalarValue::Boolean(Some(count > 0))),
            Form::Value if count > 1 => {
                let message = "more than one row returned by a subquery used as an expression";
                Err(SqlError::invalid(message).code("21000").into())
            }
            Form::Value => match batches.iter().find(|batch| batch.num_rows() > 0) {
                // What it promised was said before its constants were worked out: `trunc(n, 1)` has other digits then.
                Some(batch) => ScalarValue::try_from_array(batch.column(0), 0)?.cast_to(&self.returns),
                None => ScalarValue::try_from(&self.returns),
            },
            Form::Contains => internal_err!("it is values that something is looked for in"),
            Form::Rows => rows(&self.plan, batches),
        }
    }
}

/// The values that a subquery gives for one row outside.
#[derive(Default)]
struct Values {
    known: HashSet<ScalarValue>,
    has_null: bool,
}

impl Values {
    fn of(batches: &[RecordBatch]) -> Result<Self> {
        let mut values = Self::default();
        for column in batches.iter().map(|batch| batch.column(0)) {
            for row in 0..column.len() {
                let value = ScalarValue::try_from_array(column, row)?;
                match value.is_null() {
                    true => values.has_null = true,
                    false => drop(values.known.insert(comparable(value))),
                }
            }
        }
        Ok(values)
    }

    /// Whether one is among them; unknown if it is not and one is NULL.
    fn contain(&self, needle: &ScalarValue) -> ScalarValue {
        let is_unknown = match needle.is_null() {
            true => self.has_null || !self.known.is_empty(),
            false if self.known.contains(&comparable(needle.clone())) => return ScalarValue::Boolean(Some(true)),
            false => self.has_null,
        };
        ScalarValue::Boolean((!is_unknown).then_some(false))
    }
}

/// A value that is itself alone: zero has two signs, which are equal.
fn comparable(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(number)) => ScalarValue::Float64(Some(number + 0.0)),
        ScalarValue::Float32(Some(number)) => ScalarValue::Float32(Some(number + 0.0)),
        value => value,
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn row_type(plan: &LogicalPlan) -> DataType {
    let field = |(at, field): (usize, &Arc<Field>)| Field::new(format!("c{at}"), field.data_type().clone(), true);
    DataType::Struct(plan.schema().fields().iter().enumerate().map(field).collect::<Fields>())
}

fn rows(plan: &LogicalPlan, batches: &[RecordBatch]) -> Result<ScalarValue> {
    let item = row_type(plan);
    let DataType::Struct(fields) = &item else {
        return Err(DataFusionError::Internal("rows are structures".to_owned()));
    };
    let mut values = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .zip(fields)
            .map(|(column, field)| Ok(datafusion::arrow::compute::cast(column, field.data_type())?));
        let structure: ArrayRef =
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<Vec<_>>>()?, None)?);
        for row in 0..batch.num_rows() {
            values.push(ScalarValue::try_from_array(&structure, row)?);
        }
    }
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &item)))
}

/// Puts the reading of the row outside in the place of a parameter.
fn read_outer(expr: Expr, outer: &OuterRow) -> Transformed<Expr> {
    let Expr::Placeholder(placeholder) = &expr else { return Transformed::no(expr) };
    let (Some(at), Some(field)) = (argument(&placeholder.id), &placeholder.field) else { return Transformed::no(expr) };
    let value = OuterValue { at, returns: field.data_type().clone(), outer: Arc::clone(outer) };
    Transformed::yes(ScalarUDF::from(value).call(Vec::new()))
}

impl fmt::Debug for NestedLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NestedLoop").field("id", &self.id).field("form", &self.form).finish_non_exhaustive()
    }
}

/// A nested loop under the name it has as a function.
#[derive(Debug)]
struct Callable {
    name: String,
    nested: Arc<NestedLoop>,
}

impl PartialEq for Callable {
    fn eq(&self, other: &Self) -> bool {
        self.nested.id == other.nested.id
    }
}

impl Eq for Callable {}

impl Hash for Callable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nested.id.hash(state);
    }
}

impl ScalarUDFImpl for Callable {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.nested.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.nested.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = |arg: &ColumnarValue| match arg {
            ColumnarValue::Scalar(value) => Some(value.clone()),
            ColumnarValue::Array(_) => None,
        };
        if let Some(row) = args.args.iter().map(constant).collect::<Option<Vec<_>>>() {
            let answer = self.nested.answer(&[row])?.pop();
            let missing = || DataFusionError::Internal("a subquery gave no answer".to_owned());
            return Ok(ColumnarValue::Scalar(answer.ok_or_else(missing)?));
        }
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        let row = |row| arrays.iter().map(|array| ScalarValue::try_from_array(array, row)).collect::<Result<Vec<_>>>();
        let rows = (0..args.number_rows).map(row).collect::<Result<Vec<_>>>()?;
        if rows.is_empty() {
            return Ok(ColumnarValue::Array(new_empty_array(&self.nested.returns)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(self.nested.answer(&rows)?)?))
    }
}

/// A value of the row outside; another at each run, so never a constant.
#[derive(Debug)]
struct OuterValue {
    at: usize,
    returns: DataType,
    outer: OuterRow,
}

impl PartialEq for OuterValue {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at && Arc::ptr_eq(&self.outer, &other.outer)
    }
}

impl Eq for OuterValue {}

impl Hash for OuterValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl ScalarUDFImpl for OuterValue {
    fn name(&self) -> &str {
        "outer_value"
    }

    fn signature(&self) -> &Signature {
        static SIGNATURE: std::sync::LazyLock<Signature> =
            std::sync::LazyLock::new(|| Signature::nullary(Volatility::Volatile));
        &SIGNATURE
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = self.outer.read().get(self.at).cloned();
        let value = value.ok_or_else(|| DataFusionError::Internal("a subquery runs without a row".to_owned()))?;
        Ok(ColumnarValue::Scalar(value.cast_to(&self.returns)?))
    }
}
