//! The parameters of a connection: those of PostgreSQL's that drivers set and read.
//!
//! What they say is kept and told; of those that would change what is sent, only the values that it already has are
//! accepted. A time zone is the exception: times with a zone are sent in UTC with their offset, which means the same
//! instant everywhere.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::failure::{Failure, Result};

/// What values a parameter takes.
#[derive(Clone, Copy)]
enum Takes {
    Any,
    /// Nothing can change it.
    Fixed,
    /// One of these, whatever the case; the first stands for all.
    OneOf(&'static [&'static str]),
    /// Either of two, whatever the case.
    Choice(&'static [&'static str]),
    Switch,
    Integer,
    /// A time; milliseconds if there is no unit.
    Duration,
}

struct Definition {
    name: &'static str,
    default: &'static str,
    takes: Takes,
    /// Clients are told of it when they connect and when it changes.
    reported: bool,
}

const fn parameter(name: &'static str, default: &'static str, takes: Takes) -> Definition {
    Definition { name, default, takes, reported: false }
}

const fn reported(name: &'static str, default: &'static str, takes: Takes) -> Definition {
    Definition { name, default, takes, reported: true }
}

/// A version that drivers can read, and who it is.
const SERVER_VERSION: &str = concat!("15.0 (Sakigake ", env!("CARGO_PKG_VERSION"), ")");

const ISOLATION: Takes = Takes::Choice(&["serializable", "repeatable read", "read committed", "read uncommitted"]);

const DEFINITIONS: [Definition; 30] = [
    reported("application_name", "", Takes::Any),
    parameter("bytea_output", "hex", Takes::OneOf(&["hex"])),
    parameter("client_connection_check_interval", "0", Takes::Duration),
    reported("client_encoding", "UTF8", Takes::OneOf(&["UTF8", "UTF-8", "UNICODE", "SQL_ASCII"])),
    parameter("client_min_messages", "notice", Takes::Any),
    reported("DateStyle", "ISO, MDY", Takes::OneOf(&["ISO, MDY", "ISO", "ISO,MDY", "ISO, DMY", "ISO, YMD"])),
    reported("default_transaction_read_only", "off", Takes::Switch),
    parameter("default_transaction_isolation", "read committed", ISOLATION),
    parameter("extra_float_digits", "1", Takes::Integer),
    parameter("idle_in_transaction_session_timeout", "0", Takes::Duration),
    parameter("idle_session_timeout", "0", Takes::Duration),
    reported("in_hot_standby", "off", Takes::Fixed),
    reported("integer_datetimes", "on", Takes::Fixed),
    reported("IntervalStyle", "postgres", Takes::OneOf(&["postgres"])),
    reported("is_superuser", "on", Takes::Fixed),
    parameter("jit", "off", Takes::Switch),
    parameter("lock_timeout", "0", Takes::Duration),
    parameter("max_identifier_length", "63", Takes::Fixed),
    parameter("row_security", "off", Takes::Switch),
    parameter("search_path", "\"$user\", public", Takes::Any),
    reported("server_encoding", "UTF8", Takes::Fixed),
    reported("server_version", SERVER_VERSION, Takes::Fixed),
    parameter("server_version_num", "150000", Takes::Fixed),
    reported("session_authorization", "", Takes::Fixed),
    reported("standard_conforming_strings", "on", Takes::OneOf(&["on", "true", "1", "yes"])),
    parameter("statement_timeout", "0", Takes::Duration),
    parameter("synchronous_commit", "on", Takes::Any),
    reported("TimeZone", "UTC", Takes::Any),
    parameter("transaction_isolation", "read committed", ISOLATION),
    parameter("xmloption", "content", Takes::Any),
];

fn definition(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.name.eq_ignore_ascii_case(name))
}

/// The values of one connection.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// Where they differ from the default.
    changed: BTreeMap<&'static str, String>,
    /// What a connection began with, and goes back to.
    initial: BTreeMap<&'static str, String>,
    /// What SET LOCAL has covered, to be had again when the transaction ends.
    covered: Vec<(&'static str, Option<String>)>,
    /// Kept here, since every statement asks.
    pub statement_timeout: Duration,
    /// As that.
    pub lock_timeout: Duration,
}

