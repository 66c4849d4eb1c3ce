use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use saki_base::{Random, ValueRef};
use saki_mvcc::Isolation;
use saki_tree::TreeRoot;

use super::{Concurrently, PATIENCE_MAX};
use crate::fixture::{Bench, Rows, Shape, decoded, entry};
use crate::locks::{LockMode, LockOwner, Policy, Requested, Stop};
use crate::reader::IndexEntries;
use saki_catalog::{Catalog, Index, IndexColumn, PUBLIC, Result, Table};

/// What the tests make: the second index of table `t`.
const NAME: &str = "t_w";

fn work(bench: &Bench, stop: &Stop) -> Concurrently {
    Concurrently::new(bench.db(), LockOwner::new(bench.db().locks()), stop)
}

fn define(unique: bool) -> impl FnOnce(&Catalog, &Table) -> Result<Option<Index>> {
    move |catalog, _| {
        Ok(Some(Index {
            name: NAME.to_owned(),
            schema: PUBLIC.to_owned(),
            columns: vec![IndexColumn { column: 1, descending: true }],
            unique,
            include: Vec::new(),
            constraint: false,
            constraint_comment: None,
            comment: None,
            root: TreeRoot::empty(catalog.new_tree_id()),
        }))
    }
}

fn create(bench: &Bench, unique: bool) -> Result<()> {
    work(bench, &Stop::default()).create_index("t", define(unique))
}

/// As a session does it: nobody changes what the table is between the look at it and the end of the transaction.
fn change(bench: &Bench, changes: &[(i64, Option<i64>)]) -> Result<()> {
    let owner = LockOwner::new(bench.db().locks());
    let _held = hold(bench, &owner, LockMode::RowExclusive);
    bench.try_commit(changes)
}

fn hold(bench: &Bench, owner: &Arc<LockOwner>, mode: LockMode) -> Duration {
    let began = Instant::now();
    match owner.lock(bench.table().id, mode, Policy::Wait, None).expect("no circle") {
        Requested::Waiting(wait) => assert!(wait.wait(&Stop::default(), Duration::from_secs(60)).expect("not told")),
        Requested::Granted => {}
        Requested::Refused => panic!("it waits"),
    }
    began.elapsed()
}

/// What the second index has, by each value that there is, is what the table has.
fn compare(bench: &Bench) -> Rows {
    let moment = bench.moment();
    let (rows, table) = (moment.range(), Arc::clone(moment.table()));
    let place = table.indexes.iter().position(|index| index.name == NAME).expect("it is there");
    let entries = IndexEntries::new(&table, place);
    let layout = table.index_layout(&table.indexes[place]);
    let mut found = Rows::new();
    moment.read(|reader, base| {
        for v in rows.values().copied().chain(-3..40).collect::<std::collections::BTreeSet<_>>() {
            let mut prefix = Vec::new();
            layout.key.encode(&[ValueRef::Int8(v)], &mut prefix).expect("a bigint");
            let visited = reader.index_prefix(base, &entries, &prefix, |key, row| {
                let (id, value) = decoded(&table, key, row);
                assert!(
                    value == v && found.insert(id, value).is_none(),
                    "row {id} comes twice, or for a value not its"
                );
                Ok(())
            });
            visited.expect("readable");
        }
    });
    assert_eq!(found, rows);
    rows
}

/// Nothing is left of a statement that has failed.
fn nothing_is_left(bench: &Bench) {
    bench.db().write(|_| Ok(())).expect("published");
    assert_eq!(bench.db().generation().catalog.staged().count(), 0);
    assert_eq!(bench.table().indexes.len(), 1);
    assert!(bench.db().locks().list().is_empty());
    bench.check();
}

/// Changes rows of a table by random until it is told to stop, always about 20 values and 3 000 ids.
struct Writers<'b> {
    bench: &'b Bench,
    is_over: AtomicBool,
    commits: AtomicU64,
    /// In microseconds.
    longest_wait: AtomicI64,
    values: i64,
}

impl<'b> Writers<'b> {
    fn new(bench: &'b Bench, values: i64) -> Self {
        let (is_over, commits, longest_wait) = Default::default();
        Self { bench, is_over, commits, longest_wait, values }
    }

