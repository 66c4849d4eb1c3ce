//! WITH RECURSIVE whose steps look at each row alone: `SELECT n + 1 FROM r WHERE n < 100000`. The planner's own node
//! sets a plan up for each step, some fifty times what such a step costs. Here a step is its expressions, nothing else.
//!
//! ```text
//!   input ─► rows ─► known? ─┬─► given, together with those of further steps
//!              ▲             ▼
//!              └── step ── work: the rows of the last step
//! ```
//!
//! Nobody may have asked for what a step further on gives: an error is told after the rows before it, and expressions
//! that have effects are left to the planner.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::compute::{concat_batches, filter_record_batch};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{Distribution, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};

use crate::execution::slices::{Pace, Slices};
use crate::node::{EachNode, NodeBase, Plan, SakiNode};

/// How long steps go on before what they gave is passed on.
const TURN: Duration = Duration::from_millis(5);
/// Bytes that rows may come to before they are passed on.
const GIVEN_BYTES: usize = 1 << 20;
/// What a step may take beside the rows that it begins with, in their size: new texts, and the room they grow in.
const STEP_ROOM: usize = 3;

/// Puts [`RecursionExec`] in the place of recursions whose steps look at each row alone.
pub const RECURSIONS: EachNode = EachNode::new("saki_recursions", recursion);

fn recursion(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    let Some(planned) = plan.downcast_ref::<RecursiveQueryExec>() else { return Ok(Transformed::no(plan)) };
    let mut step = Vec::new();
    if !take_apart(planned.recursive_term(), &mut step) {
        return Ok(Transformed::no(plan));
    }
    let statistics = Arc::new(Statistics::new_unknown(&plan.schema()));
    let recursion = RecursionExec {
        name: planned.name().to_owned(),
        input: Arc::clone(planned.static_term()),
        step,
        is_distinct: planned.is_distinct(),
        base: NodeBase::new(plan.schema(), 1, EmissionType::Incremental, statistics),
    };
    Ok(Transformed::yes(recursion.into_plan()))
}

/// A part of what a step does with its rows.
#[derive(Clone, Debug)]
enum Part {
    /// Keeps those for which it is true.
    Keep(Arc<dyn PhysicalExpr>),
    /// Makes these columns of each.
    Make(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

/// Adds the parts of a recursive term in the order in which they work; `false` if there is more to it.
fn take_apart(term: &Plan, step: &mut Vec<Part>) -> bool {
    let parts = if let Some(filter) = term.downcast_ref::<FilterExec>() {
        let made = filter.projection().as_ref().map(|columns| {
            let input = filter.input().schema();
            let made = columns.iter().map(|at| Arc::new(Column::new(input.field(*at).name(), *at)) as _).collect();
            Part::Make(made, filter.schema())
        });
        [Some(Part::Keep(Arc::clone(filter.predicate()))), made]
    } else if let Some(projection) = term.downcast_ref::<ProjectionExec>() {
        let made = projection.expr().iter().map(|item| Arc::clone(&item.expr)).collect();
        [Some(Part::Make(made, projection.schema())), None]
    } else {
        return term.is::<WorkTableExec>();
    };
    let [input] = term.children()[..] else { return false };
    let is_plain = term.fetch().is_none() && take_apart(input, step);
    step.extend(parts.into_iter().flatten());
    is_plain && step.iter().flat_map(Part::expressions).all(|expr| !is_volatile(expr))
}

impl Part {
    fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        match self {
            Self::Keep(condition) => std::slice::from_ref(condition),
            Self::Make(made, _) => made,
        }
    }

    fn work(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let number = rows.num_rows();
        match self {
            Self::Keep(condition) => {
                let kept = condition.evaluate(&rows)?.into_array(number)?;
                match kept.null_count() == 0 && kept.as_boolean().true_count() == number {
                    true => Ok(rows),
                    false => Ok(filter_record_batch(&rows, kept.as_boolean())?),
                }
            }
            Self::Make(made, schema) => {
                let columns = made.iter().map(|expr| expr.evaluate(&rows)?.into_array(number));
                with_schema(columns.collect::<Result<_>>()?, number, schema)
            }
        }
    }
}

fn with_schema(columns: Vec<ArrayRef>, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The rows of its input, and what a step makes of them, and of that, until a step makes nothing.
#[derive(Debug)]
struct RecursionExec {
    name: String,
    /// Of one partition.
    input: Plan,
    step: Vec<Part>,
    /// Whether rows that have been there before are left out.
    is_distinct: bool,
    base: NodeBase,
}

impl SakiNode for RecursionExec {
    fn name(&self) -> &'static str {
        "RecursionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.base.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        let (name, step, is_distinct) = (self.name.clone(), self.step.clone(), self.is_distinct);
        Ok(Self { name, input, step, is_distinct, base: self.base.renewed() }.into_plan())
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.step.iter().flat_map(Part::expressions).collect()
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecursionExec: {}", self.name)?;
        if self.is_distinct {
            f.write_str(", distinct")?;
        }
        for part in &self.step {
            let shown: Vec<String> = part.expressions().iter().map(ToString::to_string).collect();
            match part {
                Part::Keep(_) => write!(f, ", filter={}", shown.join(", "))?,
                Part::Make(..) => write!(f, ", expr=[{}]", shown.join(", "))?,
            }
        }
        Ok(())
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let known = if self.is_distinct { Some(Known::new(&schema)?) } else { None };
        let recursion = Recursion {
            input: Some(self.input.execute(0, Arc::clone(&context))?),
            step: self.step.clone(),
            work: Vec::new(),
            work_bytes: 0,
            known,
            error: None,
            rows_wanted: 1,
            rows_max: context.session_config().batch_size(),
            held: MemoryConsumer::new("WITH RECURSIVE").register(context.memory_pool()),
            schema: Arc::clone(&schema),
        };
        let rows = stream::unfold(recursion, |mut recursion| async move {
            let given = recursion.next().await.transpose()?;
            Some((given, recursion))
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, Slices::new(rows, Pace::Batches))))
    }

