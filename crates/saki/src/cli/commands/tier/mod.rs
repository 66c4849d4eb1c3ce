//! `saki tier`

mod advise;
mod reads;

use std::io;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use saki::OpenOptions;

use crate::cli::failure::Outcome;
use crate::cli::open::{OpenArgs, open};
use crate::cli::output::{Align, Grid};
use crate::cli::size;

/// Show which parts of which tables have copies on fast devices
///
/// While a server has the database open, SELECT * FROM saki.parts says the same, and how much time copies save.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// The database
    #[arg(long, value_name = "DB", required = true)]
    db: Option<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Subcommand, Debug)]
enum What {
    Advise(advise::Args),
}

/// Characters of a bar.
const BAR: usize = 20;

pub fn run(args: &Args) -> Outcome {
    match (&args.what, &args.db) {
        (Some(What::Advise(args)), _) => advise::run(args),
        (None, Some(db)) => show(db, &args.open),
        (None, None) => Ok(()),
    }
}

fn show(path: &Path, options: &OpenArgs) -> Outcome {
    let options = OpenOptions { base_only: true, ..options.options(true) };
    let database = open(path, options)?;
    let columns =
        [("table", Align::Left), ("part", Align::Left), ("size", Align::Right), ("on fast devices", Align::Left)];
    let mut grid = Grid::new(columns);
    for (owner, part) in database.parts() {
        let share = part.copied_bytes / part.bytes.max(1.0);
        grid.row([owner.table, owner.part, size::display(part.bytes as u64), bar(share)]);
    }
    grid.write(&mut io::stdout().lock())?;
    Ok(())
}

/// A share as a bar and in percent.
fn bar(share: f64) -> String {
    let filled = (share * BAR as f64).round() as usize;
    format!("{}{} {:>3.0} %", "█".repeat(filled), "░".repeat(BAR - filled.min(BAR)), share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_one_length() {
        assert_eq!(bar(0.0), format!("{}   0 %", "░".repeat(20)));
        assert_eq!(bar(0.5), format!("{}{}  50 %", "█".repeat(10), "░".repeat(10)));
        assert_eq!(bar(1.0), format!("{} 100 %", "█".repeat(20)));
    }
}
