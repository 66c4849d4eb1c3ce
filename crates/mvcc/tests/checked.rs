//! Transactions without files, small enough for checkers that take a hundred times as long:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" \
//!     cargo +nightly miri test -p saki-mvcc --test checked
//! ```

use std::ops::ControlFlow;

use saki_base::{Column, DataType, Random, ValueRef};
use saki_io::{Device, SimDevice, SimOptions};
use saki_mvcc::placement::{Placement, Topology};
use saki_mvcc::{
    Catalog, Database, Direction, Durability, Error, IndexDefinition, Isolation, KeyRange, Options, Runner, Table,
    TableDefinition, Transaction,
};

const ROUNDS: u64 = if cfg!(miri) { 12 } else { 2_000 };

fn definition() -> TableDefinition {
    let column = |name: &str, data_type| Column { name: name.into(), data_type, nullable: false };
    TableDefinition {
        name: "rows".into(),
        columns: vec![column("id", DataType::Int8), column("group", DataType::Int8), column("note", DataType::Text)],
        primary_key: vec![0],
        indexes: vec![IndexDefinition {
            name: "by_group".into(),
            columns: vec![1],
            unique: false,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn open(catalog: Catalog, device: std::sync::Arc<SimDevice>) -> Database {
    let placement = Placement::plan(&Topology::uniform(1, 2), 2, Some(1));
    let mut options = Options { participants_max: 4, placement, ..Options::default() };
    options.log.extent_bytes = 64 << 10;
    options.log.write_bytes_max = 8 << 10;
    options.log.window = 64;
    Database::open_on(catalog, vec![device as std::sync::Arc<dyn Device>], options, &|_| {}).expect("a log")
}

fn encode(table: &Table, id: u64, group: u64, note: usize) -> (Vec<u8>, Vec<u8>) {
    let note = "x".repeat(note);
    let values = [ValueRef::Int8(id as i64), ValueRef::Int8(group as i64), ValueRef::Text(&note)];
    let (mut key, mut body) = (Vec::new(), Vec::new());
    table.encode(&values, &mut key, &mut body).expect("values of the table");
    (key, body)
}

fn step(transaction: &mut Transaction<'_>, table: &Table, random: &mut Random) -> Result<(), Error> {
    let (key, body) = encode(table, random.below(5), random.below(3), random.below(40) as usize);
    let row = transaction.get(table, &key).map(|found| found.id);
    match (row, random.below(4)) {
        (Some(row), 0) => transaction.delete(table, row),
        (Some(row), _) => transaction.update(table, row, &body),
        (None, _) => transaction.insert(table, &key, &body).map(drop),
    }
}

fn rows(transaction: &Transaction<'_>, table: &Table) -> [usize; 2] {
    let mut counts = [0; 2];
    transaction.scan(table, &KeyRange::all(), Direction::Forward, |_| {
        counts[0] += 1;
        ControlFlow::Continue(())
    });
    let index = table.index("by_group").expect("an index");
    transaction.scan_index(table, index, &KeyRange::all(), Direction::Reverse, |_, _| {
        counts[1] += 1;
        ControlFlow::Continue(())
    });
    counts
}

fn work(runner: &mut Runner, table: &Table, seed: u64) {
    let mut random = Random::new(seed);
    for round in 0..ROUNDS {
        if round % 10 == 0 {
            runner.reclaim();
        }
        let isolation = if random.chance(0.5) { Isolation::Snapshot } else { Isolation::Serializable };
        let mut transaction = runner.begin_with(isolation, Durability::Relaxed);
        let savepoint = transaction.savepoint();
        let refused = (0..random.range(1..4)).any(|_| step(&mut transaction, table, &mut random).is_err());
        let [rows, entries] = rows(&transaction, table);
        assert_eq!(rows, entries);
        match random.below(5) {
            0 => transaction.abort(),
            1 => transaction.rollback_to(savepoint),
            _ if refused => transaction.abort(),
            _ => _ = transaction.commit(),
        }
    }
}

#[test]
fn two_runners_at_once() {
    let mut catalog = Catalog::in_memory(1, 1);
    catalog.add(definition()).expect("a table");
    let device = SimDevice::new(SimOptions { length_bytes: 0, ..SimOptions::default() });
    let expected = {
        let database = open(catalog.reopened(), device.clone());
        let table = database.table("rows").expect("the table");
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let (database, table) = (&database, &table);
                scope.spawn(move || work(&mut database.runner().expect("a runner"), table, seed));
            }
        });
        let mut runner = database.runner().expect("a runner");
        rows(&runner.begin(Isolation::Snapshot), &table)
    };
    let database = open(catalog, device);
    let table = database.table("rows").expect("the table");
    let mut runner = database.runner().expect("a runner");
    assert_eq!(rows(&runner.begin(Isolation::Snapshot), &table), expected);
}
