//! A process that writes until it is killed, and says what it was told is durable.
//!
//! ```text
//!   writer DIRECTORY SEED          opens the database, checks it, and writes without end
//!     open CLOCK COUNT COUNT       what each of the two workers had committed when the database was opened
//!     ack WORKER NUMBER TIMESTAMP  transaction NUMBER of WORKER is durable
//! ```
//!
//! Each of two workers, pinned, with a runner and a log of its own, runs transactions whose content follows from the
//! seed, the worker and a running number. A transaction rewrites one of the worker's groups of rows, as a whole; raises
//! the worker's own count; and raises one of three totals that both workers share. So whatever is found later can be
//! checked to the letter: each worker's groups are those after `count` transactions, the totals add up to both counts,
//! and the indexes agree with the rows.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use saki_base::{Column, DataType, Random, Value, ValueRef};
use saki_mvcc::placement::{Placement, Topology, WorkerPlace, pin_current_thread};
use saki_mvcc::{
    Database, Direction, Error, IndexDefinition, Isolation, KeyRange, Options, Runner, Table, TableDefinition,
    Transaction,
};

pub const WORKERS: usize = 2;
const GROUPS: u64 = 12;
const MEMBERS_MAX: u64 = 4;
const TOTALS: i64 = 3;
/// Transactions of a worker that are committed and not durable, at most.
const IN_FLIGHT_MAX: u64 = 64;

pub fn options() -> Options {
    let placement = Placement::plan(&Topology::detect(), WORKERS, Some(WORKERS));
    let mut options = Options { participants_max: 8, placement, ..Options::default() };
    options.log.extent_bytes = 64 << 10;
    options.log.write_bytes_max = 32 << 10;
    options
}

fn column(name: &str, data_type: DataType, nullable: bool) -> Column {
    Column { name: name.into(), data_type, nullable }
}

fn members() -> TableDefinition {
    let index = |name: &str, column, unique| IndexDefinition {
        name: name.into(),
        columns: vec![column],
        unique,
        ..Default::default()
    };
    TableDefinition {
        name: "members".into(),
        columns: vec![
            column("group", DataType::Int8, false),
            column("member", DataType::Int8, false),
            column("number", DataType::Int8, false),
            column("tag", DataType::Int8, true),
            column("name", DataType::Text, false),
            column("note", DataType::Text, false),
        ],
        primary_key: vec![0, 1],
        indexes: vec![index("by_tag", 3, false), index("by_name", 4, true)],
        ..Default::default()
    }
}

fn counts() -> TableDefinition {
    TableDefinition {
        name: "counts".into(),
        columns: vec![column("id", DataType::Int8, false), column("count", DataType::Int8, false)],
        primary_key: vec![0],
        indexes: Vec::new(),
        ..Default::default()
    }
}

/// What a transaction of a worker does.
struct Plan {
    group: u64,
    /// Members that the group has afterwards.
    size: u64,
    note_bytes: usize,
    total: i64,
}

fn plan(seed: u64, worker: usize, number: u64) -> Plan {
    let mut random = Random::new(seed ^ (worker as u64) << 60 ^ number);
    let group = random.below(GROUPS) * WORKERS as u64 + worker as u64;
    let size = random.below(MEMBERS_MAX + 1);
    let note_bytes = if random.chance(0.1) { random.below(9_000) } else { random.below(100) } as usize;
    Plan { group, size, note_bytes, total: -1 - random.below(TOTALS as u64) as i64 }
}

type Encoded = (Vec<u8>, Vec<u8>);

fn member(table: &Table, plan: &Plan, number: u64, member: u64) -> Encoded {
    let tag = (!number.is_multiple_of(3)).then_some((number % 7) as i64);
    let name = format!("{}/{member}/{}", plan.group, number % 5);
    let note = "n".repeat(plan.note_bytes);
    let values = [
        ValueRef::Int8(plan.group as i64),
        ValueRef::Int8(member as i64),
        ValueRef::Int8(number as i64),
        tag.map_or(ValueRef::Null, ValueRef::Int8),
        ValueRef::Text(&name),
        ValueRef::Text(&note),
    ];
    encode(table, &values)
}

