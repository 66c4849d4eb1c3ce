//! MERGE, SET of several columns, and queries of WITH that change rows: beside other sessions, undone, and prepared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use saki_sql::{ScalarValue, Session, StatementResult};

use crate::support::{create, number, refused, reopen, run, text_rows, waits};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";
const ADD_5: &str = "MERGE INTO t USING (VALUES (1, 5)) AS s (id, v) ON t.id = s.id \
                     WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)";

/// All rows of a query, a line each.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let result = session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).pop().unwrap();
    text_rows(result).await.unwrap().into_iter().map(|row| row.join(" ")).collect()
}

#[tokio::test]
async fn what_others_have_done_to_a_row_is_found_when_their_transactions_end() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, other) = (Session::new(&database), Session::new(&database));
    run(&one, TABLE).await;
    let set = "UPDATE t SET (v) = (SELECT t.v + 5) WHERE id = 1";
    let moved = "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING v) INSERT INTO t SELECT 1, v + 5 FROM gone";
    for (theirs, ours, expected) in [
        ("UPDATE t SET v = 10 WHERE id = 1", ADD_5, vec!["15"]),
        ("DELETE FROM t WHERE id = 1", ADD_5, vec!["5"]),
        ("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 20)", ADD_5, vec!["25"]),
        ("UPDATE t SET id = 11 WHERE id = 1", ADD_5, vec!["5"]),
        ("UPDATE t SET v = 40 WHERE id = 1", set, vec!["45"]),
        ("UPDATE t SET v = 50 WHERE id = 1", moved, vec!["55"]),
        ("DELETE FROM t WHERE id = 1", moved, vec![]),
        // A row that is not there yet.
        ("INSERT INTO t VALUES (1, 30)", ADD_5, vec!["35"]),
    ] {
        run(&other, &format!("BEGIN; {theirs}")).await;
        let mut asked = one.execute(ours);
        assert!(waits(&mut asked).await, "{ours} beside {theirs}");
        run(&other, "COMMIT").await;
        asked.await.unwrap_or_else(|error| panic!("{ours} beside {theirs}: {error}"));
        assert_eq!(rows(&one, "SELECT v FROM t WHERE id = 1").await, expected, "{ours} beside {theirs}");
    }
}

#[tokio::test]
async fn a_snapshot_that_is_kept_changes_no_row_that_others_have_changed() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, other) = (Session::new(&database), Session::new(&database));
    run(&one, TABLE).await;
    for ours in [ADD_5, "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING v) SELECT * FROM gone"] {
        run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t").await;
        run(&other, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        assert_eq!(refused(&one, ours).await, "40001", "{ours}");
        run(&one, "ROLLBACK").await;
    }
    assert_eq!(rows(&one, "SELECT v FROM t WHERE id = 1").await, ["3"]);
}