    fn run(&self, seed: u64) -> Rows {
        let mut random = Random::new(seed);
        let mut last = Rows::new();
        while !self.is_over.load(Ordering::SeqCst) {
            let began = Instant::now();
            let changes: BTreeMap<i64, Option<i64>> = (0..random.range(1..5))
                .map(|_| {
                    // Each writer has ids of its own, so that it is known what becomes of them.
                    let id = (random.range(0..1_500) * 2 + seed % 2) as i64;
                    (id, (!random.chance(0.3)).then(|| random.range(0..self.values as u64) as i64))
                })
                .collect();
            let changes: Vec<_> = changes.into_iter().collect();
            if change(self.bench, &changes).is_ok() {
                for (id, v) in changes {
                    last.insert(id, v.unwrap_or(i64::MIN));
                }
                self.commits.fetch_add(1, Ordering::SeqCst);
            }
            self.longest_wait.fetch_max(began.elapsed().as_micros() as i64, Ordering::SeqCst);
        }
        last
    }

    /// Runs two of them and a merging thread beside `work`; what they have left.
    fn beside<T>(&self, work: impl FnOnce() -> T) -> (T, Rows) {
        std::thread::scope(|scope| {
            let writers = [1, 2].map(|seed| scope.spawn(move || self.run(seed)));
            scope.spawn(|| {
                while !self.is_over.load(Ordering::SeqCst) {
                    self.bench.merge();
                    self.bench.db().release_merged().expect("released");
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            self.is_over.store(true, Ordering::SeqCst);
            let left = writers.map(|writer| writer.join().expect("no panic"));
            (done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), left.into_iter().flatten().collect())
        })
    }
}

fn loaded(shape: Shape, rows: i64, values: i64) -> Bench {
    let bench = Bench::new(shape);
    bench.load((0..rows).map(|id| (id, id % values))).expect("loaded");
    bench
}

#[test]
fn an_index_has_what_writers_change_while_it_is_made_and_after() {
    for shape in [Shape::default(), Shape { resident: true, ..Shape::default() }] {
        let mut bench = loaded(shape, 3_000, 20);
        let mut expected: Rows = (0..3_000).map(|id| (id, id % 20)).collect();
        for round in 0..6 {
            let writers = Writers::new(&bench, 20);
            let ((), left) = writers.beside(|| {
                std::thread::sleep(Duration::from_millis(20));
                create(&bench, false).expect("made");
                compare(&bench);
                std::thread::sleep(Duration::from_millis(20));
                compare(&bench);
                if round % 2 == 0 {
                    work(&bench, &Stop::default()).rebuild_index("t", NAME).expect("built anew");
                    compare(&bench);
                    work(&bench, &Stop::default()).drop_index("t", NAME).expect("gone");
                    assert_eq!(bench.table().indexes.len(), 1);
                    create(&bench, false).expect("made again");
                }
            });
            for (id, v) in left {
                if v == i64::MIN {
                    expected.remove(&id)
                } else {
                    expected.insert(id, v)
                };
            }
            assert_eq!(compare(&bench), expected);
            bench.reopen();
            assert_eq!(compare(&bench), expected);
            bench.merge();
            bench.check();
            assert_eq!(compare(&bench), expected);
            work(&bench, &Stop::default()).drop_index("t", NAME).expect("gone");
            assert_eq!(bench.moment().range(), expected);
            nothing_is_left(&bench);
        }
    }
}

#[test]
fn rows_that_are_not_merged_come_along() {
    let mut bench = loaded(Shape::default(), 100, 100);
    bench.commit(&[(7, Some(-1)), (8, None), (200, Some(-2))]);
    create(&bench, true).expect("made");
    let rows = compare(&bench);
    assert!(rows[&7] == -1 && !rows.contains_key(&8) && rows[&200] == -2 && rows.len() == 100);
    // As the process ends without a merge.
    bench.reopen();
    assert_eq!(compare(&bench), rows);
    bench.commit(&[(7, Some(-3))]);
    assert!(bench.try_commit(&[(300, Some(-3))]).is_err(), "the new delta knows of the index");
    bench.merge();
    bench.check();
}

#[test]
fn rows_of_a_table_without_a_key_come_along() {
    let mut bench = Bench::new(Shape { keyed: false, ..Shape::default() });
    bench.load((0..50).map(|id| (id, id))).expect("loaded");
    bench.insert(50..80);
    create(&bench, false).expect("made");
    bench.insert(80..90);
    let rows: Rows = (0..90).map(|id| (id, id)).collect();
    assert_eq!(compare(&bench), rows);
    bench.reopen();
    bench.insert(90..95);
    assert_eq!(compare(&bench).len(), 95);
    bench.merge();
    bench.check();
}

#[test]
fn rows_that_agree_refuse_a_unique_index_wherever_they_are_met() {
    type Changes = &'static [(i64, Option<i64>)];
    let both_in: [(&str, Changes); 4] = [
        ("the base", &[]),
        ("the delta", &[(1, Some(-5)), (2, Some(-5))]),
        ("base and delta", &[(2, Some(50))]),
        ("none", &[(50, Some(51)), (51, Some(50)), (3, None), (200, Some(3))]),
    ];
    for (met_in, changes) in both_in {
        let bench = Bench::new(Shape::default());
        let agreeing = i64::from(met_in == "the base");
        bench.load((0..100).map(|id| (id, if id == 7 { 7 + agreeing } else { id }))).expect("loaded");
        // Agreed once, which is in the base still.
        bench.commit(&[(20, Some(21))]);
        bench.merge();
        bench.commit(&[(20, Some(20))]);
        let old = LockOwner::new(bench.db().locks());
        hold(&bench, &old, LockMode::RowExclusive);
        let made = std::thread::scope(|scope| {
            let making = scope.spawn(|| create(&bench, true));
            while !making.is_finished() && bench.db().generation().catalog.staged().next().is_none() {
                std::thread::yield_now();
            }
            bench.commit(changes);
            old.release_all();
            making.join().expect("no panic")
        });
        if met_in == "none" {
            made.expect("no two agree");
            assert_eq!(compare(&bench).len(), 100);
            continue;
        }
        let error = made.expect_err(met_in);
        assert_eq!(error.sqlstate(), "23505", "{met_in}: {error}");
        assert!(error.message.contains(NAME), "{error}");
        nothing_is_left(&bench);
    }
}

#[test]
fn a_transaction_that_stays_open_holds_only_the_statement_up() {
    let bench = loaded(Shape::default(), 500, 20);
    let old = LockOwner::new(bench.db().locks());
    hold(&bench, &old, LockMode::RowExclusive);
    std::thread::scope(|scope| {
        let making = scope.spawn(|| create(&bench, false));
        let mut longest = Duration::ZERO;
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1_500) {
            let waited = Instant::now();
            change(&bench, &[(3, Some(3))]).expect("changed");
            longest = longest.max(waited.elapsed());
        }
        assert!(!making.is_finished() && bench.table().indexes.len() == 1);
        assert!(longest < PATIENCE_MAX, "{longest:?}");
        let modes: Vec<LockMode> = bench.db().locks().list().iter().map(|lock| lock.mode).collect();
        assert!(modes.contains(&LockMode::ShareUpdateExclusive), "{modes:?}");
        old.release_all();
        making.join().expect("no panic").expect("made");
    });
    compare(&bench);
}

/// Whoever has changed rows asks for a lock that the statement keeps from it, and the statement waits for its end.
#[test]
fn a_deadlock_is_the_statements_unless_the_other_gives_up_before() {
    let bench = loaded(Shape::default(), 500, 20);
    for gives_up in [false, true] {
        let old = LockOwner::new(bench.db().locks());
        hold(&bench, &old, LockMode::RowExclusive);
        std::thread::scope(|scope| {
            let making = scope.spawn(|| create(&bench, false));
            while !making.is_finished() && bench.db().locks().wait_events().is_empty() {
                std::thread::yield_now();
            }
            let asked = old.lock(bench.table().id, LockMode::ShareUpdateExclusive, Policy::Wait, None);
            let Requested::Waiting(wait) = asked.expect("it is not the one to be refused") else {
                panic!("the statement has it")
            };
            let patience = if gives_up { Duration::from_millis(50) } else { Duration::from_secs(60) };
            let is_granted = wait.wait(&Stop::default(), patience).expect("not told");
            old.release_all();
            let made = making.join().expect("no panic");
            assert_eq!(
                (is_granted, made.err().map(|error| error.sqlstate())),
                match gives_up {
                    true => (false, None),
                    false => (true, Some("40P01")),
                }
            );
        });
        if !gives_up {
            nothing_is_left(&bench);
        }
    }
    compare(&bench);
}

#[test]
fn a_statement_that_is_told_to_stop_leaves_nothing() {
    let bench = loaded(Shape::default(), 500, 20);
    let old = LockOwner::new(bench.db().locks());
    hold(&bench, &old, LockMode::RowExclusive);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| work(&bench, &stop).create_index("t", define(false)));
        while bench.db().generation().catalog.staged().next().is_none() {
            std::thread::yield_now();
        }
        stop.tell();
        assert_eq!(making.join().expect("no panic").expect_err("told").sqlstate(), "57014");
    });
    let work = work(&bench, &Stop::with_patience(Some(Duration::from_millis(50))));
    assert_eq!(work.create_index("t", define(false)).expect_err("in vain").sqlstate(), "55P03");
    assert_eq!(work.drop_index("t", "t_v").expect_err("in vain").sqlstate(), "55P03");
    drop(work);
    old.release_all();
    nothing_is_left(&bench);
}

