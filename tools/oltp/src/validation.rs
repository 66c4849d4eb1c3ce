//! How long readers wait beside the commit of a serializable transaction that has read much.
//!
//! One transaction after the other reads everything, changes one row, and commits. Beside it, one thread reads that row
//! again and again, each time in a transaction of its own, and another changes what was not read, but lies in the
//! same leaves of the index. A read waits where its snapshot includes a commit that is not visible yet: from the
//! timestamp to the stamps. How long that is, the commit measures itself ("held"), since a reader cannot tell it from
//! being stopped by the system, which on a busy machine is more.
//!
//! | reads | as | beside |
//! |---|---|---|
//! | `range` | one scan of a table in memory | inserts into the range, which are taken back |
//! | `keys` | keys, one by one, of rows in a base: here there is nothing | changes of other keys of the table |

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use saki_base::{DataType, ValueRef};
use saki_mvcc::{
    Database, Direction, Durability, Error, Isolation, KeyRange, Runner, Sabotage, Table, TableDefinition,
};
use saki_report::{Common, Report};
use serde_json::json;

use crate::codec::{Key, column, define, encode};
use crate::engine::{Engine, fill, settle};
use crate::progress::Progress;
use crate::{ChartData, Outcome};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rows or keys that each large transaction reads
    #[arg(long, value_delimiter = ',', default_values_t = [25_000, 100_000, 400_000])]
    pub reads: Vec<u64>,
    /// Large transactions of each kind
    #[arg(long, default_value_t = 20)]
    pub rounds: u32,
}

/// How the large transaction reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Range,
    Keys,
}

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Keys => "keys",
        }
    }
}

/// Phases of the large transactions, as the reader looks at them.
const READING: u8 = 0;
const COMMITTING: u8 = 1;
const OVER: u8 = 2;

/// The longest wait told apart, in nanoseconds.
const WAIT_NS_MAX: u64 = 60_000_000_000;
thread_local! {
    /// When this thread's transaction took its timestamp.
    static TICKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Seconds from there to its stamps.
    static HELD: Cell<Option<f64>> = const { Cell::new(None) };
}

/// What the engine tells of commits.
fn told(is_stamped: bool) {
    match is_stamped {
        false => TICKED.set(Some(Instant::now())),
        true => HELD.set(TICKED.take().map(|ticked| ticked.elapsed().as_secs_f64())),
    }
}

/// What the other writer rests between its changes.
const PAUSE: Duration = Duration::from_micros(200);

pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut report = Report::new("validation", common);
    let (reads, rounds) = if common.small { (vec![2_000], 3) } else { (options.reads.clone(), options.rounds) };
    report.configure("reads", &reads);
    report.configure("rounds", rounds);
    let mut chart = ChartData::new("Commits of large serializable transactions", "reads", "others wait, us");
    println!(
        "{:8} {:>9} {:>10} {:>8} {:>12} {:>12} {:>14} {:>12} {:>12}",
        "read by",
        "reads",
        "commit ms",
        "failed",
        "held us",
        "longest us",
        "read 99.9 % us",
        "longest ms",
        "without ms"
    );
    for shape in [Shape::Range, Shape::Keys] {
        for reads in &reads {
            let bench = Bench { common, shape, reads: *reads, rounds };
            bench.measure(&mut report, &mut chart)?;
        }
    }
    report.note("held: from the timestamp to the stamps, median and most; whoever is stopped in a commit adds to it");
    report.note("without: the same reader's longest read while the large transaction reads and does not commit");
    Ok(Outcome { report, charts: vec![chart] })
}

struct Bench<'a> {
    common: &'a Common,
    shape: Shape,
    reads: u64,
    rounds: u32,
}

/// What the thread of the large transactions found.
struct Commits {
    seconds: Vec<f64>,
    /// Of these, after the timestamp.
    held: Vec<f64>,
    failed: u32,
}

/// Waits of the reader, in nanoseconds.
struct Waits {
    beside: Histogram<u64>,
    without: Histogram<u64>,
}

struct Tables {
    /// Where much is read; of even numbers.
    many: Table,
    /// Of the one row that the large transactions change.
    one: Table,
}

