use std::sync::Arc;
use std::time::Duration;

use saki_io::{Device, OperationKind};
use saki_mvcc::Isolation;

use super::Draft;
use crate::fixture::{Bench, Rows, Shape, batch, simulated, table};
use crate::merge::Pace;
use crate::reader::Snapshot;
use crate::{Generation, Stop, Writer};
use saki_catalog::{Result, Staged, Table, View};

fn bench() -> (Bench, Rows) {
    let bench = Bench::new(Shape::default());
    let rows: Rows = (0..2_000).map(|id| (id, id)).collect();
    bench.load(rows.clone().into_iter()).expect("loaded");
    (bench, rows)
}

/// Builds table `t` anew under another name, with what a transaction has written to it.
fn rebuild(draft: &mut Draft, snapshot: &Snapshot) -> Result<()> {
    draft.settle(snapshot, &["t".to_owned()], &Stop::default())?;
    draft.write(&Stop::default(), |writer| {
        let table = writer.catalog.remove("t").expect("there");
        writer.catalog.put(Table { name: "u".to_owned(), ..Table::clone(&table) });
        Ok(())
    })
}

/// A row of table `t` that it has not had.
fn write_row(generation: &Generation, transaction: &mut saki_mvcc::Transaction<'_>) {
    let table = generation.catalog.table("t").expect("there");
    let (key, row) = crate::fixture::entry(table, 5_000, 1);
    generation.delta(table).expect("started").write(transaction, &key, Some(&row)).expect("written");
}

/// What becomes of a transaction that writes a row and rebuilds the table.
fn transact(bench: &Bench, end: impl FnOnce(Draft, saki_mvcc::Transaction<'_>, &Generation)) {
    let db = bench.db();
    let mut runner = db.engine().expect("started").runner().expect("a runner");
    let mut transaction = runner.begin(Isolation::Snapshot);
    let generation = db.generation();
    write_row(&generation, &mut transaction);
    let snapshot = Snapshot::of_transaction(Arc::clone(&generation), transaction.moment().expect("a moment"));
    let mut draft = Draft::new(db);
    rebuild(&mut draft, &snapshot).expect("rebuilt");
    let own = draft.newest().expect("there");
    assert_eq!(own.catalog.table("u").expect("its own").root.entries, 2_001);
    assert!(own.catalog.get("t").is_none() && db.generation().catalog.get("u").is_none());
    bench.check();
    end(draft, transaction, &own);
}

#[test]
fn a_draft_that_is_dropped_leaves_nothing() {
    let (bench, rows) = bench();
    transact(&bench, |draft, transaction, _| {
        transaction.abort();
        drop(draft);
    });
    assert_eq!(bench.db().generation().catalog.staged().count(), 1);
    bench.db().write(|_| Ok(())).expect("published");
    assert_eq!(bench.db().generation().catalog.staged().count(), 0);
    bench.check();
    assert_eq!(bench.moment().range(), rows);
}

#[test]
fn a_commit_waits_for_its_turn_until_it_is_told_to_stop_or_its_patience_is_over() {
    let (bench, rows) = bench();
    let short = Stop::with_patience(Some(Duration::from_millis(20)));
    for (stop, expected) in [(Stop::default(), "57014"), (short, "55P03")] {
        transact(&bench, |draft, transaction, _| {
            let turn = bench.db().writing.lock();
            let committed = std::thread::scope(|scope| {
                if stop.patience().is_none() {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(50));
                        stop.tell();
                    });
                }
                draft.commit(transaction, &stop)
            });
            assert_eq!(committed.expect_err("it has had no turn").sqlstate(), expected);
            drop(turn);
        });
        bench.db().write(|_| Ok(())).expect("published");
        assert_eq!(bench.db().generation().catalog.staged().count(), 0);
        bench.check();
        assert_eq!(bench.moment().range(), rows);
    }
}