impl Parameters {
    /// With values that the connection begins with.
    ///
    /// # Errors
    /// As [`Self::set`], for the first that is refused.
    pub fn begin<'a>(initial: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut parameters = Self::default();
        for (name, value) in initial {
            parameters.set(name, Some(value), false)?;
        }
        parameters.initial = parameters.changed.clone();
        Ok(parameters)
    }

    /// States what only the server sets.
    pub fn state(&mut self, name: &'static str, value: &str) {
        self.changed.insert(name, value.to_owned());
        self.initial.insert(name, value.to_owned());
    }

    pub fn is_known(name: &str) -> bool {
        definition(name).is_some()
    }

    /// Sets one; `None` is what it was at the beginning. Its name as it is told, if clients are told.
    ///
    /// # Errors
    /// 42704 for a name that is not known, 55P02 for one that cannot be changed, 22023 for a value it does not take.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Option<&'static str>> {
        let definition = definition(name).ok_or_else(|| unknown(name))?;
        let next = match value {
            Some(value) => Some(accepted(definition, value)?),
            None => self.initial.get(definition.name).cloned(),
        };
        let before = match next {
            Some(next) => self.changed.insert(definition.name, next),
            None => self.changed.remove(definition.name),
        };
        if local {
            self.covered.push((definition.name, before));
        }
        self.derive();
        Ok(definition.reported.then_some(definition.name))
    }

    /// Goes back to what there was at the beginning.
    pub fn reset_all(&mut self) {
        self.changed = self.initial.clone();
        self.covered.clear();
        self.derive();
    }

    /// Ends what SET LOCAL had set.
    pub fn end_transaction(&mut self) {
        if self.covered.is_empty() {
            return;
        }
        for (name, value) in std::mem::take(&mut self.covered).into_iter().rev() {
            match value {
                Some(value) => self.changed.insert(name, value),
                None => self.changed.remove(name),
            };
        }
        self.derive();
    }

    fn derive(&mut self) {
        self.statement_timeout = self.duration("statement_timeout");
        self.lock_timeout = self.duration("lock_timeout");
    }

    /// # Errors
    /// 42704 for a name that is not known.
    pub fn show(&self, name: &str) -> Result<&str> {
        let definition = definition(name).ok_or_else(|| unknown(name))?;
        Ok(self.changed.get(definition.name).map_or(definition.default, String::as_str))
    }

    /// A time; zero is no limit.
    pub fn duration(&self, name: &str) -> Duration {
        self.show(name).ok().and_then(duration).unwrap_or_default()
    }

    /// Names and values that clients are told.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let told = DEFINITIONS.iter().filter(|definition| definition.reported);
        told.map(|definition| (definition.name, self.show(definition.name).unwrap_or_default()))
    }

    /// Names and values of those that differ from the default.
    pub fn stated(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.changed.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// All names and values.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        DEFINITIONS.iter().map(|definition| (definition.name, self.show(definition.name).unwrap_or_default()))
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new("42704", format!("unrecognized configuration parameter {name:?}"))
}

fn accepted(definition: &Definition, value: &str) -> Result<String> {
    let refused = || {
        let (name, default) = (definition.name, definition.default);
        let refused = Failure::new("22023", format!("invalid value for parameter {name:?}: {value:?}"));
        match definition.takes {
            Takes::OneOf(_) => refused.hint(format!("it can only be {default:?}")),
            Takes::Choice(choices) => refused.hint(format!("it is one of: {}", choices.join(", "))),
            _ => refused,
        }
    };
    let among = |choices: &[&'static str]| choices.iter().find(|choice| choice.eq_ignore_ascii_case(value)).copied();
    Ok(match definition.takes {
        Takes::Any => value.to_owned(),
        Takes::Fixed if value == definition.default => value.to_owned(),
        Takes::Fixed => {
            return Err(Failure::new("55P02", format!("parameter {:?} cannot be changed", definition.name)));
        }
        Takes::OneOf(choices) => among(choices).map(|_| definition.default.to_owned()).ok_or_else(refused)?,
        Takes::Choice(choices) => among(choices).map(str::to_owned).ok_or_else(refused)?,
        Takes::Switch => match &*value.to_ascii_lowercase() {
            "on" | "true" | "yes" | "1" => "on".to_owned(),
            "off" | "false" | "no" | "0" => "off".to_owned(),
            _ => return Err(refused()),
        },
        Takes::Integer => value.parse::<i32>().map_err(|_| refused())?.to_string(),
        Takes::Duration => shown(duration(value).ok_or_else(refused)?),
    })
}

/// A time in the largest unit that divides it.
fn shown(time: Duration) -> String {
    let millis = time.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let whole = units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    whole.map_or_else(|| "0".to_owned(), |(unit, name)| format!("{}{name}", millis / unit))
}

/// A time such as `250`, `250ms`, `30s`, `5 min`.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let millis = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_and_shown() {
        let mut parameters = Parameters::begin([("application_name", "test")].into_iter()).unwrap();
        assert_eq!(parameters.set("STATEMENT_TIMEOUT", Some("5s"), false).unwrap(), None);
        assert_eq!(parameters.statement_timeout, Duration::from_secs(5));
        assert_eq!(parameters.set("statement_timeout", Some("1min"), true).unwrap(), None);
        assert_eq!(parameters.show("statement_timeout").unwrap(), "1min");
        parameters.end_transaction();
        assert_eq!(parameters.statement_timeout, Duration::from_secs(5));
        parameters.set("statement_timeout", Some("5000"), false).unwrap();
        assert_eq!(parameters.show("statement_timeout").unwrap(), "5s");
        assert_eq!(parameters.set("datestyle", Some("iso"), false).unwrap(), Some("DateStyle"));
        assert_eq!(parameters.set("nonsense", Some("1"), false).unwrap_err().code, "42704");
        assert_eq!(parameters.set("client_encoding", Some("LATIN1"), false).unwrap_err().code, "22023");
        assert_eq!(parameters.set("server_version", Some("9"), false).unwrap_err().code, "55P02");
        parameters.reset_all();
        assert_eq!(parameters.show("application_name").unwrap(), "test");
        assert_eq!(parameters.statement_timeout, Duration::ZERO);
    }

    #[test]
    fn every_default_is_a_value() {
        for definition in &DEFINITIONS {
            assert_eq!(accepted(definition, definition.default).unwrap(), definition.default, "{}", definition.name);
        }
    }
}
