//! Commands that begin with a backslash: about the session, not about data.

use std::path::PathBuf;

use super::describe;
use super::state::State;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::Format;

/// What comes after a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    Go,
    /// The statements of a file.
    File(PathBuf),
    Quit,
}

/// Name, argument and meaning of each, as `\?` shows them.
const COMMANDS: [(&str, &str, &str); 10] = [
    ("\\d", "[TABLE]", "list tables, or describe one"),
    ("\\dt", "", "list tables with their sizes"),
    ("\\di", "", "list indexes with their columns"),
    ("\\timing", "[on|off]", "show how long each statement took"),
    ("\\x", "[on|off]", "show one value per line"),
    ("\\format", "table|csv|json", "choose how rows are written"),
    ("\\null", "TEXT", "choose what NULL looks like in tables"),
    ("\\i", "FILE", "run the statements of a file"),
    ("\\?", "", "show this"),
    ("\\q", "", "leave (or Ctrl-D)"),
];

/// Names, for completion.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _, _)| *name)
}

/// Runs `line`, which begins with a backslash.
pub fn run(state: &mut State<'_>, line: &str) -> Outcome<Next> {
    let line = line.trim().trim_end_matches(';');
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    match (name, argument) {
        ("\\q" | "\\quit" | "\\exit", _) => return Ok(Next::Quit),
        ("\\?" | "\\h" | "\\help", _) => help(),
        ("\\d" | "\\dt", "") => describe::tables(state)?,
        ("\\d" | "\\dt", table) => describe::table(state, table)?,
        ("\\di", _) => describe::indexes(state)?,
        ("\\timing", _) => {
            state.timing = switched(name, argument, state.timing)?;
            say!("timing is {}", on_off(state.timing));
        }
        ("\\x", _) => {
            state.style.expanded = switched(name, argument, state.style.expanded)?;
            say!("one value per line is {}", on_off(state.style.expanded));
        }
        ("\\format", _) => {
            state.style.format = <Format as clap::ValueEnum>::from_str(argument, true)
                .map_err(|_| Failure::new(format!("\\format {argument}: it takes table, csv or json")))?;
        }
        ("\\null", text) => text.trim_matches('\'').clone_into(&mut state.style.null),
        ("\\i", "") => return Err(Failure::new("\\i takes a file")),
        ("\\i", file) => return Ok(Next::File(file.into())),
        ("\\copy", _) => {
            return Err(Failure::new(
                "there is no \\copy; COPY reads and writes files itself: \
                 COPY t FROM '/path/t.csv' WITH (FORMAT csv, HEADER), COPY (SELECT …) TO '/path/out.parquet'",
            ));
        }
        _ => return Err(Failure::new(format!("{name} is no command; \\? lists them"))),
    }
    Ok(Next::Go)
}

fn switched(name: &str, argument: &str, before: bool) -> Outcome<bool> {
    match argument {
        "" => Ok(!before),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(Failure::new(format!("{name} {other}: it takes on or off"))),
    }
}

fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

fn help() {
    say!("A statement ends with ; and may take several lines. Tab completes, Ctrl-R searches the history,");
    say!("Ctrl-C cancels the statement that runs.\n");
    for (name, argument, meaning) in COMMANDS {
        say!("  {:26}{meaning}", format!("{name} {argument}"));
    }
    say!("\nSettings: SHOW saki; SET saki.execution = in_order; RESET saki.execution;");
    say!("Plans:    EXPLAIN SELECT …; EXPLAIN ANALYZE SELECT …;");
    say!("Files:    COPY t FROM '/path/t.csv' WITH (FORMAT csv, HEADER); COPY (SELECT …) TO '/path/out.parquet';\n");
}