#[test]
fn tables_are_fresh_that_were_made_or_emptied_after_a_mark() {
    let (bench, _) = bench();
    let (mut draft, t) = (Draft::new(bench.db()), bench.table().id);
    let start = draft.mark();
    draft
        .write(&Stop::default(), |writer| {
            let mut after = Table::clone(writer.catalog.table("t")?);
            after.clear(&writer.catalog);
            writer.emptied.push(after.id);
            writer.catalog.put(after);
            Ok(())
        })
        .expect("emptied");
    let mark = draft.mark();
    assert!(draft.is_fresh(t, None) && draft.is_fresh(t, Some(&start)) && !draft.is_fresh(t, Some(&mark)));
    let made = draft.write(&Stop::default(), |writer| {
        let made = table(&mut writer.catalog, Shape::default());
        let id = made.id;
        writer.catalog.put(Table { name: "n".to_owned(), indexes: Vec::new(), ..made });
        Ok(id)
    });
    let made = made.expect("made");
    assert!(draft.is_fresh(made, Some(&mark)));
    draft.go_back(Some(mark));
    assert!(!draft.is_fresh(made, None) && draft.is_fresh(t, None));
    draft.go_back(None);
    assert!(!draft.is_fresh(t, None));
}

#[test]
fn what_a_crash_left_is_taken_back_or_completed_as_the_logs_say() {
    for is_marked in [false, true] {
        let (mut bench, rows) = bench();
        let mut left = None;
        transact(&bench, |mut draft, mut transaction, _| {
            draft.prepare(bench.db()).expect("prepared");
            if is_marked {
                let engine = bench.db().engine().expect("started");
                engine.mark(&mut transaction, draft.staged.id).expect("marked");
                transaction.commit().expect("committed");
            } else {
                transaction.abort();
            }
            left = Some(draft.staged.id);
            // As if the process had ended here.
            draft.is_over = true;
        });
        let staged: Vec<Arc<Staged>> = bench.db().generation().catalog.staged().map(Arc::clone).collect();
        assert!(staged.len() == 1 && Some(staged[0].id) == left);
        bench.reopen();
        let generation = bench.db().generation();
        assert_eq!(generation.catalog.staged().count(), 0);
        bench.check();
        match is_marked {
            true => assert_eq!(generation.catalog.table("u").expect("completed").root.entries, 2_001),
            false => assert_eq!(bench.moment().range(), rows),
        }
    }
}

/// What a crash leaves of a transaction whose rows and mark are in the logs, and whose change of the catalog is only
/// prepared.
fn end_before_publication(bench: &Bench, work: impl FnOnce(&mut Draft, &mut saki_mvcc::Transaction<'_>)) {
    let db = bench.db();
    let engine = db.engine().expect("started");
    let mut runner = engine.runner().expect("a runner");
    let mut transaction = runner.begin(Isolation::Snapshot);
    let mut draft = Draft::new(db);
    work(&mut draft, &mut transaction);
    draft.prepare(db).expect("prepared");
    engine.mark(&mut transaction, draft.staged.id).expect("marked");
    transaction.commit().expect("committed");
    // As if the process had ended here.
    draft.is_over = true;
}

/// Rows that are added later take the place of none that the transaction has loaded.
#[test]
fn a_change_that_is_completed_at_opening_gives_no_row_id_again() {
    let mut bench = Bench::new(Shape::default());
    end_before_publication(&bench, |draft, _| {
        let made = draft.write(&Stop::default(), |writer| {
            writer.catalog.remove("t");
            let keyless = table(&mut writer.catalog, Shape { keyed: false, ..Shape::default() });
            writer.catalog.put(keyless);
            crate::load::load(writer, "t", [Ok(batch((0..2_000).map(|id| (id, id))))].into_iter(), &mut |_| {})
        });
        made.expect("made");
        // What it has staged was published meanwhile.
        draft.newest().expect("there");
    });
    bench.reopen();
    bench.insert(2_000..2_010);
    assert_eq!(bench.moment().range(), (0..2_010).map(|id| (id, id)).collect::<Rows>());
    bench.check();
}

/// Locks keep that from happening; were one not taken, the commit would still be refused.
#[test]
fn a_view_over_what_another_has_dropped_is_not_committed() {
    let (bench, _) = bench();
    let view = |writer: &mut Writer<'_>, name: &str, over: &str| {
        let (id, schema, sql) = (writer.catalog.new_table_id(), "public".to_owned(), format!("SELECT id FROM {over}"));
        let (name, relations, columns, comment) = (name.to_owned(), vec![over.to_owned()], Vec::new(), None);
        writer.catalog.put_view(View { id, name, schema, sql, columns, relations, uses: [].into(), comment });
        Ok(())
    };
    let db = bench.db();
    db.write(|writer| view(writer, "below", "t")).expect("made");
    // Whichever of the two is committed first.
    for is_maker in [true, false] {
        let mut runner = db.engine().expect("started").runner().expect("a runner");
        let transaction = runner.begin(Isolation::Snapshot);
        let change = |writer: &mut Writer<'_>, makes: bool| match makes {
            true => view(writer, "above", "below"),
            false => {
                writer.catalog.remove_view("below");
                Ok(())
            }
        };
        let mut draft = Draft::new(db);
        draft.write(&Stop::default(), |writer| change(writer, is_maker)).expect("its own");
        db.write(|writer| change(writer, !is_maker)).expect("published");
        assert_eq!(draft.commit(transaction, &Stop::default()).expect_err("a conflict").sqlstate(), "40001");
        db.write(|writer| view(writer, "below", "t")).expect("made again");
    }
    bench.check();
}

