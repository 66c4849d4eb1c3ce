//! Readers on other threads while their transactions write, take back and end.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

use saki_base::{Random, TableId};
use saki_mvcc::{Database, Direction, Durability, Isolation, KeyRange, Moment, Seen, Table, TableDefinition};

use super::{Note, key, note, with_notes};
use crate::suite::support::{first_seed, scaled};

const IDS: u64 = 12;

/// A text that shows if it is not as it was written.
fn text(random: &mut Random) -> String {
    let length = random.below(300);
    format!("{length} {}", "y".repeat(length as usize))
}

fn check(note: &Note) {
    let (length, rest) = note.text.split_once(' ').expect("two words");
    assert_eq!(length.parse::<usize>().expect("a length"), rest.len());
    assert!(rest.bytes().all(|byte| byte == b'y'), "memory of others: {rest:?}");
}

/// Everything that a moment sees, each thing twice: what is committed does not change.
fn read(moment: &Moment, table: &Table) {
    let reader = moment.reader().expect("a place");
    let all = || {
        let mut all = Vec::new();
        reader.scan(table, &KeyRange::all(), Direction::Forward, |key, body, begin| {
            let note = body.map(|body| Note::decode(table, key, body));
            note.iter().for_each(check);
            all.push((key.to_vec(), note, begin));
            ControlFlow::Continue(())
        });
        all
    };
    let (first, second) = (all(), all());
    for (key, note, begin) in first.into_iter().filter(|(_, _, begin)| begin.is_some()) {
        let again = second.iter().find(|(other, _, _)| *other == key);
        // The transaction may have written it meanwhile; or it is the same.
        let (_, other_note, other_begin) = again.expect("a committed version does not go");
        assert!(other_begin.is_none() || (other_note, *other_begin) == (&note, begin), "a snapshot moves");
    }
    let keys: Vec<_> = (0..IDS as i64).map(key).collect();
    reader.look_many(table, &keys, |at, seen| {
        if let Seen::Row(body) = seen {
            check(&Note::decode(table, &keys[at], body));
        }
    });
    let index = table.index("by_colour").expect("the index");
    reader.scan_index(table, index, &KeyRange::all(), Direction::Reverse, |_, key, body| {
        check(&Note::decode(table, key, body));
        ControlFlow::Continue(())
    });
}

fn write(database: &Database, table: &Table, seed: u64, rounds: u64, mut show: impl FnMut(Moment)) {
    let mut runner = database.runner().expect("a runner");
    let mut random = Random::new(seed);
    for _ in 0..rounds {
        let mut transaction = runner.begin_with(Isolation::Snapshot, Durability::Relaxed);
        let savepoint = transaction.savepoint();
        let moment_at = random.below(4);
        for at in 0..4 {
            if at == moment_at {
                show(transaction.moment().expect("a place"));
            }
            // Few keys, so that a transaction replaces what it has written itself.
            let id = random.below(3) + 3 * random.below(IDS / 3);
            let body = note(random.below(3) as i32, &text(&mut random)).body(table);
            let body = random.chance(0.8).then_some(&body[..]);
            let _ = transaction.write(table, &key(id as i64), body);
        }
        match random.below(4) {
            0 => transaction.abort(),
            1 => {
                transaction.rollback_to(savepoint);
                let _ = transaction.commit();
            }
            2 => {
                transaction.refresh();
                let _ = transaction.commit();
            }
            _ => _ = transaction.commit().expect("nothing to validate"),
        }
    }
}

#[test]
fn what_moments_show_is_whole_whatever_becomes_of_their_transactions() {
    let (_logs, database, table) = with_notes(first_seed());
    let rounds = scaled("SAKI_ROUNDS", 4_000);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, table) = (&database, &table);
            let (to, moments) = sync_channel::<Moment>(4);
            scope.spawn(move || {
                write(database, table, first_seed() + thread, rounds, |moment| {
                    to.send(moment).expect("the reader lives")
                });
            });
            scope.spawn(move || {
                let mut kept = Vec::new();
                for moment in moments {
                    read(&moment, table);
                    // Some last longer, so that versions are pruned beside them.
                    kept.push(moment);
                    if kept.len() > 3 {
                        read(&kept.remove(0), table);
                    }
                }
            });
        }
    });
}

#[test]
fn a_moment_is_acknowledged_with_what_it_saw() {
    let (logs, database, table) = with_notes(1);
    let mut runner = database.runner().unwrap();
    logs.hold(true);
    let mut transaction = runner.begin(Isolation::Snapshot);
    transaction.write(&table, &key(1), Some(&note(1, "early").body(&table))).unwrap();
    let receipt = transaction.commit_early().unwrap();
    let moment = database.moment().unwrap();
    assert!(database.is_durable(moment.receipt()), "nothing was seen yet");
    let reader = moment.reader().unwrap();
    assert!(reader.look(&table, &key(1), |seen| matches!(seen, Seen::Row(_))));
    drop(reader);
    assert_eq!(moment.receipt().through, receipt.timestamp.unwrap());
    assert!(!database.is_durable(moment.receipt()));
    logs.release(&database);
    database.wait(moment.receipt()).unwrap();
}

