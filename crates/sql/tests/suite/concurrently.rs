//! CREATE INDEX, DROP INDEX and REINDEX CONCURRENTLY: writers go on, whoever looks finds all rows by the index, and
//! what fails leaves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use saki_base::Random;
use saki_sql::{Database, Session};

use crate::support::{HeldWriter, create, number, refused, reopen, run, waits};

const ROWS: i64 = 6_000;

async fn filled(session: &Session) {
    run(session, "CREATE TABLE t (id int PRIMARY KEY, v int, note text)").await;
    let rows = format!("INSERT INTO t SELECT i, i, 'note' FROM generate_series(1, {ROWS}) AS s (i)");
    run(session, &rows).await;
    // Something that is not merged; the logs are made by it.
    run(session, "UPDATE t SET note = 'changed' WHERE id = 5").await;
}

/// Nothing is wrong with what is stored, and nothing is left of statements.
fn check(database: &Database) {
    database.store().write(|_| Ok(())).unwrap();
    let faults = database.store().check(&mut |_| {}).unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(database.store().generation().catalog.staged().count(), 0);
    assert!(database.store().locks().list().is_empty());
}

/// By the index there are the rows that are there without it.
async fn compare(session: &Session) {
    let indexes = "SELECT count(*) FROM pg_indexes WHERE indexname = 't_v'";
    assert_eq!(number(session, indexes).await, 1);
    for part in ["v BETWEEN 0 AND 5999", "v = 7", "v IN (1, 2, 3, 50, 51, 52)", "v BETWEEN 0 AND 60", "v > 5990"] {
        let sums = format!("SELECT coalesce(sum(id * (v + 1)), 0) + count(*) FROM t WHERE {part}");
        run(session, "SET saki.access_path = scan").await;
        let by_scan = number(session, &sums).await;
        run(session, "SET saki.access_path = index").await;
        let plan = session.execute(&format!("EXPLAIN {sums}")).await.unwrap().pop().unwrap().collect().await.unwrap();
        let plan = arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
        assert!(plan.contains("t_v"), "{plan}");
        assert_eq!(number(session, &sums).await, by_scan, "{part}");
    }
    run(session, "SET saki.access_path = auto").await;
    // Without a plan.
    let mut found = 0;
    for v in 0..=60 {
        let of_value = session.execute(&format!("SELECT id FROM t WHERE v = {v}")).await.unwrap().pop().unwrap();
        found += of_value.collect().await.unwrap().iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!(found as i64, number(session, "SELECT count(*) FROM t WHERE v + 0 BETWEEN 0 AND 60").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_do_not_wait_for_the_build() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let [maker, writer, other] = [(); 3].map(|()| Session::new(&database));
    filled(&maker).await;
    for (statement, modes) in [
        ("CREATE INDEX CONCURRENTLY t_v ON t (v)", 1),
        ("REINDEX INDEX CONCURRENTLY t_v", 1),
        ("DROP INDEX CONCURRENTLY t_v", 1),
    ] {
        // Whatever it builds, it cannot publish.
        let held = HeldWriter::queue(&database);
        held.holds().await;
        let mut making = maker.execute(statement);
        assert!(waits(&mut making).await);
        for id in 0..20 {
            let change = format!("UPDATE t SET v = v + 1 WHERE id = {}; DELETE FROM t WHERE id = -1", id + 1);
            tokio::time::timeout(Duration::from_secs(5), writer.execute(&change)).await.expect(statement).unwrap();
        }
        run(&other, "BEGIN; INSERT INTO t VALUES (-1, -1, 'open')").await;
        let mode = "SELECT count(*) FROM pg_locks WHERE mode = 'ShareUpdateExclusiveLock' AND relation = 't'::regclass";
        assert_eq!(number(&writer, mode).await, modes, "{statement}");
        assert!(waits(&mut making).await);
        // What changes what the table is waits for the statement.
        other.set_lock_timeout(Duration::from_millis(50));
        run(&other, "SAVEPOINT s").await;
        assert_eq!(refused(&other, "LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE").await, "55P03");
        run(&other, "ROLLBACK TO s; COMMIT").await;
        // The next one keeps rows out for moments that are longer.
        other.set_lock_timeout(Duration::ZERO);
        held.let_go();
        making.await.unwrap();
        let there = i64::from(!statement.starts_with("DROP"));
        assert_eq!(number(&writer, "SELECT count(*) FROM pg_indexes WHERE indexname = 't_v'").await, there);
        assert_eq!(number(&writer, "SELECT count(*) FROM t WHERE v = -1").await, 1);
        check(&database);
    }
    assert_eq!(number(&writer, &format!("SELECT sum(v) - {ROWS} * {} / 2 FROM t", ROWS + 1)).await, 59);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_they_refuse_is_as_in_postgres() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    filled(&session).await;
    run(&session, "ALTER TABLE t ADD CONSTRAINT only_once UNIQUE (note, id); CREATE VIEW w AS SELECT 1").await;
    for statement in
        ["CREATE INDEX CONCURRENTLY t_v ON t (v)", "DROP INDEX CONCURRENTLY t_v", "REINDEX TABLE CONCURRENTLY t"]
    {
        run(&session, "BEGIN").await;
        assert_eq!(refused(&session, statement).await, "25001", "{statement}");
        run(&session, "ROLLBACK; BEGIN; SET LOCAL default_transaction_read_only = on; ROLLBACK").await;
    }
    for (statement, state) in [
        ("DROP INDEX CONCURRENTLY none", "42P01"),
        ("DROP INDEX CONCURRENTLY t", "42809"),
        ("DROP INDEX CONCURRENTLY only_once", "2BP01"),
        ("DROP INDEX CONCURRENTLY only_once, t_v", "0A000"),
        ("DROP INDEX CONCURRENTLY only_once CASCADE", "0A000"),
        ("REINDEX INDEX CONCURRENTLY none", "42P01"),
        ("REINDEX TABLE CONCURRENTLY w", "42809"),
        ("CREATE INDEX CONCURRENTLY t_v ON none (v)", "42P01"),
        ("CREATE INDEX CONCURRENTLY t_v ON t (none)", "42703"),
        ("CREATE INDEX CONCURRENTLY only_once ON t (v)", "42P07"),
        ("CREATE UNIQUE INDEX CONCURRENTLY t_v ON t (note)", "23505"),
    ] {
        assert_eq!(refused(&session, statement).await, state, "{statement}");
    }
    run(&session, "DROP INDEX CONCURRENTLY IF EXISTS none").await;
    run(&session, "CREATE INDEX CONCURRENTLY IF NOT EXISTS only_once ON t (v)").await;
    run(&session, "CREATE INDEX CONCURRENTLY ON t (v)").await;
    run(&session, "REINDEX DATABASE CONCURRENTLY saki").await;
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE indexname = 't_v_idx'").await, 1);
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_cancelled_or_in_vain_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    {
        let [maker, old, writer] = [(); 3].map(|()| Session::new(&database));
        filled(&maker).await;
        run(&old, "BEGIN; UPDATE t SET v = 0 WHERE id = 1").await;
        let is_begun = async || {
            while database.store().generation().catalog.staged().next().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let making = maker.execute("CREATE INDEX CONCURRENTLY t_v ON t (v)");
        tokio::select! {
            _ = making => panic!("it waits for the old transaction"),
            () = is_begun() => {}
        }
        run(&writer, "UPDATE t SET v = 0 WHERE id = 2").await;
        maker.set_lock_timeout(Duration::from_millis(200));
        assert_eq!(refused(&maker, "CREATE INDEX CONCURRENTLY t_v ON t (v)").await, "55P03");
        maker.set_lock_timeout(Duration::ZERO);
        // Two rows that come to agree meanwhile; one is not committed yet.
        let mut making = maker.execute("CREATE UNIQUE INDEX CONCURRENTLY t_v ON t (v)");
        is_begun().await;
        assert!(waits(&mut making).await);
        run(&old, "COMMIT").await;
        assert_eq!(making.await.err().unwrap().sqlstate(), "23505");
        assert_eq!(number(&writer, "SELECT count(*) FROM pg_indexes WHERE indexname = 't_v'").await, 0);
        check(&database);
        run(&old, "UPDATE t SET v = 1 WHERE id = 1").await;
        run(&maker, "CREATE UNIQUE INDEX CONCURRENTLY t_v ON t (v)").await;
        assert_eq!(refused(&writer, "INSERT INTO t VALUES (0, 1, '')").await, "23505");
    }
    drop(database);
    database = reopen(directory.path());
    let session = Session::new(&database);
    assert_eq!(refused(&session, "INSERT INTO t VALUES (0, 5, '')").await, "23505");
    assert_eq!(number(&session, "SELECT id FROM t WHERE v = 0").await, 2);
    check(&database);
}

/// Words about a table, and the names of its indexes, are in one document with what indexes it has.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_table_in_an_open_transaction_takes_no_index_away() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let [maker, other] = [(); 2].map(|()| Session::new(&database));
    filled(&maker).await;
    for (said, statement) in [
        ("COMMENT ON TABLE t IS 'kept'", "CREATE INDEX CONCURRENTLY t_v ON t (v)"),
        ("COMMENT ON COLUMN t.v IS 'kept'", "CREATE INDEX a ON t (note)"),
        ("COMMENT ON INDEX t_v IS 'kept'", "CREATE INDEX CONCURRENTLY b ON t (note)"),
        ("ALTER INDEX a RENAME TO c", "DROP INDEX CONCURRENTLY b"),
        ("ALTER TABLE t_v RENAME TO d", "CREATE INDEX b ON t (v)"),
    ] {
        run(&other, &format!("BEGIN; {said}")).await;
        let mut making = maker.execute(statement);
        assert!(waits(&mut making).await, "{said}; {statement}");
        run(&other, "COMMIT").await;
        making.await.unwrap();
        check(&database);
    }
    let there = "SELECT count(*) FROM pg_indexes WHERE indexname IN ('b', 'c', 'd')";
    assert_eq!(number(&other, there).await, 3);
    assert_eq!(number(&other, "SELECT count(*) FROM pg_description WHERE description = 'kept'").await, 3);
    assert_eq!(number(&other, "SELECT count(*) FROM t WHERE v = 7 AND note = 'note'").await, 1);
}

/// Changes rows at one isolation level until `is_over`, in blocks with savepoints that are committed and rolled back;
/// counts into `sum` what the sum of all `v` grows by.
async fn change(database: &Arc<Database>, seed: u64, is_over: &AtomicBool, sum: &AtomicI64) -> u64 {
    let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][seed as usize % 3];
    let session = Session::new(database);
    let mut random = Random::new(seed);
    let mut commits = 0;
    while !is_over.load(Ordering::SeqCst) {
        let mut id = || 1 + random.range(0..ROWS as u64) as i64;
        let (one, two, three) = (id(), id(), ROWS + 1 + seed as i64);
        let way = random.range(0..5);
        let statements = match way {
            0 => format!("UPDATE t SET v = v + 1 WHERE id = {one}"),
            1 => format!("BEGIN ISOLATION LEVEL {level}; UPDATE t SET v = v + 1 WHERE id = {one}; COMMIT"),
            2 => format!(
                "BEGIN ISOLATION LEVEL {level}; SELECT v FROM t WHERE v = 7; UPDATE t SET v = v + 1 WHERE id = {one}; \
                 SAVEPOINT s; UPDATE t SET v = v + 50 WHERE id = {two}; DELETE FROM t WHERE id < 9; \
                 ROLLBACK TO s; COMMIT"
            ),
            3 => format!("BEGIN ISOLATION LEVEL {level}; DELETE FROM t WHERE v = {one}; UPDATE t SET v = 5; ROLLBACK"),
            _ => format!(
                "BEGIN ISOLATION LEVEL {level}; INSERT INTO t VALUES ({three}, 8, 'n'); \
                 DELETE FROM t WHERE id = {three}; UPDATE t SET v = v + 1 WHERE id = {one}; COMMIT"
            ),
        };
        match session.execute(&statements).await {
            Ok(_) if way == 3 => {}
            Ok(_) => {
                sum.fetch_add(1, Ordering::SeqCst);
                commits += 1;
            }
            Err(error) => {
                assert!(["40001", "40P01"].contains(&error.sqlstate()), "{statements}: {error}");
                let _ = session.execute("ROLLBACK").await;
            }
        }
        // Six that never rest leave the build, and whatever else the machine does, next to nothing.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    commits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_are_found_by_an_index_that_came_beside_writers() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    filled(&Session::new(&database)).await;
    let sum = Arc::new(AtomicI64::new(ROWS * (ROWS + 1) / 2));
    for round in 0..2 {
        let is_over = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..6)
            .map(|seed| {
                let (database, is_over, sum) = (Arc::clone(&database), Arc::clone(&is_over), Arc::clone(&sum));
                tokio::spawn(async move { change(&database, 10 * round + seed, &is_over, &sum).await })
            })
            .collect();
        let merging = {
            let (database, is_over) = (Arc::clone(&database), Arc::clone(&is_over));
            tokio::spawn(async move {
                let session = Session::new(&database);
                while !is_over.load(Ordering::SeqCst) {
                    run(&session, "CHECKPOINT").await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
        };
        let session = Session::new(&database);
        for _ in 0..2 {
            run(&session, "CREATE INDEX CONCURRENTLY t_v ON t (v)").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            run(&session, "REINDEX TABLE CONCURRENTLY t").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            run(&session, "DROP INDEX CONCURRENTLY t_v").await;
        }
        run(&session, "CREATE INDEX CONCURRENTLY t_v ON t (v) INCLUDE (note)").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        is_over.store(true, Ordering::SeqCst);
        for writer in writers {
            assert!(writer.await.unwrap() > 0, "a writer has never come through");
        }
        merging.await.unwrap();
        let rows = format!("SELECT sum(v) + count(*) - {ROWS} FROM t");
        assert_eq!(number(&session, &rows).await, sum.load(Ordering::SeqCst));
        compare(&session).await;
        check(&database);
        drop(session);
        drop(database);
        database = reopen(directory.path());
        let session = Session::new(&database);
        assert_eq!(number(&session, &rows).await, sum.load(Ordering::SeqCst));
        compare(&session).await;
        run(&session, "CHECKPOINT").await;
        compare(&session).await;
        check(&database);
        run(&session, "DROP INDEX CONCURRENTLY t_v").await;
        check(&database);
    }
}

/// One reads what the other writes, and the other way round: of two serializable ones at most one may be committed,
/// also if the table has got an index, and with it another delta, in between.
#[tokio::test(flavor = "multi_thread")]
async fn serializable_transactions_answer_for_what_they_read_before_an_index_came() {
    for statement in ["CREATE INDEX CONCURRENTLY t_v ON t (v)", "CREATE INDEX t_v ON t (v)"] {
        let directory = tempfile::tempdir().unwrap();
        let database = create(directory.path());
        let [maker, one, two] = [(); 3].map(|()| Session::new(&database));
        filled(&maker).await;
        run(&maker, "CREATE TABLE u (id int PRIMARY KEY, v int); INSERT INTO u VALUES (1, 0)").await;
        run(&maker, "UPDATE t SET v = 0 WHERE id = 1").await;
        run(&one, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT v FROM t WHERE id = 1").await;
        run(&maker, statement).await;
        run(&two, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT v FROM u WHERE id = 1").await;
        run(&two, "UPDATE t SET v = 1 WHERE id = 1; COMMIT").await;
        run(&one, "UPDATE u SET v = 1 WHERE id = 1").await;
        assert_eq!(refused(&one, "COMMIT").await, "40001", "{statement}");
    }
}