#[test]
fn what_a_process_leaves_that_ends_meanwhile_is_given_back() {
    let mut bench = loaded(Shape::default(), 2_000, 20);
    bench.commit(&[(7, Some(-1))]);
    let rows = bench.moment().range();
    let old = LockOwner::new(bench.db().locks());
    hold(&bench, &old, LockMode::RowExclusive);
    let mut left = super::Build::of(bench.db(), &Stop::default(), bench.table().id, |table| {
        let index = define(false)(&bench.db().generation().catalog, table).expect("defined").expect("new");
        table.indexes.push(index);
    })
    .expect("begun");
    left.scan().expect("scanned");
    bench.merge();
    left.follow().expect("followed");
    assert_eq!(left.index().root.entries, 2_000);
    bench.check();
    assert_eq!(bench.db().generation().catalog.staged().count(), 1);
    // As if the process had ended here: nobody is told that it is given up.
    let _ = left.hand_over();
    drop(old);
    bench.reopen();
    assert_eq!(bench.moment().range(), rows);
    nothing_is_left(&bench);
}

#[test]
fn who_has_read_a_delta_that_another_replaces_is_not_serialized() {
    for merges in [false, true] {
        let bench = loaded(Shape::default(), 100, 20);
        bench.commit(&[(3, Some(3))]);
        let generation = bench.db().generation();
        let read = Arc::clone(generation.delta(&bench.table()).expect("started"));
        let engine = bench.db().engine().expect("started");
        let mut runners = [(); 3].map(|()| engine.runner().expect("a runner"));
        let [reads, also_reads, only_writes] = &mut runners;
        let mut transactions = [(reads, true), (also_reads, true), (only_writes, false)].map(|(runner, has_read)| {
            let transaction = runner.begin(Isolation::Serializable);
            if has_read {
                read.answer_for_all(&transaction);
            }
            transaction
        });
        if merges {
            // For a transaction, which keeps others from changing rows until its end.
            let me = Some(transactions[0].holder());
            bench.db().bring_to_base(&["t".to_owned()], &Stop::default(), me).expect("merged");
        } else {
            create(&bench, false).expect("made");
        }
        let (table, generation) = (bench.table(), bench.db().generation());
        let now = generation.delta(&table).expect("started");
        assert!(!Arc::ptr_eq(now, &read));
        for (id, transaction) in (0..).zip(&mut transactions) {
            let (key, row) = entry(&table, 1_000 + id, 7);
            now.write(transaction, &key, Some(&row)).expect("written");
        }
        let outcomes = transactions.map(|transaction| transaction.commit().is_ok());
        assert_eq!(outcomes, [merges, false, true]);
    }
}
