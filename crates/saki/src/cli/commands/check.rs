//! `saki check`

use std::path::PathBuf;

use saki::OpenOptions;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, open};
use crate::cli::{progress, size};

/// Verify a database: every page, row, index entry, column segment, the superblocks and books of the volume, and the
/// logs
///
/// Prints every fault; exits with 1 if there is any.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(value_name = "DB")]
    path: PathBuf,

    /// Where the logs lie; beside the database if not given
    #[arg(long, value_name = "DIRECTORY")]
    log_directory: Option<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

pub fn run(args: &Args) -> Outcome {
    let log_directory = args.log_directory.clone();
    let database = open(&args.path, OpenOptions { base_only: true, log_directory, ..args.open.options(true) })?;
    let bar = progress::steps("checking", 1);
    let report = database.check(&mut |at| {
        bar.set_length(at.pages_expected.max(at.pages));
        bar.set_position(at.pages);
        bar.set_message(format!("{} pages, {}", at.pages, at.object));
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| Failure::at(&args.path, &error))?;
    for fault in &report.faults {
        say!("{fault}");
    }
    let page_bytes = database.page_size().bytes() as u64;
    say!(
        "{}: {} tables, {} indexes, {} column segments, {} rows, {} pages ({})",
        args.path.display(),
        report.tables,
        report.indexes,
        report.segments,
        report.rows,
        report.pages,
        size::display(report.pages * page_bytes)
    );
    if report.logged > 0 {
        say!("{} transactions in the logs, to be merged", report.logged);
    }
    match report.faults.len() {
        0 => {
            say!("no faults");
            Ok(())
        }
        1 => {
            say!("1 fault: restore the database from a copy, or drop what is named and load it again");
            Err(Failure::told())
        }
        n => {
            say!("{n} faults: restore the database from a copy, or drop what is named and load it again");
            Err(Failure::told())
        }
    }
}