impl Bench<'_> {
    fn measure(&self, report: &mut Report, chart: &mut ChartData) -> Result<(), String> {
        let (database, _home) = Engine::of(2).create_hooked(self.common, "validation", Some(Sabotage::Told(told)))?;
        let tables = self.tables(&database)?;
        let phase = AtomicU8::new(READING);
        let (commits, waits) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(&database, &tables.one, &phase));
            let writer = scope.spawn(|| self.disturb(&database, &tables.many, &phase));
            let commits = self.commit(&database, &tables, &phase);
            phase.store(OVER, Ordering::Relaxed);
            let waits = reader.join().expect("the reader does not panic");
            writer.join().expect("the writer does not panic")?;
            Ok::<_, Error>((commits?, waits?))
        })
        .map_err(|error| error.to_string())?;
        settle(&database)?;
        report.check(commits.failed == 0, || {
            format!("{} of {} transactions failed, whose reads nobody changed", commits.failed, self.rounds)
        });
        let commit_ms = median(commits.seconds) * 1e3;
        let held_longest_us = commits.held.iter().copied().fold(0.0, f64::max) * 1e6;
        let held_us = median(commits.held) * 1e6;
        let longest = waits.beside.max() as f64 / 1e6;
        let without = waits.without.max() as f64 / 1e6;
        let high = waits.beside.value_at_quantile(0.999) as f64 / 1e3;
        let (name, reads) = (self.shape.name(), self.reads);
        println!(
            "{name:8} {reads:>9} {commit_ms:>10.2} {:>8} {held_us:>12.1} {held_longest_us:>12.1} {high:>14.1} \
             {longest:>12.2} {without:>12.2}",
            commits.failed
        );
        report.row(json!({
            "what": "validation", "read_by": name, "reads": reads, "rounds": self.rounds, "commit_ms": commit_ms,
            "failed": commits.failed, "held_us": held_us, "held_longest_us": held_longest_us,
            "beside_reads": waits.beside.len(), "beside_p999_us": high, "beside_longest_ms": longest,
            "without_longest_ms": without,
        }));
        report.summarise(format!("{name}_held_us_{reads}"), held_us);
        chart.point(name, reads as f64, held_us);
        Ok(())
    }

    fn tables(&self, database: &Database) -> Result<Tables, String> {
        let columns = [column("id", DataType::Int8), column("value", DataType::Int8)];
        let create = |definition| database.create_table(definition).map_err(|error| error.to_string());
        let one = create(define("one", 1, &columns))?;
        let over_base = self.shape == Shape::Keys;
        let many = create(TableDefinition { over_base, ..define("many", 1, &columns) })?;
        let rows = if over_base { 0 } else { self.reads };
        let progress = Progress::new(format!("loading {rows} rows"));
        let load = |table: &Table, rows: u64| {
            let mut runner = database.runner()?;
            fill(&mut runner, table, 0..rows, &progress, |number, key, body| {
                key.extend_from_slice(key_of(2 * number).as_ref());
                encode(table, &row_of(0), body);
            })
        };
        load(&one, 1).and_then(|()| load(&many, rows)).map_err(|error| error.to_string())?;
        progress.done();
        settle(database)?;
        Ok(Tables { many, one })
    }

    fn commit(&self, database: &Database, tables: &Tables, phase: &AtomicU8) -> Result<Commits, Error> {
        let mut commits = Commits { seconds: Vec::new(), held: Vec::new(), failed: 0 };
        let mut runner = database.runner()?;
        for round in 0..self.rounds {
            let mut transaction = runner.begin_with(Isolation::Serializable, Durability::Relaxed);
            match self.shape {
                Shape::Range => {
                    transaction.scan(&tables.many, &KeyRange::all(), Direction::Forward, |_| ControlFlow::Continue(()));
                }
                Shape::Keys => {
                    for number in 0..self.reads {
                        transaction.look(&tables.many, key_of(2 * number).as_ref());
                    }
                }
            }
            change(&mut transaction, &tables.one, 0, round.into())?;
            phase.store(COMMITTING, Ordering::Relaxed);
            let started = Instant::now();
            let outcome = transaction.commit_early();
            commits.seconds.push(started.elapsed().as_secs_f64());
            commits.held.extend(HELD.take());
            phase.store(READING, Ordering::Relaxed);
            match outcome {
                Ok(_) => {}
                Err(Error::Serialization) => commits.failed += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(commits)
    }

    /// Changes what the large transactions do not read, in the leaves that they do.
    fn disturb(&self, database: &Database, table: &Table, phase: &AtomicU8) -> Result<(), Error> {
        let mut runner = database.runner_on(1)?;
        for number in 0_u64.. {
            if phase.load(Ordering::Relaxed) == OVER {
                break;
            }
            let mut transaction = runner.begin_with(Isolation::Snapshot, Durability::Relaxed);
            let between = 2 * (number.wrapping_mul(0x9e37_79b9) % self.reads) + 1;
            change(&mut transaction, table, between, number)?;
            match self.shape {
                Shape::Range => transaction.abort(),
                Shape::Keys => _ = transaction.commit_early()?,
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Reads the one row until it is over.
fn read(database: &Database, one: &Table, phase: &AtomicU8) -> Result<Waits, Error> {
    let histogram = || Histogram::new_with_max(WAIT_NS_MAX, 3).expect("three digits are possible");
    let mut waits = Waits { beside: histogram(), without: histogram() };
    let mut runner: Runner = database.runner()?;
    let mut before = phase.load(Ordering::Relaxed);
    while before != OVER {
        let started = Instant::now();
        let transaction = runner.begin(Isolation::Snapshot);
        assert!(transaction.get(one, key_of(0).as_ref()).is_some(), "the row is always there");
        drop(transaction);
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(WAIT_NS_MAX);
        let after = phase.load(Ordering::Relaxed);
        // Whoever waits for a commit sees its end.
        let of = if before == READING && after == READING { &mut waits.without } else { &mut waits.beside };
        of.saturating_record(nanoseconds);
        before = after;
    }
    Ok(waits)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn change(transaction: &mut saki_mvcc::Transaction<'_>, table: &Table, id: u64, value: u64) -> Result<(), Error> {
    let mut body = Vec::new();
    encode(table, &row_of(value), &mut body);
    transaction.write(table, key_of(id).as_ref(), Some(&body))
}

fn key_of(id: u64) -> Key<8> {
    Key::new().int8(id as i64)
}

/// The columns that are not of the key.
fn row_of(value: u64) -> [ValueRef<'static>; 1] {
    [ValueRef::Int8(value as i64)]
}
