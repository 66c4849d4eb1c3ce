//! `saki restore`

use std::path::PathBuf;

use saki::backup;

use super::backup::show;
use crate::cli::failure::Outcome;
use crate::cli::{progress, size};

/// Make a database from a backup
///
/// It is a database on one device, whatever devices it had, and opens as any other. Every object is compared with what
/// it should be. If this is interrupted there is no database, and it can be done again.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the backups are
    #[arg(long, value_name = "DIRECTORY | s3://BUCKET/PREFIX")]
    from: String,

    /// Which one; the newest if not given
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,

    /// The database to make, where there is nothing yet; or a block device without a database
    #[arg(long, value_name = "DB")]
    db: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let bar = progress::steps("restoring", 1);
    let stop = backup::Stop::default();
    let restored = backup::restore(&args.from, args.backup.as_deref(), &args.db, &stop, &|at| show(&bar, at));
    bar.finish_and_clear();
    let report = restored?;
    let (path, read) = (args.db.display(), size::display(report.bytes));
    say!(
        "{path}: restored from backup {} ({} chunks, {read} read); saki check {path} verifies it",
        report.name,
        report.chunks
    );
    Ok(())
}
