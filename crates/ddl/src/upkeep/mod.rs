//! What keeps a database in order: VACUUM, REINDEX, ANALYZE, CHECKPOINT, its devices and backups.

mod analyze;
mod backup;
mod devices;
mod vacuum;

pub use self::analyze::analyze;
pub use self::backup::{backup, backup_target};
pub use self::devices::{DeviceCall, change_devices};
pub use self::vacuum::vacuum;
use saki_catalog::Result;
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_store::Pace;

/// CHECKPOINT: newer rows go to the base.
pub async fn checkpoint(cx: &StatementContext<'_>) -> Result<StatementResult> {
    let merged = cx.blocking(|db| {
        db.checkpoint_unless(&Pace::full(), db.stop())?;
        db.release_merged()
    });
    merged.await?;
    Ok(StatementResult::done("CHECKPOINT", 0))
}
