//! What the values of parameters come to, for whoever goes by them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::accept::{Restricted, restricted, zone};
use crate::path::SearchPath;
use crate::style::{DateStyle, IntervalStyle, TimeStyle};

/// How grave a message is, of those that go to the server's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Log,
    Fatal,
    #[default]
    Panic,
}

impl LogLevel {
    fn named(name: &str) -> Self {
        match name {
            "info" => Self::Info,
            "notice" => Self::Notice,
            "warning" => Self::Warning,
            "error" => Self::Error,
            "log" => Self::Log,
            "fatal" => Self::Fatal,
            "panic" => Self::Panic,
            _ => Self::Debug,
        }
    }
}

/// Which statements go to the server's log before they run: each has those of the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LoggedStatements {
    #[default]
    None,
    Definitions,
    Changes,
    All,
}

/// What goes to the server's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Logging {
    pub statements: LoggedStatements,
    /// Statements that have taken so long; `None`: none.
    pub slow: Option<Duration>,
    /// How long each has taken.
    pub durations: bool,
    /// Messages that are as grave as this.
    pub messages: LogLevel,
    /// With such messages, the statement.
    pub statements_of: LogLevel,
    pub connections: bool,
    pub disconnections: bool,
}

impl Logging {
    fn of(value: impl Fn(&'static str) -> String) -> Self {
        let statements = match &*value("log_statement") {
            "ddl" => LoggedStatements::Definitions,
            "mod" => LoggedStatements::Changes,
            "all" => LoggedStatements::All,
            _ => LoggedStatements::None,
        };
        let is_on = |name| value(name) == "on";
        Self {
            statements,
            // -1 is never.
            slow: value("log_min_duration_statement").parse().ok().map(Duration::from_millis),
            durations: is_on("log_duration"),
            messages: LogLevel::named(&value("log_min_messages")),
            statements_of: LogLevel::named(&value("log_min_error_statement")),
            connections: is_on("log_connections"),
            disconnections: is_on("log_disconnections"),
        }
    }
}

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
    pub logging: Logging,
    /// Others see what the session does.
    pub track_activities: bool,
    pub restricted: Restricted,
}

impl Effective {
    /// How long statements wait for what others have: `lock_timeout`; `None`: as long as it takes.
    pub fn lock_patience(&self) -> Option<Duration> {
        (!self.lock_timeout.is_zero()).then_some(self.lock_timeout)
    }

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
            track_activities: value("track_activities") == "on",
            restricted: restricted(&value("restrict_nonsystem_relation_kind")).unwrap_or_default(),
            logging: Logging::of(value),
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
