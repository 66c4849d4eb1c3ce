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

pub use self::authorize::{authorize, expect_insert, expect_role, expect_superuser};
pub use self::grants::undefined_type;
pub use self::probe::expect_readable;
use self::roles::Actor;
pub use self::users::Users;
use crate::context::StatementContext;
use crate::database::Stoppable;
use crate::statement::StatementResult;
use saki_catalog::Result;
use saki_postgres::statement::AccessStatement;

/// What statements about roles and privileges lock: each reads and writes what was granted as a whole, so they wait for
/// each other until their transactions end. No relation has such a name.
const ALL_ACCESS: &str = "\0access";

/// Carries a statement about roles or privileges out.
///
/// # Errors
/// 42501; 40P01 and 55P03 of the wait for others; what is wrong with what it names.
pub async fn run(cx: &StatementContext<'_>, statement: AccessStatement) -> Result<StatementResult> {
    let tag = statement.tag();
    if let AccessStatement::RoleSetting { parameter: Some(parameter), value: Some(value), .. } = &statement {
        cx.parameters.check(parameter, value)?;
    }
    let _alone = cx.transactions.lock_name(ALL_ACCESS).await?;
    let roles = cx.parameters.roles();
    let who = Actor { current: roles.current, session: roles.session };
    let work = move |db: &Stoppable<'_>| db.write(|writer| change::change(&mut writer.catalog, who, &statement));
    cx.change_catalog(work).await?;
    Ok(StatementResult::done(tag, 0))
}
