//! Statements of a text, one after another; the first that fails ends it.

use std::io::{self, Read};
use std::path::Path;

use saki::{Position, SqlError};

use super::meta::{self, Next};
use super::run::{Stopped, statement};
use super::split::{Open, split};
use super::state::State;
use crate::cli::failure::{Failure, Outcome, remarks};

/// Runs `text`, which came from `origin`.
pub fn run(state: &mut State<'_>, text: &str, origin: &str) -> Outcome {
    for piece in pieces(text) {
        match piece {
            Piece::Meta { command, line } => match self::command(state, command) {
                Ok(Next::Quit) => return Ok(()),
                Ok(_) => {}
                Err(failure) => return Err(Failure::new(format!("{origin}:{line}: {failure}"))),
            },
            Piece::Statement { sql, line } => {
                if let Err(stopped) = statement(state, sql) {
                    return Err(failed(stopped, sql, origin, line));
                }
            }
        }
    }
    Ok(())
}

/// Runs the statements of a file.
pub fn run_file(state: &mut State<'_>, path: &Path) -> Outcome {
    if path == Path::new("-") {
        return run(state, &read_input()?, "standard input");
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, &error))?;
    run(state, &text, &path.display().to_string())
}

pub fn read_input() -> Outcome<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| Failure::new(format!("standard input: {error}")))?;
    Ok(text)
}

/// Runs a backslash command, and the file that it names.
pub fn command(state: &mut State<'_>, line: &str) -> Outcome<Next> {
    let next = meta::run(state, line)?;
    if let Next::File(file) = &next {
        run_file(state, file)?;
    }
    Ok(next)
}

#[derive(PartialEq, Debug)]
enum Piece<'t> {
    Statement { sql: &'t str, line: usize },
    Meta { command: &'t str, line: usize },
}

/// Statements and the backslash commands between them, with the lines they begin on.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let line_of = |part: &str| text[..part.as_ptr() as usize - text.as_ptr() as usize].matches('\n').count() + 1;
    loop {
        rest = rest.trim_start();
        if rest.starts_with('\\') {
            let end = rest.find('\n').unwrap_or(rest.len());
            pieces.push(Piece::Meta { command: rest[..end].trim(), line: line_of(rest) });
            rest = &rest[end..];
            continue;
        }
        let (statements, after, open) = split(rest);
        match statements.first() {
            Some(first) => {
                let sql = first.trim();
                pieces.push(Piece::Statement { sql, line: line_of(sql) });
                let end = first.as_ptr() as usize - rest.as_ptr() as usize + first.len() + 1;
                rest = &rest[end..];
            }
            None => {
                // The last statement needs no semicolon.
                if open != Open::Nothing {
                    pieces.push(Piece::Statement { sql: after.trim(), line: line_of(after.trim()) });
                }
                return pieces;
            }
        }
    }
}

fn failed(stopped: Stopped, sql: &str, origin: &str, line: usize) -> Failure {
    match stopped {
        Stopped::Cancelled => Failure::new("cancelled"),
        Stopped::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::told(),
        Stopped::Output(error) => Failure::new(format!("standard output: {error}")),
        Stopped::Failed(error) => {
            let place = if origin == "-c" { String::new() } else { format!("{origin}:{line}: ") };
            Failure::new(format!("{place}{}", explain(&error, sql)))
        }
    }
}

/// An error with the place it is about marked under the statement.
pub fn explain(error: &SqlError, sql: &str) -> String {
    let mut text = error.message.clone();
    if let Some(Position { line, column }) = error.position
        && let Some(source) = sql.lines().nth((line as usize).saturating_sub(1))
    {
        let heading = format!("LINE {line}: ");
        let before: String = source.chars().take((column as usize).saturating_sub(1)).collect();
        let room = heading.len() + unicode_width::UnicodeWidthStr::width(before.replace('\t', " ").as_str());
        text += &format!("\n{heading}{}\n{:room$}^", source.replace('\t', " "), "");
    }
    text += &remarks(error);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_statements_and_commands_with_their_lines() {
        let text = "-- first\nselect 1;\n\\timing\n\nselect ';'\n  ; select 3";
        let found = pieces(text);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[1], Piece::Meta { command: "\\timing", line: 3 });
        assert_eq!(found[2], Piece::Statement { sql: "select ';'", line: 5 });
        assert_eq!(found[3], Piece::Statement { sql: "select 3", line: 6 });
        assert!(pieces("  -- nothing\n").is_empty());
    }

    #[test]
    fn the_place_of_an_error_is_marked() {
        let error = SqlError::invalid("no such column").at(Some(Position { line: 2, column: 3 }));
        let error = error.detail("columns: a").hint("try a");
        let text = explain(&error, "select\n\t bad\nfrom t");
        assert_eq!(text, "no such column\nLINE 2:   bad\n          ^\nDETAIL: columns: a\nHINT: try a");
    }
}
