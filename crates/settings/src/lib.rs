//! Session settings: `SET saki.<name> = <value>`, `SHOW saki.<name>`, `RESET saki.<name>`.
//!
//! Each is one line of the table below: its name (also that of the field), type, default, what it takes, and what it is
//! for. SET, SHOW, RESET, the list of all, and what is said of a value that is refused follow from it.
#![forbid(unsafe_code)]

mod kinds;

use std::sync::{Arc, LazyLock};

use saki_catalog::{Result, SqlError};
use saki_exec::plan::{ExecutionOptions, VisitOrder};

use self::kinds::{CountOrUnlimited, Kind, Number, OneOf, Size, SizeOrUnlimited, Switch};

pub use self::kinds::parse_size;

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

const EXECUTION: OneOf<VisitOrder> =
    OneOf(&[("out_of_order", VisitOrder::OutOfOrder), ("in_order", VisitOrder::InOrder)]);
const INDEX_JOIN: OneOf<IndexJoin> =
    OneOf(&[("auto", IndexJoin::Auto), ("always", IndexJoin::Always), ("never", IndexJoin::Never)]);
const ACCESS_PATH: OneOf<AccessPath> = OneOf(&[
    ("auto", AccessPath::Auto),
    ("scan", AccessPath::Scan),
    ("index", AccessPath::Index),
    ("columns", AccessPath::Columns),
    ("rows", AccessPath::Rows),
]);
const JOIN_ORDER: OneOf<JoinOrder> = OneOf(&[("auto", JoinOrder::Auto), ("as_written", JoinOrder::AsWritten)]);
const OPERATORS: OneOf<Operators> =
    OneOf(&[("native", Operators::Native), ("datafusion", Operators::DataFusion), ("spilling", Operators::Spilling)]);

/// How pipelines run unless a session says otherwise.
static DEFAULTS: LazyLock<ExecutionOptions> = LazyLock::new(ExecutionOptions::default);

/// A setting, whatever its type.
pub struct Setting {
    /// Without the prefix `saki.`.
    pub name: &'static str,
    /// What it is for, as a sentence without its full stop.
    pub help: &'static str,
    takes: fn() -> String,
    /// `false`: the text is no value of it.
    set: fn(&mut Settings, &str) -> bool,
    show: fn(&Settings) -> String,
}

impl Setting {
    /// What it takes, in words.
    pub fn takes(&self) -> String {
        (self.takes)()
    }

    /// Its value in some settings, as [`Settings::set`] takes it.
    pub fn show(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }
}

macro_rules! settings {
    ($($field:ident: $type:ty = $default:expr, $kind:expr, $help:literal;)*) => {
        /// The choices of one session.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Settings {
            $(#[doc = $help] pub $field: $type,)*
            /// What else of the session plans depend on, in words of whoever makes them: its time zone.
            pub made_for: Arc<str>,
            /// Queries are refused that read views.
            pub without_views: bool,
            /// And those that read files with names.
            pub without_external_tables: bool,
        }

        impl Default for Settings {
            fn default() -> Self {
                let (made_for, without_views, without_external_tables) = Default::default();
                Self { $($field: $default,)* made_for, without_views, without_external_tables }
            }
        }

        const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($field),
            help: $help,
            takes: || $kind.takes(),
            set: |settings, text| $kind.read(text).map(|value| settings.$field = value).is_some(),
            show: |settings| $kind.show(&settings.$field),
        },)*];
    };
}

