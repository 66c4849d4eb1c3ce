//! `saki clone`

use std::path::PathBuf;

use saki::backup;

use super::{Which, show};
use crate::cli::failure::Outcome;
use crate::cli::{moment, progress, size};

/// Make a database from a backup without copying it: what is read comes when it is first read
///
/// It is there in moments, however large the backup is, and is used and changed as any other database. What it has not
/// read yet stays where the backup is, and must not be pruned there; --complete fetches all of it. Beside the database
/// lies a file that says what it lacks, `<DB>.source`: move them together.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the backups are
    #[arg(long, value_name = "DIRECTORY | s3://BUCKET/PREFIX", required_unless_present = "complete")]
    from: Option<String>,

    #[command(flatten)]
    which: Which,

    /// The database to make, where there is nothing yet
    #[arg(long, value_name = "DB")]
    db: PathBuf,

    /// Fetch all that the clone lacks, so that it needs the backup no more; nobody may have it open
    #[arg(long, conflicts_with_all = ["from", "backup", "until"])]
    complete: bool,
}

pub fn run(args: &Args) -> Outcome {
    match &args.from {
        Some(from) => make(args, from),
        None => complete(args),
    }
}

fn make(args: &Args, from: &str) -> Outcome {
    let bar = progress::steps("cloning", 1);
    let stop = backup::Stop::default();
    let made = backup::clone(from, args.which.wanted(), &args.db, &stop, &|at| show(&bar, at));
    bar.finish_and_clear();
    let report = made?;
    let path = args.db.display();
    say!(
        "{path}: cloned as of {} from backup {}; {} MiB come when they are first read, and with saki clone --db {path} \
         --complete",
        moment::display(report.micros),
        report.name,
        report.chunks
    );
    Ok(())
}

fn complete(args: &Args) -> Outcome {
    let bar = progress::steps("fetching", 1);
    let stop = backup::Stop::default();
    let shown = |here: u64, all: u64| {
        bar.set_length(all);
        bar.set_position(here);
        bar.set_message(size::display(here << 20));
    };
    let fetched = backup::complete(&args.db, &stop, &shown);
    bar.finish_and_clear();
    let path = args.db.display();
    match fetched? {
        None => say!("{path}: lacks nothing"),
        Some(mib) => say!("{path}: complete; {mib} MiB were fetched"),
    }
    Ok(())
}
