//! What speculation is worth: many clients, few rows.
//!
//! Each client increments one of a few rows, waits until that is durable, and does it again. With speculative commits
//! the next client builds on an increment at once, so that one write of the log carries those of all clients. Without,
//! a row can be incremented once for each write of the log. Clients are states, not threads: a worker looks at its own
//! in turn and rests only when none of them can go on; what conflicts is tried again later.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use saki_base::{DataType, Random, ValueRef};
use saki_mvcc::{Database, Error, Isolation, Receipt, Runner, Table};
use saki_report::{Common, Report};
use serde_json::json;

use super::Options;
use crate::codec::{Key, Place, column, define, encode};
use crate::driver::{LogWork, joined, latencies, percentiles};
use crate::engine::{Engine, on_workers};
use crate::zipf::below;

const WORKERS: usize = 2;
/// After a conflict a client waits so long: what it conflicts with takes a write of the log.
const RETRY: Duration = Duration::from_micros(100);

pub fn run(common: &Common, options: &Options, report: &mut Report) -> Result<(), String> {
    println!("{:>8} {:>12} {:>12} {:>10} {:>12}", "hot rows", "speculation", "acked/s", "p99 ms", "aborts/commit");
    for rows in &options.hot_rows {
        let mut rates = Vec::new();
        for speculation in [true, false] {
            let rate = measure(common, options, *rows, speculation, report)?;
            let name = if speculation { "speculative" } else { "not_speculative" };
            report.summarise(format!("hot_{name}_tps_{rows}"), rate);
            rates.push(rate);
        }
        let ratio = rates[0] / rates[1].max(1e-9);
        // The name without a number is the first, which is the default.
        if Some(rows) == options.hot_rows.first() {
            report.summarise("speculation_ratio", ratio);
        }
        report.summarise(format!("speculation_ratio_{rows}"), ratio);
    }
    Ok(())
}

fn measure(
    common: &Common,
    options: &Options,
    rows: u64,
    speculation: bool,
    report: &mut Report,
) -> Result<f64, String> {
    let engine = Engine { speculation, ..Engine::of(WORKERS) };
    let (database, _home) = engine.create(common, "hot")?;
    let definition = define("hot", 1, &[column("id", DataType::Int8), column("counter", DataType::Int8)]);
    let table = database.create_table(definition).map_err(|error| error.to_string())?;
    load(&database, &table, rows)?;
    let [warmup, counted] = if common.small { [0.02, 0.2] } else { [options.warmup, options.seconds] };
    let span = [warmup, counted].map(Duration::from_secs_f64);
    let before = LogWork::of(&database);
    let run = |worker: usize, runner: &mut Runner| {
        let clients = (worker + 1) * options.clients / WORKERS - worker * options.clients / WORKERS;
        let random = Random::new(common.seed ^ (worker as u64 + 1) << 24);
        Crowd::new(&database, &table, rows, clients, random).run(runner, span)
    };
    let crowds = on_workers(&database, run)?;
    let log = LogWork::of(&database);
    let committed: u64 = crowds.iter().map(|crowd| crowd.committed).sum();
    let sum = sum_of(&database, &table, rows)?;
    report.check(sum == committed as i64, || format!("{rows} hot rows sum up to {sum} after {committed} increments"));
    let rate = crowds.iter().map(|crowd| crowd.acknowledged as f64).sum::<f64>() / counted;
    let aborts = crowds.iter().map(|crowd| crowd.aborts).sum::<u64>() as f64 / committed.max(1) as f64;
    let mut latency = latencies();
    crowds.iter().for_each(|crowd| latency.add(&crowd.latency).expect("the histograms have the same bounds"));
    let p99 = latency.value_at_quantile(0.99) as f64 / 1e6;
    println!("{rows:>8} {speculation:>12} {rate:>12.0} {p99:>10.3} {aborts:>12.3}");
    let facts = json!({
        "what": "hot", "hot_rows": rows, "clients": options.clients, "acknowledged_per_s": rate, "committed": committed,
        "memory_mb": database.memory_bytes() as f64 / 1e6, "aborts_per_commit": aborts,
        "latency_ms": percentiles(&latency),
        "log_writes_per_s": (log.writes - before.writes) as f64 / (warmup + counted),
        "log_flushes_per_s": (log.flushes - before.flushes) as f64 / (warmup + counted),
    });
    report.row(joined(facts, engine.to_json()));
    Ok(rate)
}

fn load(database: &Database, table: &Table, rows: u64) -> Result<(), String> {
    let add = || -> Result<(), Error> {
        let mut runner = database.runner()?;
        let mut transaction = runner.begin(Isolation::Snapshot);
        let mut body = Vec::new();
        encode(table, &[ValueRef::Int8(0)], &mut body);
        for row in 0..rows {
            transaction.insert(table, Key::<8>::new().int8(row as i64).as_ref(), &body)?;
        }
        transaction.commit().map(drop)
    };
    add().map_err(|error| error.to_string())
}

