//! Which tables there are, kept by the caller; and the keys of their indexes.

use std::ops::ControlFlow;

use saki_base::{Column, DataType, KeyColumn, KeyLayout, TableId, ValueRef};
use saki_mvcc::{
    Catalog, Database, Direction, Error, IndexDefinition, Isolation, KeyRange, Seen, Table, TableDefinition,
    open_log_devices,
};

use super::{Note, key, note, notes, with_notes};
use crate::suite::support::{SimLogs, options};

#[test]
fn tables_come_and_go() {
    let (logs, database, table) = with_notes(1);
    let other = database.define_table(TableId(70), TableDefinition { name: "other".into(), ..notes() }).unwrap();
    assert!(matches!(database.define_table(TableId(70), notes()), Err(Error::Name { .. })));
    assert_eq!(database.table_of(TableId(70)).unwrap().name(), "other");
    let mut runner = database.runner().unwrap();
    let body = note(1, "text").body(&table);
    for id in 0..5_000 {
        runner.run(Isolation::Snapshot, |t| t.write(&other, &key(id), Some(&body))).unwrap();
    }
    runner.run(Isolation::Snapshot, |t| t.write(&table, &key(1), Some(&body))).unwrap();
    let (mut early, mut writing) = (database.runner().unwrap(), database.runner().unwrap());
    let before = early.begin(Isolation::Serializable);
    let mut pending = writing.begin(Isolation::Snapshot);
    pending.write(&other, &key(9_999), Some(&body)).unwrap();

    database.drop_table(&other).unwrap();
    database.drop_table(&other).unwrap();
    assert!(database.table("other").is_none());
    // Snapshots of before go on, later ones do not see it.
    runner.run(Isolation::Snapshot, |t| t.write(&table, &key(2), None)).unwrap();
    assert!(matches!(before.look(&other, &key(1)), Seen::Row(_)));
    let mut late = runner.begin(Isolation::Snapshot);
    assert_eq!(late.look(&other, &key(1)), Seen::Absent);
    assert!(matches!(late.write(&other, &key(1), None), Err(Error::Name { .. })));
    late.scan_all(&other, &KeyRange::all(), Direction::Forward, |_, _| panic!("it is gone"));
    drop((late, before));
    pending.refresh();
    pending.commit().unwrap();
    // Its rows go as others work.
    for id in 0..10_000 {
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(id % 3), Some(&body))).unwrap();
        if other.rows() == 0 {
            break;
        }
    }
    assert_eq!((other.rows(), other.bytes()), (0, 0));
    drop((runner, early, writing, database));

    // The logs tell of it still.
    let database = logs.open(options()).unwrap();
    assert_eq!(database.recovery().passed_by, 5_001);
    assert_eq!(database.table("notes").unwrap().rows(), 3);
}

/// The last snapshot that sees it keeps it; rows that are being written when the others go follow later.
#[test]
fn a_dropped_table_is_buried_when_nobody_sees_it_any_more_and_to_its_end() {
    let (_logs, database, table) = with_notes(1);
    let other = database.define_table(TableId(70), TableDefinition { name: "other".into(), ..notes() }).unwrap();
    let [mut runner, mut early, mut writing] = [(); 3].map(|()| database.runner().unwrap());
    let body = note(1, "text").body(&table);
    for id in 0..3 {
        runner.run(Isolation::Snapshot, |t| t.write(&other, &key(id), Some(&body))).unwrap();
    }
    let last = early.begin(Isolation::Snapshot);
    let mut pending = writing.begin(Isolation::Snapshot);
    pending.write(&other, &key(9), Some(&body)).unwrap();
    assert_eq!(last.snapshot(), database.now());
    database.drop_table(&other).unwrap();
    runner.run(Isolation::Snapshot, |t| t.write(&table, &key(1), Some(&body))).unwrap();

    runner.reclaim();
    assert!(matches!(last.look(&other, &key(1)), Seen::Row(_)));
    drop(last);
    pending.refresh();
    runner.reclaim();
    assert_eq!(other.rows(), 0, "nobody sees them");
    pending.commit().unwrap();
    assert_eq!(other.rows(), 1);
    runner.run(Isolation::Snapshot, |t| t.write(&table, &key(1), Some(&body))).unwrap();
    runner.reclaim();
    assert_eq!((other.rows(), other.bytes()), (0, 0));
}

