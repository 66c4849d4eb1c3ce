//! Where statements fall off a cliff: walks in twenty steps from one row to all of a table, by every way to find rows,
//! over types, with parameters and as plain text, of rows that are merged, newer, both, and not in memory.
//!
//! A step is from one number of rows to the next, and as steep as the time grows. Each walk says its steepest; beside
//! them stands how much a walk costs that differs from another in one thing: its type, its text, where its rows are.

mod walks;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use saki::plot::{Axis, Chart, Series};
use saki_base::Random;
use saki_report::{Common, Report, figure};
use saki_sql::{CreateOptions, Database, FastAnswer, OpenOptions, Pace, ScalarValue, Session, StatementResult};
use serde_json::json;
use tokio::runtime::Runtime;

use self::walks::{COLUMNS, State, Statement, Walk, tables};
use super::Count;
use crate::data::tpch::{runtime, text};
use crate::plot::save;

/// Steps of a walk, and a step that is a cliff.
const STEPS: u32 = 20;
const CLIFF: f64 = 3.0;
/// No merge begins by itself.
const DELTA_BYTES: u64 = 4 << 30;
/// Rows that are read at a time to bring a table to memory.
const WARM_ROWS: u32 = 1000;

#[derive(Args)]
pub struct Options {
    /// Rows of the table
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    /// Times that each statement is run; the fastest counts
    #[arg(long, default_value_t = 7)]
    repeat: u32,
    /// Only walks with this in their name
    #[arg(long, default_value = "")]
    only: String,
}

/// What a walk came to: rows that were touched, and seconds.
struct Measured {
    walk: Walk,
    points: Vec<(u32, f64)>,
}

impl Measured {
    /// The steepest step: how much the time grows, and up to how many rows.
    fn steepest(&self) -> (f64, u32) {
        let steps = self.points.windows(2).map(|pair| (pair[1].1 / pair[0].1, pair[1].0));
        steps.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((1.0, 1))
    }

    /// How much it costs beside another walk over the same steps, at worst.
    fn over(&self, other: &Self) -> f64 {
        self.points.iter().zip(&other.points).map(|(own, other)| own.1 / other.1).fold(0.0, f64::max)
    }
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("cliffs", common);
    let (rows, repeat) = if common.small { (2000, 1) } else { (options.rows, options.repeat) };
    report.configure("rows", rows);
    report.configure("repeat", repeat);
    let runtime = runtime();
    println!("{:<52}{:>10}{:>10}{:>10}{:>12}", "walk", "first us", "last us", "steepest", "up to rows");
    let mut measured = Vec::new();
    for state in State::ALL {
        let walks: Vec<Walk> = Walk::all(state, common.small)
            .into_iter()
            .filter(|walk| walk.to_string().contains(&options.only))
            .collect();
        if walks.is_empty() {
            continue;
        }
        let mut bench = Bench::new(common, &runtime, state, rows)?;
        for walk in walks {
            let walked = bench.walk(walk, repeat, &mut report)?;
            let (steepest, at) = walked.steepest();
            let us = |point: Option<&(u32, f64)>| figure(point.map_or(0.0, |point| point.1 * 1e6));
            let (first, last) = (us(walked.points.first()), us(walked.points.last()));
            println!("{:<52}{first:>10}{last:>10}{:>10}{at:>12}", walk.to_string(), figure(steepest));
            for (rows, seconds) in &walked.points {
                report.row(json!({"walk": walk.to_string(), "rows": rows, "seconds": seconds}));
            }
            measured.push(walked);
        }
    }
    summarise(&measured, &mut report);
    if let Some(plot) = &common.plot {
        let mut steepest: Vec<&Measured> = measured.iter().collect();
        steepest.sort_by(|one, other| other.steepest().0.total_cmp(&one.steepest().0));
        let points = |walk: &Measured| walk.points.iter().map(|point| (f64::from(point.0), point.1 * 1e6)).collect();
        let chart = Chart::new("From one row to all of them: the steepest walks")
            .subtitle(format!("{rows} rows"))
            .x(Axis::log("rows touched"))
            .y(Axis::log("microseconds"));
        let series = steepest.iter().take(6).map(|walk| Series::new(walk.walk.to_string(), points(walk)));
        save(&series.fold(chart, Chart::series), plot)?;
    }
    Ok(report)
}

fn summarise(measured: &[Measured], report: &mut Report) {
    let steps = measured.iter().flat_map(|walk| walk.points.windows(2).map(|pair| pair[1].1 / pair[0].1));
    report.summarise("cliffs", steps.clone().filter(|step| *step > CLIFF).count() as f64);
    report.summarise("steps", steps.count() as f64);
    if let Some(worst) = measured.iter().max_by(|a, b| a.steepest().0.total_cmp(&b.steepest().0)) {
        report.summarise("step_worst", worst.steepest().0);
        report.configure("step_worst_of", worst.walk.to_string());
    }
    // What stands beside each walk: the one that differs in this alone.
    for (name, plainer) in [
        ("text_over_parameters_worst", Walk::with_parameters as fn(Walk) -> Option<Walk>),
        ("unmerged_over_merged_worst", Walk::merged),
        ("opened_over_merged_worst", Walk::in_memory),
        ("type_over_integer_worst", Walk::of_integers),
    ] {
        let pairs = measured.iter().filter_map(|own| {
            let plainer = plainer(own.walk)?;
            Some(own.over(measured.iter().find(|other| other.walk == plainer)?))
        });
        let worst = pairs.fold(0.0, f64::max);
        if worst > 0.0 {
            report.summarise(name, worst);
        }
    }
}