#[rustfmt::skip]
settings! {
    execution: VisitOrder = DEFAULTS.order, EXECUTION, "In which order pages are visited";
    max_in_flight: u32 = DEFAULTS.max_in_flight, CountOrUnlimited("page requests"), "Page requests in flight at most";
    index_join: IndexJoin = IndexJoin::Auto, INDEX_JOIN, "When lookups in an index take the place of a hash join";
    access_path: AccessPath = AccessPath::Auto, ACCESS_PATH, "How plans read tables; nothing is compiled unless auto";
    join_order: JoinOrder = JoinOrder::Auto, JOIN_ORDER, "Whether inner joins are put into the cheapest order";
    memory: usize = DEFAULTS.memory_bytes, Size("64MB"), "Bytes that a pipeline's rows and results in flight may take";
    partitions: usize = DEFAULTS.partitions, Number(1..=1024), "Parts of a query that run side by side";
    batch_rows: usize = DEFAULTS.batch_rows, Number(1..=1_000_000), "Rows of a batch that operators hand on";
    dynamic_filters: bool = true, Switch, "Whether the keys of a hash join reach the scans below it";
    adaptive_lookups: bool = true, Switch, "Whether a scan looks rows up once its join turns out to have few keys";
    operators: Operators = Operators::Native, OPERATORS, "Whose operators run where both have one";
    query_memory: Option<usize> = Some(4 << 30), SizeOrUnlimited("512MB"), "Bytes that a session's operators may hold";
    native_filter: bool = true, Switch, "Whether filters and projections are native, if operators are";
    native_aggregate: bool = true, Switch, "Whether aggregates are native, if operators are";
    native_join: bool = true, Switch, "Whether hash joins are native, if operators are";
    plan_cache: bool = true, Switch, "Whether statements that come again run by plans that were kept";
    compiled: bool = true, Switch, "Whether statements about few rows are compiled, and run without a plan";
}

impl Settings {
    /// Whether statements about few rows run without a plan. Who says how tables are read means plans.
    pub fn compiles(&self) -> bool {
        self.compiled && self.access_path == AccessPath::Auto
    }

