//! Panics planted into a process with a database: it ends by itself, and whoever opens the database next finds what was
//! acknowledged, and rows and catalog of one commit together or neither.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use saki_base::panics::{Place, VARIABLE};
use saki_mvcc::Isolation;
use saki_tree::Wanted;

use crate::draft::Draft;
use crate::fixture::{Bench, Shape, entry, make_table, options, table};
use crate::{CreateOptions, Database, Stop};
use saki_catalog::Table;

const SIGABRT: i32 = 6;
const DIRECTORY: &str = "SAKI_PANIC_DIRECTORY";
const NAME: &str = "check::panics::process_that_panics";
/// More than any of the planted panics lets happen.
const ROUNDS: i64 = 5_000;

/// Not a test but the process that ends.
#[test]
#[ignore = "ends by a panic; run by the test below"]
fn process_that_panics() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let path = Path::new(&directory).join("database");
    let bench = match path.exists() {
        true => Bench::around(Database::open(&path, options()).expect("opened")),
        false => {
            let create = CreateOptions { open: options(), ..CreateOptions::default() };
            let db = Database::create(&path, create).expect("created");
            make_table(&db, Shape::default());
            Bench::around(db)
        }
    };
    bench.db().tend_in_background().expect("a thread");
    println!();
    let first = bench.moment().range().len() as i64;
    for round in first..first + ROUNDS {
        bench.commit(&[(round, Some(round))]);
        println!("row {round}");
        match round % 8 {
            1 => make(&bench, round),
            3 => drop(bench.db().alone(&["t".to_owned()]).expect("alone")),
            5 => miss(&bench, round),
            7 => bench.merge(),
            _ => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
}

/// Makes a table and adds a row, in one transaction.
fn make(bench: &Bench, round: i64) {
    let db = bench.db();
    let mut runner = db.engine().expect("started").runner().expect("a runner");
    let mut transaction = runner.begin(Isolation::Snapshot);
    let generation = db.generation();
    let t = generation.catalog.table("t").expect("made");
    let (key, row) = entry(t, -round, round);
    generation.delta(t).expect("started").write(&mut transaction, &key, Some(&row)).expect("written");
    let mut draft = Draft::new(db);
    let made = draft.write(&Stop::default(), |writer| {
        let made = table(&mut writer.catalog, Shape::default());
        writer.catalog.put(Table { name: format!("m{round}"), indexes: Vec::new(), ..made });
        Ok(())
    });
    let receipt = made.and_then(|()| draft.commit(transaction, &Stop::default())).expect("committed");
    db.engine().expect("started").database.wait(receipt).expect("durable");
    println!("row {}", -round);
}

/// Has a page fetched that is not in memory.
fn miss(bench: &Bench, round: i64) {
    let (db, table) = (bench.db(), bench.table());
    db.drop_caches();
    let (key, _) = entry(&table, round / 2, 0);
    let (tell, told) = std::sync::mpsc::channel();
    let wanted = (vec![Wanted::key(&table.root, &key)], 1);
    db.fetchers.fetch(db.generation(), wanted, move |got| tell.send(got).expect("somebody waits")).expect("a thread");
    told.recv().expect("told").expect("fetched");
}

#[test]
fn what_was_acknowledged_survives_a_panic() {
    for place in [Place::Published, Place::HalfSeen, Place::Locks, Place::Checkpointer, Place::Fetcher] {
        let name = Place::ALL.iter().find(|(known, _)| *known == place).expect("all are there").1;
        let directory = tempfile::tempdir().expect("a directory");
        let mut acknowledged = BTreeSet::new();
        // The second finds what the first has left.
        for passes in [1, 5] {
            let program = std::env::current_exe().expect("this program");
            let output = Command::new(program)
                .args([NAME, "--exact", "--ignored", "--nocapture"])
                .env(DIRECTORY, directory.path())
                .env(VARIABLE, format!("{name}:{}", passes + u32::from(place == Place::Published) * 3))
                .output()
                .expect("it starts");
            let log = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(SIGABRT), "{name}: {log}");
            assert!(log.contains(&format!("planted: {place:?}")), "{name}: {log}");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            acknowledged.extend(said.lines().filter_map(|line| line.strip_prefix("row ")?.parse::<i64>().ok()));
            let bench = Bench::around(Database::open(directory.path().join("database"), options()).expect("opened"));
            bench.check();
            let rows = bench.moment().range();
            let lost: Vec<_> = acknowledged.iter().filter(|id| !rows.contains_key(id)).collect();
            assert!(lost.is_empty(), "{name}: {lost:?} are gone");
            let generation = bench.db().generation();
            let made: BTreeSet<i64> =
                generation.catalog.tables().filter_map(|table| table.name.strip_prefix('m')?.parse().ok()).collect();
            let with: BTreeSet<i64> = rows.keys().filter(|id| **id < 0).map(|id| -id).collect();
            assert_eq!(made, with, "{name}: rows and catalog of one commit");
            assert_eq!(generation.catalog.staged().count(), 0, "{name}: nothing is left half done");
        }
        assert!(acknowledged.len() > 3, "{name}: too little was written to mean anything");
    }
}
