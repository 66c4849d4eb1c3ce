//! What a join does with batches: the plan's expressions translated, and where each column comes from.

use std::sync::Arc;

use arrow_array::{BooleanArray, UInt32Array, new_null_array};
use arrow_schema::DataType;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_plan::joins::utils::ColumnIndex;
use saki_vector::join::{JoinBuild, JoinTable, RangeKey};
use saki_vector::{Batch, Column, Expr, form};

use super::plan::JoinPlan;
use crate::native::columns::ColumnSet;
use crate::native::translate::{evaluate_all, translate};
use crate::node::column_index;

/// The translated work of a join.
#[derive(Debug)]
pub struct Work {
    pub kind: JoinType,
    nulls_equal: bool,
    /// The last one is of the range's values, if there is a range.
    build_keys: Vec<Expr>,
    range: Option<RangeKey>,
    key_types: Vec<DataType>,
    /// Columns of the build side that are kept, and their types.
    payload: Vec<usize>,
    payload_types: Vec<DataType>,
    /// Then the range's bounds.
    pub probe_keys: Vec<Expr>,
    probe_types: Vec<DataType>,
    pub residual: Option<Residual>,
    pub output: Vec<Source>,
}

/// A condition beyond the equalities.
#[derive(Debug)]
pub struct Residual {
    /// Over `columns`.
    pub condition: Expr,
    pub columns: Vec<Source>,
}

/// Where a column of a joined row comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A payload column of the build side.
    Build(usize),
    /// A column of the probe side.
    Probe(usize),
    /// Whether the row has a partner.
    Mark,
}

/// The probe side of joined rows.
pub enum ProbeRows<'a> {
    /// All rows of a batch, in order.
    All(&'a Batch),
    Some(&'a Batch, &'a UInt32Array),
    /// None: NULLs.
    Absent,
}

impl Work {
    pub fn new(plan: &JoinPlan) -> Result<Self> {
        let (left, right) = (plan.left.schema(), plan.right.schema());
        let source = |column: &ColumnIndex| match column.side {
            JoinSide::Left => plan.equal_probe_column(column.index).map_or(Source::Build(column.index), Source::Probe),
            JoinSide::Right => Source::Probe(column.index),
            JoinSide::None => Source::Mark,
        };
        let of_filter = plan.filter.iter().flat_map(|filter| filter.column_indices()).map(source).collect();
        let of_output = plan.output.iter().map(source).collect();
        let (payload, [of_filter, output]) = with_payload([of_filter, of_output]);
        let residual = plan.filter.as_ref().map(|filter| -> Result<Residual> {
            Ok(Residual { condition: translate(filter.expression(), filter.schema())?, columns: of_filter })
        });
        let (range, values) = (plan.range.as_ref(), plan.range.iter().map(|range| &range.value));
        let bounds = plan.range.iter().flat_map(|range| &range.bounds).map(|(_, bound)| bound);
        let (build_keys, probe_keys) = (plan.on.iter().map(|(key, _)| key), plan.on.iter().map(|(_, key)| key));
        Ok(Self {
            kind: plan.kind,
            nulls_equal: plan.nulls_equal,
            build_keys: build_keys.chain(values).map(|key| translate(key, &left)).collect::<Result<_>>()?,
            range: range.map(|range| range.key(&left)).transpose()?,
            key_types: plan.on.iter().map(|(key, _)| key.data_type(&left)).collect::<Result<_>>()?,
            payload_types: payload.columns().iter().map(|index| left.field(*index).data_type().clone()).collect(),
            probe_keys: probe_keys.chain(bounds).map(|key| translate(key, &right)).collect::<Result<_>>()?,
            probe_types: right.fields().iter().map(|field| field.data_type().clone()).collect(),
            residual: residual.transpose()?,
            output,
            payload: payload.into_columns(),
        })
    }

    /// Whether build rows must remember that they have found a partner.
    pub fn marks_build(&self) -> bool {
        matches!(
            self.kind,
            JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
        )
    }

