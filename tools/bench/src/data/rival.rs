//! Another engine beside ours, on the same rows: a child process (`tools/peers/peers serve`) that runs statements when
//! asked to, so that both engines take turns within one run and whatever else the machine does hits both.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use saki::tpch::TABLES;
use saki_sql::{Database, Session};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::tpch::rows_of;
use saki_report::Report;

/// The program that drives other engines.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../peers/peers");

/// A running engine.
pub struct Rival {
    /// With its version.
    pub name: String,
    child: Child,
    /// `None` once it has been told to end.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What a statement took and gave.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    pub seconds: f64,
    pub rows: usize,
    /// Values of the first row, as text.
    pub first: Vec<Option<String>>,
    /// How everything that was cached has been forgotten, if it has.
    pub cold: Option<String>,
}

impl Rival {
    /// Starts `engine` over the rows of a directory that [`export`] filled; it keeps its own tables in `data`.
    ///
    /// # Errors
    /// When it is not installed, or does not load the rows; says why.
    pub fn start(engine: &str, tables: &Path, data: &Path, threads: usize) -> Result<Self, String> {
        let mut command = Command::new(PEERS);
        command.arg("--data").arg(data).args(["serve", engine, "--threads", &threads.to_string(), "--tables"]);
        command.arg(tables).env("SAKI_PEERS_INSTALL", "0").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{PEERS}: {error}"))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("no output to read answers from")?);
        let mut rival = Self { name: engine.to_owned(), child, requests, answers };
        let hello = rival.answer()?;
        rival.name = hello["engine"].as_str().unwrap_or(engine).to_owned();
        Ok(rival)
    }

    /// Like [`Self::start`], but an engine that cannot be had is a note in the report.
    pub fn start_or_note(
        engine: &str,
        tables: &Path,
        data: &Path,
        threads: usize,
        report: &mut Report,
    ) -> Option<Self> {
        match Self::start(engine, tables, data, threads) {
            Ok(rival) => {
                report.configure(&format!("rival_{engine}"), &rival.name);
                Some(rival)
            }
            Err(error) => {
                report.note(format!("not compared with {engine}: {error}"));
                None
            }
        }
    }

    /// Runs a query: with nothing cached, neither by the engine nor by the system, or with what is.
    pub fn run(&mut self, sql: &str, cold: bool) -> Result<Answer, String> {
        let answer = self.ask(&json!({ "run": sql, "cold": cold }))?;
        serde_json::from_value(answer).map_err(|error| format!("{}: {error}", self.name))
    }

    /// The plan of a query, with what each part of it took.
    pub fn profile(&mut self, sql: &str) -> Result<String, String> {
        let answer = self.ask(&json!({ "profile": sql }))?;
        Ok(answer["plan"].as_str().unwrap_or_default().to_owned())
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let requests = self.requests.as_mut().ok_or("the engine has been told to end")?;
        writeln!(requests, "{request}").map_err(|error| format!("{}: {error}", self.name))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| format!("{}: {error}", self.name))?;
        let answer: Value = match line.as_str() {
            "" => return Err("it has ended without an answer".into()),
            line => serde_json::from_str(line).map_err(|error| format!("{}: {line:?}: {error}", self.name))?,
        };
        match answer["error"].as_str() {
            Some(error) => Err(format!("{}: {error}", self.name)),
            None => Ok(answer),
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // The end of its input tells it to shut down what it has started.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// Writes every table of TPC-H as a Parquet file, and the schema as `schema.sql`, unless they are there.
pub fn export(database: &Arc<Database>, directory: &Path, runtime: &Runtime) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    let session = Session::new(database);
    for table in &TABLES {
        let path = directory.join(format!("{}.parquet", table.name));
        if path.exists() {
            continue;
        }
        // Moved there when it is whole, so that what is there is complete.
        let unfinished = directory.with_extension("unfinished.parquet");
        runtime.block_on(rows_of(&session, &format!("COPY {} TO '{}'", table.name, unfinished.display())))?;
        std::fs::rename(unfinished, path).map_err(failed)?;
    }
    let statements =
        TABLES.iter().flat_map(|table| std::iter::once(table.create_sql()).chain(table.create_index_sql()));
    std::fs::write(directory.join("schema.sql"), statements.collect::<Vec<_>>().join(";\n")).map_err(failed)
}
