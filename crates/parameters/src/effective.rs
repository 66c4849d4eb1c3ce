//! What the values of parameters come to, for whoever goes by them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::accept::zone;
use crate::path::SearchPath;
use crate::style::{DateStyle, IntervalStyle, TimeStyle};

/// What the values come to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Effective {
    /// Times; zero is no limit.
    pub statement_timeout: Duration,
    pub lock_timeout: Duration,
    pub idle_in_transaction_timeout: Duration,
    pub idle_session_timeout: Duration,
    pub search_path: Arc<SearchPath>,
    pub time: Arc<TimeStyle>,
    /// Bytes are written as `\001`, not in hexadecimal digits.
    pub bytea_escape: bool,
    pub extra_float_digits: i32,
    /// Values look as they do by default.
    pub is_plain: bool,
    /// Of transactions that say nothing else.
    pub read_only: bool,
    /// As SQL names it.
    pub isolation: String,
    /// What clients are told of that is no error.
    pub notices: bool,
    pub warnings: bool,
}

impl Effective {
    /// Of values by lower-case names.
    pub fn of(value: impl Fn(&'static str) -> String) -> Self {
        let millis = |name| Duration::from_millis(value(name).parse().unwrap_or_default());
        let date = DateStyle::read(&value("datestyle"), DateStyle::default()).unwrap_or_default();
        let time = TimeStyle {
            zone: zone(&value("timezone")).unwrap_or_default(),
            date,
            interval: IntervalStyle::read(&value("intervalstyle")).unwrap_or_default(),
        };
        let levels = ["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];
        let least = value("client_min_messages");
        let level = levels.iter().position(|level| *level == least).unwrap_or(6);
        let bytea_escape = value("bytea_output") == "escape";
        let extra_float_digits = value("extra_float_digits").parse().unwrap_or(1);
        let is_plain = time == TimeStyle::default() || time.is_plain() && time.interval == IntervalStyle::Postgres;
        Self {
            is_plain: is_plain && !bytea_escape && extra_float_digits > 0,
            statement_timeout: millis("statement_timeout"),
            lock_timeout: millis("lock_timeout"),
            idle_in_transaction_timeout: millis("idle_in_transaction_session_timeout"),
            idle_session_timeout: millis("idle_session_timeout"),
            search_path: Arc::new(SearchPath::read(&value("search_path")).unwrap_or_default()),
            time: Arc::new(time),
            bytea_escape,
            extra_float_digits,
            read_only: value("default_transaction_read_only") == "on",
            isolation: value("default_transaction_isolation"),
            notices: level <= 6,
            warnings: level <= 7,
        }
    }

    /// Writes a float with as many digits as its type always has, and [`Self::extra_float_digits`] more: fewer, if that
    /// is negative.
    pub fn write_float(&self, value: f64, digits: i32, out: &mut impl fmt::Write) -> fmt::Result {
        if !value.is_finite() {
            return out.write_str(match value {
                value if value.is_nan() => "NaN",
                value if value > 0.0 => "Infinity",
                _ => "-Infinity",
            });
        }
        let digits = (digits + self.extra_float_digits).max(1);
        let scientific = format!("{value:.*e}", (digits - 1) as usize);
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let trimmed = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        if (-4..digits).contains(&exponent) {
            return out.write_str(&trimmed(&format!("{value:.*}", (digits - 1 - exponent) as usize)));
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    }
}
