//! Foreign keys that are checked at the end of the transaction, beside other transactions.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use futures::StreamExt;
use saki_sql::{Database, Deferral, Session};

use crate::support::{create, number, refused, reopen, run, waits};

const FAMILY: &str = "CREATE TABLE parent (id int PRIMARY KEY);
    CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";

async fn family(directory: &tempfile::TempDir) -> (Arc<Database>, Session, Session) {
    let database = create(directory.path());
    let (one, other) = (Session::new(&database), Session::new(&database));
    run(&one, FAMILY).await;
    run(&one, "INSERT INTO parent VALUES (1), (2)").await;
    (database, one, other)
}

async fn orphans(session: &Session) -> i64 {
    number(session, "SELECT count(*) FROM child c WHERE NOT EXISTS (SELECT 1 FROM parent p WHERE p.id = c.parent)")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_was_deleted_since_is_missed_at_commit() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, one, other) = family(&directory).await;
    run(&one, "BEGIN; INSERT INTO child VALUES (1, 1)").await;
    // Nothing is held while the check waits.
    run(&other, "DELETE FROM parent WHERE id = 1").await;
    assert_eq!(refused(&one, "COMMIT").await, "23503");
    assert_eq!(number(&one, "SELECT count(*) FROM child").await, 0);
    // What its snapshot has seen and keeps seeing is met at the level of that.
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&other, "INSERT INTO parent VALUES (3)").await;
        run(&one, &format!("BEGIN ISOLATION LEVEL {level}; INSERT INTO child VALUES (1, 3)")).await;
        run(&other, "DELETE FROM parent WHERE id = 3").await;
        assert_eq!(refused(&one, "COMMIT").await, "40001", "{level}");
        run(&one, "BEGIN; ROLLBACK").await;
    }
    assert_eq!(orphans(&one).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_others_put_in_since_is_found_at_commit() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, one, other) = family(&directory).await;
    run(&one, "BEGIN; INSERT INTO child VALUES (1, 9)").await;
    run(&other, "INSERT INTO parent VALUES (9)").await;
    run(&one, "COMMIT").await;
    assert_eq!((number(&other, "SELECT count(*) FROM child").await, orphans(&other).await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_waits_for_whoever_is_deleting_the_parent() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, one, other) = family(&directory).await;
    for (end, refused) in [("ROLLBACK", None), ("COMMIT", Some("23503"))] {
        run(&one, "BEGIN; INSERT INTO child VALUES (1, 1)").await;
        run(&other, "BEGIN; DELETE FROM parent WHERE id = 1").await;
        let mut commit = one.execute("COMMIT");
        assert!(waits(&mut commit).await, "{end}");
        run(&other, end).await;
        if let Some(refused) = refused {
            assert_eq!(commit.await.err().unwrap().sqlstate(), refused);
        } else {
            commit.await.unwrap();
            run(&one, "DELETE FROM child").await;
        }
    }
    assert_eq!(orphans(&one).await, 0);
}

/// From the check on the parent is held.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_deletes_a_parent_that_was_found_waits_for_the_commit() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, one, other) = family(&directory).await;
    run(&one, "BEGIN; INSERT INTO child VALUES (1, 1); SET CONSTRAINTS ALL IMMEDIATE").await;
    let mut deletion = other.execute("DELETE FROM parent WHERE id = 1");
    assert!(waits(&mut deletion).await);
    run(&one, "COMMIT").await;
    assert_eq!(deletion.await.err().unwrap().sqlstate(), "23503");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_to_refer_to_a_key_that_goes_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, one, other) = family(&directory).await;
    run(&one, "INSERT INTO child VALUES (1, 1)").await;
    run(&one, "BEGIN; DELETE FROM parent WHERE id = 1; DELETE FROM child").await;
    // By a check at once, and by one at the end.
    let mut insertion = other.execute("INSERT INTO child VALUES (2, 1)");
    assert!(waits(&mut insertion).await);
    run(&one, "COMMIT").await;
    assert_eq!(insertion.await.err().unwrap().sqlstate(), "23503");
    run(&other, "BEGIN; INSERT INTO child VALUES (2, 2)").await;
    run(&one, "BEGIN; DELETE FROM parent WHERE id = 2").await;
    let mut commit = other.execute("COMMIT");
    assert!(waits(&mut commit).await);
    // The row that is not committed is not seen: its own check finds that the key has gone.
    run(&one, "COMMIT").await;
    assert_eq!(commit.await.err().unwrap().sqlstate(), "23503");
    assert_eq!(orphans(&one).await, 0);
}