fn encode(table: &Table, values: &[ValueRef<'_>]) -> Encoded {
    let (mut key, mut body) = (Vec::new(), Vec::new());
    table.encode(values, &mut key, &mut body).expect("values of the table");
    (key, body)
}

/// Adds to a count.
fn raise(transaction: &mut Transaction<'_>, table: &Table, id: i64) -> Result<(), Error> {
    let (key, body) = encode(table, &[ValueRef::Int8(id), ValueRef::Int8(1)]);
    let Some(found) = transaction.get(table, &key) else { return transaction.insert(table, &key, &body).map(drop) };
    let count = count_of(table, found.key, found.body) + 1;
    let row = found.id;
    let (_, body) = encode(table, &[ValueRef::Int8(id), ValueRef::Int8(count)]);
    transaction.update(table, row, &body)
}

fn count_of(table: &Table, key: &[u8], body: &[u8]) -> i64 {
    match table.decode(key, body).expect("a row of the table")[..] {
        [_, Value::Int8(count)] => count,
        ref values => panic!("{values:?}"),
    }
}

/// The tables, made if they are not there.
fn tables(database: &Database) -> Result<(Table, Table), Error> {
    let table = |definition: TableDefinition| match database.table(&definition.name) {
        Some(table) => Ok(table),
        None => database.create_table(definition),
    };
    Ok((table(members())?, table(counts())?))
}

/// Checks everything against what the counts say; the counts.
///
/// # Errors
/// What is wrong.
pub fn verify(database: &Database, seed: u64) -> Result<[u64; WORKERS], String> {
    let (members, counts) = tables(database).map_err(|error| error.to_string())?;
    let mut runner = database.runner().map_err(|error| error.to_string())?;
    let transaction = runner.begin(Isolation::Snapshot);
    let count = |id: i64| {
        let (key, _) = encode(&counts, &[ValueRef::Int8(id), ValueRef::Int8(0)]);
        transaction.get(&counts, &key).map_or(0, |found| count_of(&counts, found.key, found.body))
    };
    let by_worker: [u64; WORKERS] = std::array::from_fn(|worker| count(worker as i64) as u64);
    let total: i64 = (1..=TOTALS).map(|total| count(-total)).sum();
    if total as u64 != by_worker.iter().sum::<u64>() {
        return Err(format!("the totals add up to {total}, and the workers' counts are {by_worker:?}"));
    }
    let mut expected = BTreeMap::new();
    for (worker, count) in by_worker.iter().enumerate() {
        let latest: BTreeMap<u64, u64> = (0..*count).map(|number| (plan(seed, worker, number).group, number)).collect();
        for number in latest.into_values() {
            let plan = plan(seed, worker, number);
            expected.extend((0..plan.size).map(|at| member(&members, &plan, number, at)));
        }
    }
    let mut found = BTreeMap::new();
    transaction.scan(&members, &KeyRange::all(), Direction::Forward, |row| {
        found.insert(row.key.to_vec(), row.body.to_vec());
        ControlFlow::Continue(())
    });
    if found != expected {
        let wrong = expected.iter().find(|(key, body)| found.get(*key) != Some(body));
        let wrong = wrong.map(|(key, body)| members.decode(key, body));
        return Err(format!(
            "rows are not those after {by_worker:?} transactions: {} found, {} expected, such as {wrong:?}",
            found.len(),
            expected.len()
        ));
    }
    ["by_tag", "by_name"].iter().try_for_each(|index| verify_index(&transaction, &members, index, &expected))?;
    Ok(by_worker)
}

fn verify_index(
    transaction: &Transaction<'_>,
    table: &Table,
    index: &str,
    rows: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<(), String> {
    let id = table.index(index).ok_or("no index")?;
    let column = table.definition().indexes.iter().find(|known| known.name == index).ok_or("no index")?.columns[0];
    let entry = |(key, body): (&Vec<u8>, &Vec<u8>)| {
        let values = table.decode(key, body).expect("a row of the table");
        let mut entry = Vec::new();
        table.index_key_layout(id).encode(&[values[column].as_ref()], &mut entry).expect("a value of the column");
        entry.extend_from_slice(key);
        (entry, body.clone())
    };
    let expected: BTreeMap<_, _> = rows.iter().map(entry).collect();
    let mut found = BTreeMap::new();
    let mut visits = 0;
    transaction.scan_index(table, id, &KeyRange::all(), Direction::Reverse, |entry, row| {
        visits += 1;
        found.insert(entry.to_vec(), row.body.to_vec());
        ControlFlow::Continue(())
    });
    if found != expected || visits != expected.len() {
        return Err(format!(
            "index {index} has {visits} entries, and {} agree with {} rows",
            found.len(),
            expected.len()
        ));
    }
    Ok(())
}

fn say(line: &str) {
    // One write of less than a pipe's atomic size: whole or not at all.
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

/// One transaction of a worker.
fn write(
    transaction: &mut Transaction<'_>,
    (members, counts): &(Table, Table),
    (seed, worker, number): (u64, usize, u64),
) -> Result<(), Error> {
    let plan = plan(seed, worker, number);
    for at in 0..MEMBERS_MAX {
        let (key, body) = member(members, &plan, number, at);
        let row = transaction.get(members, &key).map(|found| found.id);
        match (row, at < plan.size) {
            (Some(row), true) => transaction.update(members, row, &body)?,
            (Some(row), false) => transaction.delete(members, row)?,
            (None, true) => _ = transaction.insert(members, &key, &body)?,
            (None, false) => {}
        }
    }
    raise(transaction, counts, worker as i64)?;
    raise(transaction, counts, plan.total)
}

fn work(database: &Database, mut runner: Runner, place: &WorkerPlace, worker: usize, seed: u64, count: u64) {
    if let Err(error) = pin_current_thread(place.core) {
        eprintln!("worker {worker} is not pinned: {error}");
    }
    let tables = tables(database).expect("the tables");
    for number in count.. {
        let isolation = if number.is_multiple_of(2) { Isolation::Serializable } else { Isolation::Snapshot };
        let receipt = loop {
            let mut transaction = runner.begin(isolation);
            let outcome = write(&mut transaction, &tables, (seed, worker, number));
            match outcome.and_then(|()| transaction.commit_early()) {
                Ok(receipt) => break receipt,
                Err(error) if error.is_retryable() => std::thread::yield_now(),
                Err(error) => panic!("worker {worker}, transaction {number}: {error}"),
            }
        };
        let timestamp = receipt.timestamp.expect("it wrote");
        database.when_durable(receipt, move |outcome| {
            outcome.expect("the logs do not fail");
            say(&format!("ack {worker} {number} {timestamp}"));
        });
        if number % IN_FLIGHT_MAX == IN_FLIGHT_MAX - 1 {
            database.wait(receipt).expect("the logs do not fail");
        }
    }
}

/// Writes without end.
pub fn run(directory: &Path, seed: u64) {
    let database = Database::open(directory, options(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let counts = verify(&database, seed).unwrap_or_else(|error| panic!("{error}"));
    say(&format!("open {} {} {}", database.now(), counts[0], counts[1]));
    let places = database.placement().workers().to_vec();
    std::thread::scope(|scope| {
        for (worker, place) in places.iter().enumerate() {
            let (database, count) = (&database, counts[worker]);
            let runner = database.runner_at(place).expect("a runner");
            scope.spawn(move || work(database, runner, place, worker, seed, count));
        }
    });
}

#[allow(dead_code)]
fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    match &arguments[..] {
        [_, directory, seed] => run(Path::new(directory), seed.parse().expect("a number as the seed")),
        _ => eprintln!("usage: writer DIRECTORY SEED"),
    }
}
