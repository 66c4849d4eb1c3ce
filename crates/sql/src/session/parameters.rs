//! SET, RESET and SHOW.

use datafusion::sql::sqlparser::ast::{Ident, Reset, Set};

use super::Session;
use super::settings::PREFIX;
use saki_catalog::{Result, SqlError};
use saki_context::statement::{Assignment, StatementResult, rows, shown_name};
use saki_parameters::{ROLE, SESSION};
use saki_postgres::statement::AccessStatement;

pub async fn set(session: &Session, set: &Set) -> Result<StatementResult> {
    let Some(Assignment { name, value, local }) = Assignment::read(set) else {
        return Err(SqlError::unsupported(format!("{set} is not supported")));
    };
    match &*name.to_lowercase() {
        mode @ ("transaction_isolation" | "transaction_read_only" | "transaction_deferrable") => {
            let Some(value) = value else {
                return Err(SqlError::unsupported(format!("SET {mode} TO DEFAULT is not supported")));
            };
            session.transactions.set_mode(mode, &value).await?;
        }
        _ => session.parameters.set(&name, value.as_deref(), local)?,
    }
    session.keep_parameters();
    Ok(StatementResult::done("SET", 0))
}

/// SET ROLE and SET SESSION AUTHORIZATION.
pub fn set_role(session: &Session, statement: AccessStatement) -> Result<StatementResult> {
    let (name, role, local) = match statement {
        AccessStatement::SetRole { local, role } => (ROLE, role, local),
        AccessStatement::SetSession { local, role } => (SESSION, role, local),
        other => return Err(SqlError::internal(format!("{} is not about the session", other.tag()))),
    };
    session.parameters.set(name, role.as_deref(), local)?;
    session.keep_parameters();
    Ok(StatementResult::done("SET", 0))
}

pub fn reset(session: &Session, reset: &Reset) -> Result<StatementResult> {
    match reset {
        Reset::ALL => session.parameters.reset_all(),
        Reset::ConfigurationParameter(name) => {
            session.parameters.set(&name.to_string().to_lowercase().replace('"', ""), None, false)?;
        }
    }
    session.keep_parameters();
    Ok(StatementResult::done("RESET", 0))
}

pub fn show(session: &Session, variable: &[Ident]) -> Result<StatementResult> {
    let name = shown_name(variable);
    if name != "all" && name != "saki" {
        return rows(&[(&name, vec![session.parameters.shown(&name)?])]);
    }
    let list = session.parameters.list().into_iter().filter(|(own, ..)| name == "all" || own.starts_with(PREFIX));
    let (mut names, mut values, mut helps) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value, help) in list {
        names.push(name);
        values.push(value);
        helps.push(help);
    }
    rows(&[("name", names), ("setting", values), ("description", helps)])
}
