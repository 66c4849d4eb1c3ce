//! The session's zone, styles and clock, where functions find them: among the options of a plan.

use std::any::Any;
use std::sync::LazyLock;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, plan_err};
use saki_parameters::SessionTime;

/// A session's time as an option of plans.
#[derive(Clone, Debug, Default)]
pub struct TimeOption(pub SessionTime);

/// The time of the session that a plan is for; the default's without one.
pub fn session_time(config: &ConfigOptions) -> &SessionTime {
    static DEFAULT: LazyLock<SessionTime> = LazyLock::new(SessionTime::default);
    config.extensions.get::<TimeOption>().map_or(&DEFAULT, |option| &option.0)
}

impl ConfigExtension for TimeOption {
    const PREFIX: &'static str = "session_time";
}

impl ExtensionOptions for TimeOption {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        plan_err!("{key} of a session's time is no option")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