    /// All settings there are.
    pub fn all() -> &'static [Setting] {
        SETTINGS
    }

    /// Names of all settings, without the prefix.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|setting| setting.name)
    }

    /// Sets one; `value` as text, or `None` for its default.
    ///
    /// # Errors
    /// `Invalid` when there is no such setting, or it does not take the value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let setting = Self::setting(name)?;
        let text = match value {
            Some(text) => text.to_ascii_lowercase(),
            None => setting.show(&Self::default()).to_ascii_lowercase(),
        };
        if (setting.set)(self, &text) {
            return Ok(());
        }
        Err(SqlError::invalid(format!("saki.{name} cannot be {text:?}")).hint(format!("it takes {}", setting.takes())))
    }

    /// The current value as text.
    ///
    /// # Errors
    /// `Invalid` when there is no such setting.
    pub fn show(&self, name: &str) -> Result<String> {
        Ok(Self::setting(name)?.show(self))
    }

    fn setting(name: &str) -> Result<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| Self::unknown(&format!("saki.{name}")))
    }

    /// The error of naming a setting that there is not; `name` with its prefix.
    pub fn unknown(name: &str) -> SqlError {
        let names = Self::names().map(|name| format!("saki.{name}")).collect::<Vec<_>>().join(", ");
        SqlError::invalid(format!("there is no setting {name}")).hint(format!("settings are: {names}"))
    }

    /// How a pipeline is to run in `partitions` parts.
    pub fn execution_options(&self, partitions: usize) -> ExecutionOptions {
        ExecutionOptions {
            order: self.execution,
            max_in_flight: self.max_in_flight,
            memory_bytes: self.memory,
            batch_rows: self.batch_rows,
            partitions,
        }
    }

    /// Whether filters and projections are native.
    pub fn native_filters(&self) -> bool {
        self.operators == Operators::Native && self.native_filter
    }

    /// Whether aggregates are.
    pub fn native_aggregates(&self) -> bool {
        self.operators == Operators::Native && self.native_aggregate
    }

    /// Whether hash joins are.
    pub fn native_joins(&self) -> bool {
        self.operators == Operators::Native && self.native_join
    }

    /// Parts in which a large pipeline runs.
    pub fn scan_partitions(&self) -> usize {
        match self.execution {
            VisitOrder::OutOfOrder => self.partitions,
            VisitOrder::InOrder => 1,
        }
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
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_value_other_than_the_default_is_shown_and_reset() {
        let cases = [
            ("execution", "in_order"),
            ("max_in_flight", "7"),
            ("index_join", "always"),
            ("access_path", "columns"),
            ("join_order", "as_written"),
            ("memory", "3MB"),
            ("partitions", "1023"),
            ("batch_rows", "17"),
            ("dynamic_filters", "off"),
            ("adaptive_lookups", "off"),
            ("operators", "spilling"),
            ("query_memory", "unlimited"),
            ("native_filter", "off"),
            ("native_aggregate", "off"),
            ("native_join", "off"),
            ("plan_cache", "off"),
            ("compiled", "off"),
        ];
        assert!(cases.iter().map(|(name, _)| *name).eq(Settings::names()), "a setting without a case");
        for (name, value) in cases {
            let mut settings = Settings::default();
            let before = settings.show(name).unwrap();
            settings.set(name, Some(&value.to_uppercase())).unwrap();
            assert_ne!(settings, Settings::default(), "{name}");
            assert_eq!(settings.show(name).unwrap(), value);
            for (other, _) in cases.iter().filter(|(other, _)| *other != name) {
                assert_eq!(settings.show(other).unwrap(), Settings::default().show(other).unwrap(), "{name}: {other}");
            }
            settings.set(name, None).unwrap();
            assert_eq!(settings.show(name).unwrap(), before);
            assert_eq!(settings, Settings::default(), "{name}");
        }
    }

    #[test]
    fn what_a_setting_does_not_take_is_refused_and_changes_nothing() {
        let cases = [
            ("execution", "sideways", "out_of_order or in_order"),
            ("max_in_flight", "0", "a number of page requests from 1, or unlimited"),
            ("max_in_flight", "-1", "a number of page requests from 1, or unlimited"),
            ("index_join", "sometimes", "auto, always or never"),
            ("access_path", "", "auto, scan, index, columns or rows"),
            ("memory", "1kb", "a size such as 64MB, from 1MB"),
            ("partitions", "0", "a number from 1 to 1024"),
            ("partitions", "1025", "a number from 1 to 1024"),
            ("batch_rows", "1000001", "a number from 1 to 1000000"),
            ("dynamic_filters", "yes", "on or off"),
            ("query_memory", "0", "a size such as 512MB, from 1MB, or unlimited"),
        ];
        for (name, value, takes) in cases {
            let mut settings = Settings::default();
            let error = settings.set(name, Some(value)).unwrap_err();
            assert_eq!(error.message, format!("saki.{name} cannot be {value:?}"));
            assert_eq!(error.hint.unwrap(), format!("it takes {takes}"));
            assert_eq!(settings, Settings::default());
        }
    }

    #[test]
    fn a_setting_that_there_is_not_is_refused_with_those_there_are() {
        for error in [
            Settings::default().set("nonsense", Some("1")).unwrap_err(),
            Settings::default().set("nonsense", None).unwrap_err(),
            Settings::default().show("nonsense").unwrap_err(),
        ] {
            assert_eq!(error.message, "there is no setting saki.nonsense");
            assert!(error.hint.unwrap().contains("saki.execution, saki.max_in_flight"));
        }
    }

    #[test]
    fn every_setting_says_what_it_is_for() {
        for setting in Settings::all() {
            assert!(setting.help.starts_with(char::is_uppercase) && !setting.help.ends_with('.'), "{}", setting.name);
            assert!(!setting.takes().is_empty(), "{}", setting.name);
        }
    }

    #[test]
    fn only_native_operators_are_native() {
        let mut settings = Settings::default();
        assert!(settings.native_filters() && settings.native_aggregates() && settings.native_joins());
        settings.set("native_join", Some("off")).unwrap();
        assert!(settings.native_filters() && !settings.native_joins());
        settings.set("operators", Some("datafusion")).unwrap();
        assert!(!settings.native_filters() && !settings.native_aggregates() && !settings.native_joins());
    }

    #[test]
    fn in_order_a_scan_has_one_part() {
        let mut settings = Settings { partitions: 5, ..Settings::default() };
        assert_eq!((settings.scan_partitions(), settings.execution_options(3).partitions), (5, 3));
        settings.set("execution", Some("in_order")).unwrap();
        assert_eq!(settings.scan_partitions(), 1);
    }
}