/// The logs have rows of a table that nothing but the prepared change knows of.
#[test]
fn rows_of_a_table_that_is_completed_at_opening_are_brought_back() {
    let mut bench = Bench::new(Shape::default());
    end_before_publication(&bench, |draft, transaction| {
        let made = draft.write(&Stop::default(), |writer| {
            let made = table(&mut writer.catalog, Shape::default());
            writer.catalog.put(Table { name: "n".to_owned(), indexes: Vec::new(), ..made });
            Ok(())
        });
        made.expect("made");
        let own = draft.newest().expect("there");
        let (made, other) = (own.catalog.table("n").expect("its own"), own.catalog.table("t").expect("there"));
        for id in 0..10 {
            for table in [made, other] {
                let (key, row) = crate::fixture::entry(table, id, id);
                own.delta(table).expect("started").write(transaction, &key, Some(&row)).expect("written");
            }
        }
    });
    bench.reopen();
    bench.db().checkpoint(&Pace::full()).expect("merged");
    let generation = bench.db().generation();
    let entries = |name: &str| generation.catalog.table(name).expect("completed").root.entries;
    assert_eq!((entries("n"), entries("t")), (10, 10));
    bench.check();
}

/// Half a transaction is never seen: neither rows without the change of the catalog, nor after the next opening.
#[test]
fn a_change_whose_rows_are_committed_is_seen_though_the_device_refuses_it() {
    let device = simulated();
    let mut bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.load((0..2_000).map(|id| (id, id))).expect("loaded");
    transact(&bench, |mut draft, mut transaction, _| {
        draft.prepare(bench.db()).expect("prepared");
        bench.db().engine().expect("started").mark(&mut transaction, draft.staged.id).expect("marked");
        transaction.commit().expect("committed");
        draft.is_over = true;
        let before = bench.db().generation();
        device.faults().fail_next(OperationKind::Flush, 1);
        draft.publish_decided(bench.db()).expect("committed");
        assert!(!bench.db().is_newest(&before), "what is kept for the generation before is not used for this one");
        // Whoever reads on from before is not disturbed.
        assert!(before.catalog.get("t").is_some() && before.catalog.get("u").is_none());
    });
    for is_open_again in [false, true] {
        let generation = bench.db().generation();
        assert_eq!(generation.catalog.table("u").expect("renamed").root.entries, 2_001);
        assert!(generation.catalog.get("t").is_none());
        assert_eq!(
            bench.db().write(|_| Ok(())).err().map(|error| error.sqlstate()),
            (!is_open_again).then_some("58030")
        );
        drop(generation);
        bench.check();
        bench.reopen();
    }
}

