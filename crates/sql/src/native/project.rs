//! Filters and projections, in one step: rows are selected on the columns of the condition, and only the columns that
//! the output is made of are copied.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{EmissionType, apply_expression_roots};
use datafusion::physical_plan::metrics::{BaselineMetrics, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, future};
use saki_vector::{Batch, Expr};

use super::columns::{ColumnSet, column_index};
use super::node::{NodeBase, partitions_of};
use super::stream::vector_error;
use super::translate::{evaluate_all, translate};
use super::{Native, NativeStream, native_input, surface_stream};

/// The rows of its input that fulfil a condition, as expressions over them.
#[derive(Debug)]
pub struct NativeProjectExec {
    pub input: Arc<dyn ExecutionPlan>,
    pub condition: Option<Arc<dyn PhysicalExpr>>,
    /// Over the input's columns.
    pub output: Vec<Arc<dyn PhysicalExpr>>,
    step: Arc<Step>,
    base: NodeBase,
}

/// The translated work on a batch.
#[derive(Debug)]
struct Step {
    condition: Option<Expr>,
    /// Input columns that the output is made of.
    kept: Vec<usize>,
    /// Over the columns kept.
    output: Vec<Expr>,
}

impl NativeProjectExec {
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        condition: Option<Arc<dyn PhysicalExpr>>,
        output: Vec<Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
        statistics: Arc<Statistics>,
    ) -> Result<Self> {
        let step = Arc::new(Step::new(&input.schema(), condition.as_ref(), &output)?);
        let base = NodeBase::new(schema, partitions_of(&input), EmissionType::Incremental, statistics);
        Ok(Self { input, condition, output, step, base })
    }

    pub fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let (condition, output) = (self.condition.clone(), self.output.clone());
        Self::new(input, condition, output, self.schema(), Arc::clone(&self.base.statistics))
    }

    /// The same node, to be run again over the same input and expressions, renewed.
    pub fn renewed(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        condition: Option<Arc<dyn PhysicalExpr>>,
        output: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let new = condition.iter().chain(&output);
        let is_same = new.zip(self.condition.iter().chain(&self.output)).all(|(new, old)| Arc::ptr_eq(new, old));
        let step = match is_same {
            true => Arc::clone(&self.step),
            false => Arc::new(Step::new(&input.schema(), condition.as_ref(), &output)?),
        };
        Ok(Self { input: Arc::clone(input), condition, output, step, base: self.base.renewed() })
    }

    /// The input column that an output column is, if it is one.
    pub fn source(&self, output: usize) -> Option<usize> {
        column_index(&self.output[output])
    }

    /// Whether every output column is one of the input.
    pub fn only_columns(&self) -> bool {
        self.output.iter().all(|expr| column_index(expr).is_some())
    }
}

impl Step {
    fn new(
        input: &Schema,
        condition: Option<&Arc<dyn PhysicalExpr>>,
        output: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Self> {
        let used = ColumnSet::of(output);
        let kept_schema = used.schema(input)?;
        Ok(Self {
            condition: condition.map(|condition| translate(condition, input)).transpose()?,
            output: output.iter().map(|expr| translate(&used.renumber(expr), &kept_schema)).collect::<Result<_>>()?,
            kept: used.into_columns(),
        })
    }

    /// `None`: no row is left.
    fn apply(&self, batch: &Batch) -> saki_vector::Result<Option<Batch>> {
        let selected = match &self.condition {
            Some(condition) => condition.select(batch)?,
            None => None,
        };
        let mut kept = batch.project(&self.kept);
        if let Some(selected) = selected {
            kept = kept.filter(&selected)?;
        }
        if kept.rows == 0 {
            return Ok(None);
        }
        Ok(Some(Batch::new(evaluate_all(&self.output, &kept)?, kept.rows)))
    }
}

impl Native for NativeProjectExec {
    fn native(&self, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream> {
        let input = native_input(&self.input, partition, context)?;
        let step = Arc::clone(&self.step);
        let metrics = BaselineMetrics::new(&self.base.metrics, partition);
        Ok(Box::pin(input.filter_map(move |batch| {
            let _timer = metrics.elapsed_compute().timer();
            let output = batch.and_then(|batch| step.apply(&batch).map_err(vector_error)).transpose();
            if let Some(Ok(batch)) = &output {
                metrics.record_output(batch.rows);
            }
            future::ready(output)
        })))
    }
}

impl DisplayAs for NativeProjectExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        if let Some(condition) = &self.condition {
            write!(f, "{condition}")?;
            if self.output.len() == self.input.schema().fields().len() && self.only_columns() {
                return Ok(());
            }
            f.write_str(" -> ")?;
        }
        for (position, (expr, field)) in self.output.iter().zip(self.schema().fields()).enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            match expr.downcast_ref::<Column>() {
                Some(column) if column.name() == field.name() => write!(f, "{comma}{column}")?,
                _ => write!(f, "{comma}{expr} as {}", field.name())?,
            }
        }
        Ok(())
    }
}

impl ExecutionPlan for NativeProjectExec {
    fn name(&self) -> &'static str {
        if self.condition.is_some() { "NativeFilterExec" } else { "NativeProjectExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.base.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.condition.iter().chain(&self.output), f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(self.with_input(input)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(surface_stream(self.native(partition, context)?, self.schema()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.base.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(self.base.statistics(args))
    }
}
