//! What could be typed next: keywords, tables, columns, settings, commands, files.

use std::sync::Arc;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Highlighter, Hinter};
use saki::{Database, Settings};

use super::meta;
use super::split::{Open, split};

#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "ALL", "ANALYZE", "AND", "AS", "ASC", "AVG", "BETWEEN", "BIGINT", "BOOLEAN", "BY", "CASE", "CAST", "CHAR", "COPY",
    "COUNT", "CREATE", "CROSS", "DATE", "DESC", "DISTINCT", "DO", "DROP", "ELSE", "END", "EXCEPT", "EXISTS",
    "EXPLAIN", "EXTERNAL", "EXTRACT", "FALSE", "FORMAT", "FROM", "FULL", "GROUP", "HAVING", "HEADER", "IN", "INCLUDE",
    "INDEX", "INNER", "INSERT", "INTEGER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "KEY", "LEFT", "LIKE",
    "LIMIT", "LOCATION", "MAX", "MIN", "NATURAL", "NOT", "NULL", "NUMERIC", "OFFSET", "ON", "OR", "ORDER", "OUTER",
    "OVER", "PARTITION", "PRIMARY", "RESET", "RIGHT", "SELECT", "SET", "SHOW", "STORED", "SUM", "TABLE", "TEXT",
    "THEN", "TIMESTAMP", "TO", "TRUE", "UNION", "UNIQUE", "USING", "VALUES", "VARCHAR", "WHEN", "WHERE", "WITH",
];

/// Words before the one being typed after which only one kind of name makes sense.
const BEFORE_TABLE: [&str; 7] = ["FROM", "JOIN", "INTO", "TABLE", "ANALYZE", "COPY", "UPDATE"];
const BEFORE_SETTING: [&str; 3] = ["SET", "SHOW", "RESET"];

/// What the line editor asks.
#[derive(Helper, Hinter, Highlighter)]
pub struct ShellHelper {
    database: Arc<Database>,
    files: FilenameCompleter,
}

impl ShellHelper {
    pub fn new(database: Arc<Database>) -> Self {
        Self { database, files: FilenameCompleter::new() }
    }

    fn candidates(&self, line: &str, word: &str) -> Vec<String> {
        let before = line[..line.len() - word.len()].trim_end();
        let previous = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("").to_uppercase();
        if line.trim_start().starts_with('\\') && before.is_empty() {
            return matching(meta::names().map(str::to_owned), word);
        }
        if BEFORE_SETTING.contains(&previous.as_str()) || word.to_lowercase().starts_with("saki.") {
            return matching(Settings::names().map(|name| format!("saki.{name}")), word);
        }
        let generation = self.database.generation();
        let tables = || generation.catalog.tables().map(|table| table.name.clone());
        if BEFORE_TABLE.contains(&previous.as_str()) || previous == "\\D" || previous == "\\DT" {
            return matching(tables(), word);
        }
        // `t.col`: columns of the table of that name; an alias is taken for any table.
        let (table, column) = word.rsplit_once('.').map_or((None, word), |(table, column)| (Some(table), column));
        let known = table.is_some_and(|table| generation.catalog.get(&table.to_lowercase()).is_some());
        let columns = generation
            .catalog
            .tables()
            .filter(|candidate| !known || table.is_some_and(|name| candidate.name == name.to_lowercase()))
            .flat_map(|table| table.columns.iter().map(|column| column.name.clone()));
        if let Some(table) = table {
            return matching(columns, column).into_iter().map(|column| format!("{table}.{column}")).collect();
        }
        let mut found = matching(tables().chain(columns), word);
        let lower = word.starts_with(|c: char| c.is_lowercase());
        let cased = |keyword: &&str| if lower { keyword.to_lowercase() } else { (*keyword).to_owned() };
        if !word.is_empty() {
            found.extend(matching(KEYWORDS.iter().map(cased), word));
        }
        found
    }
}

/// Those that begin with `word`, each once.
fn matching(names: impl Iterator<Item = String>, word: &str) -> Vec<String> {
    let word = word.to_lowercase();
    let mut found: Vec<String> = names.filter(|name| name.to_lowercase().starts_with(&word)).collect();
    found.sort();
    found.dedup();
    found
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = &line[..position];
        if line.trim_start().starts_with("\\i ") {
            return self.files.complete(line, position, context);
        }
        let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\\');
        let start =
            line.rfind(|c| !in_word(c)).map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let candidates = self.candidates(line, &line[start..]);
        Ok((start, candidates.into_iter().map(|name| Pair { display: name.clone(), replacement: name }).collect()))
    }
}

impl Validator for ShellHelper {
    /// Enter goes on to another line until the statement has its semicolon.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        if input.trim_start().starts_with('\\') {
            return Ok(ValidationResult::Valid(None));
        }
        Ok(match split(input).2 {
            Open::Nothing => ValidationResult::Valid(None),
            _ => ValidationResult::Incomplete,
        })
    }
}
