//! Merges against a map, on a device that fails: trees, indexes and segments always have exactly the map's rows, and a
//! merge that does not end has changed nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use saki_base::{PageSize, Random, ValueRef};
use saki_io::{Device, FaultRates, SimDevice, SimOptions};
use saki_volume::{Volume, VolumeOptions};

use saki_catalog::EntryEncoder;
use saki_sql::{ChangeSource, Database, KeyChange, MergeReport, OpenOptions, Pace, Result, Session, Table};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
type RowChanges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes in memory. `at` is called before each of them is given out.
struct Listed<'l> {
    changes: std::collections::btree_map::Iter<'l, Vec<u8>, Option<Vec<u8>>>,
    given: usize,
    at: &'l mut dyn FnMut(usize),
}

impl ChangeSource for Listed<'_> {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        (self.at)(self.given);
        self.given += 1;
        Ok(self.changes.next().map(|(key, row)| (key.as_slice(), row.as_deref())))
    }
}

/// A database on a simulated device, with a table `t` beside the map it should equal.
struct Bench {
    device: Arc<SimDevice>,
    database: Arc<Database>,
    rows: Rows,
}

fn options() -> OpenOptions {
    OpenOptions {
        cache_bytes: 4 << 20,
        column_cache_bytes: 1 << 20,
        load_memory_bytes: 2 << 20,
        segment_rows: 50,
        reactors: Some(1),
        ..OpenOptions::default()
    }
}

fn start(device: &Arc<SimDevice>, volume: Arc<Volume>) -> Arc<Database> {
    let path = Path::new("merge.saki");
    let logs = Arc::new(saki_store::delta::LogDirectory::beside(path));
    Database::over(
        saki_store::Database::start(path, Arc::clone(device) as _, volume, logs, options()).expect("started"),
    )
}

