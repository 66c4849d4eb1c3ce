//! Memory stays bounded whatever is done for however long: hours of updates in seconds. One test at a time, since the
//! memory of index nodes is counted for the whole process.
//!
//! `SAKI_UPDATES` says how many transactions of each kind.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use saki_base::{Column, DataType, Random, ValueRef};
use saki_io::{Device, SimDevice, SimOptions};
use saki_mvcc::placement::{Placement, Topology};
use saki_mvcc::{
    Catalog, Database, Direction, Durability, IndexDefinition, Isolation, KeyRange, Options, Runner, Table,
    TableDefinition, Transaction,
};

static ALONE: Mutex<()> = Mutex::new(());
const THREADS: u64 = 2;

fn rows() -> TableDefinition {
    let column = |name: &str, data_type| Column { name: name.into(), data_type, nullable: false };
    let index = |name: &str, column| IndexDefinition {
        name: name.into(),
        columns: vec![column],
        unique: false,
        ..Default::default()
    };
    TableDefinition {
        name: "rows".into(),
        columns: vec![column("id", DataType::Int8), column("group", DataType::Int8), column("note", DataType::Text)],
        primary_key: vec![0],
        indexes: vec![index("by_group", 1)],
        ..Default::default()
    }
}

/// A device for a new log.
fn empty() -> SimOptions {
    SimOptions { length_bytes: 0, ..SimOptions::default() }
}

/// A database whose logs cut themselves short: what was written is nowhere, which is all the same here.
struct Subject {
    database: Database,
    table: Table,
}

impl Subject {
    fn new() -> Self {
        Self::on(SimDevice::new(empty()), rows())
    }

    fn on(device: Arc<dyn Device>, definition: TableDefinition) -> Self {
        let mut catalog = Catalog::in_memory(1, 1);
        catalog.add(definition).expect("a table");
        let placement = Placement::plan(&Topology::detect(), 2, Some(1));
        let mut options = Options { participants_max: 8, placement, ..Options::default() };
        options.log.extent_bytes = 1 << 20;
        options.log.flush = false;
        let database = Database::open_on(catalog, vec![device], options, &|_| {}).expect("a log");
        let table = database.table("rows").expect("the table");
        Self { database, table }
    }

    fn encode(&self, id: u64, group: u64, note_bytes: u64) -> (Vec<u8>, Vec<u8>) {
        let note = "x".repeat(note_bytes as usize);
        let values = [ValueRef::Int8(id as i64), ValueRef::Int8(group as i64), ValueRef::Text(&note)];
        let (mut key, mut body) = (Vec::new(), Vec::new());
        self.table.encode(&values, &mut key, &mut body).expect("values of the table");
        (key, body)
    }

    fn put(
        &self,
        transaction: &mut Transaction<'_>,
        id: u64,
        group: u64,
        note_bytes: u64,
    ) -> Result<(), saki_mvcc::Error> {
        let (key, body) = self.encode(id, group, note_bytes);
        transaction.put(&self.table, &key, &body).map(drop)
    }

    fn delete(&self, transaction: &mut Transaction<'_>, id: u64) -> Result<(), saki_mvcc::Error> {
        let (key, _) = self.encode(id, 0, 0);
        let Some(row) = transaction.get(&self.table, &key).map(|found| found.id) else { return Ok(()) };
        transaction.delete(&self.table, row)
    }

