//! `saki restore`

use std::path::PathBuf;

use saki::backup;

use super::{Which, show};
use crate::cli::failure::Outcome;
use crate::cli::{moment, progress, size};

/// Make a database from a backup, or as it was at a moment
///
/// It is a database on one device, whatever devices it had, and opens as any other. Every object is compared with what
/// it should be. If this is interrupted there is no database, and it can be done again.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the backups are
    #[arg(long, value_name = "DIRECTORY | s3://BUCKET/PREFIX")]
    from: String,

    #[command(flatten)]
    which: Which,

    /// The database to make, where there is nothing yet; or a block device without a database
    #[arg(long, value_name = "DB")]
    db: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let bar = progress::steps("restoring", 1);
    let stop = backup::Stop::default();
    let restored = backup::restore(&args.from, args.which.wanted(), &args.db, &stop, &|at| show(&bar, at));
    bar.finish_and_clear();
    let report = restored?;
    let (path, read) = (args.db.display(), size::display(report.bytes));
    let archived = match report.archived {
        0 => String::new(),
        records => format!(" and {records} records of the archive"),
    };
    say!(
        "{path}: restored as of {} from backup {}{archived} ({} chunks, {read} read); saki check {path} verifies it",
        moment::display(report.micros),
        report.name,
        report.chunks
    );
    Ok(())
}
