//! The interactive shell.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::ShellHelper;
use super::describe;
use super::meta::Next;
use super::run::{Stopped, statement};
use super::script::{command, explain};
use super::split::split;
use super::state::State;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::size;

/// Reads and runs statements until the end of input.
pub fn run(state: &mut State<'_>, database: Option<&Path>) -> Outcome {
    greet(state, database);
    let config = Config::builder()
        .history_ignore_space(true)
        .max_history_size(10_000)
        .map_err(editor_failed)?
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .build();
    let mut editor: Editor<ShellHelper, FileHistory> = Editor::with_config(config).map_err(editor_failed)?;
    editor.set_helper(Some(ShellHelper::new(Arc::clone(state.session.database()))));
    let history = history_file();
    if let Some(history) = &history {
        // Absent the first time; unreadable ones are not worth stopping for.
        let _ = editor.load_history(history);
    }
    let prompt = format!("{}=> ", state.name);
    loop {
        match editor.readline(&prompt) {
            Ok(input) => {
                // Kept at once: a shell that is killed loses nothing typed.
                if let Some(history) = &history {
                    let _ = editor.append_history(history);
                }
                if answer(state, &input) == Next::Quit {
                    return Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(editor_failed(error)),
        }
    }
}

/// Runs what was typed; errors are shown and the shell goes on.
fn answer(state: &mut State<'_>, input: &str) -> Next {
    if input.trim_start().starts_with('\\') {
        return command(state, input).unwrap_or_else(|failure| {
            eprintln!("ERROR: {failure}");
            Next::Go
        });
    }
    for sql in split(input).0 {
        let sql = sql.trim();
        if matches!(sql.to_lowercase().as_str(), "quit" | "exit") {
            return Next::Quit;
        }
        match statement(state, sql) {
            Ok(()) => {}
            Err(Stopped::Failed(error)) => {
                eprintln!("ERROR: {}", explain(&error, sql));
                break;
            }
            Err(Stopped::Cancelled) => {
                eprintln!("cancelled");
                break;
            }
            Err(Stopped::Output(error)) => {
                eprintln!("ERROR: standard output: {error}");
                break;
            }
        }
    }
    Next::Go
}

fn greet(state: &State<'_>, path: Option<&Path>) {
    say!("Sakigake {}. \\? for help, \\q to leave.", env!("CARGO_PKG_VERSION"));
    let database = state.session.database();
    match path {
        Some(path) => say!(
            "{}: pages of {}, {}",
            path.display(),
            size::display(database.page_size().bytes() as u64),
            database.device_name()
        ),
        None => say!("A temporary database: it is gone when you leave. --db opens one that stays."),
    }
    if path.is_some() {
        let _ = describe::tables(state);
    }
}

/// Where the XDG base directories say; its directory is made.
fn history_file() -> Option<PathBuf> {
    let from = |variable: &str| std::env::var_os(variable).filter(|path| Path::new(path).is_absolute());
    let state = from("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| from("HOME").map(|home| Path::new(&home).join(".local/state")))?;
    let directory = state.join("saki");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}

fn editor_failed(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal: {error}; use -c, -f or standard input"))
}
