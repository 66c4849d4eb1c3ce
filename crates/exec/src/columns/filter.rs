//! The conditions of a scan, and in which order a partition applies them.
//!
//! A condition is applied to a whole slice, or to the rows that earlier ones have left of it: gathering rows costs
//! about a nanosecond each and column, so that cheap conditions run over everything and meet as bits.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray};
use saki_columns::{ColumnType, Segment, Test};
use saki_vector::{Batch, Column, Expr, KeyFilter, Result, VectorError};

use super::prune::{ZoneCheck, may_have_partner};
use super::selection::{Selection, Slice};

/// Nanoseconds to gather one value of one column, and to put the result back in its place.
const GATHER_COST: f64 = 2.5;
/// What one segment more counts against all before it.
const FORGET: f64 = 0.8;

/// Something that rows have to pass.
pub(super) struct Condition {
    kind: Kind,
    /// What zones can tell of it.
    zones: Option<ZoneCheck>,
    /// What it looks at, as positions in the scan's columns; the condition's own indices count these.
    pub positions: Vec<usize>,
    /// Nanoseconds a row, about.
    cost: f64,
    /// It may be an error, of rows that others rule out too: it comes last, and sees only what they have left.
    fallible: bool,
}

enum Kind {
    Expr(Expr),
    /// That the value of this column of the table is one of these.
    Keys(usize, Arc<KeyFilter>),
}

/// What zones say of a condition in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    NoRow,
    EveryRow,
    Unknown,
}

impl Condition {
    /// Of conditions on the same columns of a table; `position` finds a column in the scan's.
    pub fn of_exprs(mut exprs: Vec<Expr>, columns: &[ColumnType], position: impl Fn(usize) -> usize) -> Self {
        let expr = if exprs.len() == 1 { exprs.remove(0) } else { Expr::And(exprs) };
        let mut named = Vec::new();
        expr.columns(&mut named);
        let own = |column: usize| named.iter().position(|other| *other == column).expect("the expression names it");
        Self {
            zones: ZoneCheck::of(&expr, columns),
            cost: cost(&expr),
            fallible: fallible(&expr),
            kind: Kind::Expr(expr.map_columns(&own)),
            positions: named.iter().map(|column| position(*column)).collect(),
        }
    }

    /// That the value of `column` may be one of `keys`.
    pub fn of_keys(column: usize, keys: Arc<KeyFilter>, position: impl Fn(usize) -> usize) -> Self {
        Self {
            zones: None,
            cost: 3.0,
            fallible: false,
            kind: Kind::Keys(column, keys),
            positions: vec![position(column)],
        }
    }

    /// Whether it comes from a join above, and not from the query's own filter.
    pub fn is_keys(&self) -> bool {
        matches!(self.kind, Kind::Keys(..))
    }

    /// Whether it may be an error, of rows that are not to be seen too.
    pub fn is_fallible(&self) -> bool {
        self.fallible
    }

    pub fn verdict(&self, segment: &Segment) -> Verdict {
        let (may, all) = match (&self.kind, &self.zones) {
            (Kind::Keys(column, keys), _) => (may_have_partner(segment, *column, keys), false),
            (Kind::Expr(_), Some(check)) => (check.may_pass(segment), check.all_pass(segment)),
            (Kind::Expr(_), None) => (true, false),
        };
        match (may, all) {
            (false, _) => Verdict::NoRow,
            (true, true) => Verdict::EveryRow,
            (true, false) => Verdict::Unknown,
        }
    }

    /// The condition as a test of its only column, which encoded bytes may answer.
    pub fn test(&self) -> Option<&Test> {
        self.zones.as_ref().and_then(ZoneCheck::single_test)
    }

    /// The rows of a batch of the condition's columns that pass.
    fn select(&self, batch: &Batch) -> Result<Slice> {
        let rows = match &self.kind {
            Kind::Expr(expr) => expr.select(batch)?,
            Kind::Keys(_, keys) => {
                let column = batch.columns.first();
                Some(keys.select(column.ok_or_else(|| VectorError::Internal("keys of no column".into()))?)?)
            }
        };
        Ok(rows.map_or(Slice::All, |rows| Slice::of(true_bits(&rows))))
    }
}

/// NULL counts as false.
fn true_bits(rows: &BooleanArray) -> arrow_buffer::BooleanBuffer {
    match rows.nulls() {
        Some(nulls) => rows.values() & nulls.inner(),
        None => rows.values().clone(),
    }
}

/// What a partition has seen of each condition.
pub(super) struct Observations {
    /// Rows tested and rows passed, recent ones counting more.
    seen: Vec<(f64, f64)>,
}

impl Observations {
    pub fn new(conditions: usize) -> Self {
        // Until something is known, half of all rows pass.
        Self { seen: vec![(2.0, 1.0); conditions] }
    }

