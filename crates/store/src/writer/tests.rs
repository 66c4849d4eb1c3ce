use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saki_base::Random;
use saki_catalog::{SchemaEntry, SqlError, Table};
use saki_io::{Device, FaultRates, ObservedDevice, Observer, Operation, OperationKind, SimDevice};

use crate::fixture::{Bench, Rows, Shape, decoded, open_on, options, simulated};
use crate::{OpenOptions, Pace, Stop};

#[test]
fn a_change_that_fails_publishes_nothing() {
    let bench = Bench::new(Shape::default());
    bench.load((0..100).map(|id| (id, id))).expect("loaded");
    let before = bench.db().generation();
    let failed = bench.db().write(|writer| {
        let table = writer.catalog.remove("t").expect("made");
        writer.free_tree(&table.root)?;
        Err::<(), _>(SqlError::storage("no"))
    });
    assert!(failed.is_err());
    assert_eq!(bench.db().generation().number(), before.number());
    bench.check();
}

#[test]
fn a_snapshot_keeps_its_pages_while_others_publish() {
    let bench = Bench::new(Shape::default());
    let rows: Rows = (0..3_000).map(|id| (id, 0)).collect();
    bench.load(rows.clone().into_iter()).expect("loaded");
    let old = bench.moment();
    for round in 1..4 {
        bench.truncate();
        bench.load((0..3_000).map(|id| (id, round))).expect("loaded again");
    }
    bench.db().drop_caches();
    assert_eq!(old.range(), rows);
    assert_eq!(old.columns(), rows);
    assert!(bench.moment().range().values().all(|v| *v == 3));
}

#[test]
fn whoever_watches_is_told_of_each_generation() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let (bench, told) = (Bench::new(Shape::default()), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&told);
    bench.db().when_succeeded(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    bench.db().write(|_| Ok(())).expect("published");
    bench.db().write(|_| Ok(())).expect("published");
    assert_eq!(told.load(Ordering::Relaxed), 2);
}

/// Has the nth write, or the nth flush, from some time on fail.
struct Fuse {
    kind: OperationKind,
    left: AtomicI64,
}

impl Observer for Fuse {
    fn submitting(&self, device: &SimDevice, operation: &Operation) {
        if operation.kind == self.kind && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            device.faults().fail_next(self.kind, 1);
        }
    }
}

/// A load into a table that has rows, of which the nth operation fails; whether there were so many.
fn fails_at(kind: OperationKind, nth: i64) -> bool {
    let (device, fuse) = (simulated(), Arc::new(Fuse { kind, left: AtomicI64::new(0) }));
    let mut bench = Bench::on(ObservedDevice::new(&device, Arc::clone(&fuse)), Shape::default());
    let before: Rows = (0..1_500).map(|id| (id, 0)).collect();
    let after: Rows = (0..2_000).map(|id| (id, i64::from(id >= 1_500))).collect();
    bench.load(before.clone().into_iter()).expect("loaded");
    fuse.left.store(nth, Ordering::Relaxed);
    let outcome = bench.load((1_500..2_000).map(|id| (id, 1)));
    let has_failed = fuse.left.swap(0, Ordering::Relaxed) <= 0;
    device.faults().heal();
    let what = format!("{kind:?} {nth}: {outcome:?}");
    let now = if outcome.is_ok() { &after } else { &before };
    assert_eq!(bench.moment().range(), *now, "{what}");
    assert_eq!(bench.moment().columns(), *now, "{what}");
    // Unless nobody knows whether the change became durable, writing goes on.
    let unknown = bench.db().write(|_| Ok(())).is_err();
    if !unknown && outcome.is_err() {
        assert_eq!(bench.load((1_500..2_000).map(|id| (id, 1))).expect("goes on"), 500, "{what}");
    }
    bench.reopen();
    let found = bench.moment().range();
    assert!(found == after || unknown && found == before, "{what}: {} rows", found.len());
    bench.check();
    bench.load((2_000..2_100).map(|id| (id, 2))).expect("goes on after it was opened again");
    has_failed
}

#[test]
fn a_change_that_fails_at_any_write_leaves_what_was_before() {
    let failed = (1..).take_while(|nth| fails_at(OperationKind::Write, *nth)).count();
    assert!(failed > 3, "{failed} writes are few");
}

#[test]
fn a_change_that_fails_at_any_flush_leaves_what_was_before() {
    let failed = (1..).take_while(|nth| fails_at(OperationKind::Flush, *nth)).count();
    assert!(failed >= 2, "{failed} flushes are few");
}

