//! SET, RESET and SHOW of a session's own settings.

use datafusion::sql::sqlparser::ast::{Ident, Reset, Set};
use parking_lot::RwLock;

use saki_catalog::{Result, SqlError};
use saki_context::statement::{StatementResult, rows};
use saki_plan::Settings;
use saki_postgres::statement::{name_of, setting_text};

/// What names of settings begin with.
const PREFIX: &str = "saki.";

pub fn set(settings: &RwLock<Settings>, set: &Set) -> Result<StatementResult> {
    let Set::SingleAssignment { variable, values, .. } = set else {
        return Err(SqlError::unsupported(format!("{set} is not supported")).hint("SET saki.<name> = <value>"));
    };
    let full = variable.to_string().to_lowercase();
    let name = own(&full)?;
    let [value] = &values[..] else {
        return Err(SqlError::invalid(format!("{full} takes one value")));
    };
    settings.write().set(name, setting_text(value).as_deref())?;
    Ok(StatementResult::done("SET", 0))
}

pub fn reset(settings: &RwLock<Settings>, reset: &Reset) -> Result<StatementResult> {
    match reset {
        Reset::ALL => *settings.write() = Settings::default(),
        Reset::ConfigurationParameter(name) => {
            settings.write().set(own(&name.to_string().to_lowercase())?, None)?;
        }
    }
    Ok(StatementResult::done("RESET", 0))
}

pub fn show(settings: &Settings, variable: &[Ident]) -> Result<StatementResult> {
    let name = variable.iter().map(name_of).collect::<Vec<_>>().join(".");
    if name == "all" || name == "saki" {
        let values = Settings::names().map(|name| settings.show(name)).collect::<Result<Vec<_>>>()?;
        return rows(&[("name", names()), ("setting", values)]);
    }
    rows(&[(&name, vec![settings.show(own(&name)?)?])])
}

/// A setting's name without the prefix.
fn own(name: &str) -> Result<&str> {
    name.strip_prefix(PREFIX).ok_or_else(|| Settings::unknown(name))
}

fn names() -> Vec<String> {
    Settings::names().map(|name| format!("{PREFIX}{name}")).collect()
}
