//! The table of parameters.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A parameter: a line of `parameters.tsv`.
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    /// What a number counts, such as `ms` or `8kB`; empty: nothing.
    pub unit: &'static str,
    pub context: Context,
    pub effect: Effect,
    /// Clients are told of it when they connect, and when it changes.
    pub reported: bool,
    /// No list shows it.
    pub hidden: bool,
    /// Numbers in their unit.
    pub default: &'static str,
    /// Bounds of numbers; empty where there are none.
    pub least: &'static str,
    pub greatest: &'static str,
    /// Of an enum; the first that is equal whatever the case counts.
    pub choices: Vec<&'static str>,
    pub category: &'static str,
    pub help: &'static str,
}

/// What values look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Bool,
    Integer,
    Real,
    Text,
    Enum,
}

/// Who may change a parameter, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// Nobody.
    Internal,
    /// Whoever starts the server.
    Postmaster,
    /// Whoever configures it.
    Sighup,
    /// A client when it connects.
    Backend,
    SuperuserBackend,
    Superuser,
    User,
}

/// What a parameter does here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// What it says.
    Done,
    /// It says how something is to be done, never what; here it is kept and shown.
    Advice,
    /// It takes its default only.
    Fixed,
}

impl Kind {
    /// As `pg_settings.vartype` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Text => "string",
            Self::Enum => "enum",
        }
    }
}

impl Context {
    /// As `pg_settings.context` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Postmaster => "postmaster",
            Self::Sighup => "sighup",
            Self::Backend => "backend",
            Self::SuperuserBackend => "superuser-backend",
            Self::Superuser => "superuser",
            Self::User => "user",
        }
    }
}

static TABLE: LazyLock<(Vec<Definition>, HashMap<String, usize>)> = LazyLock::new(|| {
    let lines = include_str!("parameters.tsv").lines().filter(|line| !line.starts_with('#'));
    let table: Vec<Definition> = lines.map(read).collect();
    let names = table.iter().enumerate().map(|(place, definition)| (definition.name.to_lowercase(), place)).collect();
    (table, names)
});

fn read(line: &'static str) -> Definition {
    let mut fields = line.split('\t');
    let mut next = || fields.next().unwrap_or_else(|| panic!("parameters.tsv: a field is missing in {line:?}"));
    let name = next();
    let kinds = [Kind::Bool, Kind::Integer, Kind::Real, Kind::Text, Kind::Enum];
    let spelled = next();
    let kind = kinds.into_iter().find(|kind| kind.name() == spelled);
    let unit = next();
    let contexts = [
        Context::Internal,
        Context::Postmaster,
        Context::Sighup,
        Context::Backend,
        Context::SuperuserBackend,
        Context::Superuser,
        Context::User,
    ];
    let spelled = next();
    let context = contexts.into_iter().find(|context| context.name() == spelled);
    let effect = match next() {
        "done" => Effect::Done,
        "advice" => Effect::Advice,
        "fixed" => Effect::Fixed,
        other => panic!("parameters.tsv: no effect is called {other:?}"),
    };
    let marks = next();
    let (default, least, greatest, choices, category, help) = (next(), next(), next(), next(), next(), next());
    Definition {
        name,
        kind: kind.unwrap_or_else(|| panic!("parameters.tsv: the type of {name}")),
        unit,
        context: context.unwrap_or_else(|| panic!("parameters.tsv: the context of {name}")),
        effect,
        reported: marks.split(',').any(|mark| mark == "reported"),
        hidden: marks.split(',').any(|mark| mark == "hidden"),
        default,
        least,
        greatest,
        choices: choices.split(',').filter(|choice| !choice.is_empty()).collect(),
        category,
        help,
    }
}

/// All parameters, by name.
pub fn all() -> &'static [Definition] {
    &TABLE.0
}

/// A parameter by its name, whatever the case.
pub fn find(name: &str) -> Option<&'static Definition> {
    let (table, names) = &*TABLE;
    let place = match names.get(name) {
        None => names.get(&name.to_lowercase())?,
        found => found?,
    };
    table.get(*place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_by_name_and_once() {
        let names: Vec<String> = all().iter().map(|definition| definition.name.to_lowercase()).collect();
        assert!(names.is_sorted_by(|before, after| before < after));
        assert_eq!(find("TIMEZONE").map(|definition| definition.name), Some("TimeZone"));
        assert!(find("time zone").is_none());
    }

    #[test]
    fn what_nobody_sets_is_fixed_and_what_is_settable_says_what_it_does() {
        use Context::{Internal, Postmaster, Sighup};
        for definition in all() {
            if [Internal, Postmaster, Sighup].contains(&definition.context) {
                assert_eq!(definition.effect, Effect::Fixed, "{}", definition.name);
            }
            assert!(definition.help.ends_with('.') && !definition.category.is_empty(), "{}", definition.name);
            assert!(definition.unit.is_empty() || definition.kind != Kind::Text, "{}", definition.name);
        }
    }

    /// What says how and not what: what of these categories can change no answer, guard nothing and leave no record.
    #[test]
    fn advice_is_of_kinds_that_change_no_answer() {
        let harmless = ["Query Tuning", "Resource Usage", "Write-Ahead Log", "Replication"];
        // Of other categories, each with its reason.
        let others = [
            // There is nothing that they would be about.
            "check_function_bodies",
            "debug_pretty_print",
            "default_text_search_config",
            "default_toast_compression",
            "gin_fuzzy_search_limit",
            "gin_pending_list_limit",
            "lo_compat_privileges",
            "row_security",
            "synchronize_seqscans",
            // Its warnings are about what standard_conforming_strings = off allows.
            "escape_string_warning",
            // Done at once, whatever they say: looking whether a client has gone, and whether a lock closes a circle.
            "client_connection_check_interval",
            "deadlock_timeout",
            // Nothing waits for a snapshot that is safe: each is.
            "default_transaction_deferrable",
            "transaction_deferrable",
            // Costs: what they would save is not spent, or is spent anyway.
            "debug_discard_caches",
            "force_parallel_mode",
            "stats_fetch_consistency",
            "track_counts",
            "update_process_title",
        ];
        for definition in all().iter().filter(|definition| definition.effect == Effect::Advice) {
            let name = definition.name;
            let known = harmless.iter().any(|category| definition.category.starts_with(category));
            let excused = others.contains(&name) || name.starts_with("vacuum_") || name.starts_with("jit_");
            assert!(known || excused, "{name}: {}", definition.category);
        }
        for name in others {
            assert_eq!(find(name).map(|definition| definition.effect), Some(Effect::Advice), "{name}");
        }
    }
}