    /// Conditions in the order that rules rows out at the least cost: by cost for each row ruled out. Those that
    /// may fail come last, as they were written.
    pub fn order(&self, conditions: &[Condition], of: &[usize]) -> Vec<usize> {
        let rank = |index: usize| {
            let (tested, passed) = self.seen[index];
            let condition = &conditions[index];
            if condition.fallible { f64::INFINITY } else { condition.cost / (1.0 - passed / tested).max(1e-3) }
        };
        let mut order = of.to_vec();
        order.sort_by(|left, right| rank(*left).total_cmp(&rank(*right)));
        order
    }

    /// Notes how a condition did in a segment.
    pub fn note(&mut self, index: usize, tested: usize, passed: usize) {
        let (before, kept) = self.seen[index];
        // In segments, so that one has the weight of another.
        let rows = tested.max(1) as f64;
        self.seen[index] = (FORGET * before + 1.0, FORGET * kept + passed as f64 / rows);
    }
}

/// Applies a condition to the rows that are left of a segment. Returns how many it looked at, and how many of these
/// pass.
pub(super) fn apply(condition: &Condition, columns: &[Column], selection: &mut Selection) -> Result<(usize, usize)> {
    let (mut tested, mut passed) = (0, 0);
    for index in 0..selection.slices() {
        let (start, rows) = selection.range(index);
        let before = selection.slice(index).clone();
        let left = before.count(rows);
        if left == 0 {
            continue;
        }
        let slice = || Batch::new(columns.iter().map(|column| column.slice(start, rows)).collect(), rows);
        let gathered = condition.cost + GATHER_COST * columns.len() as f64;
        let after = match &before {
            Slice::Some(bits, count)
                if condition.fallible || gathered * (*count as f64) < condition.cost * rows as f64 =>
            {
                let batch = slice().filter(&BooleanArray::new(bits.clone(), None))?;
                let kept = condition.select(&batch)?;
                tested += count;
                passed += kept.count(*count);
                before.refine(kept)
            }
            _ => {
                let kept = condition.select(&slice())?;
                tested += rows;
                passed += kept.count(rows);
                before.and(kept)
            }
        };
        selection.set(index, after);
    }
    Ok((tested, passed))
}

/// What a condition costs, in nanoseconds a row: only the order matters.
fn cost(expr: &Expr) -> f64 {
    let all = |exprs: &[Expr]| exprs.iter().map(cost).sum::<f64>();
    match expr {
        Expr::Column { .. } | Expr::Literal { .. } => 0.0,
        Expr::Arithmetic { left, right, .. } => 0.5 + cost(left) + cost(right),
        Expr::Compare { left, right, .. } => {
            let text = is_text(left) || is_text(right);
            (if text { 4.0 } else { 0.05 }) + cost(left) + cost(right)
        }
        Expr::And(parts) | Expr::Or(parts) => all(parts),
        Expr::Negate(expr) | Expr::Not(expr) | Expr::IsNull(expr) | Expr::IsNotNull(expr) => 0.1 + cost(expr),
        Expr::Like { expr, .. } => 20.0 + cost(expr),
        Expr::InList { expr, .. } => (if is_text(expr) { 10.0 } else { 2.0 }) + cost(expr),
        Expr::Case { branches, otherwise, .. } => {
            let branches = branches.iter().map(|(when, then)| cost(when) + cost(then)).sum::<f64>();
            2.0 + branches + otherwise.as_deref().map_or(0.0, cost)
        }
        Expr::Cast { expr, .. } => 2.0 + cost(expr),
        Expr::DatePart { expr, .. } => 3.0 + cost(expr),
        Expr::Substring { expr, .. } => 10.0 + cost(expr),
        Expr::Foreign { arguments, .. } => 50.0 + all(arguments),
    }
}

/// Whether evaluating it may be an error.
pub(super) fn fallible(expr: &Expr) -> bool {
    match expr {
        Expr::Column { .. } | Expr::Literal { .. } => false,
        Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Cast { .. } | Expr::Foreign { .. } => true,
        Expr::Compare { left, right, .. } => fallible(left) || fallible(right),
        Expr::And(parts) | Expr::Or(parts) => parts.iter().any(fallible),
        Expr::Not(expr)
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr)
        | Expr::Like { expr, .. }
        | Expr::InList { expr, .. }
        | Expr::DatePart { expr, .. }
        | Expr::Substring { expr, .. } => fallible(expr),
        Expr::Case { branches, otherwise, .. } => {
            branches.iter().any(|(when, then)| fallible(when) || fallible(then))
                || otherwise.as_deref().is_some_and(fallible)
        }
    }
}

fn is_text(expr: &Expr) -> bool {
    use arrow_schema::DataType;
    matches!(expr.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
