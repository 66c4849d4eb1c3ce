//! Session settings: `SET saki.<name> = <value>`, `SHOW saki.<name>`, `RESET saki.<name>`.

use saki_exec::plan::{Execution, RunOptions};

use crate::error::{Result, SqlError};
use crate::native::NativeOptions;

/// When an index join replaces a hash join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexJoin {
    /// When the cost in seconds says so.
    Auto,
    /// Wherever it is possible.
    Always,
    Never,
}

/// How tables are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessPath {
    /// The cheapest.
    Auto,
    /// Always the whole table, by rows or by columns.
    Scan,
    /// A key range or index wherever a condition bounds one.
    Index,
    /// Column segments wherever a table has them.
    Columns,
    /// The cheapest way to row pages.
    Rows,
}

/// Whether inner joins are put into another order than written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinOrder {
    Auto,
    AsWritten,
}

/// Whose operators run where both have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operators {
    /// Ours.
    Native,
    DataFusion,
    /// DataFusion's, and of these the ones that spill.
    Spilling,
}

/// The choices of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub execution: Execution,
    pub max_in_flight: u32,
    pub index_join: IndexJoin,
    pub access_path: AccessPath,
    pub join_order: JoinOrder,
    /// Bytes that a pipeline's rows and results in flight may take.
    pub memory_bytes: usize,
    pub partitions: usize,
    pub batch_rows: usize,
    /// Dynamic filters of hash joins reach the scans.
    pub dynamic_filters: bool,
    /// A scan whose join turns out to have few keys looks them up instead.
    pub adaptive_lookups: bool,
    pub operators: Operators,
    /// Bytes that the operators of the session's queries may hold; `None`: as many as there are.
    pub query_memory: Option<usize>,
    /// Filters and projections are native, if operators are.
    pub native_filter: bool,
    /// Aggregates are native, if operators are.
    pub native_aggregate: bool,
    /// Hash joins are native, if operators are.
    pub native_join: bool,
    /// Statements that come again run by plans that were kept.
    pub plan_cache: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let run = RunOptions::default();
        Self {
            execution: run.execution,
            max_in_flight: run.max_in_flight,
            index_join: IndexJoin::Auto,
            access_path: AccessPath::Auto,
            join_order: JoinOrder::Auto,
            memory_bytes: run.memory_bytes,
            partitions: run.partitions,
            batch_rows: run.batch_rows,
            dynamic_filters: true,
            adaptive_lookups: true,
            operators: Operators::Native,
            query_memory: Some(QUERY_MEMORY_DEFAULT),
            native_filter: true,
            native_aggregate: true,
            native_join: true,
            plan_cache: true,
        }
    }
}

/// What the operators of a session's queries may hold, in bytes.
const QUERY_MEMORY_DEFAULT: usize = 4 << 30;

/// Name and what it takes.
const SETTINGS: [(&str, &str); 16] = [
    ("execution", "out_of_order or in_order"),
    ("max_in_flight", "a number of page requests from 1, or unlimited"),
    ("index_join", "auto, always or never"),
    ("access_path", "auto, scan, index, columns or rows"),
    ("join_order", "auto or as_written"),
    ("memory", "a size such as 64MB, from 1MB"),
    ("partitions", "a number from 1 to 1024"),
    ("batch_rows", "a number from 1 to 1000000"),
    ("dynamic_filters", "on or off"),
    ("adaptive_lookups", "on or off"),
    ("operators", "native, datafusion or spilling"),
    ("query_memory", "a size such as 512MB, from 1MB, or unlimited"),
    ("native_filter", "on or off"),
    ("native_aggregate", "on or off"),
    ("native_join", "on or off"),
    ("plan_cache", "on or off"),
];