#[test]
fn tables_that_are_dropped_together_are_all_buried() {
    let (_logs, database, table) = with_notes(1);
    let mut runner = database.runner().unwrap();
    let body = note(1, "text").body(&table);
    let others = [70, 71, 72].map(|id| {
        let definition = TableDefinition { name: format!("other {id}"), ..notes() };
        database.define_table(TableId(id), definition).unwrap()
    });
    for other in &others {
        runner.run(Isolation::Snapshot, |t| t.write(other, &key(1), Some(&body))).unwrap();
    }
    others.iter().for_each(|other| database.drop_table(other).unwrap());
    for _ in 0..others.len() {
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(1), Some(&body))).unwrap();
        runner.reclaim();
    }
    assert_eq!(others.map(|other| other.rows()), [0, 0, 0]);
}

#[test]
fn what_is_elsewhere_is_not_replayed() {
    let logs = SimLogs::new(3, 2, &[]);
    let define = |after: [u64; 2]| {
        let mut catalog = Catalog::in_memory(7, 2);
        for (id, after) in [(3, after[0]), (12, after[1])] {
            catalog.define(TableId(id), TableDefinition { name: format!("t{id}"), ..notes() }, after).unwrap();
        }
        SimLogs { catalog, devices: logs.devices.clone() }
    };
    let mut timestamps = Vec::new();
    {
        let database = define([0, 0]).open(options()).unwrap();
        let tables = [3, 12].map(|id| database.table_of(TableId(id)).unwrap());
        let mut runner = database.runner().unwrap();
        for id in 0..10 {
            if id == 5 || id == 9 {
                // As a merge does: what comes later leans on nothing before.
                database.begin_cut();
            }
            let mut transaction = runner.begin(Isolation::Snapshot);
            for table in &tables {
                let body = note(id as i32, &"w".repeat(200)).body(table);
                transaction.write(table, &key(id % 4), Some(&body)).unwrap();
            }
            timestamps.push(transaction.commit().unwrap().unwrap());
        }
    }
    let database = define([timestamps[4], 0]).open(options()).unwrap();
    assert_eq!(database.recovery().passed_by, 5);
    let [three, twelve] = [3, 12].map(|id| database.table_of(TableId(id)).unwrap());
    assert_eq!((three.rows(), twelve.rows()), (4, 4));
    assert!(database.changed_since(&three, timestamps[8]) && !database.changed_since(&three, timestamps[9]));
    drop(database);
    let database = define([timestamps[9], timestamps[8]]).open(options()).unwrap();
    let [three, twelve] = [3, 12].map(|id| database.table_of(TableId(id)).unwrap());
    assert_eq!((three.rows(), twelve.rows()), (0, 1));
}

/// Changes of many transactions are replayed together, and their rows are looked for table by table.
#[test]
fn what_is_replayed_together_goes_to_the_table_that_it_is_of() {
    const ROWS: i64 = 40;
    const ROUNDS: i64 = 6;
    let names = ["notes", "other"];
    let logs = SimLogs::new(5, 1, &names.map(|name| TableDefinition { name: name.into(), ..notes() }));
    let body = |table: &Table, id, round| note(1, &format!("{} {id} {round}", table.name())).body(table);
    {
        let database = logs.open(options()).unwrap();
        let tables = names.map(|name| database.table(name).unwrap());
        let mut runner = database.runner().unwrap();
        for (round, id) in (0..ROUNDS).flat_map(|round| (0..ROWS).map(move |id| (round, id))) {
            let mut transaction = runner.begin(Isolation::Snapshot);
            for table in &tables {
                transaction.write(table, &key(id), Some(&body(table, id, round))).unwrap();
            }
            let _ = transaction.commit_early().unwrap();
        }
    }
    let database = logs.open(options()).unwrap();
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    for table in names.map(|name| database.table(name).unwrap()) {
        assert_eq!(table.rows(), ROWS as u64);
        for id in 0..ROWS {
            let Seen::Row(found) = transaction.look(&table, &key(id)) else { panic!("row {id} of {}", table.name()) };
            assert_eq!(found.body, body(&table, id, ROUNDS - 1), "row {id} of {}", table.name());
        }
    }
}

#[test]
fn tables_of_a_directory_can_be_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path(), options(), &|_| {}).unwrap();
    {
        let database = open();
        let table = database.create_table(notes()).unwrap();
        database.runner().unwrap().run(Isolation::Snapshot, |t| t.write(&table, &key(1), None)).unwrap();
        database.drop_table(&table).unwrap();
    }
    let database = open();
    assert_eq!((database.tables().len(), database.recovery().passed_by), (0, 1));
    assert_eq!(database.create_table(notes()).unwrap().id(), TableId(1), "numbers are not given out again");
    let other = tempfile::tempdir().unwrap();
    assert_eq!(open_log_devices(other.path(), 3).unwrap().len(), 3);
    assert!(other.path().join("log-2").exists());
}

