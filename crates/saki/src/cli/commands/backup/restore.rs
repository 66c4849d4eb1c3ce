//! `saki restore`

use std::path::PathBuf;

use saki::backup::{self, Wanted};

use super::show;
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

    /// Which one; the newest if not given
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,

    /// What was there at that moment, as in '2026-11-28 09:30+01' (UTC if no zone is given), or latest: of an archive
    /// that a server has written (saki serve --archive); without one, the last backup before it
    #[arg(long, value_name = "TIME", conflicts_with = "backup", value_parser = moment::parse)]
    until: Option<i64>,

    /// The database to make, where there is nothing yet; or a block device without a database
    #[arg(long, value_name = "DB")]
    db: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let bar = progress::steps("restoring", 1);
    let stop = backup::Stop::default();
    let wanted = Wanted::of(args.backup.as_deref(), args.until);
    let restored = backup::restore(&args.from, wanted, &args.db, &stop, &|at| show(&bar, at));
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