    fn required_distribution(&self) -> Distribution {
        Distribution::SinglePartition
    }

    fn base(&self) -> Option<&NodeBase> {
        Some(&self.base)
    }

    /// Plans with recursions are not kept.
    fn is_renewable(&self) -> bool {
        false
    }
}

/// A recursion that runs.
struct Recursion {
    /// Until it has ended.
    input: Option<SendableRecordBatchStream>,
    step: Vec<Part>,
    /// What the next step begins with; while the input gives rows, all of those.
    work: Vec<RecordBatch>,
    /// Their bytes, counted once, as they come.
    work_bytes: usize,
    /// The rows that have been there, if they are left out.
    known: Option<Known>,
    /// That of the last step, as long as rows before it are given.
    error: Option<DataFusionError>,
    /// Rows that are given together: few at first, as nobody may want more.
    rows_wanted: usize,
    rows_max: usize,
    /// The rows that have been there, `work`, and what is gathered of it to be given; what has been given is its
    /// reader's to count.
    held: MemoryReservation,
    schema: SchemaRef,
}

impl Recursion {
    /// Rows that have not been given yet.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(input) = &mut self.input {
            match input.next().await.transpose()? {
                Some(rows) => {
                    let rows = self.new_ones(rows.with_schema(Arc::clone(&self.schema))?)?;
                    if rows.num_rows() > 0 {
                        self.add_work(rows.clone());
                        self.hold(self.work_bytes)?;
                        return Ok(Some(rows));
                    }
                }
                None => self.input = None,
            }
        }
        self.steps()
    }

    /// The rows of steps until there are enough of them.
    fn steps(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(error) = self.error.take() {
            self.work.clear();
            return Err(error);
        }
        let (mut given, mut rows, mut bytes, since) = (Vec::new(), 0, 0_usize, Instant::now());
        while !self.work.is_empty() && rows < self.rows_wanted && bytes < GIVEN_BYTES && since.elapsed() < TURN {
            match self.step(bytes) {
                Ok(()) => {}
                Err(error) if given.is_empty() => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
            rows += self.work.iter().map(RecordBatch::num_rows).sum::<usize>();
            bytes = bytes.saturating_add(self.work_bytes);
            given.extend(self.work.iter().cloned());
        }
        self.rows_wanted = (self.rows_wanted * 2).min(self.rows_max);
        let together = match &given[..] {
            [] => None,
            [only] => Some(only.clone()),
            several => {
                // All of them once more.
                self.hold(bytes.saturating_mul(2))?;
                Some(concat_batches(&self.schema, several)?)
            }
        };
        self.hold(self.work_bytes)?;
        Ok(together)
    }

    /// Makes the next rows of the last ones, while so many bytes wait to be given: none, or those of the last rows and
    /// of steps before.
    fn step(&mut self, given: usize) -> Result<()> {
        let last = std::mem::take(&mut self.work_bytes);
        self.hold(given.max(last).saturating_add(last.saturating_mul(STEP_ROOM)))?;
        for rows in std::mem::take(&mut self.work) {
            let mut rows = rows;
            for part in &self.step {
                if rows.num_rows() > 0 {
                    rows = part.work(rows)?;
                }
            }
            let number = rows.num_rows();
            if number > 0 {
                let rows = self.new_ones(with_schema(rows.columns().to_vec(), number, &self.schema)?)?;
                if rows.num_rows() > 0 {
                    self.add_work(rows);
                }
            }
        }
        self.hold(given.saturating_add(self.work_bytes))
    }

    fn add_work(&mut self, rows: RecordBatch) {
        self.work_bytes = self.work_bytes.saturating_add(rows.get_array_memory_size());
        self.work.push(rows);
    }

    /// Reserves so much, beside the rows that have been there.
    fn hold(&self, bytes: usize) -> Result<()> {
        let known = self.known.as_ref().map_or(0, |known| known.0.size());
        self.held.try_resize(known.saturating_add(bytes))
    }

    /// Those of some rows that are to be given.
    fn new_ones(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        match &mut self.known {
            Some(known) => known.new_ones(&rows),
            None => Ok(rows),
        }
    }
}