    /// Whether, without build rows, no probe row matters.
    pub fn empty_without_build(&self) -> bool {
        !matches!(self.kind, JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark)
    }

    pub fn new_build(&self) -> JoinBuild {
        let build = JoinBuild::new(&self.key_types, &self.payload_types).with_range(self.range.clone());
        if self.nulls_equal { build.with_nulls_equal() } else { build }
    }

    /// Adds a batch of the build side.
    pub fn push(&self, build: &mut JoinBuild, batch: &Batch) -> saki_vector::Result<()> {
        let keys = evaluate_all(&self.build_keys, batch)?;
        build.push(&keys, &batch.project(&self.payload))
    }

    /// Joined rows: build row `build[i]` (NULL: none) beside the `i`-th of `probe`. `mark` is the value of mark
    /// columns.
    pub fn assemble(
        &self,
        sources: &[Source],
        table: &JoinTable,
        build: &UInt32Array,
        probe: &ProbeRows<'_>,
        mark: bool,
    ) -> saki_vector::Result<Batch> {
        let rows = match probe {
            ProbeRows::All(batch) => batch.rows,
            ProbeRows::Some(_, rows) => rows.len(),
            ProbeRows::Absent => build.len(),
        };
        let mut columns = Vec::with_capacity(sources.len());
        for source in sources {
            columns.push(match source {
                Source::Build(column) => {
                    let gathered = table.gather(build, &[*column])?;
                    gathered.into_iter().next().unwrap_or_else(|| Column::new(new_null_array(&DataType::Null, rows)))
                }
                Source::Probe(column) => match probe {
                    ProbeRows::All(batch) => batch.columns[*column].clone(),
                    ProbeRows::Some(batch, rows) => batch.columns[*column].take(rows)?,
                    ProbeRows::Absent => form::from_surface(&new_null_array(&self.probe_types[*column], rows))?,
                },
                Source::Mark => Column::new(Arc::new(BooleanArray::from(vec![mark; rows]))),
            });
        }
        Ok(Batch::new(columns, rows))
    }

    /// Columns of whole probe rows, with `mark` for mark columns. No build column is among the output of the joins that
    /// give these.
    pub fn probe_rows(&self, batch: &Batch, mark: Option<&BooleanArray>) -> saki_vector::Result<Batch> {
        let column = |source: &Source| match (source, mark) {
            (Source::Probe(column), _) => Ok(batch.columns[*column].clone()),
            (Source::Mark, Some(mark)) => Ok(Column::new(Arc::new(mark.clone()))),
            _ => Err(saki_vector::VectorError::Internal("a semi join with columns of both sides".into())),
        };
        Ok(Batch::new(self.output.iter().map(column).collect::<saki_vector::Result<_>>()?, batch.rows))
    }
}

/// The build columns that are used, and where each source finds its own among them.
fn with_payload(mut lists: [Vec<Source>; 2]) -> (ColumnSet, [Vec<Source>; 2]) {
    let mut payload = ColumnSet::default();
    payload.extend(lists.iter().flatten().filter_map(|source| match source {
        Source::Build(column) => Some(*column),
        _ => None,
    }));
    for source in lists.iter_mut().flatten() {
        if let Source::Build(column) = source {
            *column = payload.position(*column).unwrap_or_default();
        }
    }
    (payload, lists)
}

impl JoinPlan {
    /// The probe column that equals a build column in every joined row, bit by bit.
    fn equal_probe_column(&self, build_column: usize) -> Option<usize> {
        if self.kind != JoinType::Inner {
            return None;
        }
        let schema = self.left.schema();
        // 0 equals -0.
        let exact = schema.field(build_column).data_type();
        if exact.is_floating() {
            return None;
        }
        let equality = self.on.iter().find(|(build, _)| column_index(build) == Some(build_column))?;
        let probe_column = column_index(&equality.1)?;
        (self.right.schema().field(probe_column).data_type() == exact).then_some(probe_column)
    }
}
