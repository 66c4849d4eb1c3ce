//! Small statements compiled, and the same by plans: in a session by itself, within transactions, so that it is what
//! statements cost that is measured, and not how long a log takes.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use saki_report::{Common, Report, figure};
use saki_sql::{CreateOptions, Database, FastAnswer, Prepared, ScalarValue, Session};
use serde_json::json;
use tokio::runtime::Runtime;

use super::Count;
use crate::data::tpch::{runtime, text};

#[derive(Args)]
pub struct Options {
    /// Statements of a transaction
    #[arg(long, default_value_t = 100)]
    statements: i32,
    /// Transactions of each kind, either way
    #[arg(long, default_value_t = 30)]
    transactions: i32,
}

const TABLES: &str = "CREATE TABLE parent (id int PRIMARY KEY, name text);
    INSERT INTO parent SELECT i, 'name' FROM generate_series(0, 99) AS s (i);
    CREATE TABLE plain (id serial PRIMARY KEY, k int, n int DEFAULT 0, c text);
    CREATE TABLE keyed (id serial PRIMARY KEY, k int UNIQUE, n int DEFAULT 0, c text);
    CREATE TABLE ruled (id serial PRIMARY KEY, k int REFERENCES parent, n int CHECK (n >= 0), c text);
    INSERT INTO plain (k) SELECT i FROM generate_series(1, 20000) AS s (i);
    INSERT INTO keyed (k) SELECT i FROM generate_series(1, 20000) AS s (i);
    INSERT INTO ruled (k, n) SELECT i % 100, i FROM generate_series(1, 20000) AS s (i)";

/// Statements over one number, another for each.
const STATEMENTS: [(&str, &str); 9] = [
    ("select by key", "SELECT id, k, n FROM keyed WHERE id = $1"),
    ("insert", "INSERT INTO plain (k, n, c) VALUES ($1, 1, 'some text')"),
    ("insert, returning", "INSERT INTO plain (k, n, c) VALUES ($1, 1, 'some text') RETURNING id"),
    ("insert, unique key", "INSERT INTO keyed (k, n, c) VALUES ($1 + 1000000, 1, 'some text') RETURNING id"),
    ("insert, check and reference", "INSERT INTO ruled (k, n) VALUES (7, $1) RETURNING id"),
    (
        "upsert",
        "INSERT INTO keyed (k, n) VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = keyed.n + EXCLUDED.n RETURNING n",
    ),
    ("update, returning", "UPDATE keyed SET n = n + 1 WHERE id = $1 RETURNING n"),
    ("update, check", "UPDATE ruled SET n = n + 1 WHERE id = $1 RETURNING n"),
    ("delete, returning", "DELETE FROM plain WHERE id = $1 RETURNING k"),
];

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("compiled", common);
    let (statements, transactions) = if common.small { (5, 2) } else { (options.statements, options.transactions) };
    report.configure("statements", statements);
    report.configure("transactions", transactions);
    let (runtime, path) = (runtime(), common.data.join("compiled"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&common.data).map_err(|error| format!("{}: {error}", common.data.display()))?;
    let database = Database::create(&path, CreateOptions::default()).map_err(text)?;
    let bench = Bench { runtime: &runtime, session: Session::new(&database), statements, ordinary: Cell::default() };
    bench.execute(TABLES)?;
    println!("{:<30}{:>12}{:>12}{:>8}", "statement", "planned us", "compiled us", "ratio");
    let mut least = f64::INFINITY;
    for (name, sql) in STATEMENTS {
        let (mut planned, mut compiled) = (Vec::new(), Vec::new());
        // In turns, each with numbers of its own.
        for turn in 0..transactions {
            planned.push(bench.transaction(sql, 2 * turn * statements, false)?);
            compiled.push(bench.transaction(sql, (2 * turn + 1) * statements, true)?);
        }
        let (planned, compiled) = (median(planned), median(compiled));
        let ratio = planned / compiled;
        least = least.min(ratio);
        println!("{name:<30}{:>12}{:>12}{:>8}", figure(planned), figure(compiled), figure(ratio));
        report.row(json!({"statement": name, "planned_us": planned, "compiled_us": compiled, "ratio": ratio}));
    }
    report.summarise("planned_over_compiled_least", least);
    let (ordinary, compiled) = (bench.ordinary.get(), statements * transactions * STATEMENTS.len() as i32);
    report.check(ordinary * 100 <= compiled, || format!("{ordinary} of {compiled} compiled statements were planned"));
    let expected = i64::from(statements * transactions);
    for (what, sql) in [
        ("inserted", "SELECT count(*) / 2 FROM keyed WHERE k > 1000000"),
        ("upserted and updated", "SELECT sum(n) / 4 FROM keyed WHERE k <= 1000000"),
        ("checked", "SELECT (count(*) - 20000) / 2 FROM ruled"),
    ] {
        let found = bench.number(sql)?;
        report.check(found == expected, || format!("{what}: {found} rows, and not {expected}"));
    }
    Ok(report)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

struct Bench<'b> {
    runtime: &'b Runtime,
    session: Session,
    statements: i32,
    /// Compiled statements that went the ordinary way.
    ordinary: Cell<i32>,
}