/// A snapshot that was moved on holds nothing back.
#[test]
fn refreshed_transactions_let_memory_go() {
    let (_logs, database, table) = with_notes(2);
    let (mut client, mut runner) = (database.runner().unwrap(), database.runner().unwrap());
    let mut transaction = client.begin(Isolation::Snapshot);
    transaction.write(&table, &key(1), Some(&note(1, "mine").body(&table))).unwrap();
    transaction.suspend();
    let body = note(1, &"z".repeat(1_000)).body(&table);
    for _ in 0..100 {
        for _ in 0..1_000 {
            runner.run(Isolation::Snapshot, |t| t.write(&table, &key(2), Some(&body))).unwrap();
        }
        let mut transaction = client.resume().unwrap();
        transaction.refresh();
        assert!(matches!(transaction.look(&table, &key(1)), Seen::Row(_)), "its own writes stay");
        transaction.suspend();
    }
    assert!(database.memory_bytes() < 32 << 20, "{} bytes for two rows", database.memory_bytes());
    assert_eq!(table.rows(), 1);
    client.resume().unwrap().commit().unwrap();
    assert_eq!(table.rows(), 2);
}

/// What a base has is not asked for, by moment or transaction, whether it has been released yet or not; pending writes
/// are.
#[test]
fn versions_that_are_not_newer_are_as_if_they_were_not_there() {
    let (_logs, database, table) = with_notes(1);
    let mut runner = database.runner().unwrap();
    let mut put = |id: i64, colour: i32| {
        let body = note(colour, "a note").body(&table);
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(id), Some(&body))).unwrap();
        database.moment().unwrap().timestamp()
    };
    put(1, 1);
    let since = put(2, 2);
    put(2, 3);
    let newer = table.newer_than(since);
    let index = table.index("by_colour").unwrap();
    let seen_by = |transaction: &saki_mvcc::Transaction<'_>| {
        let (reader, mut found) = (transaction.moment().unwrap().reader().unwrap(), [vec![], vec![], vec![], vec![]]);
        transaction.scan_all(newer, &KeyRange::all(), Direction::Forward, |key, _| {
            found[0].push(key.to_vec());
            ControlFlow::Continue(())
        });
        reader.scan(newer, &KeyRange::all(), Direction::Forward, |key, _, _| {
            found[1].push(key.to_vec());
            ControlFlow::Continue(())
        });
        transaction.scan_index(newer, index, &KeyRange::all(), Direction::Forward, |_, row| {
            found[2].push(row.key.to_vec());
            ControlFlow::Continue(())
        });
        reader.scan_index(newer, index, &KeyRange::all(), Direction::Forward, |_, key, _| {
            found[3].push(key.to_vec());
            ControlFlow::Continue(())
        });
        for id in 1..3 {
            let is_seen = found[0].contains(&key(id));
            assert_eq!(matches!(transaction.look(newer, &key(id)), Seen::Absent), !is_seen);
            assert_eq!(reader.look(newer, &key(id), |seen| matches!(seen, Seen::Absent)), !is_seen);
            reader.look_many(newer, &[key(id)], |_, seen| assert_eq!(matches!(seen, Seen::Absent), !is_seen));
        }
        found
    };
    let mut transaction = runner.begin(Isolation::Serializable);
    assert!(seen_by(&transaction).iter().all(|found| *found == [key(2)]));
    transaction.write(&table, &key(1), Some(&note(0, "mine").body(&table))).unwrap();
    let found = seen_by(&transaction);
    assert!(found.iter().all(|found| found.len() == 2 && found.contains(&key(1))), "{found:?}");
}

/// A serializable transaction answers for what it was told not to count: it has read that in the base.
#[test]
fn what_does_not_count_is_read_all_the_same() {
    let (_logs, database, table) = with_notes(1);
    let (mut one, mut other) = (database.runner().unwrap(), database.runner().unwrap());
    let body = note(1, "a note").body(&table);
    one.run(Isolation::Snapshot, |t| t.write(&table, &key(1), Some(&body))).unwrap();
    let since = database.moment().unwrap().timestamp();
    let mut transaction = one.begin(Isolation::Serializable);
    assert_eq!(transaction.look(table.newer_than(since), &key(1)), Seen::Absent);
    transaction.write(&table, &key(2), Some(&body)).unwrap();
    other.run(Isolation::Snapshot, |t| t.write(&table, &key(1), None)).unwrap();
    assert!(matches!(transaction.commit(), Err(saki_mvcc::Error::Serialization)));
}

/// Of each key, in turn, what it is told alone; of a table that is gone that nothing is there.
#[test]
fn keys_are_looked_up_together_as_alone() {
    let (_logs, database, table) = with_notes(5);
    let mut runner = database.runner().unwrap();
    for id in 0..60 {
        let body = note(1, &format!("text {id}")).body(&table);
        let body = (id % 3 > 0).then_some(&body[..]);
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(2 * id), body)).unwrap();
    }
    let keys: Vec<_> = (0..130).map(|id| key(id * 7 % 125)).collect();
    let seen = |moment: &Moment| {
        let reader = moment.reader().unwrap();
        let owned = |seen: Seen<&[u8]>| format!("{seen:?}");
        let mut together = Vec::new();
        reader.look_many(&table, &keys, |at, seen| together.push((at, owned(seen))));
        let alone = keys.iter().map(|key| reader.look(&table, key, owned));
        assert!(together.iter().cloned().eq(alone.enumerate()), "{together:?}");
        together.iter().map(|(_, seen)| seen.clone()).collect::<std::collections::BTreeSet<_>>().len()
    };
    // Each row, deletes, and nothing.
    assert_eq!(seen(&database.moment().unwrap()), 40 + 2);
    database.drop_table(&table).unwrap();
    let others = TableDefinition { name: "others".into(), ..super::notes() };
    let other = database.define_table(TableId(70), others).unwrap();
    runner.run(Isolation::Snapshot, |t| t.write(&other, &key(1), None)).unwrap();
    assert_eq!(seen(&database.moment().unwrap()), 1);
}
