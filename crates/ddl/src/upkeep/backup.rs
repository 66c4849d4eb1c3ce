//! `CALL saki.backup(target)`: a backup of the database while it is used.

use datafusion::sql::sqlparser::ast::Function;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::access::expect_superuser;
use saki_context::statement::StatementResult;

use super::devices::texts;

/// Where the backup that a call asks for is to go; `None` if it is of another procedure.
///
/// # Errors
/// 42883 if the arguments are not what the procedure takes.
pub fn backup_target(call: &Function) -> Result<Option<String>> {
    let name = call.name.to_string().to_lowercase();
    if name != "saki.backup" {
        return Ok(None);
    }
    let target = texts(call).filter(|texts| texts.len() == 1).and_then(|mut texts| texts.pop());
    target.map(Some).ok_or_else(|| {
        SqlError::invalid(format!("{name} does not take these arguments"))
            .code("42883")
            .hint("saki.backup('directory'), saki.backup('s3://bucket/prefix')")
    })
}

/// Carries the call out. Others go on reading and writing.
pub async fn backup(cx: &StatementContext<'_>, target: String) -> Result<StatementResult> {
    expect_superuser(cx, "make a backup of the database")?;
    cx.transactions.outside_of_block("a backup of the database")?;
    let target = match saki_backup::is_remote(&target) {
        true => target,
        false => cx.files.to_write(&target)?,
    };
    let made = cx.blocking(move |db| saki_backup::backup(db, &target, db.stop(), &|_| {}));
    made.await?;
    Ok(StatementResult::done("CALL", 0))
}