impl Bench<'_> {
    fn execute(&self, sql: &str) -> Result<(), String> {
        self.runtime.block_on(self.session.execute(sql)).map(drop).map_err(text)
    }

    fn number(&self, sql: &str) -> Result<i64, String> {
        let result = self.runtime.block_on(self.session.execute(sql)).map_err(text)?.pop().ok_or("no result")?;
        let batches = self.runtime.block_on(result.collect()).map_err(text)?;
        let shown =
            arrow::util::pretty::pretty_format_batches(&batches).map_err(|error| error.to_string())?.to_string();
        let number: String = shown.lines().nth(3).unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
        number.parse().map_err(|_| format!("{sql} gives {shown}"))
    }

    /// Runs a statement with numbers from `first` on, within a transaction: microseconds of each.
    fn transaction(&self, sql: &str, first: i32, is_compiled: bool) -> Result<f64, String> {
        self.session.set("compiled", if is_compiled { "on" } else { "off" }).map_err(text)?;
        let prepared = match self.session.prepare_fast(sql, &[]) {
            Some(prepared) => prepared,
            None if is_compiled => return Err(format!("not compiled: {sql}")),
            None => self.runtime.block_on(self.session.prepare(sql, &[])).map_err(text)?,
        };
        let prepared = Arc::new(prepared);
        self.execute("BEGIN")?;
        // What is planned or read once is not counted.
        self.runtime.block_on(self.one(&prepared, first))?;
        let began = Instant::now();
        self.runtime.block_on(async {
            for number in 1..self.statements {
                self.one(&prepared, first + number).await?;
            }
            Ok::<_, String>(())
        })?;
        let elapsed = began.elapsed().as_secs_f64();
        self.execute("COMMIT")?;
        Ok(elapsed * 1e6 / f64::from(self.statements - 1))
    }

    /// Runs a statement about one row.
    async fn one(&self, prepared: &Prepared, number: i32) -> Result<(), String> {
        let values = [ScalarValue::Int32(Some(number + 1))];
        if let Some(plan) = &prepared.fast {
            let mut rows = Count::default();
            match self.session.execute_fast(plan, &values, &mut rows).await.map_err(text)? {
                FastAnswer::Done(_) => return Ok(()),
                // Now and then a sequence has to say durably how far it is.
                FastAnswer::Ordinary => self.ordinary.set(self.ordinary.get() + 1),
            }
        }
        let result = self.session.execute_prepared(prepared, &values).await.map_err(text)?;
        result.collect().await.map(drop).map_err(text)
    }
}
