//! What values parameters take, and as what they are kept.

use saki_catalog::{Result, SqlError};

use crate::definition::{Context, Definition, Effect, Kind};
use crate::path::SearchPath;
use crate::style::{DateStyle, TimeStyle};
use crate::units;
use crate::zone::TimeZone;

/// Refuses to change a parameter that is not the session's.
///
/// # Errors
/// 55P02; 42501 if it takes a superuser. `is_startup`: the client has not been let in yet.
pub fn check_context(definition: &Definition, is_startup: bool, is_superuser: bool) -> Result<()> {
    let why = match definition.context {
        Context::Internal => "cannot be changed",
        Context::Postmaster => "cannot be changed without restarting the server",
        Context::Sighup => "cannot be changed now",
        Context::Backend | Context::SuperuserBackend if !is_startup => "cannot be set after connection start",
        Context::Superuser | Context::SuperuserBackend if !is_superuser => {
            let message = format!("permission denied to set parameter {:?}", definition.name);
            return Err(SqlError::invalid(message).code("42501"));
        }
        _ => return Ok(()),
    };
    Err(SqlError::invalid(format!("parameter {:?} {why}", definition.name)).code("55P02"))
}

/// A value as it is kept: numbers in their parameter's unit, names as the table has them. `now`: how times look before.
///
/// # Errors
/// 22023 for what it does not take.
pub fn accept(definition: &Definition, text: &str, now: &TimeStyle) -> Result<String> {
    let value = match definition.name {
        "DateStyle" => {
            DateStyle::read(text, now.date).map_err(|why| refused(definition, text).detail(why))?.to_string()
        }
        "TimeZone" => zone(text).ok_or_else(|| refused(definition, text))?.to_string(),
        "client_encoding" => {
            encoding(text).ok_or_else(|| refused(definition, text).hint("texts are sent and read in UTF8 only"))?
        }
        "search_path" => match SearchPath::read(text) {
            Some(_) => text.to_owned(),
            None => return Err(refused(definition, text).detail("List syntax is invalid.")),
        },
        "restrict_nonsystem_relation_kind" => match restricted(text) {
            Ok(_) => text.to_owned(),
            Err(why) => return Err(refused(definition, text).detail(why)),
        },
        _ => of_kind(definition, text)?,
    };
    if definition.effect == Effect::Fixed && !is_default(definition, &value) {
        let hint = match definition.name {
            "lc_messages" => "messages are in English: C, POSIX or a locale that begins with \"en\"".to_owned(),
            _ => format!("it can only be {:?}", definition.default),
        };
        return Err(refused(definition, text).hint(hint));
    }
    Ok(value)
}

fn is_default(definition: &Definition, value: &str) -> bool {
    let posix = definition.name.starts_with("lc_") && ["C", "POSIX", "C.UTF-8", ""].contains(&value);
    // As messages are.
    let english =
        definition.name == "lc_messages" && value.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("en"));
    posix || english || value == definition.default || definition.name == "default_tablespace" && value == "pg_default"
}

fn refused(definition: &Definition, text: &str) -> SqlError {
    SqlError::invalid(format!("invalid value for parameter {:?}: {text:?}", definition.name)).code("22023")
}

fn of_kind(definition: &Definition, text: &str) -> Result<String> {
    let name = definition.name;
    match definition.kind {
        Kind::Text => Ok(text.to_owned()),
        Kind::Bool => match truth(text) {
            Some(value) => Ok(if value { "on" } else { "off" }.to_owned()),
            None => Err(SqlError::invalid(format!("parameter {name:?} requires a Boolean value")).code("22023")),
        },
        Kind::Enum => choice(definition, text).map(str::to_owned).ok_or_else(|| {
            refused(definition, text).hint(format!("Available values: {}.", definition.choices.join(", ")))
        }),
        Kind::Integer | Kind::Real => number(definition, text),
    }
}

fn number(definition: &Definition, text: &str) -> Result<String> {
    let name = definition.name;
    let Some(value) = units::read(text, definition.unit) else {
        let error = refused(definition, text);
        // What begins as a number may only lack its unit.
        let begins = text.trim().trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
        return Err(match units::names(definition.unit).filter(|_| begins) {
            Some(hint) => error.hint(hint),
            None => error,
        });
    };
    let is_integer = definition.kind == Kind::Integer;
    let value = if is_integer { value.round() } else { value };
    let bound = |text: &str, open: f64| text.parse().unwrap_or(open);
    let (least, greatest) = (bound(definition.least, f64::NEG_INFINITY), bound(definition.greatest, f64::INFINITY));
    if !(least..=greatest).contains(&value) {
        let unit = if definition.unit.is_empty() { String::new() } else { format!(" {}", definition.unit) };
        let range = format!("({} .. {})", definition.least, definition.greatest);
        let message = format!("{value}{unit} is outside the valid range for parameter {name:?} {range}");
        return Err(SqlError::invalid(message).code("22023"));
    }
    Ok(value.to_string())
}

/// `on`, `off` and what else means so; beginnings that can mean only one count.
pub fn truth(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || text == "on" || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

fn choice(definition: &Definition, text: &str) -> Option<&'static str> {
    // A few say nothing by default.
    if text == definition.default {
        return Some(definition.default);
    }
    let text = match &*text.to_ascii_lowercase() {
        "debug" => "debug2".to_owned(),
        lower => lower.to_owned(),
    };
    let among = |text: &str| definition.choices.iter().find(|choice| choice.eq_ignore_ascii_case(text)).copied();
    among(&text).or_else(|| among(if truth(&text)? { "on" } else { "off" }))
}