/// Rows that have been there: each is a group, and groups are numbered as they come.
struct Known(Box<dyn GroupValues>);

impl Known {
    fn new(schema: &SchemaRef) -> Result<Self> {
        new_group_values(Arc::clone(schema), &GroupOrdering::None).map(Self)
    }

    fn new_ones(&mut self, rows: &RecordBatch) -> Result<RecordBatch> {
        let (mut next, mut groups) = (self.0.len(), Vec::new());
        self.0.intern(rows.columns(), &mut groups)?;
        let is_new = groups.into_iter().map(|group| {
            let is_new = group >= next;
            next = next.max(group + 1);
            Some(is_new)
        });
        Ok(filter_record_batch(rows, &is_new.collect::<BooleanArray>())?)
    }
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::prelude::SessionContext;
    use futures::TryStreamExt;

    use super::*;
    use crate::fixture::{block_on, task_context};
    use crate::node::find;

    /// As the planner has it, and as it is with the rule where it belongs.
    fn planned(sql: &str) -> [Plan; 2] {
        [false, true].map(|has_rule| {
            let mut rules = PhysicalOptimizer::new().rules;
            let before = rules.iter().position(|rule| rule.name() == "EnsureRequirements").unwrap();
            rules.splice(before..before, has_rule.then(|| Arc::new(RECURSIONS) as _));
            let state = SessionStateBuilder::new().with_default_features().with_physical_optimizer_rules(rules).build();
            let context = SessionContext::new_with_state(state);
            block_on(async { context.sql(sql).await?.create_physical_plan().await }).unwrap()
        })
    }

    fn is_ours(plan: &Plan) -> bool {
        find(plan.as_ref()).is_some_and(|node| node.name() == "RecursionExec")
            || plan.children().into_iter().any(is_ours)
    }

    fn rows(plan: &Plan) -> String {
        let rows = plan.execute(0, task_context(64)).unwrap().try_collect::<Vec<_>>();
        pretty_format_batches(&block_on(rows).unwrap()).unwrap().to_string()
    }

