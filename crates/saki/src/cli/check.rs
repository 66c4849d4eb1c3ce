//! `saki check`

use std::path::PathBuf;

use saki::OpenOptions;

use super::failure::{Failure, Outcome};
use super::open::{OpenArgs, open};
use super::{progress, size};

/// Verify a database: every page, row, index entry, column segment and the books of the volume
///
/// Prints every fault; exits with 1 if there is any.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(value_name = "DB")]
    path: PathBuf,

    #[command(flatten)]
    open: OpenArgs,
}

pub fn run(args: &Args) -> Outcome {
    let database = open(&args.path, OpenOptions { base_only: true, ..args.open.options(true) })?;
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
