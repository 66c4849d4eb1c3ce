//! What it takes until a query can run: planned anew, and by a plan that was kept. Over the 22 queries of TPC-H and
//! over joins as applications send them, prepared with parameters: each run with another value.
//!
//! The time is that from the statement to a stream that has not been asked for a row; reading the text is counted for
//! text, as a server would have to read it.

pub mod cliffs;
pub mod compiled;

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use saki::tpch::QUERIES;
use saki_report::{Common, Report, figure};
use saki_sql::{Database, Prepared, RowSink, ScalarValue, Session, StatementResult, ValueRef};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::data::tpch::{Wanted, open, prepare, runtime, text};

/// Counts rows of compiled statements.
#[derive(Default)]
struct Count(usize);

impl RowSink for Count {
    fn clear(&mut self) {
        self.0 = 0;
    }

    fn row(&mut self, _: &[ValueRef<'_>]) {
        self.0 += 1;
    }
}

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// Times that each is planned
    #[arg(long, default_value_t = 40)]
    repeat: usize,
    /// Only statements with this in their name
    #[arg(long, default_value = "")]
    only: String,
}

/// Joins as an application prepares them.
const PREPARED: [(&str, &str); 3] = [
    (
        "orders of a customer",
        "SELECT o.o_orderkey, o.o_orderdate, sum(l.l_extendedprice * (1 - l.l_discount)) FROM orders o \
         JOIN lineitem l ON l.l_orderkey = o.o_orderkey WHERE o.o_custkey = $1 GROUP BY o.o_orderkey, o.o_orderdate \
         ORDER BY o.o_orderdate DESC LIMIT 10",
    ),
    (
        "parts of an order",
        "SELECT p.p_name, l.l_quantity, s.s_name FROM lineitem l JOIN part p ON p.p_partkey = l.l_partkey \
         JOIN supplier s ON s.s_suppkey = l.l_suppkey WHERE l.l_orderkey = $1 ORDER BY l.l_linenumber",
    ),
    (
        "customers of a nation",
        "SELECT c.c_name, c.c_acctbal FROM customer c JOIN nation n ON n.n_nationkey = c.c_nationkey \
         WHERE c.c_custkey = $1 AND c.c_acctbal > 0",
    ),
];

struct Row {
    name: String,
    /// Medians, in seconds.
    anew: f64,
    kept: f64,
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("planning", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    let repeat = if common.small { 5 } else { options.repeat };
    report.configure("scale", scale);
    report.configure("repeat", repeat);
    let path = prepare(&Wanted { scale, page_bytes: options.page_size, path: None }, common, &runtime)?;
    let database = open(&path, None, &mut report)?;
    println!("{:<24}{:>12}{:>12}", "statement", "anew us", "kept us");
    let mut rows = Vec::new();
    let bench = Bench { runtime: &runtime, database: &database, repeat };
    for query in &QUERIES {
        let name = format!("Q{}", query.number);
        if name.contains(&options.only) {
            rows.push(bench.measure(&name, &Statement::Text(query.sql))?);
        }
    }
    let texts = rows.len();
    for (name, sql) in PREPARED.iter().filter(|(name, _)| name.contains(&options.only)) {
        let prepared = runtime.block_on(Session::new(&database).prepare(sql, &[])).map_err(text)?;
        let statement = Statement::Prepared(Arc::new(prepared));
        rows.push(bench.measure(name, &statement)?);
    }
    for row in &rows {
        report.row(json!({"statement": row.name, "anew_seconds": row.anew, "kept_seconds": row.kept}));
    }
    let of_prepared = &rows[texts..];
    let worst = |rows: &[Row], of: fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max) * 1e6;
    report.summarise("prepared_kept_us_worst", worst(of_prepared, |row| row.kept));
    report.summarise("prepared_anew_us_worst", worst(of_prepared, |row| row.anew));
    report.summarise("tpch_anew_us_total", rows.iter().take(texts).map(|row| row.anew * 1e6).sum::<f64>());
    report.summarise("tpch_kept_us_total", rows.iter().take(texts).map(|row| row.kept * 1e6).sum::<f64>());
    report.configure("plans_reused", database.plans_reused());
    Ok(report)
}

enum Statement {
    Text(&'static str),
    Prepared(Arc<Prepared>),
}

struct Bench<'b> {
    runtime: &'b Runtime,
    database: &'b Arc<Database>,
    repeat: usize,
}

impl Bench<'_> {
    fn measure(&self, name: &str, statement: &Statement) -> Result<Row, String> {
        let row = Row { name: name.into(), anew: self.median("off", statement)?, kept: self.median("on", statement)? };
        println!("{:<24}{:>12}{:>12}", row.name, figure(row.anew * 1e6), figure(row.kept * 1e6));
        Ok(row)
    }

    fn median(&self, plan_cache: &str, statement: &Statement) -> Result<f64, String> {
        let session = Session::new(self.database);
        session.set("plan_cache", plan_cache).map_err(text)?;
        // With a limit, a query's first rows come with its plan.
        session.set("query_memory", "unlimited").map_err(text)?;
        let mut seconds = Vec::with_capacity(self.repeat);
        // The first plans, the second keeps its plan.
        for run in 0..self.repeat + 2 {
            let began = Instant::now();
            let results = self.runtime.block_on(planned(&session, statement, run as i32))?;
            let elapsed = began.elapsed().as_secs_f64();
            // To the end, so that the next one has the machine for itself.
            for result in results {
                self.runtime.block_on(result.collect()).map_err(text)?;
            }
            if run >= 2 {
                seconds.push(elapsed);
            }
        }
        seconds.sort_unstable_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2])
    }
}

/// Brings a statement to where its rows can be asked for.
async fn planned(session: &Session, statement: &Statement, run: i32) -> Result<Vec<StatementResult>, String> {
    match statement {
        Statement::Text(sql) => session.execute(sql).await,
        Statement::Prepared(prepared) => {
            let values = [ScalarValue::Int32(Some(1 + run))];
            session.execute_prepared(prepared, &values).await.map(|one| vec![one])
        }
    }
    .map_err(text)
}