    fn run(&self, runner: &mut Runner, body: impl Fn(&mut Transaction<'_>) -> Result<(), saki_mvcc::Error>) {
        loop {
            let mut transaction = runner.begin_with(Isolation::Snapshot, Durability::Relaxed);
            match body(&mut transaction).and_then(|()| transaction.commit().map(drop)) {
                Ok(()) => return,
                Err(error) if error.is_retryable() => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// By how much memory grows while one row is written again and again.
    fn growth_by_updates(&self, runner: &mut Runner) -> usize {
        let before = self.database.memory_bytes();
        (0..20_000).for_each(|_| self.run(runner, |t| self.put(t, 1, 1, 1_000)));
        self.database.memory_bytes() - before
    }

    /// Bytes of rows, and of index nodes.
    fn bytes(&self) -> (usize, usize) {
        (self.database.memory_bytes(), saki_mvcc::index::bytes_in_use())
    }

    /// The same once commits have freed what had to wait: for a thread that the system had stopped in the middle of a
    /// transaction, or for the log.
    fn settled_bytes(&self) -> (usize, usize) {
        let mut runner = self.database.runner().expect("a runner");
        self.run(&mut runner, |t| self.put(t, 1, 1, 10));
        self.database.wait(runner.receipt()).expect("a log that works");
        (0..2_000).for_each(|_| self.run(&mut runner, |t| self.put(t, 1, 1, 10)));
        self.bytes()
    }

    /// Runs `update`, which writes about `row_bytes`, from two threads, and looks at the memory after a quarter and at
    /// the end.
    fn is_bounded(&self, row_bytes: u64, update: impl Fn(&mut Runner, &mut Random, u64, u64) + Sync) {
        let updates: u64 = std::env::var("SAKI_UPDATES").map_or(60_000, |text| text.parse().expect("a number"));
        let quarter = |quarter: u64| {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let update = &update;
                    scope.spawn(move || {
                        let mut runner = self.database.runner().expect("a runner");
                        let mut random = Random::new(quarter * THREADS + thread);
                        let each = updates / 4 / THREADS;
                        for number in quarter * each..(quarter + 1) * each {
                            update(&mut runner, &mut random, thread, number);
                            if number % 1_000 == 0 {
                                self.database.finish_cut(self.database.begin_cut());
                            }
                        }
                    });
                }
            });
        };
        quarter(0);
        let warm = self.settled_bytes();
        (1..4).for_each(quarter);
        let end = self.settled_bytes();
        // How far one thread runs ahead of another that the system has stopped in the middle of a transaction is not
        // the same every time. What is never freed would be all that was written since.
        let written = updates / 4 * 3 * row_bytes;
        assert!(
            end.0 <= warm.0 + warm.0 / 4 + (written as usize / 4).max(4 << 20),
            "rows take {} bytes, after a quarter of the time {}",
            end.0,
            warm.0
        );
        assert!(
            end.1 <= warm.1 + warm.1 / 4 + (1 << 20),
            "index nodes take {} bytes, after a quarter {}",
            end.1,
            warm.1
        );
    }
}

const NOTE_BYTES_MEAN: u64 = 220;

/// Sizes that go through many size classes, [`NOTE_BYTES_MEAN`] in the mean.
fn note_bytes(random: &mut Random) -> u64 {
    if random.chance(0.01) { random.below(5_000) } else { random.below(400) }
}

#[test]
fn updates_of_one_key() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    subject.is_bounded(NOTE_BYTES_MEAN, |runner, random, _, _| {
        let bytes = note_bytes(random);
        subject.run(runner, |t| subject.put(t, 1, 1, bytes));
    });
}

#[test]
fn updates_of_all_keys_alike() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    subject.is_bounded(NOTE_BYTES_MEAN, |runner, random, _, _| {
        let (id, bytes) = (random.below(500), note_bytes(random));
        subject.run(runner, |t| subject.put(t, id, id % 7, bytes));
    });
}

#[test]
fn a_window_of_keys_that_moves() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    subject.is_bounded(NOTE_BYTES_MEAN, |runner, random, thread, number| {
        let bytes = note_bytes(random);
        let id = |number: u64| number << 1 | thread;
        subject.run(runner, |t| {
            subject.put(t, id(number), number % 100, bytes)?;
            number.checked_sub(200).map_or(Ok(()), |old| subject.delete(t, id(old)))
        });
    });
}

#[test]
fn indexed_columns_that_change_back_and_forth() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    subject.is_bounded(NOTE_BYTES_MEAN, |runner, random, _, number| {
        let (id, group, bytes) = (random.below(60), random.below(3) * number, note_bytes(random));
        subject.run(runner, |t| subject.put(t, id, group, bytes));
        if random.chance(0.1) {
            let mut transaction = runner.begin(Isolation::Snapshot);
            let _ = subject
                .put(&mut transaction, id, number, bytes)
                .and_then(|()| subject.put(&mut transaction, id, 1, bytes));
            transaction.abort();
        }
    });
}

