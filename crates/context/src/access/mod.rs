//! Statements about roles and privileges, and whether a statement is allowed.
//!
//! What a query reads is asked where it is planned ([`crate::demands`]); everything else that a statement does, before
//! it is carried out ([`authorize`]). A superuser is asked nothing.

mod authorize;
mod change;
mod grants;
mod probe;
mod roles;
mod users;
pub mod verifier;

use std::sync::Arc;

pub use self::authorize::{authorize, expect_insert, expect_role};
use self::roles::Actor;
pub use self::users::Users;
use crate::context::StatementContext;
use crate::statement::StatementResult;
use saki_catalog::{Result, RoleId, SqlError};
use saki_postgres::statement::AccessStatement;

/// Carries a statement about roles or privileges out.
pub async fn run(cx: &StatementContext<'_>, statement: AccessStatement) -> Result<StatementResult> {
    let tag = statement.tag();
    match statement {
        AccessStatement::SetRole { local, role } => set_role(cx, local, role.as_deref())?,
        AccessStatement::SetSession { local, role } => set_session(cx, local, role.as_deref())?,
        statement => {
            let roles = cx.system.roles();
            let who = Actor { current: roles.current, session: roles.session };
            Arc::clone(cx.db)
                .blocking(move |db| db.write(|writer| change::change(&mut writer.catalog, who, &statement)))
                .await?;
        }
    }
    Ok(StatementResult::done(tag, 0))
}

fn set_role(cx: &StatementContext<'_>, local: bool, name: Option<&str>) -> Result<()> {
    let (snapshot, roles) = (cx.db.snapshot(), cx.system.roles());
    let to = match name {
        None => roles.session,
        Some(name) => {
            let role = snapshot.catalog.expect_role(name).map_err(|error| error.code("22023"))?.id;
            if !snapshot.catalog.is_member(roles.session, role) {
                let message = format!("permission denied to set role {name:?}");
                return Err(SqlError::invalid(message).code("42501"));
            }
            role
        }
    };
    assume(cx, local, roles.session, to);
    Ok(())
}

fn set_session(cx: &StatementContext<'_>, local: bool, name: Option<&str>) -> Result<()> {
    let (snapshot, roles) = (cx.db.snapshot(), cx.system.roles());
    let to = match name {
        None => roles.authenticated,
        Some(name) => snapshot.catalog.expect_role(name).map_err(|error| error.code("22023"))?.id,
    };
    if to != roles.authenticated && !snapshot.catalog.is_superuser(roles.authenticated) {
        return Err(SqlError::invalid("permission denied to set session authorization").code("42501"));
    }
    assume(cx, local, to, to);
    Ok(())
}

/// From now on the session acts so; `local`: until its transaction ends, and not at all outside of one.
fn assume(cx: &StatementContext<'_>, local: bool, session: RoleId, current: RoleId) {
    if local && !cx.transactions.outlives_statement() {
        return;
    }
    cx.system.state_session(|facts| {
        let before = facts.roles;
        facts.roles.until_end = match (local, before.until_end) {
            (true, None) => Some((before.session, before.current)),
            (true, kept) => kept,
            (false, _) => None,
        };
        (facts.roles.session, facts.roles.current) = (session, current);
    });
}
