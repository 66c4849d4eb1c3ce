//! Readers on other threads while their transactions write, take back and end.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

use saki_base::Random;
use saki_mvcc::{Database, Direction, Durability, Isolation, KeyRange, Seen, Table, View};

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

/// Everything that a view sees, each thing twice: what is committed does not change.
fn read(view: &View, table: &Table) {
    let reader = view.reader().expect("a place");
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

fn write(database: &Database, table: &Table, seed: u64, rounds: u64, mut show: impl FnMut(View)) {
    let mut session = database.session().expect("a session");
    let mut random = Random::new(seed);
    for _ in 0..rounds {
        let mut transaction = session.begin_with(Isolation::Snapshot, Durability::Relaxed);
        let savepoint = transaction.savepoint();
        let view_at = random.below(4);
        for at in 0..4 {
            if at == view_at {
                show(transaction.view().expect("a place"));
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
fn what_views_show_is_whole_whatever_becomes_of_their_transactions() {
    let (_logs, database, table) = with_notes(first_seed());
    let rounds = scaled("SAKI_ROUNDS", 4_000);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (database, table) = (&database, &table);
            let (to, views) = sync_channel::<View>(4);
            scope.spawn(move || {
                write(database, table, first_seed() + thread, rounds, |view| to.send(view).expect("the reader lives"));
            });
            scope.spawn(move || {
                let mut kept = Vec::new();
                for view in views {
                    read(&view, table);
                    // Some last longer, so that versions are pruned beside them.
                    kept.push(view);
                    if kept.len() > 3 {
                        read(&kept.remove(0), table);
                    }
                }
            });
        }
    });
}

#[test]
fn a_view_is_acknowledged_with_what_it_saw() {
    let (logs, database, table) = with_notes(1);
    let mut session = database.session().unwrap();
    logs.hold(true);
    let mut transaction = session.begin(Isolation::Snapshot);
    transaction.write(&table, &key(1), Some(&note(1, "early").body(&table))).unwrap();
    let receipt = transaction.commit_early().unwrap();
    let view = database.view().unwrap();
    assert!(database.is_durable(view.receipt()), "nothing was seen yet");
    let reader = view.reader().unwrap();
    assert!(reader.look(&table, &key(1), |seen| matches!(seen, Seen::Row(_))));
    drop(reader);
    assert_eq!(view.receipt().through, receipt.timestamp.unwrap());
    assert!(!database.is_durable(view.receipt()));
    logs.release(&database);
    database.wait(view.receipt()).unwrap();
}

/// A snapshot that was moved on holds nothing back.
#[test]
fn refreshed_transactions_let_memory_go() {
    let (_logs, database, table) = with_notes(2);
    let (mut client, mut session) = (database.session().unwrap(), database.session().unwrap());
    let mut transaction = client.begin(Isolation::Snapshot);
    transaction.write(&table, &key(1), Some(&note(1, "mine").body(&table))).unwrap();
    transaction.suspend();
    let body = note(1, &"z".repeat(1_000)).body(&table);
    for _ in 0..100 {
        for _ in 0..1_000 {
            session.run(Isolation::Snapshot, |t| t.write(&table, &key(2), Some(&body))).unwrap();
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