/// Rows that a transaction writes and takes back, that are of a key that there is, or that are refused. Nobody commits
/// anything meanwhile.
#[test]
fn writes_that_come_to_nothing() {
    let _alone = ALONE.lock();
    let plain = Subject::new();
    let by_note = IndexDefinition { name: "by_note".into(), columns: vec![2], ..Default::default() };
    let noted = Subject::on(SimDevice::new(empty()), TableDefinition { indexes: vec![by_note], ..rows() });
    type Write = fn(&Subject, &mut Transaction<'_>, u64, u64);
    let writes: [(&Subject, Write); 4] = [
        (&plain, |subject, transaction, id, bytes| {
            subject.put(transaction, id, 1, bytes).expect("it is its thread's own");
        }),
        (&plain, |subject, transaction, id, bytes| {
            subject.put(transaction, THREADS + id, 1, bytes).expect("it is its thread's own");
        }),
        (&plain, |subject, transaction, id, bytes| {
            let (key, body) = subject.encode(id, 1, bytes);
            transaction.insert(&subject.table, &key, &body).expect_err("it is there");
        }),
        (&noted, |subject, transaction, id, bytes| {
            let too_long = saki_mvcc::KEY_BYTES_MAX as u64 + bytes;
            subject.put(transaction, id, 1, too_long).expect_err("its entry is too long");
        }),
    ];
    for (subject, write) in writes {
        let mut runner = subject.database.runner().expect("a runner");
        (0..THREADS).for_each(|id| subject.run(&mut runner, |t| subject.put(t, id, 1, 10)));
        subject.is_bounded(1_000 + NOTE_BYTES_MEAN, |runner, random, thread, _| {
            let mut transaction = runner.begin(Isolation::Snapshot);
            write(subject, &mut transaction, thread, 1_000 + note_bytes(random));
            transaction.abort();
        });
    }
}

/// What recovery has read of them is free for others.
#[test]
fn rows_that_recovery_finds_deleted() {
    const ROWS: u64 = 20_000;
    let _alone = ALONE.lock();
    let device = SimDevice::new(empty());
    let fill = |subject: &Subject| {
        let mut runner = subject.database.runner().expect("a runner");
        // The newest body of every other row lies apart from it.
        (0..ROWS).step_by(2).for_each(|id| subject.run(&mut runner, |t| subject.put(t, id, 1, 10)));
        (0..ROWS).for_each(|id| subject.run(&mut runner, |t| subject.put(t, id, 1, 1_000)));
        runner
    };
    {
        let subject = Subject::on(Arc::clone(&device) as Arc<dyn Device>, rows());
        let mut runner = fill(&subject);
        (0..ROWS).for_each(|id| subject.run(&mut runner, |t| subject.delete(t, id)));
    }
    let subject = Subject::on(device, rows());
    assert_eq!(subject.table.rows(), 0);
    let (before, _) = subject.bytes();
    assert!(before as u64 > ROWS * 1_000, "{before} bytes");
    fill(&subject);
    let (after, _) = subject.bytes();
    assert!(after - before < 4 << 20, "{before} bytes for rows that were deleted, {after} with others in their place");
}

/// They are in the base, as far as anybody can tell; their newest bodies lie apart from them.
#[test]
fn rows_that_are_released() {
    let _alone = ALONE.lock();
    let subject = Subject::on(SimDevice::new(empty()), TableDefinition { over_base: true, ..rows() });
    let mut runner = subject.database.runner().expect("a runner");
    let mut grown = Vec::new();
    for _ in 0..20 {
        for bytes in [10, 1_000] {
            for id in 0..1_000 {
                let (key, body) = subject.encode(id, 1, bytes);
                subject.run(&mut runner, |t| t.write(&subject.table, &key, Some(&body)));
            }
        }
        subject.database.release(&subject.table, subject.database.now()).expect("a place");
        assert_eq!(subject.table.rows(), 0);
        // The next commit lets what was released go.
        subject.run(&mut runner, |t| t.write(&subject.table, &subject.encode(0, 1, 10).0, None));
        subject.database.sweep().expect("a place");
        grown.push(subject.bytes().0);
    }
    assert!(grown[19] - grown[1] < 4 << 20, "memory grows while all rows are released: {grown:?}");
}

/// What a moment has held back goes when it has ended, while others stay.
#[test]
fn moments_that_end() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    let mut runner = subject.database.runner().expect("a runner");
    let moment = subject.database.moment().expect("a moment");
    // It keeps the place of the other in use.
    let _idle = subject.database.runner().expect("a runner");
    drop(moment);
    let (before, _) = subject.bytes();
    for id in 0..20_000 {
        subject.run(&mut runner, |t| subject.put(t, id, 1, 1_000));
        subject.run(&mut runner, |t| subject.delete(t, id));
        if id % 500 == 0 {
            // What is cleaned up is durable.
            subject.database.wait(runner.receipt()).expect("a log that works");
        }
    }
    let (after, _) = subject.bytes();
    assert!(after - before < 8 << 20, "rows that came and went take {} bytes", after - before);
}

