//! A base, made of the rows of a table from time to time while transactions write them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::{Mutex, RwLock};
use saki_base::Random;
use saki_mvcc::{Database, Durability, Error, Isolation, Runner, Seen, Table};

use super::{Note, key, note, with_notes};
use crate::suite::support::{first_seed, scaled};

const IDS: u64 = 40;

/// What is durable elsewhere, as of some time.
type Base = BTreeMap<Vec<u8>, Note>;

struct Subject {
    database: Database,
    table: Table,
    base: Mutex<Arc<Base>>,
    /// Transactions hold it shared, so that a merge can tell when none of before is left.
    gate: RwLock<()>,
    /// What was counted, and then deleted.
    deleted: AtomicI64,
}

fn number(note: &Note) -> i64 {
    note.text.split(' ').next().expect("a word").parse().expect("a number")
}

impl Subject {
    /// Adds one to a number, or deletes it.
    fn count(&self, runner: &mut Runner, random: &mut Random) -> Result<(), Error> {
        let _open = self.gate.read();
        let base = Arc::clone(&self.base.lock());
        let isolation = if random.chance(0.5) { Isolation::Snapshot } else { Isolation::Serializable };
        let mut transaction = runner.begin_with(isolation, Durability::Relaxed);
        let id = random.below(IDS) as i64;
        let before = match transaction.look(&self.table, &key(id)) {
            Seen::Absent => base.get(&key(id)).map_or(0, number),
            Seen::Deleted => 0,
            Seen::Row(found) => number(&Note::decode(&self.table, found.key, found.body)),
        };
        let is_deleted = random.chance(0.2);
        let text = format!("{} {}", before + 1, "x".repeat(random.below(100) as usize));
        let body = note(random.below(3) as i32, &text).body(&self.table);
        transaction.write(&self.table, &key(id), (!is_deleted).then_some(&body))?;
        transaction.commit()?;
        if is_deleted {
            self.deleted.fetch_add(before + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn merge(&self) {
        let through = self.database.begin_cut();
        let moment = self.database.moment().expect("a place");
        assert!(moment.timestamp() >= through);
        let through = moment.timestamp();
        let mut base = Base::clone(&self.base.lock());
        let reader = moment.reader().expect("a place");
        reader.changes(&self.table, 0, |key, body, begin| {
            assert!(begin <= through);
            match body {
                Some(body) => _ = base.insert(key.to_vec(), Note::decode(&self.table, key, body)),
                None => _ = base.remove(key),
            }
            ControlFlow::Continue(())
        });
        drop((reader, moment));
        {
            let _alone = self.gate.write();
            *self.base.lock() = Arc::new(base);
        }
        // Whoever begins from here on has the new base and a later snapshot.
        self.database.release(&self.table, through).expect("a place");
    }

    fn sum(&self) -> i64 {
        let moment = self.database.moment().expect("a place");
        let reader = moment.reader().expect("a place");
        let mut all = Base::clone(&self.base.lock());
        reader.changes(&self.table, 0, |key, body, _| {
            match body {
                Some(body) => _ = all.insert(key.to_vec(), Note::decode(&self.table, key, body)),
                None => _ = all.remove(key),
            }
            ControlFlow::Continue(())
        });
        all.values().map(number).sum()
    }
}

/// Nothing is lost and nothing counted twice, wherever a row just is; and in the end memory holds none.
#[test]
fn merges_beside_transactions() {
    let (_logs, database, table) = with_notes(first_seed());
    let subject =
        Subject { database, table, base: Mutex::default(), gate: RwLock::new(()), deleted: AtomicI64::new(0) };
    let rounds = scaled("SAKI_ROUNDS", 10_000);
    let (counted, is_over) = (AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let (subject, counted) = (&subject, &counted);
                scope.spawn(move || {
                    let mut runner = subject.database.runner().expect("a runner");
                    let mut random = Random::new(first_seed() + worker);
                    for _ in 0..rounds {
                        match subject.count(&mut runner, &mut random) {
                            Ok(()) => _ = counted.fetch_add(1, Ordering::Relaxed),
                            Err(error) => assert!(error.is_retryable(), "{error}"),
                        }
                    }
                })
            })
            .collect();
        let (subject, is_over) = (&subject, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                subject.merge();
                let total = subject.sum();
                assert!(total >= 0);
            }
        });
        let ended: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a worker panicked, see above");
    });
    let counted = counted.into_inner();
    assert!(counted > 0);
    assert_eq!(subject.sum() + subject.deleted.load(Ordering::Relaxed), counted);
    // Cleanups that runners have left are done by others.
    let mut runner = subject.database.runner().expect("a runner");
    for round in 0.. {
        runner.run(Isolation::Snapshot, |t| t.write(&subject.table, &key(0), None)).expect("nobody else writes");
        (0..4).for_each(|_| runner.reclaim());
        // One that commits looks at others' garbage now and then only.
        subject.database.sweep().expect("a place");
        subject.merge();
        if subject.table.rows() == 0 {
            break;
        }
        assert!(round < 100, "{} rows stay", subject.table.rows());
    }
    assert_eq!(subject.table.bytes(), 0);
}

/// A serializable transaction answers for what it has not found in memory, since it has then read the base.
#[test]
fn deletes_of_rows_of_the_base_are_noticed() {
    let (_logs, database, table) = with_notes(1);
    let (mut reader, mut writer) = (database.runner().unwrap(), database.runner().unwrap());
    let read: [fn(&saki_mvcc::Transaction<'_>, &Table); 2] = [
        |transaction, table| assert_eq!(transaction.look(table, &key(1)).row().map(|found| found.id), None),
        |transaction, table| {
            transaction.scan_all(table, &saki_mvcc::KeyRange::all(), saki_mvcc::Direction::Forward, |_, _| {
                ControlFlow::Continue(())
            });
        },
    ];
    for (round, read) in read.into_iter().enumerate() {
        for (before, change) in [(None, None), (None, Some(note(1, "new"))), (Some(None), Some(note(1, "new")))] {
            database.release(&table, database.now()).unwrap();
            if let Some(before) = before {
                let body: Option<Note> = before;
                let body = body.map(|note| note.body(&table));
                writer.run(Isolation::Snapshot, |t| t.write(&table, &key(1), body.as_deref())).unwrap();
            }
            let mut transaction = reader.begin(Isolation::Serializable);
            read(&transaction, &table);
            transaction.write(&table, &key(2), None).unwrap();
            let body = change.map(|note| note.body(&table));
            writer.run(Isolation::Snapshot, |t| t.write(&table, &key(1), body.as_deref())).unwrap();
            assert!(matches!(transaction.commit(), Err(Error::Serialization)), "read {round}");
        }
    }
}
