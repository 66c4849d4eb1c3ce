//! Which kinds of operators become native.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;
use saki_settings::Settings;

extensions_options! {
    /// Which operators are native.
    pub struct NativeOptions {
        /// Filters and projections over native nodes.
        pub filter: bool, default = true
        /// Aggregates.
        pub aggregate: bool, default = true
        /// Hash joins.
        pub join: bool, default = true
    }
}

impl ConfigExtension for NativeOptions {
    const PREFIX: &'static str = "native";
}

impl From<&Settings> for NativeOptions {
    fn from(settings: &Settings) -> Self {
        Self {
            filter: settings.native_filters(),
            aggregate: settings.native_aggregates(),
            join: settings.native_joins(),
        }
    }
}