/// Old versions of a row that is written all the time go while an old snapshot is there, once the visits have ended
/// that may have met them: also those that a panic has ended.
#[test]
fn visits_that_were_broken_off() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    let mut runners = [(); 2].map(|()| subject.database.runner().expect("a runner"));
    let [one, other] = &mut runners;
    subject.run(one, |t| (0..3).try_for_each(|id| subject.put(t, id, id, 1_000)));
    let (key, _) = subject.encode(2, 0, 0);
    let breaks_off = |visit: &mut dyn FnMut()| {
        catch_unwind(AssertUnwindSafe(visit)).expect_err("it breaks off");
    };
    let modify = |transaction: &mut Transaction<'_>| {
        let row = transaction.get(&subject.table, &key).expect("it is there").id;
        breaks_off(&mut || transaction.modify(&subject.table, row, |_| panic!("as it was told to")).expect("never"));
    };

    let moment = subject.database.moment().expect("a moment");
    let reader = moment.reader().expect("a reader");
    breaks_off(&mut || reader.look(&subject.table, &key, |_| panic!("as it was told to")));
    let grown = [
        ("a reader", subject.growth_by_updates(one)),
        ("a transaction that writes", {
            let mut transaction = other.begin(Isolation::Snapshot);
            subject.put(&mut transaction, 2, 2, 10).expect("nobody else writes it");
            subject.growth_by_updates(one)
        }),
        ("a transaction that has ended", {
            modify(&mut other.begin(Isolation::Snapshot));
            subject.growth_by_updates(one)
        }),
        ("a transaction that is suspended", {
            let mut transaction = other.begin(Isolation::Snapshot);
            modify(&mut transaction);
            transaction.suspend();
            subject.growth_by_updates(one)
        }),
    ];
    assert!(grown.iter().all(|(_, bytes)| *bytes < 4 << 20), "beside a visit of {grown:?}");
}

/// Runners come and go, each for a few rows: what they leave behind is adopted, and the memory they had taken serves
/// others.
#[test]
fn runners_that_come_and_go() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    subject.is_bounded(NOTE_BYTES_MEAN, |_, random, _, number| {
        if number % 20 == 0 {
            let mut runner = subject.database.runner().expect("a runner");
            let (id, bytes) = (random.below(100), note_bytes(random));
            subject.run(&mut runner, |t| subject.put(t, id, number, bytes));
        }
    });
    let (before, _) = subject.bytes();
    for id in 0..2_000 {
        let mut runner = subject.database.runner().expect("a runner");
        subject.run(&mut runner, |t| subject.put(t, 1_000 + id, 1, 50));
    }
    let (after, _) = subject.bytes();
    assert!(after - before < 4 << 20, "2000 small rows, each of a runner of its own, take {} bytes", after - before);
}

/// An old snapshot holds things up for a while; after its end their memory serves again.
#[test]
fn an_old_snapshot_that_ends() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    let mut idle = subject.database.runner().expect("a runner");
    let mut runner = subject.database.runner().expect("a runner");
    (0..100).for_each(|id| subject.run(&mut runner, |t| subject.put(t, id, id, 10)));
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let old = idle.begin(Isolation::Snapshot);
        let sum = |old: &Transaction<'_>| {
            let mut sum = 0;
            old.scan(&subject.table, &KeyRange::all(), Direction::Forward, |row| {
                sum += row.body.len();
                ControlFlow::Continue(())
            });
            sum
        };
        let seen = sum(&old);
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let (id, group, bytes) = (random.below(100), random.below(50), random.below(100));
            subject.run(&mut runner, |t| subject.put(t, id, group, bytes));
        }
        assert_eq!(sum(&old), seen, "a snapshot moves");
        drop(old);
        for _ in 0..2_000 {
            subject.run(&mut runner, |t| subject.put(t, 1, 1, 10));
        }
        sizes.push(subject.bytes());
    }
    assert!(sizes[2].0 <= sizes[0].0 + (2 << 20) && sizes[2].1 <= sizes[0].1 + (1 << 20), "it grows: {sizes:?}");
}

/// Nothing of a database stays behind in the memory that all databases share.
#[test]
fn databases_that_come_and_go() {
    let _alone = ALONE.lock();
    let mut sizes = Vec::new();
    for _ in 0..20 {
        let subject = Subject::new();
        let mut runner = subject.database.runner().expect("a runner");
        for id in 0..1_000 {
            subject.run(&mut runner, |t| subject.put(t, id, id, 10));
        }
        for id in 0..1_000 {
            subject.run(&mut runner, |t| subject.delete(t, id));
        }
        drop((runner, subject));
        sizes.push(saki_mvcc::index::bytes_in_use());
    }
    assert!(sizes[19] <= sizes[4], "index nodes that nobody has: {sizes:?}");
}

/// Whoever stops another's progress is told by nobody, but does not let memory grow without end either: readers that
/// overlap for ever.
#[test]
fn readers_that_overlap_without_end() {
    let _alone = ALONE.lock();
    let subject = Subject::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut runners = [(); 2].map(|()| subject.database.runner().expect("a runner"));
            let [one, two] = &mut runners;
            while !is_over.load(Ordering::Relaxed) {
                let first = one.begin(Isolation::Snapshot);
                std::thread::yield_now();
                let second = two.begin(Isolation::Snapshot);
                drop(first);
                std::thread::yield_now();
                drop(second);
            }
        });
        subject.is_bounded(NOTE_BYTES_MEAN, |runner, random, _, _| {
            let (id, bytes) = (random.below(50), note_bytes(random));
            subject.run(runner, |t| subject.put(t, id, id, bytes));
        });
        is_over.store(true, Ordering::Relaxed);
    });
}