#[tokio::test]
async fn what_is_undone_has_never_been_and_what_is_committed_is_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let all = "SELECT id, v FROM t ORDER BY id";
    {
        let database = create(directory.path());
        let session = Session::new(&database);
        run(&session, TABLE).await;
        let gone = "WITH gone AS (DELETE FROM t WHERE id = 3 RETURNING id), more AS (INSERT INTO t VALUES (9, 9)) \
                    UPDATE t SET (v) = (SELECT id FROM gone) WHERE id = 2";
        run(&session, &format!("BEGIN; {ADD_5}; {gone}")).await;
        assert_eq!(rows(&session, all).await, ["1 6", "2 3", "9 9"]);
        run(&session, "ROLLBACK").await;
        assert_eq!(rows(&session, all).await, ["1 1", "2 2", "3 3"]);

        run(&session, &format!("BEGIN; {ADD_5}; SAVEPOINT s; {gone}; {ADD_5}; ROLLBACK TO s; {ADD_5}; COMMIT")).await;
        assert_eq!(rows(&session, all).await, ["1 11", "2 2", "3 3"]);

        // One that fails has changed nothing.
        let twice = "WITH one AS (UPDATE t SET v = 7 WHERE id = 2) DELETE FROM t WHERE id < 3";
        assert_eq!(refused(&session, twice).await, "0A000");
        let twice = "MERGE INTO t USING (VALUES (3), (2), (2)) AS s (id) ON t.id = s.id WHEN MATCHED THEN DELETE";
        assert_eq!(refused(&session, twice).await, "21000");
        assert_eq!(rows(&session, all).await, ["1 11", "2 2", "3 3"]);
        run(&session, gone).await;
    }
    let database = reopen(directory.path());
    assert_eq!(rows(&Session::new(&database), all).await, ["1 11", "2 3", "9 9"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_merged_beside_checkpoints() {
    const ROUNDS: i64 = 30;
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE INDEX t_v ON t (v)").await;
    let over = Arc::new(AtomicBool::new(false));
    let checkpoints = {
        let (database, over) = (Arc::clone(&database), Arc::clone(&over));
        tokio::spawn(async move {
            let session = Session::new(&database);
            let mut count = 0;
            while !over.load(Ordering::Acquire) {
                run(&session, "CHECKPOINT").await;
                count += 1;
            }
            count
        })
    };
    for round in 0..ROUNDS {
        let merge = "MERGE INTO t USING generate_series(1, 100) AS s (id) ON t.id = s.id \
                     WHEN MATCHED AND t.v % 10 = 9 THEN DELETE \
                     WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0)";
        run(&session, merge).await;
        let (rows, least, most) = match round % 11 {
            10 => (0, -1, -1),
            at => (100, at, at),
        };
        assert_eq!(number(&session, "SELECT count(*) FROM t").await, rows, "round {round}");
        assert_eq!(number(&session, "SELECT coalesce(min(v), -1) FROM t").await, least, "round {round}");
        assert_eq!(number(&session, "SELECT coalesce(max(v), -1) FROM t").await, most, "round {round}");
    }
    over.store(true, Ordering::Release);
    assert!(checkpoints.await.unwrap() > 1);
}

#[tokio::test]
async fn prepared_ones_say_what_they_take_and_give() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    let int = |value: i32| ScalarValue::Int32(Some(value));
    let cases: [(&str, Vec<ScalarValue>, &[&str], &str); 6] = [
        (
            "MERGE INTO t USING (SELECT 1 AS key) AS s ON t.id = s.key AND t.v < $1 \
             WHEN MATCHED THEN UPDATE SET v = $2",
            vec![int(9), int(70)],
            &[],
            "MERGE 1",
        ),
        (
            "MERGE INTO t USING (SELECT 8 AS key) AS s ON t.id = s.key WHEN NOT MATCHED THEN INSERT VALUES (s.key, $1)",
            vec![int(80)],
            &[],
            "MERGE 1",
        ),
        (
            "WITH gone AS (DELETE FROM t WHERE id = $1 RETURNING id, v) SELECT v, $2::text AS w FROM gone",
            vec![int(2), ScalarValue::Utf8(Some("x".into()))],
            &["v", "w"],
            "SELECT 1",
        ),
        (
            "WITH more AS (INSERT INTO t VALUES ($1, $2) RETURNING *) \
             INSERT INTO t SELECT id + 1, v FROM more RETURNING v",
            vec![int(20), int(2)],
            &["v"],
            "INSERT 1",
        ),
        ("UPDATE t SET (id, v) = ($1, $2) WHERE id = 20", vec![int(30), int(3)], &[], "UPDATE 1"),
        (
            "UPDATE t SET (id, v) = (SELECT $1::int, max(o.v) FROM t o WHERE o.id < $2::int) WHERE id = 21",
            vec![int(31), int(9)],
            &[],
            "UPDATE 1",
        ),
    ];
    for (sql, values, columns, done) in cases {
        let prepared = session.prepare(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(prepared.parameters.len(), values.len(), "{sql}");
        let given = prepared.schema.iter().flat_map(|schema| schema.fields());
        let given: Vec<&str> = given.map(|field| field.name().as_str()).collect();
        assert_eq!(given, columns, "{sql}");
        let result =
            session.execute_prepared(&prepared, &values).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        match result {
            StatementResult::Done { tag, rows } | StatementResult::Returning { tag, rows, .. } => {
                assert_eq!(format!("{tag} {rows}"), done, "{sql}");
            }
            StatementResult::Rows { .. } => panic!("{sql}: a query"),
        }
    }
    let all = rows(&session, "SELECT id, v FROM t ORDER BY id").await;
    assert_eq!(all, ["1 70", "3 3", "8 80", "30 3", "31 80"]);
}

#[tokio::test]
async fn a_transaction_that_only_reads_changes_nothing_by_them() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    for ours in [ADD_5, "WITH gone AS (DELETE FROM t RETURNING v) SELECT * FROM gone"] {
        run(&session, "BEGIN READ ONLY").await;
        assert_eq!(refused(&session, ours).await, "25006", "{ours}");
        run(&session, "ROLLBACK").await;
    }
    assert_eq!(number(&session, "SELECT sum(v) FROM t").await, 6);
}