/// However rows are written: compiled, planned, copied, from a query.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_write_leaves_checks() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, session, _) = family(&directory).await;
    run(&session, "INSERT INTO child VALUES (100, 1)").await;
    for compiled in ["on", "off"] {
        session.set("compiled", compiled).unwrap();
        for statement in [
            "INSERT INTO child VALUES (1, 7)",
            "INSERT INTO child SELECT v.id, v.id FROM (VALUES (7), (8)) AS v (id)",
            "UPDATE child SET parent = 7 WHERE id = 100",
            "INSERT INTO child VALUES (100, 7) ON CONFLICT (id) DO UPDATE SET parent = excluded.parent",
            "DELETE FROM parent WHERE id = 1",
            "UPDATE parent SET id = 3 WHERE id = 1",
        ] {
            run(&session, &format!("BEGIN; {statement}")).await;
            assert_eq!(refused(&session, "COMMIT").await, "23503", "{statement}, compiled {compiled}");
            assert_eq!(refused(&session, statement).await, "23503", "{statement} by itself, compiled {compiled}");
            assert_eq!(orphans(&session).await, 0, "{statement}, compiled {compiled}");
        }
    }
    let copied = || {
        let target = session.copy_target("child", &[]).unwrap();
        let column = |from: i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(from..from + 10)) };
        RecordBatch::try_new(target.schema, vec![column(1), column(50)]).unwrap()
    };
    let batches = || futures::stream::iter([Ok(copied())]).boxed();
    run(&session, "BEGIN").await;
    assert_eq!(session.copy_in("child", &[], batches()).await.unwrap(), 10);
    assert_eq!(refused(&session, "COMMIT").await, "23503");
    run(&session, "BEGIN").await;
    session.copy_in("child", &[], batches()).await.unwrap();
    run(&session, "INSERT INTO parent SELECT parent FROM child WHERE parent >= 50; COMMIT").await;
    assert_eq!((number(&session, "SELECT count(*) FROM child").await, orphans(&session).await), (11, 0));
}

/// What a client sends together is one transaction, which ends with the message; what BEGIN opens there does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_ends_with_the_checks_that_its_statements_left() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, session, _) = family(&directory).await;
    session.begin_message().await.unwrap();
    run(&session, "INSERT INTO child VALUES (1, 7)").await;
    let error = session.end_message().await.unwrap_err();
    assert_eq!(error.sqlstate(), "23503", "{error}");
    session.begin_message().await.unwrap();
    run(&session, "INSERT INTO child VALUES (1, 7); INSERT INTO parent VALUES (7)").await;
    session.end_message().await.unwrap();
    session.begin_message().await.unwrap();
    run(&session, "INSERT INTO child VALUES (2, 8); BEGIN; INSERT INTO child VALUES (3, 9)").await;
    session.end_message().await.unwrap();
    run(&session, "INSERT INTO parent VALUES (8)").await;
    assert_eq!(refused(&session, "COMMIT").await, "23503");
    session.begin_message().await.unwrap();
    run(&session, "INSERT INTO child VALUES (2, 8)").await;
    assert_eq!(refused(&session, "COMMIT").await, "23503", "COMMIT without BEGIN");
    session.end_message().await.unwrap();
    assert_eq!((number(&session, "SELECT count(*) FROM child").await, orphans(&session).await), (1, 0));
}

/// A transaction that has also changed the catalog, of tables of its own and of others.
#[tokio::test(flavor = "multi_thread")]
async fn checks_wait_beside_changes_of_the_catalog() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, session, other) = family(&directory).await;
    let made =
        "BEGIN; CREATE TABLE grand (id int PRIMARY KEY, child int REFERENCES child DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO grand VALUES (1, 1); CREATE INDEX ON grand (child); INSERT INTO child VALUES (1, 3)";
    run(&session, made).await;
    assert_eq!(refused(&session, "COMMIT").await, "23503");
    assert_eq!(refused(&session, "SELECT * FROM grand").await, "42P01");
    run(&session, made).await;
    run(&session, "INSERT INTO parent VALUES (3); COMMIT").await;
    assert_eq!(number(&other, "SELECT count(*) FROM grand").await, 1);
    // A constraint that has gone is not asked for.
    run(&session, "BEGIN; INSERT INTO grand VALUES (2, 2); DROP TABLE child CASCADE; COMMIT").await;
    assert_eq!(number(&other, "SELECT count(*) FROM grand").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_key_is_checked_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (database, one, other) = family(&directory).await;
    run(&one, "CREATE TABLE second (id int REFERENCES parent DEFERRABLE, o int REFERENCES parent)").await;
    run(&one, "ALTER TABLE second ALTER CONSTRAINT second_o_fkey INITIALLY DEFERRED").await;
    run(&one, "BEGIN; INSERT INTO child VALUES (1, 7)").await;
    drop((one, other, database));
    let database = reopen(directory.path());
    let deferral = |table: &str| -> Vec<Deferral> {
        let generation = database.generation();
        generation.catalog.table(table).unwrap().foreign_keys.iter().map(|key| key.deferral).collect()
    };
    assert_eq!(deferral("child"), [Deferral::InitiallyDeferred]);
    assert_eq!(deferral("second"), [Deferral::InitiallyImmediate, Deferral::InitiallyDeferred]);
    let session = Session::new(&database);
    assert_eq!(number(&session, "SELECT count(*) FROM child").await, 0);
    run(&session, "BEGIN; INSERT INTO child VALUES (1, 7); INSERT INTO parent VALUES (7); COMMIT").await;
}
