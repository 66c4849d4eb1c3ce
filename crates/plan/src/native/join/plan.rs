//! What a join is, before its work is translated.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use saki_base::CompareOp;
use saki_vector::join::RangeKey;

use crate::native::translate::{comparable, is_native};
use crate::node::{DynamicKeys, Plan, statistics_of};

/// A join as it was planned.
#[derive(Clone, Debug)]
pub struct JoinPlan {
    /// What the table is made of.
    pub left: Plan,
    pub right: Plan,
    pub on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    /// Among the rows of a key, or all if there is none.
    pub range: Option<JoinRange>,
    pub filter: Option<JoinFilter>,
    pub kind: JoinType,
    pub nulls_equal: bool,
    pub output: Vec<ColumnIndex>,
    pub schema: SchemaRef,
    pub statistics: Arc<Statistics>,
    /// Where the values of each key are published, if anybody waits for them.
    pub keys: Vec<Option<Arc<DynamicKeys>>>,
}

/// A value of the left side's rows, and how it compares with what the right side's give.
#[derive(Clone, Debug)]
pub struct JoinRange {
    pub value: Arc<dyn PhysicalExpr>,
    pub bounds: Vec<(CompareOp, Arc<dyn PhysicalExpr>)>,
}

impl JoinRange {
    pub fn key(&self, left: &Schema) -> Result<RangeKey> {
        Ok(RangeKey { data_type: self.value.data_type(left)?, ops: self.bounds.iter().map(|(op, _)| *op).collect() })
    }

    pub fn has_both_bounds(&self) -> bool {
        let has = |ops: [CompareOp; 2]| self.bounds.iter().any(|(op, _)| ops.contains(op));
        has([CompareOp::Less, CompareOp::LessOrEqual]) && has([CompareOp::Greater, CompareOp::GreaterOrEqual])
    }
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
        let plan = Self {
            on: join.on().to_vec(),
            nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
            keys: vec![None; join.on().len()],
            ..Self::without_keys(
                join,
                [join.left(), join.right()],
                join.filter(),
                *join.join_type(),
                join.projection.as_deref(),
            )?
        };
        // For NOT IN, DataFusion does not choose which side becomes the table.
        Ok(Some(if join.null_aware && plan.right_is_smaller()? { plan.swapped() } else { plan }))
    }

    /// A join without keys.
    pub fn of_loops(join: &NestedLoopJoinExec) -> Result<Self> {
        Self::without_keys(
            join,
            [join.left(), join.right()],
            join.filter(),
            *join.join_type(),
            join.projection().as_deref(),
        )
    }

    fn without_keys(
        join: &dyn ExecutionPlan,
        [left, right]: [&Plan; 2],
        filter: Option<&JoinFilter>,
        kind: JoinType,
        projection: Option<&[usize]>,
    ) -> Result<Self> {
        let (_, all) = build_join_schema(&left.schema(), &right.schema(), &kind);
        Ok(Self {
            left: Arc::clone(left),
            right: Arc::clone(right),
            on: Vec::new(),
            range: None,
            filter: filter.cloned(),
            kind,
            nulls_equal: false,
            output: match projection {
                Some(projection) => projection.iter().map(|column| all[*column].clone()).collect(),
                None => all,
            },
            schema: join.schema(),
            statistics: statistics_of(join)?,
            keys: Vec::new(),
        })
    }

    fn right_is_smaller(&self) -> Result<bool> {
        let rows =
            |side: &Plan| -> Result<Option<usize>> { Ok(statistics_of(side.as_ref())?.num_rows.get_value().copied()) };
        Ok(matches!((rows(&self.left)?, rows(&self.right)?), (Some(left), Some(right)) if right < left))
    }

    /// The same rows, with the table made of the other side; of a join without a range.
    pub fn swapped(self) -> Self {
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
