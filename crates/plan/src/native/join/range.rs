//! Which inequalities between the sides of a join make a range: of the left side's rows, those lie in a run that have
//! a value between bounds that a row of the right side gives.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use saki_base::CompareOp;
use saki_catalog::guesses;

use super::plan::{JoinPlan, JoinRange};
use crate::access::chain::renumber;
use crate::access::conditions::compare_op;
use crate::native::translate::{comparable, is_native};
use crate::node::{Plan, column_index, statistics_of};

/// Of all pairs of rows, those that one bound leaves, and that two leave.
const ONE_BOUND: f64 = 0.5;
const TWO_BOUNDS: f64 = 0.01;
/// How many times as large as the left side the right one may be, to be sorted in its place.
const TIMES_LARGER: f64 = 8.0;

/// A join without keys as one by a range, sorting the side for which there is less to do.
pub fn ranged_loops(join: &NestedLoopJoinExec) -> Result<Option<JoinPlan>> {
    let plan = JoinPlan::of_loops(join)?;
    let (left, right) = (ranged(&plan)?, ranged(&plan.clone().swapped())?);
    Ok(match (left, right) {
        (Some(left), Some(right)) => Some(if work(&right)? < work(&left)? { right } else { left }),
        (left, right) => left.or(right),
    })
}

/// A join by keys with what of its filter makes a range among the rows of a key.
pub fn with_range(plan: JoinPlan) -> Result<JoinPlan> {
    // Whether a row has a partner is known without a look at all of them, from that row's side.
    let by_existence = matches!(plan.kind, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
    if by_existence
        && rows(&plan.right)? <= TIMES_LARGER * rows(&plan.left)?
        && let Some(swapped) = ranged(&plan.clone().swapped())?
    {
        return Ok(swapped);
    }
    Ok(ranged(&plan)?.unwrap_or(plan))
}

fn rows(side: &Plan) -> Result<f64> {
    let rows = statistics_of(side.as_ref())?.num_rows;
    Ok(rows.get_value().map_or(guesses::PLAN_ROWS, |rows| *rows as f64))
}

/// What a join without keys has to do: comparisons in sorting and looking up, and pairs.
fn work(plan: &JoinPlan) -> Result<f64> {
    let (left, right) = (rows(&plan.left)?, rows(&plan.right)?);
    let by_existence = matches!(plan.kind, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
    let share = match &plan.range {
        _ if by_existence && plan.filter.is_none() => 0.0,
        Some(range) if range.has_both_bounds() => TWO_BOUNDS,
        _ => ONE_BOUND,
    };
    Ok((2.0 * left + right) * (left + 2.0).log2() + left * right * share)
}

/// The join with the inequalities that bound one value of its left side as its range.
fn ranged(plan: &JoinPlan) -> Result<Option<JoinPlan>> {
    let Some(filter) = &plan.filter else { return Ok(None) };
    let conditions = split_conjunction(filter.expression());
    let inequality = |condition: &&Arc<dyn PhysicalExpr>| Inequality::of(condition, filter, plan);
    let inequalities = conditions.iter().map(inequality).collect::<Result<Vec<_>>>()?;
    let mut best: Option<(JoinRange, Vec<Arc<dyn PhysicalExpr>>)> = None;
    for candidate in inequalities.iter().flatten() {
        let (range, rest) = range_of(&candidate.value, &conditions, &inequalities);
        let is_better = match &best {
            None => !range.bounds.is_empty(),
            Some((known, _)) => range.has_both_bounds() && !known.has_both_bounds(),
        };
        if is_better {
            best = Some((range, rest));
        }
    }
    let Some((range, rest)) = best else { return Ok(None) };
    let left_over =
        |rest: Vec<_>| JoinFilter::new(conjunction(rest), filter.column_indices().to_vec(), filter.schema().clone());
    let filter = (!rest.is_empty()).then(|| left_over(rest));
    Ok(Some(JoinPlan { range: Some(range), filter, ..plan.clone() }))
}

/// The bounds of a value, and the other conditions. What is worked out before any pair of rows is looked at must be
/// worked out for each pair anyway: what could fail is taken only if no condition before it may keep it from pairs.
fn range_of(
    value: &Arc<dyn PhysicalExpr>,
    conditions: &[&Arc<dyn PhysicalExpr>],
    inequalities: &[Option<Inequality>],
) -> (JoinRange, Vec<Arc<dyn PhysicalExpr>>) {
    let (mut bounds, mut rest) = (Vec::new(), Vec::new());
    for (condition, inequality) in conditions.iter().zip(inequalities) {
        match inequality {
            Some(it) if &it.value == value && (rest.is_empty() || it.is_safe) => {
                bounds.push((it.op, Arc::clone(&it.bound)));
            }
            _ => rest.push(Arc::clone(condition)),
        }
    }
    (JoinRange { value: Arc::clone(value), bounds }, rest)
}

/// `value op bound`, of the left and the right side.
struct Inequality {
    value: Arc<dyn PhysicalExpr>,
    op: CompareOp,
    bound: Arc<dyn PhysicalExpr>,
    /// Neither side can fail to be worked out, but for numbers that are too great.
    is_safe: bool,
}

impl Inequality {
    fn of(condition: &Arc<dyn PhysicalExpr>, filter: &JoinFilter, plan: &JoinPlan) -> Result<Option<Self>> {
        let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return Ok(None) };
        let is_one = matches!(binary.op(), Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
        let Some(op) = compare_op(*binary.op()).filter(|_| is_one) else { return Ok(None) };
        let (value, op, bound) = match (side_of(binary.left(), filter), side_of(binary.right(), filter)) {
            (Some(JoinSide::Left), Some(JoinSide::Right)) => (binary.left(), op, binary.right()),
            (Some(JoinSide::Right), Some(JoinSide::Left)) => (binary.right(), op.mirrored(), binary.left()),
            _ => return Ok(None),
        };
        let of_side = |expr: &Arc<dyn PhysicalExpr>| renumber(expr, &|column| filter.column_indices()[column].index);
        let (value, bound) = (of_side(value), of_side(bound));
        let (left, right) = (plan.left.schema(), plan.right.schema());
        let types = (value.data_type(&left)?, bound.data_type(&right)?);
        let is_safe = cannot_fail(&value, &left) && cannot_fail(&bound, &right);
        let fits = comparable(&types.0, &types.1) && is_native(&types.0);
        Ok((fits && !is_volatile(&value) && !is_volatile(&bound)).then_some(Self { value, op, bound, is_safe }))
    }
}

/// Whether an expression is made of columns and constants by what has a result for all of them that are not too great.
fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply)
            && cannot_fail(binary.left(), schema)
            && cannot_fail(binary.right(), schema);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let gets_wider = matches!(cast.cast_type(), DataType::Int64 | DataType::Float64 | DataType::Decimal128(..));
        let is_number = cast.expr().data_type(schema).is_ok_and(|from| from.is_numeric());
        return gets_wider && is_number && cannot_fail(cast.expr(), schema);
    }
    column_index(expr).is_some() || expr.is::<Literal>()
}

/// The side that all columns of an expression are of; `None`: both, or neither.
fn side_of(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<JoinSide> {
    let columns = collect_columns(expr);
    let mut sides = columns.iter().map(|column| filter.column_indices()[column.index()].side);
    let first = sides.next()?;
    sides.all(|side| side == first).then_some(first)
}
