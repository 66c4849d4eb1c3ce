//! Aggregates of intervals: the least and the greatest are so by their length, as `<` compares them; sums and averages
//! add months, days and time, each for itself.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility};
use saki_base::Interval;
use saki_catalog::SqlError;
use saki_times::INTERVAL;

/// The aggregate that stands for another where that is given intervals; `None`: it is right for them itself.
pub fn of_intervals(name: &str) -> Option<Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 4]> = LazyLock::new(|| {
        [Kind::Least, Kind::Greatest, Kind::Sum, Kind::Average].map(|kind| {
            let signature = Signature::exact(vec![INTERVAL], Volatility::Immutable);
            Arc::new(AggregateUDF::from(OfIntervals { kind, signature }))
        })
    });
    let position = match name {
        "min" => 0,
        "max" => 1,
        "sum" => 2,
        "avg" => 3,
        _ => return None,
    };
    Some(Arc::clone(&FUNCTIONS[position]))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Least,
    Greatest,
    Sum,
    Average,
}

impl Kind {
    /// Whether a value stands where another has stood; of equal ones the last does, as in PostgreSQL
    /// (`interval_smaller`).
    fn prefers(self, new: Interval, to: Interval) -> bool {
        match self {
            Self::Least => new.length() <= to.length(),
            _ => new.length() >= to.length(),
        }
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct OfIntervals {
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for OfIntervals {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Least => "interval_min",
            Kind::Greatest => "interval_max",
            Kind::Sum => "interval_sum",
            Kind::Average => "interval_avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new(format_state_name(args.name, "value"), INTERVAL, true);
        let count = Field::new(format_state_name(args.name, "count"), DataType::UInt64, true);
        Ok(match self.kind {
            Kind::Least | Kind::Greatest => vec![value.into()],
            Kind::Sum | Kind::Average => vec![value.into(), count.into()],
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let kind = self.kind;
        match kind {
            Kind::Least | Kind::Greatest => Ok(Box::new(Extreme { kind, found: None })),
            Kind::Sum | Kind::Average if args.is_distinct => {
                let name = if kind == Kind::Sum { "sum" } else { "avg" };
                let message = format!("{name}(DISTINCT) of intervals is not supported");
                Err(SqlError::unsupported(message).into())
            }
            Kind::Sum | Kind::Average => Ok(Box::new(Total { kind, sum: Interval::default(), count: 0 })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.kind {
            kind @ (Kind::Least | Kind::Greatest) => Ok(Box::new(Sliding::new(kind))),
            _ => self.accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The intervals of an array, with NULLs.
fn intervals(array: &ArrayRef) -> impl Iterator<Item = Option<Interval>> {
    let of = |value: IntervalMonthDayNano| Interval::of_nanos(value.months, value.days, value.nanoseconds);
    array.as_primitive::<IntervalMonthDayNanoType>().iter().map(move |value| value.map(of))
}

fn scalar(interval: Option<Interval>) -> ScalarValue {
    let value = interval.map(|of| IntervalMonthDayNano::new(of.months, of.days, of.nanos()));
    ScalarValue::IntervalMonthDayNano(value)
}

/// The least or the greatest so far.
#[derive(Debug)]
struct Extreme {
    kind: Kind,
    found: Option<Interval>,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        for value in arguments.first().into_iter().flat_map(intervals).flatten() {
            if self.found.is_none_or(|found| self.kind.prefers(value, found)) {
                self.found = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![scalar(self.found)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.found))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The same of a window that moves on: what may still become the least or the greatest, in the order in which it
/// will, each with its place among all values.
#[derive(Debug)]
struct Sliding {
    kind: Kind,
    candidates: VecDeque<(u64, Interval)>,
    seen: u64,
    gone: u64,
}

impl Sliding {
    const fn new(kind: Kind) -> Self {
        Self { kind, candidates: VecDeque::new(), seen: 0, gone: 0 }
    }
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        for value in arguments.first().into_iter().flat_map(intervals) {
            if let Some(value) = value {
                while self.candidates.back().is_some_and(|(_, last)| self.kind.prefers(value, *last)) {
                    self.candidates.pop_back();
                }
                self.candidates.push_back((self.seen, value));
            }
            self.seen += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        self.gone += arguments.first().map_or(0, |values| values.len() as u64);
        while self.candidates.front().is_some_and(|(place, _)| *place < self.gone) {
            self.candidates.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.candidates.front().map(|(_, value)| *value)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.candidates.capacity() * size_of::<(u64, Interval)>()
    }
}

/// A sum, and of how many.
#[derive(Debug)]
struct Total {
    kind: Kind,
    sum: Interval,
    count: u64,
}

impl Total {
    /// # Errors
    /// 22008 for what no interval can hold.
    fn add(&mut self, other: Interval, taken_off: bool) -> Result<()> {
        let Interval { months, days, micros } = self.sum;
        let parts = match taken_off {
            false => {
                months.checked_add(other.months).zip(days.checked_add(other.days)).zip(micros.checked_add(other.micros))
            }
            true => {
                months.checked_sub(other.months).zip(days.checked_sub(other.days)).zip(micros.checked_sub(other.micros))
            }
        };
        let sum = parts.map(|((months, days), micros)| Interval { months, days, micros });
        let out_of_range = || SqlError::data("interval out of range").code("22008");
        self.sum = sum.filter(|sum| sum.fits()).ok_or_else(out_of_range)?;
        Ok(())
    }
}

impl Accumulator for Total {
    fn update_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        for value in arguments.first().into_iter().flat_map(intervals).flatten() {
            self.add(value, false)?;
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        for value in arguments.first().into_iter().flat_map(intervals).flatten() {
            self.add(value, true)?;
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [sums, counts] = states else {
            return Err(SqlError::internal("a sum of intervals is a sum and a count").into());
        };
        for (sum, count) in intervals(sums).zip(counts.as_primitive::<UInt64Type>()) {
            if let Some((sum, count)) = sum.zip(count) {
                self.add(sum, false)?;
                self.count += count;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![scalar(Some(self.sum)), ScalarValue::UInt64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = Some(self.sum).filter(|_| self.count > 0);
        Ok(match (self.kind, scalar(sum)) {
            (Kind::Average, ScalarValue::IntervalMonthDayNano(Some(sum))) => {
                ScalarValue::IntervalMonthDayNano(Some(saki_times::quotient(sum, self.count as f64)?))
            }
            (_, sum) => sum,
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::IntervalMonthDayNanoArray;

    use super::*;

    fn days(values: &[Option<i32>]) -> Vec<ArrayRef> {
        let of = |days: &Option<i32>| days.map(|days| IntervalMonthDayNano::new(0, days, 0));
        vec![Arc::new(IntervalMonthDayNanoArray::from_iter(values.iter().map(of)))]
    }

    fn shown(accumulator: &mut dyn Accumulator) -> Option<i32> {
        match accumulator.evaluate().unwrap() {
            ScalarValue::IntervalMonthDayNano(value) => value.map(|value| value.days),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_window_that_moves_on_forgets_what_is_behind_it() {
        let all = [Some(3), None, Some(1), Some(2), Some(2), None, None, Some(5)];
        for kind in [Kind::Least, Kind::Greatest] {
            for width in 1..5 {
                let mut sliding = Sliding::new(kind);
                for end in 0..all.len() {
                    sliding.update_batch(&days(&all[end..=end])).unwrap();
                    if end >= width {
                        sliding.retract_batch(&days(&all[end - width..=end - width])).unwrap();
                    }
                    let window = all[(end + 1).saturating_sub(width)..=end].iter().flatten().copied();
                    let expected = if kind == Kind::Least { window.min() } else { window.max() };
                    assert_eq!(shown(&mut sliding), expected, "{kind:?} of {width} up to {end}");
                }
            }
        }
    }

    #[test]
    fn sums_that_no_interval_holds_are_refused() {
        let mut total = Total { kind: Kind::Sum, sum: Interval::default(), count: 0 };
        total.update_batch(&days(&[Some(i32::MAX), None])).unwrap();
        let error = SqlError::from(total.update_batch(&days(&[Some(1)])).unwrap_err());
        assert_eq!(error.sqlstate(), "22008");
        total.retract_batch(&days(&[Some(i32::MAX)])).unwrap();
        assert_eq!(shown(&mut total), None);
    }
}
