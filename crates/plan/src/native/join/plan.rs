//! What a join is, before its work is translated.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};

use crate::native::translate::{comparable, is_native};
use crate::node::{DynamicKeys, Plan, statistics_of};

/// A join as it was planned.
#[derive(Clone, Debug)]
pub struct JoinPlan {
    /// What the table is made of.
    pub left: Plan,
    pub right: Plan,
    pub on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    pub filter: Option<JoinFilter>,
    pub kind: JoinType,
    pub nulls_equal: bool,
    pub output: Vec<ColumnIndex>,
    pub schema: SchemaRef,
    pub statistics: Arc<Statistics>,
    /// Where the values of each key are published, if anybody waits for them.
    pub keys: Vec<Option<Arc<DynamicKeys>>>,
}

impl JoinPlan {
    /// A hash join of DataFusion, if it is one that can run here.
    pub fn of(join: &HashJoinExec) -> Result<Option<Self>> {
        let (left, right) = (join.left().schema(), join.right().schema());
        if join.fetch().is_some() {
            return Ok(None);
        }
        let mut nullable = false;
        for (build, probe) in join.on() {
            let (build_type, probe_type) = (build.data_type(&left)?, probe.data_type(&right)?);
            if !comparable(&build_type, &probe_type) || !is_native(&build_type) {
                return Ok(None);
            }
            nullable |= build.nullable(&left)? || probe.nullable(&right)?;
        }
        // NOT IN differs from NOT EXISTS where there are NULLs.
        if join.null_aware && nullable {
            return Ok(None);
        }
        let (_, all) = build_join_schema(&left, &right, join.join_type());
        let output = match &join.projection {
            Some(projection) => projection.iter().map(|column| all[*column].clone()).collect(),
            None => all,
        };
        let plan = Self {
            left: Arc::clone(join.left()),
            right: Arc::clone(join.right()),
            on: join.on().to_vec(),
            filter: join.filter().cloned(),
            kind: *join.join_type(),
            nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
            output,
            schema: join.schema(),
            statistics: statistics_of(join)?,
            keys: vec![None; join.on().len()],
        };
        // For NOT IN, DataFusion does not choose which side becomes the table.
        Ok(Some(if join.null_aware && plan.right_is_smaller()? { plan.swapped() } else { plan }))
    }

    fn right_is_smaller(&self) -> Result<bool> {
        let rows =
            |side: &Plan| -> Result<Option<usize>> { Ok(statistics_of(side.as_ref())?.num_rows.get_value().copied()) };
        Ok(matches!((rows(&self.left)?, rows(&self.right)?), (Some(left), Some(right)) if right < left))
    }

    /// The same rows, with the table made of the other side.
    fn swapped(self) -> Self {
        let side = |column: ColumnIndex| ColumnIndex { side: column.side.negate(), ..column };
        Self {
            left: self.right,
            right: self.left,
            on: self.on.into_iter().map(|(left, right)| (right, left)).collect(),
            filter: self.filter.map(|filter| filter.swap()),
            kind: self.kind.swap(),
            output: self.output.into_iter().map(side).collect(),
            ..self
        }
    }

    /// Whether rows of the right side whose keys the left side does not have can be left out.
    pub fn filters_probe(&self) -> bool {
        let kind = matches!(
            self.kind,
            JoinType::Inner
                | JoinType::Left
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::LeftMark
                | JoinType::RightSemi
        );
        kind && !self.nulls_equal
    }

    /// The same join with only some of its columns.
    #[must_use]
    pub fn projected(&self, columns: &[usize], schema: SchemaRef, statistics: Arc<Statistics>) -> Self {
        let output = columns.iter().map(|column| self.output[*column].clone()).collect();
        Self { output, schema, statistics, ..self.clone() }
    }

    /// The column of one side that an output column is.
    pub fn source(&self, output: usize, side: JoinSide) -> Option<usize> {
        self.output.get(output).filter(|column| column.side == side).map(|column| column.index)
    }
}