/// Such a constraint or comment may be there when the database is opened again: what was committed meanwhile would have
/// been committed by other rules.
#[test]
fn what_may_have_been_published_ends_changes_until_the_database_is_opened_again() {
    let device = simulated();
    let mut bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.commit(&[(1, Some(1))]);
    // Superblocks alone: all that is before them is published.
    device.faults().fail_range(0..1 << 20);
    let described = bench.db().write(|writer| {
        let table = writer.catalog.remove("t").expect("made");
        writer.catalog.put(Table { comment: Some("new".into()), ..Table::clone(&table) });
        Ok(())
    });
    assert_eq!(described.expect_err("its superblock is not written").sqlstate(), "58030");
    device.faults().heal();
    let refused = bench.try_commit(&[(2, Some(2))]).expect_err("by which rules is not known");
    assert_eq!(refused.sqlstate(), "58030", "{refused}");
    assert_eq!(bench.moment().range(), Rows::from([(1, 1)]), "reading goes on");
    bench.reopen();
    bench.commit(&[(3, Some(3))]);
    assert_eq!(bench.moment().range(), Rows::from([(1, 1), (3, 3)]));
    bench.check();
}

#[test]
fn a_full_device_refuses_a_change_and_goes_on_once_there_is_room() {
    let device = simulated();
    let bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.load((0..1_000).map(|id| (id, 0))).expect("loaded");
    device.faults().set_full(true);
    let error = bench.load((1_000..2_000).map(|id| (id, 0))).expect_err("there is no room");
    assert_eq!(error.sqlstate(), "53100");
    assert_eq!(bench.moment().range().len(), 1_000);
    device.faults().heal();
    bench.load((1_000..2_000).map(|id| (id, 0))).expect("there is room");
    assert_eq!(bench.moment().range().len(), 2_000);
    bench.check();
}

/// Takes pictures of what a power loss would leave.
struct Camera(Mutex<(Random, Vec<Arc<SimDevice>>)>);

impl Observer for Camera {
    fn submitted(&self, device: &SimDevice) {
        let (random, pictures) = &mut *self.0.lock().expect("not poisoned");
        if random.chance(0.2) {
            pictures.push(device.crash(random.next_u64()));
        }
    }
}

/// What a device has of the table `t`, and that nothing is wrong with it.
fn stored(device: Arc<dyn Device>, logs: &std::path::Path) -> Rows {
    let options = OpenOptions { read_only: true, base_only: true, ..options() };
    let db = open_on(&device, logs, options).expect("opens");
    let mut faults = db.check(&mut |_| {}).expect("checked").faults;
    // A superblock that the power loss has torn is told, and costs nothing.
    faults.retain(|fault| fault.object != "logs" && !fault.what.contains("its copy is whole"));
    assert_eq!(faults, []);
    let generation = db.generation();
    let Some(table) = generation.catalog.get("t") else { return Rows::new() };
    let mut base = db.base_reader();
    let mut entries = base.range(&table.root, Bound::Unbounded, Bound::Unbounded).expect("readable");
    let mut rows = Rows::new();
    while let Some((key, row)) = entries.next().expect("readable") {
        rows.extend([decoded(table, key, row)]);
    }
    rows
}

#[test]
fn a_power_loss_at_any_operation_leaves_a_whole_change_or_none() {
    let device = simulated();
    device.faults().set_rates(FaultRates { torn_at_power_loss: 0.2, ..FaultRates::default() });
    let camera = Arc::new(Camera(Mutex::new((Random::new(7), Vec::new()))));
    let bench = Bench::on(ObservedDevice::new(&device, Arc::clone(&camera)), Shape::default());
    // No logs there: whoever opens a picture is to look at its base only.
    let nowhere = std::path::Path::new("/nonexistent/database");
    let (mut before, mut looked_at) = (Rows::new(), 0);
    for round in 0..8 {
        camera.0.lock().expect("not poisoned").1.clear();
        let mut after = before.clone();
        if round % 4 == 3 {
            bench.truncate();
            after.clear();
        } else {
            let new = (0..400).map(|id| (id * 8 + round, round));
            bench.load(new.clone()).expect("loaded");
            after.extend(new);
        }
        for picture in std::mem::take(&mut camera.0.lock().expect("not poisoned").1) {
            let found = stored(picture, nowhere);
            assert!(found == before || found == after, "round {round}: {} rows", found.len());
            looked_at += 1;
        }
        before = after;
    }
    assert!(looked_at > 10, "{looked_at} pictures are few");
    assert_eq!(stored(device.crash(1), nowhere), before, "what was acknowledged is durable");
}

#[test]
fn pages_that_cannot_be_read_are_not_given_back() {
    let device = simulated();
    let bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.load((0..2_000).map(|id| (id, id))).expect("loaded");
    let live = bench.db().volume.stats().live_pages;
    bench.db().drop_caches();
    device.faults().set_rates(FaultRates { read_errors: 1.0, ..FaultRates::default() });
    let freed = bench.db().write(|writer| {
        let table = writer.catalog.remove("t").expect("made");
        writer.free_tree(&table.root)
    });
    assert!(freed.is_err(), "it would be a leak");
    device.faults().heal();
    assert_eq!(bench.db().volume.stats().live_pages, live);
    assert_eq!(bench.moment().range().len(), 2_000);
    bench.check();
}