    #[test]
    fn steps_that_look_at_each_row_alone_give_what_the_planner_gives() {
        for sql in [
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 1000) SELECT n FROM r",
            "WITH RECURSIVE r(n, f) AS (SELECT 1, 1.5 UNION ALL SELECT n + 1, f * 2 FROM r WHERE n < 20) \
             SELECT f, n FROM r",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT (n + 7) % 100 FROM r) SELECT n FROM r",
            "WITH RECURSIVE r(n, t) AS (VALUES (1, 'a'), (2, 'b'), (2, 'b') UNION SELECT n + 1, t FROM r WHERE n < 9) \
             SELECT n, t FROM r",
            "WITH RECURSIVE r(n, t) AS (VALUES (1, 'a'), (5, 'b') UNION ALL SELECT n + 1, t || 'x' FROM r WHERE n < 9) \
             SELECT * FROM r",
            "WITH RECURSIVE r(n) AS (SELECT 1 WHERE false UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT nullif(n + 1, 4) FROM r WHERE n < 9) SELECT n FROM r",
        ] {
            let [theirs, ours] = planned(sql);
            assert!(is_ours(&ours), "{sql}");
            assert_eq!(rows(&ours), rows(&theirs), "{sql}");
        }
    }

    #[test]
    fn steps_that_do_more_stay_the_planners() {
        for sql in [
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + (random() > 2)::int + 1 FROM r WHERE n < 9) \
             SELECT n FROM r",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT max(n) + 1 FROM r HAVING max(n) < 9) SELECT n FROM r",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + m FROM r, (VALUES (1)) v(m) WHERE n < 9) \
             SELECT n FROM r",
        ] {
            assert!(!is_ours(&planned(sql)[1]), "{sql}");
        }
    }

    /// The step after it overflows, which nobody has asked for.
    #[test]
    fn an_error_comes_after_the_rows_before_it() {
        let sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 6 / (4 - n) * 0 + n + 1 FROM r) SELECT n FROM r";
        let mut stream = planned(sql)[1].execute(0, task_context(64)).unwrap();
        let mut given = 0;
        let error = loop {
            match block_on(stream.next()).unwrap() {
                Ok(rows) => given += rows.num_rows(),
                Err(error) => break error,
            }
        };
        assert_eq!(given, 4, "{error}");
        assert!(error.to_string().contains("zero"), "{error}");
    }

    /// A pool of so many bytes, and what runs with it.
    fn with_memory(bytes: usize) -> (Arc<dyn MemoryPool>, Arc<TaskContext>) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
        (pool, Arc::new(TaskContext::default().with_runtime(runtime)))
    }

    /// Neither less, if they have grown much, nor the room of the step that made them.
    #[test]
    fn rows_that_the_next_step_begins_with_are_reserved_once() {
        for made in ["t", "repeat(t, 100)"] {
            let sql = format!(
                "WITH RECURSIVE r(t) AS (SELECT repeat('x', 1000) UNION ALL SELECT {made} FROM r) \
                               SELECT t FROM r"
            );
            let (pool, context) = with_memory(64 << 20);
            let mut stream = planned(&sql)[1].execute(0, context).unwrap();
            for _ in 0..2 {
                let rows = block_on(stream.next()).unwrap().unwrap();
                let (bytes, reserved) = (rows.get_array_memory_size(), pool.reserved());
                assert!((bytes..2 * bytes).contains(&reserved), "{made}: {reserved} for {bytes} bytes");
            }
        }
    }

    #[test]
    fn rows_that_grow_are_counted_before_they_have() {
        let plan = &planned("WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r) SELECT t FROM r")[1];
        let (pool, context) = with_memory(4 << 20);
        let mut longest = 0;
        let given = plan.execute(0, context).unwrap().try_for_each(|rows| {
            longest = longest.max(rows.get_array_memory_size());
            async { Ok(()) }
        });
        let error = block_on(given).unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
        assert!(longest < 4 << 20, "{longest}");
        assert_eq!(pool.reserved(), 0, "all is given back");
    }
}
