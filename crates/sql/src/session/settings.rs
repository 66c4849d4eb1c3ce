//! The settings that are ours among the parameters.

use std::sync::Arc;

use saki_catalog::Result;
use saki_parameters::{Extension, State, TimeStyle};
use saki_plan::Settings;

/// What names of our settings begin with.
pub const PREFIX: &str = "saki.";

/// Our settings, for the table of parameters.
pub struct OwnSettings;

impl Extension for OwnSettings {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn all(&self) -> Vec<(String, String, &'static str)> {
        let defaults = Settings::default();
        let line = |setting: &'static saki_plan::Setting| {
            (format!("{PREFIX}{}", setting.name), setting.show(&defaults), setting.help)
        };
        Settings::all().iter().map(line).collect()
    }

    fn accept(&self, name: &str, value: Option<&str>) -> Result<String> {
        let name = name.strip_prefix(PREFIX).ok_or_else(|| Settings::unknown(name))?;
        let mut settings = Settings::default();
        settings.set(name, value)?;
        settings.show(name)
    }
}

/// Our settings as a session has them.
pub fn settings_of(state: &State) -> Settings {
    let restricted = state.effective.restricted;
    let mut settings = Settings {
        made_for: made_for(&state.effective.time),
        without_views: restricted.views,
        without_external_tables: restricted.external_tables,
        ..Settings::default()
    };
    for name in Settings::names() {
        if let Some(value) = state.setting(&format!("{PREFIX}{name}")) {
            // It was accepted when it was set.
            let _ = settings.set(name, Some(value));
        }
    }
    settings
}

/// Zone and styles, by which texts in statements are read; nothing if they are the default's.
fn made_for(time: &TimeStyle) -> Arc<str> {
    match *time == TimeStyle::default() {
        true => Arc::default(),
        false => format!("{}; {}; {:?}", time.zone, time.date, time.interval).into(),
    }
}
