//! `saki recover`

use std::path::PathBuf;

use saki::OpenOptions;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, open};

/// Open a database as after a crash, bring back what its logs have, and merge that into the file
///
/// Any other command that opens a database for writing does so too. This one says what it found, and is the way to
/// open a database that has lost something: with --accept-loss it goes back to the last moment of which everything is
/// there. Keep a copy first.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(value_name = "DB")]
    path: PathBuf,

    /// Where durable changes are lost, go back to the moment before instead of refusing; what came later is given up
    /// for good
    #[arg(long)]
    accept_loss: bool,

    /// Where the logs lie; beside the database if not given
    #[arg(long, value_name = "DIRECTORY")]
    log_directory: Option<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

pub fn run(args: &Args) -> Outcome {
    let options = OpenOptions {
        accept_loss: args.accept_loss,
        log_directory: args.log_directory.clone(),
        ..args.open.options(false)
    };
    let database = open(&args.path, options).map_err(|failure| match args.accept_loss {
        true => failure,
        false => {
            failure.with_remark("`saki recover --accept-loss` goes back to the moment before, where that is possible")
        }
    })?;
    for damage in database.volume().superblock_damages() {
        say!("mended: {damage}");
    }
    match database.recovery() {
        Some(report) => say!("{report}"),
        None => say!("there are no logs: the file is all there is"),
    }
    database.close().map_err(|error| Failure::at(&args.path, &error))?;
    say!("{}: open and whole as of generation {}", args.path.display(), database.volume().generation().0);
    Ok(())
}
