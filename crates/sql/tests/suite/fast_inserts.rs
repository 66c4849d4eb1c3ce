//! INSERT of a few rows without a query plan: what it does not name is filled as by a planned one, also after the
//! defaults have changed, beside others and after reopening.

use std::collections::HashSet;

use saki_sql::{FastAnswer, RowSink, ScalarValue, Session, ValueRef};

use crate::support::{create, number, reopen, run};

struct NoRows;

impl RowSink for NoRows {
    fn clear(&mut self) {}

    fn row(&mut self, values: &[ValueRef<'_>]) {
        panic!("an INSERT gives no rows: {values:?}");
    }
}

const TABLE: &str = "CREATE TABLE t (id serial PRIMARY KEY, k int NOT NULL DEFAULT 7, note text DEFAULT 'none', \
                     made timestamptz NOT NULL DEFAULT now(), price numeric(8,2) DEFAULT 1.5, v int)";
const INSERT: &str = "INSERT INTO t (v) VALUES ($1)";

/// Runs a compiled INSERT; the condition it fails with.
async fn insert(session: &Session, plan: &saki_sql::FastPlan, value: i32) -> Result<FastAnswer, String> {
    let done = session.execute_fast(plan, &[ScalarValue::Int32(Some(value))], &mut NoRows).await;
    done.map_err(|error| error.sqlstate().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_without_a_value_have_their_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    run(&session, "INSERT INTO t (v) VALUES (0)").await;
    let plan = session.prepare_fast(INSERT, &[]).expect("compiled").fast.expect("compiled");
    assert_eq!(insert(&session, &plan, 1).await, Ok(FastAnswer::Done(1)));
    run(&session, "INSERT INTO t (id, v, k) VALUES (DEFAULT, 2, DEFAULT)").await;
    let filled = "SELECT count(*) FROM t WHERE k = 7 AND note = 'none' AND price = 1.50 AND \
                  made BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'";
    assert_eq!(number(&session, filled).await, 3);
    assert_eq!(number(&session, "SELECT currval('t_id_seq')").await, 3);
    assert_eq!(number(&session, "SELECT lastval()").await, 3);
    assert_eq!(number(&session, "SELECT max(id) FROM t").await, 3);
    let several = "INSERT INTO t (v, k) VALUES (4, DEFAULT), (5, 8), (6, DEFAULT)";
    assert!(session.prepare_fast(several, &[]).is_some());
    run(&session, several).await;
    assert_eq!(
        number(&session, "SELECT count(*) FROM t WHERE v > 3 AND id > 3 AND k = CASE v WHEN 5 THEN 8 ELSE 7 END").await,
        3
    );
    // All rows or none.
    let twice = "INSERT INTO t (id, v) VALUES (100, 1), (101, 1), (100, 2)";
    assert!(session.prepare_fast(twice, &[]).is_some());
    assert_eq!(session.execute(twice).await.err().expect("twice").sqlstate(), "23505");
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE id >= 100").await, 0);
    // What the role may not draw from, it does not.
    run(&session, "CREATE ROLE r; GRANT SELECT, INSERT ON t TO r; SET ROLE r").await;
    assert_eq!(insert(&session, &plan, 3).await, Err("42501".into()));
    run(&session, "RESET ROLE; GRANT USAGE ON SEQUENCE t_id_seq TO r; SET ROLE r").await;
    assert_eq!(insert(&session, &plan, 3).await, Ok(FastAnswer::Done(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_that_have_changed_fill_rows_of_statements_that_were_compiled_before() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, k int DEFAULT 1, n int)").await;
    run(&session, "INSERT INTO t (id) VALUES (-1)").await;
    let plan = session.prepare_fast("INSERT INTO t (id) VALUES ($1)", &[]).expect("compiled").fast.expect("compiled");
    for (id, change, filled) in [
        (1, "SELECT 1", "k = 1 AND n IS NULL"),
        (2, "ALTER TABLE t ALTER COLUMN k SET DEFAULT 2", "k = 2 AND n IS NULL"),
        (3, "ALTER TABLE t ALTER COLUMN n SET DEFAULT 3", "k = 2 AND n = 3"),
        (4, "ALTER TABLE t ALTER COLUMN k DROP DEFAULT", "k IS NULL AND n = 3"),
        (5, "CREATE SEQUENCE s START 50; ALTER TABLE t ALTER COLUMN k SET DEFAULT nextval('s')", "k = 50 AND n = 3"),
    ] {
        // With nothing in the delta nothing is laid out anew.
        run(&session, "CHECKPOINT").await;
        run(&session, change).await;
        // As a client does whose statement goes the ordinary way.
        if insert(&session, &plan, id).await.unwrap() == FastAnswer::Ordinary {
            run(&session, &format!("INSERT INTO t (id) VALUES ({id})")).await;
        }
        let found = number(&session, &format!("SELECT count(*) FROM t WHERE id = {id} AND {filled}")).await;
        assert_eq!(found, 1, "after {change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_generated_always_takes_no_value() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, n bigint GENERATED ALWAYS AS IDENTITY)").await;
    run(&session, "INSERT INTO t (id) VALUES (0)").await;
    let plan = session.prepare_fast("INSERT INTO t (id) VALUES ($1)", &[]).expect("compiled").fast.expect("compiled");
    assert_eq!(insert(&session, &plan, 1).await, Ok(FastAnswer::Done(1)));
    assert_eq!(number(&session, "SELECT n FROM t WHERE id = 1").await, 2);
    let given = "INSERT INTO t (id, n) VALUES ($1, 5)";
    assert!(session.prepare_fast(given, &[]).is_none(), "who looks at it closer refuses it");
    let refused = session.execute("INSERT INTO t (id, n) VALUES (2, 5)").await.err().expect("refused");
    assert_eq!(refused.sqlstate(), "428C9");
    let update = "UPDATE t SET n = 5 WHERE id = 1";
    assert!(session.prepare_fast(update, &[]).is_none(), "who looks at it closer refuses it");
    assert_eq!(session.execute(update).await.err().expect("refused").sqlstate(), "428C9");
    // Also when it has become so since.
    run(&session, "CREATE TABLE u (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO u VALUES (1, 1)").await;
    let update =
        session.prepare_fast("UPDATE u SET n = $1 WHERE id = 1", &[]).expect("compiled").fast.expect("compiled");
    let value = [ScalarValue::Int64(Some(2))];
    let done = session.execute_fast(&update, &value, &mut NoRows).await.map_err(|error| error.to_string());
    assert_eq!(done, Ok(FastAnswer::Done(1)));
    run(&session, "CHECKPOINT").await;
    run(&session, "ALTER TABLE u ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY").await;
    let done = session.execute_fast(&update, &value, &mut NoRows).await.map_err(|error| error.to_string());
    assert_eq!(done, Ok(FastAnswer::Ordinary));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_refused_is_shown_and_a_value_too_long_is_none_of_its_type() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, c char(3), v varchar(3), n int NOT NULL)").await;
    run(&session, "INSERT INTO t VALUES (1, 'ab', 'ab', 1)").await;
    for (sql, code, detail) in [
        ("INSERT INTO t VALUES (2, 'long', 'ab', NULL)", "22001", None),
        ("INSERT INTO t VALUES (2, 'abc   ', 'long', 1)", "22001", None),
        ("INSERT INTO t (id, v) VALUES (2, 'ab')", "23502", Some("Failing row contains (2, null, ab, null).")),
        ("UPDATE t SET n = NULL, v = 'x' WHERE id = 1", "23502", Some("Failing row contains (1, ab , x, null).")),
    ] {
        let plan = session.prepare_fast(sql, &[]).expect("compiled").fast.expect("compiled");
        let compiled = session.execute_fast(&plan, &[], &mut NoRows).await.expect_err("refused");
        session.set("compiled", "off").unwrap();
        let planned = session.execute(sql).await.err().expect("refused");
        session.set("compiled", "on").unwrap();
        for error in [compiled, planned] {
            assert_eq!((error.sqlstate(), error.detail.as_deref()), (code, detail), "{sql}");
        }
    }
}

/// Values that compiled statements draw are given out once, by many sessions at a time and after reopening.
#[tokio::test(flavor = "multi_thread")]
async fn drawn_values_are_given_out_once() {
    const SESSIONS: i32 = 4;
    const ROWS: i32 = 300;
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    run(&Session::new(&database), TABLE).await;
    for round in 1..=3 {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let session = Session::new(&database);
                tokio::spawn(async move {
                    let plan = session.prepare_fast(INSERT, &[]).expect("compiled").fast.expect("compiled");
                    let mut done = 0;
                    for row in 0..ROWS {
                        let value = number * ROWS + row;
                        match insert(&session, &plan, value).await.unwrap() {
                            FastAnswer::Done(_) => done += 1,
                            FastAnswer::Ordinary => run(&session, &format!("INSERT INTO t (v) VALUES ({value})")).await,
                        }
                    }
                    done
                })
            })
            .collect();
        let mut done = HashSet::new();
        for session in sessions {
            done.insert(session.await.unwrap());
        }
        assert!(done.iter().any(|done| *done > ROWS / 2), "hardly any went without a plan: {done:?}");
        let session = Session::new(&database);
        assert_eq!(number(&session, "SELECT count(DISTINCT id) FROM t").await, i64::from(round * SESSIONS * ROWS));
        drop(session);
        if round == 1 {
            run(&Session::new(&database), "CHECKPOINT").await;
        }
        drop(database);
        database = reopen(directory.path());
    }
}