/// Index columns, then what else the key has: also where the index has columns of the key.
#[test]
fn entries_have_each_column_once() {
    let column = |name: &str, data_type| Column { name: name.into(), data_type, nullable: false };
    let definition = TableDefinition {
        name: "visits".into(),
        columns: vec![
            column("a", DataType::Text),
            column("b", DataType::Int4),
            column("c", DataType::Text),
            column("d", DataType::Int2),
        ],
        primary_key: vec![0, 1, 2],
        indexes: vec![IndexDefinition {
            name: "by_d_b".into(),
            columns: vec![3, 1],
            descending: vec![false, true],
            unique: true,
        }],
        over_base: true,
        ..Default::default()
    };
    let logs = SimLogs::new(4, 2, &[definition]);
    let database = logs.open(options()).unwrap();
    let table = database.table("visits").unwrap();
    let mut runner = database.runner().unwrap();
    let values = [ValueRef::Text("a\0x"), ValueRef::Int4(7), ValueRef::Text("see"), ValueRef::Int2(-3)];
    let (mut key, mut body) = (Vec::new(), Vec::new());
    table.encode(&values, &mut key, &mut body).unwrap();
    let part = |data_type, descending| KeyColumn { data_type, nullable: false, descending };
    let layout = KeyLayout::new([
        part(DataType::Int2, false),
        part(DataType::Int4, true),
        part(DataType::Text, false),
        part(DataType::Text, false),
    ]);
    let mut entry = Vec::new();
    layout.encode(&[values[3], values[1], values[0], values[2]], &mut entry).unwrap();
    runner.run(Isolation::Snapshot, |t| t.write(&table, &key, Some(&body))).unwrap();
    let index = table.index("by_d_b").unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    let mut found = Vec::new();
    transaction.scan_index(&table, index, &KeyRange::all(), Direction::Forward, |entry, row| {
        found.push((entry.to_vec(), row.key.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(found, [(entry, key)]);
    drop(transaction);
    // The index is unique in its own columns.
    let values = [ValueRef::Text("other"), ValueRef::Int4(7), ValueRef::Text("see"), ValueRef::Int2(-3)];
    let (mut key, mut body) = (Vec::new(), Vec::new());
    table.encode(&values, &mut key, &mut body).unwrap();
    let mut transaction = runner.begin(Isolation::Snapshot);
    assert!(matches!(transaction.write(&table, &key, Some(&body)), Err(Error::Duplicate { .. })));
    // A key that is none of the table's is told of.
    assert!(matches!(transaction.write(&table, b"?", Some(&body)), Err(Error::Malformed { .. })));
    assert_eq!(transaction.look(&table, b"?"), Seen::Absent);
}

#[test]
fn rows_without_a_key_have_a_hidden_number() {
    let definition = TableDefinition { primary_key: vec![], ..notes() };
    let logs = SimLogs::new(5, 2, std::slice::from_ref(&definition));
    {
        let database = logs.open(options()).unwrap();
        let table = database.table("notes").unwrap();
        let mut runner = database.runner().unwrap();
        let mut body = Vec::new();
        let values = [ValueRef::Int8(1), ValueRef::Int4(2), ValueRef::Text("text")];
        table.row_layout().encode(&values, &mut body).unwrap();
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(77), Some(&body))).unwrap();
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(78), None)).unwrap();
    }
    let database = logs.open(options()).unwrap();
    let table = database.table("notes").unwrap();
    let (moment, index) = (database.moment().unwrap(), table.index("by_colour").unwrap());
    let reader = moment.reader().unwrap();
    let mut entries = Vec::new();
    reader.scan_index(&table, index, &KeyRange::all(), Direction::Forward, |entry, row, _| {
        entries.push((entry.to_vec(), row.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(entries, [(note(2, "").entry(77), key(77))]);
    assert!(reader.look(&table, &key(78), |seen| matches!(seen, Seen::Deleted)));
    let mistaken = TableDefinition { primary_key: vec![], over_base: false, ..notes() };
    assert!(matches!(database.define_table(TableId(9), mistaken), Err(Error::Name { .. })));
    let _ = Note::decode;
}
