//! Estimates and measurements as EXPLAIN shows them.

use std::fmt;

use super::Estimate;

/// A duration in seconds, with the unit that suits it.
pub fn seconds(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{v:.2}s"),
        v if v >= 1e-3 => format!("{:.1}ms", v * 1e3),
        v => format!("{:.0}us", v * 1e6),
    }
}

/// A number of rows, rounded up.
pub fn count(rows: f64) -> String {
    if rows >= 1e15 { format!("{rows:.1e}") } else { format!("{:.0}", rows.ceil()) }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "est_rows={}, est_seconds={}", count(self.rows), seconds(self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_the_unit_that_suits_it() {
        for (value, text) in
            [(0.0, "0us"), (12.4e-6, "12us"), (1e-3, "1.0ms"), (0.25, "250.0ms"), (1.0, "1.00s"), (90.126, "90.13s")]
        {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn rows_are_rounded_up_so_that_some_are_never_none() {
        for (rows, text) in [(0.0, "0"), (0.01, "1"), (41.2, "42"), (1e12, "1000000000000"), (2.5e15, "2.5e15")] {
            assert_eq!(count(rows), text);
        }
        let estimate = Estimate { rows: 0.3, seconds: 2e-4 };
        assert_eq!(estimate.to_string(), "est_rows=1, est_seconds=200us");
    }
}
