//! `saki sql`: statements from the command line, from files, from standard input, or typed.
//!
//! - `split` cuts text into statements.
//! - `run` executes one and writes what it gives; Ctrl-C cancels it.
//! - `script` goes through a text, `shell` through what is typed.
//! - `meta` has the commands that begin with a backslash, `describe` what they show of tables.
//! - `complete` knows what could be typed next.

mod complete;
mod describe;
mod meta;
mod run;
mod script;
mod shell;
mod split;
mod state;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use saki::{Database, OpenOptions, Session};
use tokio::runtime::Runtime;

use state::State;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, create, open};
use crate::cli::output::{Format, Style};

/// Query a database: an interactive shell, or -c and -f
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without -c and -f, statements are read from the terminal (\\? helps there) or from standard input.
The first failed statement of -c, -f or standard input ends the command with exit code 1.
Without --db, a temporary database is used: enough to query CSV and Parquet files by CREATE EXTERNAL TABLE.")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,

    /// Run these statements and exit; may be given more than once
    #[arg(short = 'c', long, value_name = "SQL")]
    command: Vec<String>,

    /// Run the statements of a file and exit; - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Vec<PathBuf>,

    /// How rows are written
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// What NULL looks like in tables
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,

    /// Show how long each statement took
    #[arg(long)]
    timing: bool,

    /// A setting for the session, as in execution=in_order; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Change nothing; others may read the database at the same time
    #[arg(long)]
    read_only: bool,

    #[command(flatten)]
    open: OpenArgs,
}

pub fn run(args: &Args, runtime: &Runtime) -> Outcome {
    let options = args.open.options(args.read_only);
    let (database, name) = match &args.db {
        Some(path) => {
            let name = path.file_stem().map_or_else(|| "saki".into(), |stem| stem.to_string_lossy().into_owned());
            (open(path, options)?, name)
        }
        None => (temporary(options)?, "saki".to_owned()),
    };
    let _inside = runtime.enter();
    let session = Session::new(&database);
    for setting in &args.set {
        set(&session, setting)?;
    }
    let style = Style { format: args.format, expanded: false, null: args.null.clone() };
    let mut state = State { runtime, session, name, style, timing: args.timing };
    let outcome = converse(args, &mut state);
    let outcome = outcome.and(Ok(runtime.block_on(state.session.end())?));
    // What was changed becomes part of the one file.
    outcome.and(Ok(database.close()?))
}

fn converse(args: &Args, state: &mut State<'_>) -> Outcome {
    if args.command.is_empty() && args.file.is_empty() {
        if io::stdin().is_terminal() {
            return shell::run(state, args.db.as_deref());
        }
        return script::run(state, &script::read_input()?, "standard input");
    }
    for command in &args.command {
        script::run(state, command, "-c")?;
    }
    for file in &args.file {
        script::run_file(state, file)?;
    }
    Ok(())
}

fn set(session: &Session, setting: &str) -> Outcome {
    let Some((name, value)) = setting.split_once('=') else {
        return Err(Failure::new(format!("--set {setting}: write NAME=VALUE, as in execution=in_order")));
    };
    let name = name.trim();
    Ok(session.set(name.strip_prefix("saki.").unwrap_or(name), value.trim())?)
}

/// A database that is gone when it is closed: its file has no name any more.
fn temporary(options: OpenOptions) -> Outcome<Arc<Database>> {
    let path = std::env::temp_dir().join(format!("saki-{}.tmp", std::process::id()));
    let page_size = saki::CreateOptions::default().page_size;
    let database = create(&path, page_size, OpenOptions { read_only: false, ..options })?;
    std::fs::remove_file(&path).map_err(|error| Failure::at(&path, &error))?;
    Ok(database)
}