/// A database with the table, in one state.
struct Bench<'b> {
    runtime: &'b Runtime,
    path: PathBuf,
    state: State,
    rows: u32,
    /// In its place another comes, if it is opened anew.
    open: Option<(Arc<Database>, Session)>,
    random: Random,
}

impl<'b> Bench<'b> {
    fn new(common: &Common, runtime: &'b Runtime, state: State, rows: u32) -> Result<Self, String> {
        let path = common.data.join(format!("cliffs-{state}.saki"));
        // What is not there need not go.
        let _ = (
            std::fs::remove_file(&path),
            std::fs::remove_dir_all(common.data.join(format!("cliffs-{state}.saki.log"))),
        );
        std::fs::create_dir_all(&common.data).map_err(|error| format!("{}: {error}", common.data.display()))?;
        let options = CreateOptions { open: Self::options(), ..CreateOptions::default() };
        let database = Database::create(&path, options).map_err(text)?;
        // As a server does.
        database.start_engine().map_err(text)?;
        let session = Session::new(&database);
        let execute = |sql: &str| runtime.block_on(session.execute(sql)).map(drop).map_err(text);
        tables(rows).iter().try_for_each(|sql| execute(sql))?;
        if state != State::Newer {
            database.checkpoint(&Pace::full()).map_err(text)?;
        }
        if state == State::Mixed {
            execute("UPDATE t SET n = n + 0 WHERE id % 10 = 3")?;
        }
        execute("ANALYZE t")?;
        let random = Random::new(common.seed);
        let mut bench = Self { runtime, path, state, rows, open: Some((database, session)), random };
        if state != State::Opened {
            bench.warm()?;
        }
        Ok(bench)
    }

    fn options() -> OpenOptions {
        OpenOptions { delta_bytes: DELTA_BYTES, ..OpenOptions::default() }
    }

    /// Brings trees to memory: what scans segments leaves them alone.
    fn warm(&mut self) -> Result<(), String> {
        for column in COLUMNS {
            for low in (0..self.rows).step_by(WARM_ROWS as usize) {
                let (low, high) = ((column.literal)(low), (column.literal)((low + WARM_ROWS).min(self.rows) - 1));
                let sql = format!("SELECT id FROM t WHERE {} BETWEEN {low} AND {high}", column.name);
                self.once(&Statement { sql, values: Vec::new(), given: WARM_ROWS as usize })?;
            }
        }
        Ok(())
    }

    fn walk(&mut self, walk: Walk, repeat: u32, report: &mut Report) -> Result<Measured, String> {
        let mut points: Vec<(u32, f64)> = Vec::new();
        for step in 0..STEPS {
            let most = f64::from(walk.rows_max(self.rows));
            let touched = most.powf(f64::from(step) / f64::from(STEPS - 1)).round() as u32;
            if points.last().is_some_and(|last| last.0 >= touched) {
                continue;
            }
            let mut best = f64::INFINITY;
            // The first plans, and is not counted.
            for turn in 0..=repeat {
                let first = self.random.below(u64::from(self.rows - touched + 1)) as u32;
                let statement = walk.statement(first, touched, self.rows);
                let (seconds, given) = self.once(&statement)?;
                report.check(given == statement.given, || format!("{walk}: {given} rows, not {}", statement.given));
                if turn > 0 || self.state == State::Opened {
                    best = best.min(seconds);
                }
            }
            points.push((touched, best));
        }
        Ok(Measured { walk, points })
    }

    /// Runs a statement: seconds, and rows that it gave.
    fn once(&mut self, statement: &Statement) -> Result<(f64, usize), String> {
        if self.state == State::Opened {
            self.open = None;
            let database = Database::open(&self.path, Self::options()).map_err(text)?;
            database.start_engine().map_err(text)?;
            let session = Session::new(&database);
            self.open = Some((database, session));
        }
        let (_, session) = self.open.as_ref().ok_or("nothing is open")?;
        match statement.values.is_empty() {
            true => self.runtime.block_on(as_text(session, &statement.sql)),
            false => self.runtime.block_on(prepared(session, &statement.sql, &statement.values)),
        }
    }
}

/// As clients send text.
async fn as_text(session: &Session, sql: &str) -> Result<(f64, usize), String> {
    let began = Instant::now();
    let result = session.execute(sql).await.map_err(text)?.pop().ok_or("no result")?;
    let given = rows_of(result).await?;
    Ok((began.elapsed().as_secs_f64(), given))
}

/// As clients send values for a statement that they have prepared; preparing it is not counted.
async fn prepared(session: &Session, sql: &str, values: &[ScalarValue]) -> Result<(f64, usize), String> {
    let prepared = match session.prepare_fast(sql, &[]) {
        Some(prepared) => prepared,
        None => session.prepare(sql, &[]).await.map_err(text)?,
    };
    let began = Instant::now();
    if let Some(plan) = &prepared.fast {
        let mut rows = Count::default();
        if let FastAnswer::Done(_) = session.execute_fast(plan, values, &mut rows).await.map_err(text)? {
            return Ok((began.elapsed().as_secs_f64(), rows.0));
        }
    }
    let result = session.execute_prepared(&prepared, values).await.map_err(text)?;
    let given = rows_of(result).await?;
    Ok((began.elapsed().as_secs_f64(), given))
}

async fn rows_of(result: StatementResult) -> Result<usize, String> {
    Ok(result.collect().await.map_err(text)?.iter().map(|batch| batch.num_rows()).sum())
}