impl Settings {
    /// Names of all settings, without the prefix.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|(name, _)| *name)
    }

    /// Sets one; `value` as text, or `None` for its default.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let default = Self::default();
        let text = match value {
            Some(text) => text.to_ascii_lowercase(),
            None => default.show(name)?,
        };
        let refused = || {
            let allowed = SETTINGS.iter().find(|(n, _)| *n == name).map_or("", |(_, allowed)| allowed);
            SqlError::invalid(format!("saki.{name} cannot be {text:?}")).hint(format!("it takes {allowed}"))
        };
        match name {
            "execution" => {
                self.execution = match text.as_str() {
                    "out_of_order" => Execution::OutOfOrder,
                    "in_order" => Execution::InOrder,
                    _ => return Err(refused()),
                }
            }
            "max_in_flight" => {
                self.max_in_flight = match text.as_str() {
                    "unlimited" => u32::MAX,
                    number => number.parse().ok().filter(|n| *n > 0).ok_or_else(refused)?,
                }
            }
            "index_join" => {
                self.index_join = match text.as_str() {
                    "auto" => IndexJoin::Auto,
                    "always" => IndexJoin::Always,
                    "never" => IndexJoin::Never,
                    _ => return Err(refused()),
                }
            }
            "access_path" => {
                self.access_path = match text.as_str() {
                    "auto" => AccessPath::Auto,
                    "scan" => AccessPath::Scan,
                    "index" => AccessPath::Index,
                    "columns" => AccessPath::Columns,
                    "rows" => AccessPath::Rows,
                    _ => return Err(refused()),
                }
            }
            "join_order" => {
                self.join_order = match text.as_str() {
                    "auto" => JoinOrder::Auto,
                    "as_written" => JoinOrder::AsWritten,
                    _ => return Err(refused()),
                }
            }
            "memory" => self.memory_bytes = parse_size(&text).filter(|b| *b >= 1 << 20).ok_or_else(refused)?,
            "partitions" => {
                self.partitions = text.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or_else(refused)?;
            }
            "batch_rows" => {
                self.batch_rows = text.parse().ok().filter(|n| (1..=1_000_000).contains(n)).ok_or_else(refused)?;
            }
            "dynamic_filters" => self.dynamic_filters = parse_switch(&text).ok_or_else(refused)?,
            "adaptive_lookups" => self.adaptive_lookups = parse_switch(&text).ok_or_else(refused)?,
            "operators" => {
                self.operators = match text.as_str() {
                    "native" => Operators::Native,
                    "datafusion" => Operators::DataFusion,
                    "spilling" => Operators::Spilling,
                    _ => return Err(refused()),
                }
            }
            "query_memory" => {
                self.query_memory = match text.as_str() {
                    "unlimited" => None,
                    size => Some(parse_size(size).filter(|bytes| *bytes >= 1 << 20).ok_or_else(refused)?),
                }
            }
            "native_filter" => self.native_filter = parse_switch(&text).ok_or_else(refused)?,
            "native_aggregate" => self.native_aggregate = parse_switch(&text).ok_or_else(refused)?,
            "native_join" => self.native_join = parse_switch(&text).ok_or_else(refused)?,
            "plan_cache" => self.plan_cache = parse_switch(&text).ok_or_else(refused)?,
            _ => return Err(Self::unknown(name)),
        }
        Ok(())
    }

    /// The current value as text.
    pub fn show(&self, name: &str) -> Result<String> {
        Ok(match name {
            "execution" => match self.execution {
                Execution::OutOfOrder => "out_of_order".into(),
                Execution::InOrder => "in_order".into(),
            },
            "max_in_flight" if self.max_in_flight == u32::MAX => "unlimited".into(),
            "max_in_flight" => self.max_in_flight.to_string(),
            "index_join" => match self.index_join {
                IndexJoin::Auto => "auto".into(),
                IndexJoin::Always => "always".into(),
                IndexJoin::Never => "never".into(),
            },
            "access_path" => match self.access_path {
                AccessPath::Auto => "auto".into(),
                AccessPath::Scan => "scan".into(),
                AccessPath::Index => "index".into(),
                AccessPath::Columns => "columns".into(),
                AccessPath::Rows => "rows".into(),
            },
            "join_order" => match self.join_order {
                JoinOrder::Auto => "auto".into(),
                JoinOrder::AsWritten => "as_written".into(),
            },
            "memory" => show_size(self.memory_bytes),
            "partitions" => self.partitions.to_string(),
            "batch_rows" => self.batch_rows.to_string(),
            "dynamic_filters" => show_switch(self.dynamic_filters),
            "adaptive_lookups" => show_switch(self.adaptive_lookups),
            "operators" => match self.operators {
                Operators::Native => "native".into(),
                Operators::DataFusion => "datafusion".into(),
                Operators::Spilling => "spilling".into(),
            },
            "query_memory" => self.query_memory.map_or_else(|| "unlimited".into(), show_size),
            "native_filter" => show_switch(self.native_filter),
            "native_aggregate" => show_switch(self.native_aggregate),
            "native_join" => show_switch(self.native_join),
            "plan_cache" => show_switch(self.plan_cache),
            _ => return Err(Self::unknown(name)),
        })
    }

    fn unknown(name: &str) -> SqlError {
        let names = SETTINGS.iter().map(|(name, _)| format!("saki.{name}")).collect::<Vec<_>>().join(", ");
        SqlError::invalid(format!("there is no setting saki.{name}")).hint(format!("settings are: {names}"))
    }

    /// How a pipeline is to run in `partitions` parts.
    pub fn run_options(&self, partitions: usize) -> RunOptions {
        RunOptions {
            execution: self.execution,
            max_in_flight: self.max_in_flight,
            memory_bytes: self.memory_bytes,
            batch_rows: self.batch_rows,
            partitions,
        }
    }

    /// Which operators of a plan become native.
    pub(crate) fn native(&self) -> NativeOptions {
        let native = self.operators == Operators::Native;
        NativeOptions {
            filter: native && self.native_filter,
            aggregate: native && self.native_aggregate,
            join: native && self.native_join,
        }
    }

    /// Parts in which a large pipeline runs.
    pub fn scan_partitions(&self) -> usize {
        match self.execution {
            Execution::OutOfOrder => self.partitions,
            Execution::InOrder => 1,
        }
    }
}

fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

fn show_switch(on: bool) -> String {
    if on { "on" } else { "off" }.into()
}

/// Bytes of `64MB`, `1 GiB`, `4096`; units are powers of 1024.
pub fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn show_size(bytes: usize) -> String {
    match bytes {
        b if b.is_multiple_of(1 << 30) => format!("{}GB", b >> 30),
        b if b.is_multiple_of(1 << 20) => format!("{}MB", b >> 20),
        b if b.is_multiple_of(1 << 10) => format!("{}kB", b >> 10),
        b => b.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_shows_what_it_takes_back() {
        let mut settings = Settings::default();
        for name in Settings::names() {
            let shown = settings.show(name).unwrap();
            settings.set(name, Some(&shown)).unwrap();
            assert_eq!(settings.show(name).unwrap(), shown);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        let error = Settings::default().set("index_join", Some("sometimes")).unwrap_err();
        assert!(error.hint.unwrap().contains("auto, always or never"));
        assert!(Settings::default().set("partitions", Some("0")).is_err());
        assert!(Settings::default().set("nonsense", Some("1")).unwrap_err().hint.unwrap().contains("saki.execution"));
    }
}