/// A checkpoint that had begun to wait would publish what the device lacks of it as if it were there: without the pages
/// that it gave back, and before it is completed.
#[test]
fn whoever_waits_for_a_turn_publishes_nothing_after_a_change_that_is_in_memory_alone() {
    let device = simulated();
    let mut bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.load((0..2_000).map(|id| (id, id))).expect("loaded");
    transact(&bench, |mut draft, mut transaction, _| {
        let db = bench.db();
        let turn = db.writing.lock();
        let refused = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| db.checkpoint(&Pace::full()));
            std::thread::sleep(std::time::Duration::from_millis(50));
            draft.prepare(db).expect("prepared");
            db.engine().expect("started").mark(&mut transaction, draft.staged.id).expect("marked");
            transaction.commit().expect("committed");
            draft.is_over = true;
            device.faults().fail_next(OperationKind::Flush, 1);
            draft.publish_decided(db).expect("committed");
            drop(turn);
            waiting.join().expect("no panic")
        });
        assert_eq!(refused.map(|_| ()).map_err(|error| error.sqlstate()), Err("58030"));
    });
    bench.reopen();
    let generation = bench.db().generation();
    assert_eq!(generation.catalog.table("u").expect("completed").root.entries, 2_001);
    assert!(generation.catalog.staged().next().is_none());
    drop(generation);
    bench.check();
}

/// What was before would be told to whoever reads, and after the next opening the transaction may have been committed.
#[test]
fn nobody_reads_on_when_the_logs_fail_before_it_is_known_what_has_been_committed() {
    let (bench, logs) = Bench::on_logs();
    let db = bench.db();
    let mut runner = db.engine().expect("started").runner().expect("a runner");
    let mut transaction = runner.begin(Isolation::Snapshot);
    write_row(&db.generation(), &mut transaction);
    let mut draft = Draft::new(db);
    let renamed = draft.write(&Stop::default(), |writer| {
        let table = writer.catalog.remove("t").expect("there");
        writer.catalog.put(Table { name: "u".to_owned(), ..Table::clone(&table) });
        Ok(())
    });
    renamed.expect("renamed");
    assert!(db.newest_snapshot().is_ok());
    logs.devices().iter().for_each(|device| device.faults().set_read_only(true));
    assert!(draft.commit(transaction, &Stop::default()).is_err(), "the logs take nothing");
    let refused = db.newest_snapshot().err().map(|error| error.sqlstate());
    assert_eq!(refused, Some("58030"));
    assert_eq!(db.write(|_| Ok(())).err().map(|error| error.sqlstate()), Some("58030"));
}

#[test]
fn a_commit_is_there_after_reopening() {
    let (mut bench, _) = bench();
    transact(&bench, |draft, transaction, _| {
        let _ = draft.commit(transaction, &Stop::default()).expect("committed");
    });
    for _ in 0..2 {
        let generation = bench.db().generation();
        assert_eq!(generation.catalog.table("u").expect("renamed").root.entries, 2_001);
        assert!(generation.catalog.get("t").is_none() && generation.catalog.staged().next().is_none());
        drop(generation);
        bench.check();
        bench.reopen();
    }
}

/// Nobody who reads a base waits for the commits that its rows came from.
#[test]
fn what_is_built_of_rows_is_not_published_before_they_are_durable() {
    let (bench, logs) = Bench::on_logs();
    let db = bench.db();
    let held = logs.hold();
    let receipt = bench.commit_early(500, 7);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| {
            let mut runner = db.engine().expect("started").runner().expect("a runner");
            let transaction = runner.begin(Isolation::Snapshot);
            let snapshot = Snapshot::of_transaction(db.generation(), transaction.moment().expect("a moment"));
            let mut draft = Draft::new(db);
            rebuild(&mut draft, &snapshot).expect("rebuilt");
            let commit = draft.commit(transaction, &Stop::default());
            let generation = db.generation();
            assert_eq!(generation.catalog.table("u").expect("published").root.entries, 101);
            commit.map(|_| ())
        });
        let was_published = || db.generation().catalog.get("u").is_some();
        let began = std::time::Instant::now();
        while !was_published() && began.elapsed() < std::time::Duration::from_millis(300) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let too_early = was_published();
        drop(held);
        bench.wait(receipt);
        committing.join().expect("no panic").expect("committed");
        assert!(!too_early, "a row that may be lost is in a base");
    });
    bench.check();
}
