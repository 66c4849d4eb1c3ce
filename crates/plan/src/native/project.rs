//! Filters and projections, in one step: rows are selected on the columns of the condition, and only the columns that
//! the output is made of are copied.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{StreamExt, future};
use saki_catalog::InPlan;
use saki_vector::{Batch, Expr};

use super::columns::ColumnSet;
use super::offer::offered;
use super::translate::{evaluate_all, translate};
use crate::access::chain::renumber;
use crate::node::{
    DynamicKeys, Native, NativeStream, NodeBase, Plan, Projection, Renewal, SakiNode, column_index, native_input,
    partitions_of,
};

/// The rows of its input that fulfil a condition, as expressions over them.
#[derive(Debug)]
pub struct NativeProjectExec {
    input: Plan,
    condition: Option<Arc<dyn PhysicalExpr>>,
    /// Over the input's columns.
    output: Vec<Arc<dyn PhysicalExpr>>,
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
        input: Plan,
        condition: Option<Arc<dyn PhysicalExpr>>,
        output: Vec<Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
        statistics: Arc<Statistics>,
    ) -> Result<Self> {
        let step = Arc::new(Step::new(&input.schema(), condition.as_ref(), &output)?);
        let base = NodeBase::new(schema, partitions_of(&input), EmissionType::Incremental, statistics);
        let base = base.with_alike(&output.iter().map(column_index).collect::<Vec<_>>());
        Ok(Self { input, condition, output, step, base })
    }

    fn with_input(&self, input: Plan) -> Result<Self> {
        let (condition, output) = (self.condition.clone(), self.output.clone());
        Self::new(input, condition, output, self.schema(), Arc::clone(&self.base.statistics))
    }

    /// Whether every output column is one of the input.
    fn only_columns(&self) -> bool {
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
            let output = batch.and_then(|batch| step.apply(&batch).in_plan()).transpose();
            if let Some(Ok(batch)) = &output {
                metrics.record_output(batch.rows);
            }
            future::ready(output)
        })))
    }
}

impl SakiNode for NativeProjectExec {
    fn name(&self) -> &'static str {
        if self.condition.is_some() { "NativeFilterExec" } else { "NativeProjectExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.base.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(self.with_input(input)?.into_plan())
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.condition.iter().chain(&self.output).collect()
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

    fn base(&self) -> Option<&NodeBase> {
        Some(&self.base)
    }

    fn native(&self) -> Option<&dyn Native> {
        Some(self)
    }

    fn renewed(&self, children: Vec<Plan>, renewal: &mut Renewal<'_>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        let condition = self.condition.as_ref().map(|condition| renewal.expr(condition)).transpose()?;
        let output = renewal.exprs(&self.output)?;
        let new = condition.iter().chain(&output);
        let is_same = new.zip(self.condition.iter().chain(&self.output)).all(|(new, old)| Arc::ptr_eq(new, old));
        let step = match is_same {
            true => Arc::clone(&self.step),
            false => Arc::new(Step::new(&input.schema(), condition.as_ref(), &output)?),
        };
        Ok(Self { input, condition, output, step, base: self.base.renewed() }.into_plan())
    }

    fn renews_subqueries(&self) -> bool {
        true
    }

    fn with_keys(&self, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<Plan>> {
        let Some(source) = column_index(&self.output[column]) else { return Ok(None) };
        let input = offered(&self.input, source, keys)?;
        input.map(|input| Ok(self.with_input(input)?.into_plan())).transpose()
    }

    /// One step for two, where this one only selects.
    fn projected(&self, projection: &Projection) -> Result<Option<Plan>> {
        let sources = self.output.iter().map(column_index).collect::<Option<Vec<_>>>();
        let Some(sources) = sources.filter(|_| projection.computes) else { return Ok(None) };
        let exprs = projection.exprs.iter().map(|expr| renumber(expr, &|output| sources[output])).collect();
        let (schema, statistics) = (Arc::clone(&projection.schema), Arc::clone(&projection.statistics));
        Ok(Some(Self::new(Arc::clone(&self.input), self.condition.clone(), exprs, schema, statistics)?.into_plan()))
    }
}