/// A zone, also as `SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE` says it.
pub fn zone(text: &str) -> Option<TimeZone> {
    let trimmed = text.trim();
    let interval = trimmed.get(..8).filter(|word| word.eq_ignore_ascii_case("interval"));
    let Some(quoted) = interval.and_then(|_| trimmed.split('\'').nth(1)) else { return TimeZone::read(text) };
    let (sign, digits) = match quoted.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, quoted.strip_prefix('+').unwrap_or(quoted)),
    };
    let mut parts = digits.split(':').map(|part| part.parse::<i32>().ok().filter(|part| (0..168).contains(part)));
    let (hours, minutes) = (parts.next()??, parts.next().unwrap_or(Some(0))?);
    Some(TimeZone::fixed(sign * (hours * 3_600 + minutes * 60)))
}

/// Relations that queries are kept from, other than the system's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Restricted {
    pub views: bool,
    /// Files that have names.
    pub external_tables: bool,
}

/// The kinds of relations that `restrict_nonsystem_relation_kind` lists, or what is wrong with the list.
pub fn restricted(text: &str) -> Result<Restricted, String> {
    let Some(list) = SearchPath::read(text) else { return Err("List syntax is invalid.".to_owned()) };
    let mut restricted = Restricted::default();
    for kind in list.names() {
        match &**kind {
            "view" => restricted.views = true,
            "foreign-table" => restricted.external_tables = true,
            other => return Err(format!("Unrecognized key word: {other:?}.")),
        }
    }
    Ok(restricted)
}

fn encoding(text: &str) -> Option<String> {
    let letters: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    match &*letters.to_ascii_lowercase() {
        "utf8" | "unicode" => Some("UTF8".to_owned()),
        "sqlascii" => Some("SQL_ASCII".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{all, find};

    fn accepted(name: &str, text: &str) -> Result<String> {
        accept(find(name).unwrap(), text, &TimeStyle::default())
    }

    #[test]
    fn every_default_is_a_value() {
        for definition in all() {
            let text = definition.default;
            let kept = accept(definition, text, &TimeStyle::default());
            assert_eq!(
                kept.unwrap_or_else(|error| panic!("{}: {error}", definition.name)),
                text,
                "{}",
                definition.name
            );
        }
    }

    /// Of each kind of value, one that is not the default.
    #[test]
    fn what_is_fixed_takes_nothing_but_its_default() {
        for definition in all().iter().filter(|definition| definition.effect == Effect::Fixed) {
            let bounds = [definition.least, definition.greatest];
            let is_other = |value: &&str| !value.is_empty() && *value != definition.default;
            let other = match definition.kind {
                Kind::Bool => ["on", "off"].into_iter().find(is_other),
                Kind::Enum => definition.choices.iter().copied().find(is_other),
                Kind::Text => Some("something_else"),
                Kind::Integer | Kind::Real => bounds.into_iter().find(is_other),
            };
            // Some have one value, and none that could be refused.
            let Some(other) = other else { continue };
            let error = accepted(definition.name, other).expect_err(definition.name);
            assert_eq!(error.sqlstate(), "22023", "{} = {other}", definition.name);
        }
    }

    #[test]
    fn values_are_kept_as_the_table_has_them() {
        let cases = [
            ("statement_timeout", "1.5h", "5400000"),
            ("work_mem", "1GB", "1048576"),
            ("enable_seqscan", "of", "off"),
            ("synchronous_commit", "true", "on"),
            ("client_encoding", "utf-8", "UTF8"),
            ("client_encoding", "unicode", "UTF8"),
            ("IntervalStyle", "ISO_8601", "iso_8601"),
            ("TimeZone", "europe/berlin", "Europe/Berlin"),
            ("TimeZone", "INTERVAL '-08:00' HOUR TO MINUTE", "<-08>+08"),
            ("seq_page_cost", "1.5", "1.5"),
            ("lc_monetary", "POSIX", "POSIX"),
            ("client_min_messages", "DEBUG", "debug2"),
            ("lc_messages", "en_US.UTF-8", "en_US.UTF-8"),
            ("restrict_nonsystem_relation_kind", "view, foreign-table", "view, foreign-table"),
        ];
        for (name, text, kept) in cases {
            assert_eq!(accepted(name, text).unwrap(), kept, "{name} {text}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused_as_postgresql_refuses_it() {
        let cases = [
            ("work_mem", "foo", "invalid value for parameter \"work_mem\": \"foo\""),
            ("work_mem", "1", "1 kB is outside the valid range for parameter \"work_mem\" (64 .. 2147483647)"),
            (
                "statement_timeout",
                "-1",
                "-1 ms is outside the valid range for parameter \"statement_timeout\" (0 .. 2147483647)",
            ),
            ("enable_seqscan", "x", "parameter \"enable_seqscan\" requires a Boolean value"),
            ("bytea_output", "foo", "invalid value for parameter \"bytea_output\": \"foo\""),
            ("TimeZone", "Nowhere/x", "invalid value for parameter \"TimeZone\": \"Nowhere/x\""),
            ("search_path", "a,,b", "invalid value for parameter \"search_path\": \"a,,b\""),
            ("client_encoding", "LATIN1", "invalid value for parameter \"client_encoding\": \"LATIN1\""),
            ("lc_messages", "de_DE.UTF-8", "invalid value for parameter \"lc_messages\": \"de_DE.UTF-8\""),
            (
                "restrict_nonsystem_relation_kind",
                "view, table",
                "invalid value for parameter \"restrict_nonsystem_relation_kind\": \"view, table\"",
            ),
            (
                "standard_conforming_strings",
                "off",
                "invalid value for parameter \"standard_conforming_strings\": \"off\"",
            ),
        ];
        for (name, text, message) in cases {
            let error = accepted(name, text).unwrap_err();
            assert_eq!((error.sqlstate(), &*error.message), ("22023", message));
        }
    }
}