fn sum_of(database: &Database, table: &Table, rows: u64) -> Result<i64, String> {
    let counter = Place::<i64>::of(table, "counter");
    let mut runner = database.runner().map_err(|error| error.to_string())?;
    let transaction = runner.begin(Isolation::Snapshot);
    let value = |row: u64| {
        let found = transaction.get(table, Key::<8>::new().int8(row as i64).as_ref());
        found.map(|found| counter.read(found.body)).ok_or_else(|| format!("hot row {row} is gone"))
    };
    (0..rows).map(value).sum()
}

/// The clients of one worker.
struct Crowd<'a> {
    database: &'a Database,
    table: &'a Table,
    counter: Place<i64>,
    rows: u64,
    clients: Vec<Client>,
    random: Random,
}

/// What a worker's clients did.
struct Counts {
    committed: u64,
    /// While it counted, as is what follows.
    acknowledged: u64,
    aborts: u64,
    latency: Histogram<u64>,
}

#[derive(Clone, Copy)]
struct Client {
    row: u64,
    asked: Instant,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Wants its increment, from then on.
    Asking(Instant),
    Waiting(Receipt),
}

impl<'a> Crowd<'a> {
    fn new(database: &'a Database, table: &'a Table, rows: u64, clients: usize, mut random: Random) -> Self {
        let now = Instant::now();
        let client = |_| Client { row: below(&mut random, rows), asked: now, state: State::Asking(now) };
        let clients = (0..clients).map(client).collect();
        Self { database, table, counter: Place::of(table, "counter"), rows, clients, random }
    }

    fn run(mut self, runner: &mut Runner, [warmup, counted]: [Duration; 2]) -> Result<Counts, Error> {
        let mut counts = Counts { committed: 0, acknowledged: 0, aborts: 0, latency: latencies() };
        let started = Instant::now();
        let mut now = started;
        while now < started + warmup + counted {
            let is_counting = now >= started + warmup;
            let mut did_something = false;
            for number in 0..self.clients.len() {
                did_something |= self.look_at(number, runner, now, is_counting, &mut counts)?;
            }
            if !did_something {
                self.rest()?;
            }
            now = Instant::now();
        }
        for client in &self.clients {
            if let State::Waiting(receipt) = client.state {
                self.database.wait(receipt)?;
            }
        }
        Ok(counts)
    }

    /// Waits for the first thing that can change anything: a client's commit is durable, or it is time to try again.
    fn rest(&self) -> Result<(), Error> {
        let receipt = |client: &Client| match client.state {
            State::Waiting(receipt) => Some(receipt),
            State::Asking(_) => None,
        };
        match self.clients.iter().filter_map(receipt).min_by_key(|receipt| receipt.through) {
            Some(first) => self.database.wait(first),
            None => {
                std::thread::sleep(RETRY);
                Ok(())
            }
        }
    }

    /// Does what a client can do now; whether there was anything.
    fn look_at(
        &mut self,
        number: usize,
        runner: &mut Runner,
        now: Instant,
        is_counting: bool,
        counts: &mut Counts,
    ) -> Result<bool, Error> {
        let mut client = self.clients[number];
        match client.state {
            State::Waiting(receipt) if self.database.is_durable(receipt) => {
                if is_counting {
                    counts.acknowledged += 1;
                    counts.latency.saturating_record(now.duration_since(client.asked).as_nanos() as u64);
                }
                client = Client { row: below(&mut self.random, self.rows), asked: now, state: State::Asking(now) };
            }
            State::Asking(from) if from <= now => match self.increment(client.row, runner) {
                Ok(receipt) => {
                    counts.committed += 1;
                    client.state = State::Waiting(receipt);
                }
                Err(error) if error.is_retryable() => {
                    counts.aborts += u64::from(is_counting);
                    client.state = State::Asking(now + RETRY);
                }
                Err(error) => return Err(error),
            },
            _ => return Ok(false),
        }
        self.clients[number] = client;
        Ok(true)
    }

    fn increment(&self, row: u64, runner: &mut Runner) -> Result<Receipt, Error> {
        let mut transaction = runner.begin(Isolation::Serializable);
        let found = transaction.get(self.table, Key::<8>::new().int8(row as i64).as_ref());
        let Some(id) = found.map(|found| found.id) else {
            return Err(Error::Procedure { message: format!("hot row {row} is gone") });
        };
        transaction.modify(self.table, id, |body| self.counter.write(body, self.counter.read(body) + 1))?;
        transaction.commit_early()
    }
}