#[test]
fn writers_take_turns_and_none_undoes_another() {
    let bench = Bench::new(Shape::default());
    let before = bench.db().generation().number().0;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = bench.db();
            scope.spawn(move || {
                for number in 0..8 {
                    let name = format!("schema_{thread}_{number}");
                    let put = db.write(|writer| {
                        let id = writer.catalog.new_table_id();
                        writer.catalog.put_schema(SchemaEntry { id, name, comment: None });
                        Ok(())
                    });
                    put.expect("published");
                }
            });
        }
    });
    let generation = bench.db().generation();
    assert_eq!(generation.number().0, before + 32);
    assert_eq!(generation.catalog.schema_names().filter(|name| name.starts_with("schema_")).count(), 32);
}

#[test]
fn a_change_that_is_told_to_stop_publishes_nothing() {
    let bench = Bench::new(Shape::default());
    let (stop, before) = (Stop::default(), bench.db().generation().number());
    let stopped = bench.db().write_unless(&stop, |writer| {
        stop.tell();
        writer.catalog.remove("t");
        Ok(())
    });
    assert_eq!(stopped.expect_err("told to stop").sqlstate(), "57014");
    let late = bench.db().write_unless(&stop, |_| -> saki_catalog::Result<()> { unreachable!("it does not begin") });
    assert_eq!(late.expect_err("told to stop").sqlstate(), "57014");
    assert_eq!(bench.db().generation().number(), before);
    assert!(bench.db().generation().catalog.get("t").is_some());
}

#[test]
fn whoever_is_told_to_stop_or_has_no_patience_does_not_wait_for_a_turn() {
    let bench = Bench::new(Shape::default());
    let db = bench.db();
    let (turn, before) = (db.writing.lock(), db.generation().number());
    let (stop, impatient) = (Stop::default(), Stop::with_patience(Some(Duration::from_millis(20))));
    assert_eq!(db.write_unless(&impatient, |_| Ok(())).expect_err("no turn").sqlstate(), "55P03");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| db.write_unless(&stop, |_| Ok(())));
        let merging = scope.spawn(|| {
            db.engine()?;
            db.checkpoint_unless(&Pace::full(), &stop).map(drop)
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!writing.is_finished() && !merging.is_finished(), "the turn is another's");
        stop.tell();
        for waiting in [writing, merging] {
            assert_eq!(waiting.join().expect("no panic").expect_err("told to stop").sqlstate(), "57014");
        }
    });
    assert_eq!(db.generation().number(), before);
    drop(turn);
    db.write_unless(&impatient, |_| Ok(())).expect("its turn");
}

/// A table gets another delta, and the nth flush of that fails; whether there were so many.
fn another_delta_fails_at(nth: i64) -> bool {
    let (device, fuse) = (simulated(), Arc::new(Fuse { kind: OperationKind::Flush, left: AtomicI64::new(0) }));
    let mut bench = Bench::on(ObservedDevice::new(&device, Arc::clone(&fuse)), Shape::default());
    bench.db().engine().expect("started");
    fuse.left.store(nth, Ordering::Relaxed);
    let changed = bench.db().write(|writer| {
        let table = Arc::clone(writer.catalog.table("t")?);
        writer.catalog.put(Table { layout_version: table.layout_version + 1, ..Table::clone(&table) });
        Ok(())
    });
    let has_failed = fuse.left.swap(0, Ordering::Relaxed) <= 0;
    device.faults().heal();
    let told = bench.try_commit(&[(7, Some(7))]);
    bench.reopen();
    let found = bench.moment().range().contains_key(&7);
    assert_eq!(found, told.is_ok(), "flush {nth}: {changed:?}, then {told:?}");
    has_failed
}

#[test]
fn rows_are_not_taken_for_a_delta_that_may_be_gone() {
    let failed = (1..).take_while(|nth| another_delta_fails_at(*nth)).count();
    assert!(failed >= 2, "{failed} flushes are few");
}

/// What publishing one more table takes beside so many others: the least of some times, in memory.
fn one_more_among(many: usize) -> std::time::Duration {
    let bench = Bench::on(simulated(), Shape::default());
    let template = bench.table();
    let named = |writer: &mut crate::Writer<'_>, name: String| {
        let mut table = Table::clone(&template);
        (table.id, table.name) = (writer.catalog.new_table_id(), name);
        table.root = saki_tree::TreeRoot::empty(writer.catalog.new_tree_id());
        table.delta = saki_base::TableId(0);
        writer.catalog.put(table);
    };
    let publish = |names: std::ops::Range<usize>, prefix: &str| {
        let write = |writer: &mut crate::Writer<'_>| {
            names.for_each(|number| named(writer, format!("{prefix}_{number}")));
            Ok(())
        };
        let began = std::time::Instant::now();
        bench.db().write(write).expect("made");
        began.elapsed()
    };
    publish(0..many, "many");
    (0..30).map(|number| publish(number..number + 1, "more")).min().expect("some")
}

/// Beside ten times as many tables one more takes ten times as long at most, and something for a busy machine.
#[test]
fn a_table_more_among_thousands() {
    let (few, many) = (one_more_among(400), one_more_among(4_000));
    println!("{few:?} a table among 400, {many:?} among 4 000");
    assert!(many < few * 16, "{few:?} a table among 400, {many:?} among 4 000");
}
