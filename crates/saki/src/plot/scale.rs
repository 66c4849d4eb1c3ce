//! From values to positions, and which values to mark.

/// An axis: what it shows, and how values are spread along it.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) label: String,
    logarithmic: bool,
    from_zero: bool,
    whole: bool,
    range: Option<(f64, f64)>,
}

impl Axis {
    /// Equal distances for equal differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: false, from_zero: false, whole: false, range: None }
    }

    /// Equal distances for equal ratios; values that are not positive are left out.
    pub fn log(label: impl Into<String>) -> Self {
        Self { logarithmic: true, ..Self::linear(label) }
    }

    /// Starts a linear axis at zero, whatever the values.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    /// Marks every whole number of a linear axis, with half of one as room at the ends: for numbers that are names.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Shows this range instead of that of the values.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    /// Whether the axis has a place for `value`.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.logarithmic || value > 0.0)
    }

    /// The scale for `values`, with a little room around them.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| self.shows(*value)) {
            low = low.min(value);
            high = high.max(value);
        }
        if self.from_zero && !self.logarithmic {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if self.whole && low <= high {
            return Scale { logarithmic: false, whole: true, start: low - 0.5, end: high + 0.5 };
        }
        if let Some(range) = self.range.filter(|(from, to)| self.shows(*from) && self.shows(*to) && from < to) {
            let (start, end) = (self.spread(range.0), self.spread(range.1));
            return Scale { logarithmic: self.logarithmic, whole: false, start, end };
        }
        if low > high {
            (low, high) = if self.logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        let (mut start, mut end) = (self.spread(low), self.spread(high));
        if end - start < 1e-9 {
            let half = if self.logarithmic { 0.5 } else { start.abs().max(1.0) * 0.5 };
            (start, end) = (start - half, end + half);
        }
        let room = (end - start) * 0.04;
        start -= if self.from_zero && start == 0.0 { 0.0 } else { room };
        Scale { logarithmic: self.logarithmic, whole: false, start, end: end + room }
    }

    fn spread(&self, value: f64) -> f64 {
        if self.logarithmic { value.log10() } else { value }
    }
}

/// A mark on an axis. Minor ones have a line and no label.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    pub value: f64,
    pub label: Option<String>,
}

/// A range of values spread over 0 to 1.
pub struct Scale {
    logarithmic: bool,
    whole: bool,
    /// Ends, as logarithms on a logarithmic scale.
    start: f64,
    end: f64,
}

impl Scale {
    /// Where `value` lies, 0 at the start and 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        let spread = if self.logarithmic { value.log10() } else { value };
        (spread - self.start) / (self.end - self.start)
    }

    /// Marks within the range, about `wanted` of them labelled.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let wanted = wanted.max(2) as f64;
        if self.logarithmic && self.end - self.start > 1.2 {
            return self.decades(wanted);
        }
        let (low, high) =
            if self.logarithmic { (10f64.powf(self.start), 10f64.powf(self.end)) } else { (self.start, self.end) };
        let step = if self.whole { 1.0 } else { nice_step((high - low) / wanted) };
        let first = (low / step).ceil() as i64;
        let last = (high / step).floor() as i64;
        (first..=last)
            .map(|multiple| {
                let value = multiple as f64 * step;
                Tick { value, label: Some(number(value, step)) }
            })
            .filter(|tick| !self.logarithmic || tick.value > 0.0)
            .collect()
    }

    /// Powers of ten, labelled at most `wanted` times, and their multiples between.
    fn decades(&self, wanted: f64) -> Vec<Tick> {
        let decades = self.end - self.start;
        let every = (decades / wanted).ceil().max(1.0) as i32;
        // Few decades leave room for labels at 2 and 5.
        let halves = decades < wanted / 3.0;
        let mut ticks = Vec::new();
        for power in self.start.floor() as i32..=self.end.ceil() as i32 {
            for digit in 1..10 {
                let value = f64::from(digit) * 10f64.powi(power);
                if !(-1e-9..=1.0 + 1e-9).contains(&self.place(value)) {
                    continue;
                }
                let labelled = (digit == 1 && power % every == 0) || (halves && (digit == 2 || digit == 5));
                if labelled || (every == 1 && decades < 8.0) {
                    ticks.push(Tick { value, label: labelled.then(|| number(value, value)) });
                }
            }
        }
        ticks
    }
}

/// The nearest step of 1, 2 or 5 times a power of ten, in proportion.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digits = match step / power {
        digits if digits < 1.5 => 1.0,
        digits if digits < 3.2 => 2.0,
        digits if digits < 7.1 => 5.0,
        _ => 10.0,
    };
    power * digits
}

/// A tick's value in few characters: `0.001`, `25`, `10 k`, `2.5 M`; as exact as `step` asks.
fn number(value: f64, step: f64) -> String {
    let (divisor, suffix) = match value.abs() {
        v if v >= 1e9 => (1e9, " G"),
        v if v >= 1e6 => (1e6, " M"),
        v if v >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / divisor).log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    let text = format!("{:.decimals$}", value / divisor);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{}{suffix}", text.replace('-', "\u{2212}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, low: f64, high: f64) -> Vec<String> {
        axis.scale([low, high].into_iter()).ticks(6).into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn labels_are_round_numbers() {
        assert_eq!(labels(&Axis::linear(""), 0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(
            labels(&Axis::linear(""), -0.3, 0.3),
            ["\u{2212}0.3", "\u{2212}0.2", "\u{2212}0.1", "0", "0.1", "0.2", "0.3"]
        );
        assert_eq!(labels(&Axis::log(""), 0.001, 10.0), ["0.001", "0.01", "0.1", "1", "10"]);
        assert_eq!(labels(&Axis::log(""), 1e3, 1e6), ["1000", "10 k", "100 k", "1 M"]);
    }

    #[test]
    fn values_outside_a_logarithm_are_left_out() {
        assert!(!Axis::log("").shows(0.0) && !Axis::log("").shows(-1.0) && !Axis::linear("").shows(f64::NAN));
        let scale = Axis::log("").scale([0.0, 10.0, 1000.0].into_iter());
        assert!(scale.place(10.0) > 0.0 && scale.place(1000.0) < 1.0);
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
    }
}
