//! `saki user`

use std::borrow::Cow;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use rustyline::config::Configurer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::DefaultHistory;
use rustyline::{ColorMode, Completer, Editor, Helper, Hinter, Validator};
use saki::{Database, OpenOptions};
use saki_node::Users;
use unicode_width::UnicodeWidthStr;

use crate::cli::failure::{Failure, Outcome};

/// Memory for pages of the catalog.
const CACHE_BYTES: usize = 8 << 20;

/// Say who may connect to a database that is served
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Add a superuser, or give a user another password
    Add {
        #[command(flatten)]
        user: User,

        /// Read the password from the first line of a file; it is asked for otherwise
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Remove a user
    Remove {
        #[command(flatten)]
        user: User,
    },
    /// Print the names of all users
    List {
        /// The database
        #[arg(long, value_name = "DB")]
        db: PathBuf,
    },
}

#[derive(clap::Args, Debug)]
struct User {
    /// The user's name
    #[arg(value_name = "NAME")]
    name: String,

    /// The database
    #[arg(long, value_name = "DB")]
    db: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Add { user, password_file } => {
            let users = users(&user.db)?;
            let password = match password_file {
                Some(path) => first_line(path)?,
                None => asked()?,
            };
            users.set(&user.name, &password)?;
            say!("user {} may connect", user.name);
        }
        What::Remove { user } => {
            if !users(&user.db)?.remove(&user.name)? {
                return Err(Failure::new(format!("there is no user {}", user.name)));
            }
            say!("user {} is removed", user.name);
        }
        What::List { db } => {
            for name in users(db)?.names() {
                say!("{name}");
            }
        }
    }
    Ok(())
}

/// Users of a database, which is opened for them: while it is served, roles are made by statements.
fn users(database: &Path) -> Outcome<Users> {
    if !database.exists() {
        return Err(Failure::new(format!("{}: no such database", database.display())));
    }
    let options = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
    let served =
        "while a database is served, CREATE ROLE, ALTER ROLE and DROP ROLE through the server say who connects";
    let opened = Database::open(database, options);
    let opened = opened.map_err(|error| Failure::at(database, &error).with_remark(served))?;
    Users::of(&opened).map_err(|error| Failure::at(database, &error))
}

fn first_line(path: &Path) -> Outcome<String> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, &error))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A password from the terminal, which does not show it, or from whatever standard input is.
fn asked() -> Outcome<String> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("no password: {error}"));
    if !std::io::stdin().is_terminal() {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| failed(&error))?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    let mut editor = Editor::<Hidden, DefaultHistory>::new().map_err(|error| failed(&error))?;
    editor.set_helper(Some(Hidden));
    editor.set_color_mode(ColorMode::Forced);
    editor.set_auto_add_history(false);
    editor.readline("password: ").map_err(|error| failed(&error))
}

/// Shows blanks for what is typed.
#[derive(Completer, Helper, Hinter, Validator)]
struct Hidden;

impl Highlighter for Hidden {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(" ".repeat(line.width()))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        !matches!(kind, CmdKind::MoveCursor)
    }
}
