//! `saki backup`, and what makes databases of backups

pub mod clone;
pub mod restore;

use std::io;
use std::path::PathBuf;

use clap::Subcommand;
use saki::backup::{self, Wanted};

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, open};
use crate::cli::output::{Align, Grid};
use crate::cli::{moment, progress, size};

/// What of the backups is wanted.
#[derive(clap::Args, Debug)]
struct Which {
    /// Which one; the newest if not given
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,

    /// What was there at that moment, as in '2026-11-28 09:30+01' (UTC if no zone is given), or latest: of an archive
    /// that a server has written (saki serve --archive); without one, the last backup before it
    #[arg(long, value_name = "TIME", conflicts_with = "backup", value_parser = moment::parse)]
    until: Option<i64>,
}

impl Which {
    fn wanted(&self) -> Wanted<'_> {
        match (&self.backup, self.until) {
            (_, Some(until)) => Wanted::Until(until),
            (Some(name), None) => Wanted::Backup(name),
            (None, None) => Wanted::Newest,
        }
    }
}

/// Make a backup of a database, and look after those there are
///
/// A backup has everything that was acknowledged before it began. What an earlier one has at the same target is not
/// written again. A target is a directory, or s3://bucket/prefix; credentials, region and address of an object store
/// come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL, or the machine's own role.
///
/// While a server has the database open, the same is done there: CALL saki.backup('TARGET').
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// The database
    #[arg(long, value_name = "DB", required = true)]
    db: Option<PathBuf>,

    /// Where backups of this database are; a directory is made if it is not there
    #[arg(long, value_name = "DIRECTORY | s3://BUCKET/PREFIX", required = true)]
    to: Option<String>,

    /// Where the logs lie; beside the database if not given
    #[arg(long, value_name = "DIRECTORY")]
    log_directory: Option<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Print the backups, in the order in which they were made
    List {
        #[command(flatten)]
        from: From,
    },
    /// Read every object of the backups and compare it with what it should be
    ///
    /// Prints every fault; exits with 1 if there is any.
    Check {
        #[command(flatten)]
        from: From,

        /// Only this one
        #[arg(long, value_name = "NAME")]
        backup: Option<String>,
    },
    /// Remove all backups but the newest, what only they had, and what was archived behind them
    Prune {
        #[command(flatten)]
        from: From,

        /// How many are kept
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
}

#[derive(clap::Args, Debug)]
struct From {
    /// Where the backups are
    #[arg(long = "from", value_name = "DIRECTORY | s3://BUCKET/PREFIX")]
    target: String,
}

pub fn run(args: &Args) -> Outcome {
    match &args.what {
        None => make(args),
        Some(What::List { from }) => list(&from.target),
        Some(What::Check { from, backup }) => check(&from.target, backup.as_deref()),
        Some(What::Prune { from, keep }) => prune(&from.target, *keep as usize),
    }
}

fn make(args: &Args) -> Outcome {
    let (Some(path), Some(target)) = (&args.db, &args.to) else {
        unreachable!("the command line asks for both");
    };
    let log_directory = args.log_directory.clone();
    let database = open(path, saki::OpenOptions { log_directory, ..args.open.options(false) })?;
    let bar = progress::steps("copying", 1);
    let made = backup::backup(&database, target, &backup::Stop::default(), &|at| show(&bar, at));
    bar.finish_and_clear();
    let report = made?;
    say!(
        "{target}: backup {} of {}: {} objects, {} of them new ({})",
        report.name,
        path.display(),
        report.objects,
        report.new_objects,
        size::display(report.new_bytes)
    );
    Ok(())
}

fn list(target: &str) -> Outcome {
    let columns = [
        ("backup", Align::Left),
        ("database", Align::Left),
        ("generation", Align::Right),
        ("size", Align::Right),
        ("logs", Align::Right),
    ];
    let mut grid = Grid::new(columns);
    for backup::Listed { name, said } in backup::list(target)? {
        match said {
            Ok(summary) => grid.row([
                name,
                format!("{:032x}", summary.database_id),
                summary.generation.to_string(),
                size::display(summary.bytes),
                size::display(summary.log_bytes),
            ]),
            Err(what) => grid.row([name, what, String::new(), String::new(), String::new()]),
        }
    }
    grid.write(&mut io::stdout()).map_err(|error| Failure::new(format!("cannot write: {error}")))?;
    for backup::Archived { run, bases, segments, bytes, until_micros } in backup::archives(target)? {
        let (Some(first), Some(until)) = (bases.first(), until_micros) else { continue };
        let bytes = size::display(bytes);
        say!(
            "archive {run}: any moment from backup {first} to {} ({segments} objects, {bytes})",
            moment::display(until)
        );
    }
    Ok(())
}

fn check(target: &str, name: Option<&str>) -> Outcome {
    let bar = progress::steps("checking", 1);
    let checked = backup::check(target, name, &backup::Stop::default(), &|at| show(&bar, at));
    bar.finish_and_clear();
    let report = checked?;
    for fault in &report.faults {
        say!("{fault}");
    }
    let (backups, objects) = (report.backups, report.objects);
    say!("{target}: {backups} backups, {objects} objects ({})", size::display(report.bytes));
    match report.faults.len() {
        0 => {
            say!("no faults");
            Ok(())
        }
        count => {
            say!("{count} faults: restore a backup that none of them names; the next backup writes missing objects");
            Err(Failure::told())
        }
    }
}

fn prune(target: &str, keep: usize) -> Outcome {
    let line = progress::line("pruning");
    let pruned = backup::prune(target, keep, &backup::Stop::default());
    line.finish_and_clear();
    let report = pruned?;
    for name in &report.removed {
        say!("{name} removed");
    }
    say!(
        "{target}: {} backups kept, {} objects removed ({})",
        report.kept.len(),
        report.objects,
        size::display(report.bytes)
    );
    Ok(())
}

/// Moves a bar on.
pub fn show(bar: &indicatif::ProgressBar, at: backup::Progress) {
    bar.set_length(at.total);
    bar.set_position(at.done);
    bar.set_message(size::display(at.bytes));
}