impl Bench {
    fn new(seed: u64, statements: &[&str]) -> Self {
        let device = SimDevice::new(SimOptions { seed, length_bytes: 0, ..SimOptions::default() });
        let page_size = PageSize::new(4096).expect("valid");
        let volume = Volume::create(Arc::clone(&device) as Arc<dyn Device>, VolumeOptions::new(page_size));
        let database = start(&device, volume.expect("created"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("started");
        let session = Session::new(&database);
        for sql in statements {
            runtime.block_on(session.execute(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        Self { device, database, rows: Rows::new() }
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(self.database.generation().catalog.table("t").expect("created"))
    }

    fn merge(&self, changes: &RowChanges, at: &mut dyn FnMut(usize)) -> Result<MergeReport> {
        self.database.merge("t", &mut Listed { changes: changes.iter(), given: 0, at }, &Pace::full())
    }

    /// Merges, and does the same with the map.
    fn apply(&mut self, changes: &RowChanges) {
        let report = self.merge(changes, &mut |_| {}).expect("merged");
        let (mut inserted, mut updated, mut deleted) = (0, 0, 0);
        for (key, row) in changes {
            let old = match row {
                Some(row) => self.rows.insert(key.clone(), row.clone()),
                None => self.rows.remove(key),
            };
            inserted += u64::from(old.is_none() && row.is_some());
            updated += u64::from(old.is_some() && row.is_some() && old != *row);
            deleted += u64::from(old.is_some() && row.is_none());
        }
        assert_eq!((report.inserted, report.updated, report.deleted), (inserted, updated, deleted));
        assert_eq!(report.rows, changes.len() as u64);
    }

    fn reopen(self) -> Self {
        let Self { device, database, rows } = self;
        drop(database);
        Self { database: reopened(&device), device, rows }
    }

    /// The table has the map's rows; its indexes and segments have its rows, and every page is accounted for.
    fn check(&self) {
        check(&self.database, &self.rows);
    }
}

fn check(database: &Database, rows: &Rows) {
    assert_eq!(database.check(&mut |_| {}).expect("checked").faults, []);
    check_rows(database, rows);
}

/// The same after writes have failed: a superblock whose writing failed is told of until it is written again; its copy
/// stands in for it.
fn check_after_failures(database: &Database, rows: &Rows) {
    let mut faults = database.check(&mut |_| {}).expect("checked").faults;
    faults.retain(|fault| !fault.to_string().contains("its copy is whole"));
    assert_eq!(faults, []);
    check_rows(database, rows);
}

fn check_rows(database: &Database, rows: &Rows) {
    let generation = database.generation();
    let table = generation.catalog.table("t").expect("created");
    let mut reader = database.tree_reader().expect("opened");
    let mut entries = reader.scan(&table.root);
    let mut expected = rows.iter();
    while let Some((key, row)) = entries.next().expect("read") {
        let (expected_key, expected_row) = expected.next().expect("no more than the map");
        assert!(key == expected_key && row == expected_row);
    }
    assert!(expected.next().is_none());
    assert_eq!(table.root.entries, rows.len() as u64);
    if let Some(segments) = &table.segments {
        assert_eq!(segments.rows, table.root.entries);
    }
}

const CREATE: &str =
    "CREATE TABLE t (a bigint, b text, n integer, d numeric(12,2), s text, f boolean, PRIMARY KEY (a, b))";
const INDEXES: [&str; 2] = ["CREATE INDEX t_n ON t (n DESC) INCLUDE (s)", "CREATE INDEX t_d ON t (d, f)"];

/// An entry of `t` with key number `key` of a few, its values drawn; of `narrow` rows, column `n` alone.
fn entry(encoder: &mut EntryEncoder, key: u64, random: &mut Random, narrow: bool) -> (Vec<u8>, Vec<u8>) {
    let text = format!("k{}", key % 3);
    let long = "s".repeat(if random.chance(0.02) { 3000 } else { random.below(6) as usize });
    let drawn = [
        ValueRef::Int8((key / 3) as i64),
        ValueRef::Text(&text),
        if random.chance(0.1) { ValueRef::Null } else { ValueRef::Int4(random.below(40) as i32) },
        ValueRef::Decimal(if narrow { 7 } else { i128::from(random.below(900)) }),
        if narrow { ValueRef::Text("same") } else { ValueRef::Text(&long) },
        ValueRef::Bool(!narrow && random.chance(0.5)),
    ];
    encoder.encode(&mut Vec::new(), |column| drawn[column]).expect("a row");
    (encoder.key.clone(), encoder.row.clone())
}

/// Changes of about `count` of the first `space` keys.
fn changes(bench: &Bench, random: &mut Random, space: u64, count: u64, deletes: f64, narrow: bool) -> RowChanges {
    let mut encoder = EntryEncoder::new(bench.table().primary_layout());
    let mut changes = RowChanges::new();
    for _ in 0..count {
        let (key, row) = entry(&mut encoder, random.below(space), random, narrow);
        changes.insert(key, (!random.chance(deletes)).then_some(row));
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn merged_tables_are_maps(seed in any::<u64>(), indexed in any::<bool>(), columns in any::<bool>()) {
        let random = &mut Random::new(seed);
        let mut statements = vec![CREATE];
        if indexed {
            statements.extend(INDEXES);
        }
        if !columns {
            statements.push("ALTER TABLE t SET (columns = off)");
        }
        let mut bench = Bench::new(seed, &statements);
        for _ in 0..6 {
            // From a few changes, made by one thread, to many; from inserts alone to deletes alone, of what is not
            // there too.
            let space = [60, 600, 9000][random.below(3) as usize];
            let count = [random.below(5), space / 3, 2 * space][random.below(3) as usize];
            let deletes = [0.0, 0.3, 1.0][random.below(3) as usize];
            let changed = changes(&bench, random, space, count, deletes, false);
            bench.apply(&changed);
            bench.check();
            // Rows that stay where they are: of what is there.
            let narrow = random.chance(0.5);
            let mut updated = changes(&bench, random, space, count / 2, 0.0, narrow);
            updated.retain(|key, _| bench.rows.contains_key(key));
            bench.apply(&updated);
            bench.check();
        }
    }

    #[test]
    fn a_merge_that_fails_or_is_killed_leaves_the_old_rows(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let mut bench = Bench::new(seed, &[CREATE, INDEXES[0], INDEXES[1]]);
        let loaded = changes(&bench, random, 6000, 5000, 0.0, false);
        bench.apply(&loaded);
        for _ in 0..3 {
            let changed = changes(&bench, random, 6000, 3000, 0.2, false);
            // Power is lost while changes are taken, and after an error.
            let mut crashed = Vec::new();
            let crash_at = random.below(4000) as usize;
            let device = Arc::clone(&bench.device);
            let write_errors = [0.0, 0.01, 0.2][random.below(3) as usize];
            let rates = FaultRates { write_errors, ..FaultRates::default() };
            let failing = rates.write_errors > 0.0;
            device.faults().set_rates(rates);
            let merged = bench.merge(&changed, &mut |index| {
                if index == crash_at {
                    crashed.push(device.crash(seed));
                }
            });
            bench.device.faults().set_rates(FaultRates::default());
            crashed.push(bench.device.crash(seed.wrapping_add(1)));
            let old = bench.rows.clone();
            prop_assert!(merged.is_ok() || failing, "no write failed, yet: {:?}", merged.err());
            if merged.is_ok() {
                for (key, row) in &changed {
                    match row {
                        Some(row) => bench.rows.insert(key.clone(), row.clone()),
                        None => bench.rows.remove(key),
                    };
                }
            }
            check_after_failures(&bench.database, &bench.rows);
            let last = crashed.pop().expect("one at least");
            check_after_failures(&reopened(&last), &bench.rows);
            for device in crashed {
                check_after_failures(&reopened(&device), &old);
            }
            // Where writing the superblock failed, nobody knows which generation is on the device: reads go on, merges
            // do not.
            if merged.is_err_and(|error| error.message.contains("reopen the database")) {
                let again = bench.merge(&changed, &mut |_| {});
                again.expect_err("nothing is published before the database is opened anew");
                bench = bench.reopen();
                check_after_failures(&bench.database, &bench.rows);
            }
        }
    }
}

fn reopened(device: &Arc<SimDevice>) -> Arc<Database> {
    let volume = Volume::open(Arc::clone(device) as Arc<dyn Device>).expect("opened");
    start(device, volume)
}

#[test]
fn a_full_disk_ends_a_merge_with_one_error_and_its_space_comes_back() {
    let random = &mut Random::new(7);
    let mut bench = Bench::new(7, &[CREATE, INDEXES[0]]);
    let loaded = changes(&bench, random, 30_000, 20_000, 0.0, false);
    bench.apply(&loaded);
    let before = bench.database.volume.stats();
    for full_at in [0, 1000, 5000] {
        let changed = changes(&bench, random, 30_000, 20_000, 0.1, false);
        let device = Arc::clone(&bench.device);
        let error = bench.merge(&changed, &mut |index| device.faults().set_full(index >= full_at));
        bench.device.faults().set_full(false);
        let error = error.expect_err("the disk is full");
        assert_eq!(error.sqlstate(), "53100", "{}", error.message);
        bench.check();
        let stats = bench.database.volume.stats();
        assert_eq!(stats.live_pages, before.live_pages);
        let known = stats.chunks + stats.free_slots + stats.pending_slots + stats.scratch_slots + stats.journal_slots;
        assert_eq!(stats.total_slots, known + 1, "every slot is accounted for: {stats:?}");
    }
    let changed = changes(&bench, random, 30_000, 20_000, 0.1, false);
    bench.apply(&changed);
    bench.check();
}

#[test]
fn an_update_of_one_column_leaves_the_runs_of_the_others() {
    let random = &mut Random::new(9);
    let mut bench = Bench::new(9, &[CREATE]);
    let loaded = changes(&bench, random, 3000, 4000, 0.0, true);
    bench.apply(&loaded);
    let runs = |bench: &Bench| {
        let table = bench.table();
        let segments = bench.database.generation().segment_tables.get(&table).expect("read").expect("columns are on");
        segments.segments.iter().map(|s| s.columns.iter().map(|run| run.first_page).collect()).collect::<Vec<Vec<_>>>()
    };
    let before = runs(&bench);
    // Narrow rows differ in column `n` only.
    let mut updated = changes(&bench, random, 3000, 4000, 0.0, true);
    updated.retain(|key, _| bench.rows.contains_key(key));
    bench.apply(&updated);
    bench.check();
    let after = runs(&bench);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        let changed: Vec<usize> = (0..before.len()).filter(|column| before[*column] != after[*column]).collect();
        assert!(changed == [2] || changed.is_empty(), "columns {changed:?} were written");
    }
}
