//! Transactions through SQL: what they see, what they leave, and what survives the end of the process.

use arrow::util::pretty::pretty_format_batches;
use saki_sql::{CreateOptions, Database, Session, TransactionStatus};

use crate::support::{create, options, reopen};

async fn run(session: &Session, sql: &str) -> String {
    match session.execute(sql).await {
        Err(error) => format!("{}: {error}", error.sqlstate()),
        Ok(mut results) => {
            let batches = results.pop().expect("a result").collect().await.unwrap();
            values(&pretty_format_batches(&batches).unwrap().to_string())
        }
    }
}

/// Rows of a table drawn with lines: values by comma, rows by semicolon, sorted.
fn values(drawn: &str) -> String {
    let line =
        |line: &str| -> String { line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(",") };
    let mut rows: Vec<String> = drawn.lines().filter(|l| l.starts_with('|')).skip(1).map(line).collect();
    rows.sort();
    rows.join(";")
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_changed_in_delta_and_in_base() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    let all = "SELECT id, name, n FROM t";
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, name text, n bigint)").await;
    run(&session, "CREATE INDEX t_name ON t (name DESC)").await;
    run(&session, "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)").await;
    assert_eq!(run(&session, all).await, "1,a,10;2,b,20;3,c,30");
    for round in 0..2 {
        assert_eq!(
            run(&session, "UPDATE t SET n = n + 1, name = 'x' WHERE id = 2 RETURNING id, n").await,
            format!("2,{}", 21 + round)
        );
        assert_eq!(run(&session, "SELECT id FROM t WHERE name = 'x'").await, "2");
        assert_eq!(run(&session, "SELECT id FROM t WHERE name = 'b'").await, "");
        assert_eq!(run(&session, "SELECT name FROM t WHERE id = 2").await, "x");
        if round == 0 {
            database.checkpoint(&saki_sql::Pace::full()).unwrap();
        }
    }
    assert_eq!(run(&session, "DELETE FROM t WHERE n > 25 RETURNING *").await, "3,c,30");
    assert_eq!(run(&session, all).await, "1,a,10;2,x,22");
    assert_eq!(run(&session, "SELECT count(*) FROM t").await, "2");
    assert!(run(&session, "INSERT INTO t VALUES (1, 'z', 0)").await.starts_with("23505"));
    run(&session, "INSERT INTO t VALUES (3, 'd', 40), (4, 'e', 50)").await;
    assert_eq!(run(&session, all).await, "1,a,10;2,x,22;3,d,40;4,e,50");
    let upsert = "INSERT INTO t AS old VALUES (1, 'q', 5), (5, 'f', 60) \
         ON CONFLICT (id) DO UPDATE SET n = old.n + excluded.n, name = excluded.name WHERE old.id < 3 \
         RETURNING id, name, n";
    assert_eq!(run(&session, upsert).await, "1,q,15;5,f,60");
    run(&session, "INSERT INTO t VALUES (1, 'no', 0), (6, 'g', 70) ON CONFLICT DO NOTHING").await;
    assert_eq!(run(&session, all).await, "1,q,15;2,x,22;3,d,40;4,e,50;5,f,60;6,g,70");
    run(&session, "UPDATE t SET id = id + 1").await;
    assert_eq!(run(&session, all).await, "2,q,15;3,x,22;4,d,40;5,e,50;6,f,60;7,g,70");
    let faults = database.check(&mut |_| {}).unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
    drop((session, database));
    let database = reopen(directory.path());
    let session = Session::new(&database);
    assert_eq!(run(&session, all).await, "2,q,15;3,x,22;4,d,40;5,e,50;6,f,60;7,g,70");
    run(&session, "CREATE UNIQUE INDEX t_n ON t (n)").await;
    assert!(run(&session, "UPDATE t SET n = 15 WHERE id = 3").await.starts_with("23505"));
    run(&session, "UPDATE t SET n = 16 WHERE n = 15").await;
    assert_eq!(run(&session, "UPDATE t SET n = 15 WHERE id = 3 RETURNING n").await, "15");
    assert_eq!(run(&session, "SELECT id FROM t WHERE n = 15").await, "3");
    database.close().unwrap();
    drop((session, database));
    assert!(!directory.path().join("database.log").exists());
    let database = reopen(directory.path());
    assert_eq!(run(&Session::new(&database), "SELECT sum(n), count(*) FROM t").await, "251,6");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_too_long_for_a_page_is_found_and_changed_by_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, name text, n int)").await;
    run(&session, "INSERT INTO t SELECT 1, repeat('x', 50000), 0").await;
    run(&session, "INSERT INTO t VALUES (2, 'y', 0)").await;
    run(&session, "CHECKPOINT").await;
    assert_eq!(run(&session, "SELECT name FROM t WHERE id = 1").await.len(), 50000);
    run(&session, "UPDATE t SET n = n + 1 WHERE id = 1").await;
    assert_eq!(run(&session, "SELECT n FROM t WHERE id = 1").await, "1");
    assert_eq!(run(&session, "SELECT name FROM t WHERE id = 1").await.len(), 50000);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_key_are_changed_too() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (a int, b text)").await;
    run(&session, "INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, 'b')").await;
    database.checkpoint(&saki_sql::Pace::full()).unwrap();
    run(&session, "INSERT INTO t VALUES (3, 'c')").await;
    assert_eq!(run(&session, "UPDATE t SET b = 'z' WHERE a = 1 OR a = 3 RETURNING a").await, "1;1;3");
    assert_eq!(run(&session, "DELETE FROM t WHERE a = 2").await, "");
    assert_eq!(run(&session, "SELECT * FROM t").await, "1,z;1,z;3,z");
    database.checkpoint(&saki_sql::Pace::full()).unwrap();
    assert_eq!(run(&session, "SELECT * FROM t").await, "1,z;1,z;3,z");
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_several_statements() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    run(&one, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
    run(&one, "BEGIN").await;
    assert_eq!(one.transaction_status(), TransactionStatus::Open);
    run(&one, "UPDATE t SET n = 11 WHERE id = 1").await;
    assert_eq!(run(&one, "SELECT n FROM t WHERE id = 1").await, "11");
    assert_eq!(run(&two, "SELECT n FROM t WHERE id = 1").await, "10");
    run(&one, "SAVEPOINT s").await;
    run(&one, "DELETE FROM t").await;
    assert_eq!(run(&one, "SELECT count(*) FROM t").await, "0");
    assert!(run(&one, "SELECT no_such_column FROM t").await.starts_with("42"));
    assert_eq!(one.transaction_status(), TransactionStatus::Failed);
    assert!(run(&one, "SELECT 1").await.starts_with("25P02"));
    run(&one, "ROLLBACK TO s").await;
    assert_eq!(run(&one, "SELECT n FROM t").await, "11;20");
    run(&one, "COMMIT").await;
    assert_eq!(run(&two, "SELECT n FROM t").await, "11;20");
    // Repeatable read keeps its snapshot, and does not overwrite what it has not seen.
    run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(run(&one, "SELECT n FROM t WHERE id = 2").await, "20");
    run(&two, "UPDATE t SET n = 21 WHERE id = 2").await;
    assert_eq!(run(&one, "SELECT n FROM t WHERE id = 2").await, "20");
    assert!(run(&one, "UPDATE t SET n = n + 1 WHERE id = 2").await.starts_with("40001"));
    run(&one, "ROLLBACK").await;
    // Read committed sees what was committed, and adds to it.
    run(&one, "BEGIN").await;
    assert_eq!(run(&one, "SELECT n FROM t WHERE id = 2").await, "21");
    run(&two, "UPDATE t SET n = 22 WHERE id = 2").await;
    assert_eq!(run(&one, "UPDATE t SET n = n + 1 WHERE id = 2 RETURNING n").await, "23");
    run(&one, "COMMIT").await;
    // Write skew.
    for session in [&one, &two] {
        run(session, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
        assert_eq!(run(session, "SELECT sum(n) FROM t").await, "34");
    }
    run(&one, "UPDATE t SET n = 0 WHERE id = 1").await;
    run(&two, "UPDATE t SET n = 0 WHERE id = 2").await;
    run(&one, "COMMIT").await;
    assert!(run(&two, "COMMIT").await.starts_with("40001"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_being_changed_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let setup = Session::new(&database);
    run(&setup, "CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    run(&setup, "INSERT INTO t VALUES (1, 0), (2, 0)").await;
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let session = Session::new(&database);
            tokio::spawn(async move {
                for _ in 0..25 {
                    run(&session, "BEGIN").await;
                    let said = run(&session, "UPDATE t SET n = n + 1 WHERE id = 1").await;
                    assert_eq!(said, "");
                    let said = run(&session, "COMMIT").await;
                    assert_eq!(said, "");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(run(&setup, "SELECT n FROM t WHERE id = 1").await, "100");
    // Two that wait for each other: one of them is told.
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "BEGIN").await;
    run(&two, "BEGIN").await;
    run(&one, "UPDATE t SET n = 1 WHERE id = 1").await;
    run(&two, "UPDATE t SET n = 2 WHERE id = 2").await;
    let (said_one, said_two) = tokio::join!(run(&one, "UPDATE t SET n = 1 WHERE id = 2"), async {
        let said = run(&two, "UPDATE t SET n = 2 WHERE id = 1").await;
        run(&two, "ROLLBACK").await;
        said
    });
    assert!(said_one.starts_with("40P01") || said_two.starts_with("40P01"), "{said_one:?} {said_two:?}");
}

/// Rows that come straight to the base of a table change what its readers have read like any others.
#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_load_is_a_change_for_serializable_readers() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (reader, loader) = (Session::new(&database), Session::new(&database));
    for table in ["a", "b"] {
        run(&reader, &format!("CREATE TABLE {table} (id int PRIMARY KEY)")).await;
    }
    for round in 0..2 {
        if round == 1 {
            // Empty again, but with a base and with newer rows that have been.
            run(&reader, "INSERT INTO a VALUES (-1)").await;
            database.checkpoint(&saki_sql::Pace::full()).unwrap();
            run(&reader, "DELETE FROM a").await;
        }
        run(&reader, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
        assert_eq!(run(&reader, "SELECT count(*) FROM a").await, "0");
        run(&reader, "INSERT INTO b VALUES (1)").await;
        run(&loader, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
        assert_eq!(run(&loader, "SELECT count(*) FROM b").await, "0");
        run(&loader, "INSERT INTO a SELECT g FROM generate_series(1, 40000) AS g").await;
        assert_eq!(run(&loader, "COMMIT").await, "");
        let refused = run(&reader, "COMMIT").await;
        assert!(refused.starts_with("40001: could not serialize access due to read/write"), "{refused}");
        assert_eq!(run(&reader, "SELECT count(*) FROM b").await, "0");
        run(&reader, "TRUNCATE a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_selected_for_update_are_held_until_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    run(&one, "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)").await;
    database.checkpoint(&saki_sql::Pace::full()).unwrap();
    run(&one, "BEGIN").await;
    assert_eq!(run(&one, "SELECT n FROM t WHERE id <= 2 ORDER BY id DESC FOR UPDATE").await, "10;20");
    // A row that is not held is free.
    run(&two, "UPDATE t SET n = 31 WHERE id = 3").await;
    let waiting = tokio::spawn(async move {
        let changed = run(&two, "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n").await;
        (two, changed)
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "another changed a row that is held");
    run(&one, "UPDATE t SET n = 100 WHERE id = 1").await;
    run(&one, "COMMIT").await;
    let (two, changed) = waiting.await.unwrap();
    assert_eq!(changed, "101");
    // Outside of a transaction there is nothing to hold a row for.
    assert_eq!(run(&one, "SELECT n FROM t WHERE id = 2 FOR UPDATE").await, "20");
    assert_eq!(run(&two, "UPDATE t SET n = 0 WHERE id = 2 RETURNING n").await, "0");
    for sql in [
        "SELECT 1 FROM t AS a JOIN t AS b ON a.id = b.id FOR UPDATE",
        "SELECT count(*) FROM t GROUP BY n FOR UPDATE SKIP LOCKED",
    ] {
        assert!(run(&one, sql).await.starts_with("0A000"), "{sql}");
    }
}

/// Each of two workers gets the first rows that the other does not hold; NOWAIT says that there is one.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_hold_are_skipped_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two, three) = (Session::new(&database), Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE job (id int PRIMARY KEY, state text, tries int)").await;
    run(&one, "INSERT INTO job SELECT g, CASE WHEN g = 2 THEN 'done' ELSE 'new' END, 0 FROM generate_series(1, 6) g")
        .await;
    database.checkpoint(&saki_sql::Pace::full()).unwrap();
    let next = "SELECT id, tries + 1 AS try FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    for session in [&one, &two, &three] {
        run(session, "BEGIN").await;
    }
    assert_eq!(run(&one, next).await, "1,1");
    assert_eq!(run(&two, next).await, "3,1");
    // What a transaction holds itself is not passed over.
    assert_eq!(run(&one, next).await, "1,1");
    assert_eq!(run(&three, "SELECT id FROM job ORDER BY 1 DESC LIMIT 3 FOR UPDATE SKIP LOCKED").await, "4;5;6");
    assert_eq!(run(&three, "SELECT id AS n FROM job ORDER BY n OFFSET 1 FOR SHARE SKIP LOCKED").await, "4;5;6");
    for wanted in ["id = 3", "state = 'new'"] {
        let sql = format!("SELECT id FROM job WHERE {wanted} FOR UPDATE NOWAIT");
        run(&one, "SAVEPOINT before").await;
        assert!(run(&one, &sql).await.starts_with("55P03"), "{sql}");
        run(&one, "ROLLBACK TO before").await;
    }
    assert_eq!(run(&one, "SELECT id FROM job WHERE id = 1 FOR NO KEY UPDATE NOWAIT").await, "1");
    run(&one, "UPDATE job SET state = 'done' WHERE id = 1").await;
    run(&one, "COMMIT").await;
    run(&three, "ROLLBACK").await;
    // By itself, too: what others hold is not among it, and what nobody holds any more is.
    assert_eq!(run(&one, "SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED").await, "4;5;6");
    run(&two, "ROLLBACK").await;
    assert_eq!(run(&one, next).await, "3,1");
    assert_eq!(run(&one, "SELECT id FROM job FETCH FIRST 0 ROWS ONLY FOR UPDATE SKIP LOCKED").await, "");
    assert!(run(&one, "SELECT id FROM job LIMIT -1 FOR UPDATE SKIP LOCKED").await.starts_with("2201W"));
    assert_eq!(run(&two, "SELECT count(*) FROM job WHERE state = 'new'").await, "4");
}

/// Whatever a client is told, beside others that write the same rows all the time: what it rests on was durable when
/// the answer came.
#[tokio::test(flavor = "multi_thread")]
async fn answers_rest_on_durable_commits() {
    const ROUNDS: usize = 40;
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, n bigint)").await;
    run(&session, "INSERT INTO t VALUES (1, 0), (2, 0)").await;
    let writers = [1, 2].map(|id| {
        let session = Session::new(&database);
        tokio::spawn(async move {
            loop {
                run(&session, &format!("UPDATE t SET n = n + 1 WHERE id = {id}")).await;
            }
        })
    });
    let engine = &database.store().engine().unwrap().database;
    // Statements of which the last one's answer may be told, and whether it is an error.
    let told: [(&[&str], bool); 14] = [
        (&["SELECT sum(n) FROM t"], false),
        (&["SELECT n FROM t WHERE id = 1", "SELECT n FROM t WHERE id = 2"], false),
        (&["DELETE FROM t WHERE n < 0"], false),
        (&["INSERT INTO t SELECT id, n FROM t"], true),
        (&["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT sum(n) FROM t", "COMMIT"], false),
        (&["BEGIN", "SELECT sum(n) FROM t", "INSERT INTO t SELECT id, n FROM t"], true),
        // Whoever reads in a block may roll back, or never end it.
        (&["BEGIN", "SELECT sum(n) FROM t"], false),
        (&["BEGIN", "SELECT n FROM t WHERE id = 1", "SELECT n FROM t WHERE id = 2"], false),
        // Rows of its own are made of others' rows.
        (&["BEGIN", "SELECT n FROM t FOR UPDATE"], false),
        (&["BEGIN", "SELECT n FROM t WHERE id = 2 FOR UPDATE", "SELECT n FROM t WHERE id = 1 FOR UPDATE"], false),
        (&["BEGIN", "UPDATE t SET n = n + 0", "SELECT sum(n) FROM t"], false),
        // Compiled changes, and what they say of rows that others have made.
        (&["UPDATE t SET n = n + 0 WHERE id = 1 RETURNING n"], false),
        (&["INSERT INTO t VALUES (1, 0), (2, 0) ON CONFLICT (id) DO NOTHING RETURNING n"], false),
        (&["BEGIN", "UPDATE t SET n = n + 0 WHERE id = 1 RETURNING n", "COMMIT"], false),
    ];
    for _ in 0..ROUNDS {
        for (statements, is_error) in told {
            // All commits change a row that the statements read.
            let seen = engine.now();
            let mut answer = String::new();
            for statement in statements {
                answer = run(&session, statement).await;
            }
            let durable = engine.durable();
            assert!(durable >= seen, "{statements:?}: told of {seen} or later, durable through {durable}");
            assert_eq!(answer.starts_with("23505: "), is_error, "{statements:?}: {answer}");
            run(&session, "ROLLBACK").await;
            // It may have taken a timestamp for nothing, on which no answer rests.
            let rolled_back = engine.now();
            while engine.durable() < rolled_back {
                tokio::task::yield_now().await;
            }
        }
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The limit of a key is the page's, and it is told when the row is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_no_page_takes_is_refused_when_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let page_size = saki_base::PageSize::new(4096).unwrap();
    let options = CreateOptions { page_size, open: options(), ..CreateOptions::default() };
    let database = Database::create(directory.path().join("database"), options).unwrap();
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id text PRIMARY KEY, name text)").await;
    run(&session, "CREATE INDEX t_name ON t (name)").await;
    run(&session, "INSERT INTO t VALUES ('a', 'b')").await;
    for (statement, index) in [
        ("INSERT INTO t VALUES (repeat('x', 600), 'c')", "the primary key of table \"t\""),
        ("INSERT INTO t VALUES ('c', repeat('x', 600))", "index \"t_name\" of table \"t\""),
        ("UPDATE t SET name = repeat('x', 600)", "index \"t_name\" of table \"t\""),
    ] {
        let answer = run(&session, statement).await;
        assert!(answer.starts_with("54000: ") && answer.contains(" exceeds maximum 512 for "), "{answer}");
        assert!(answer.contains(index), "{answer}");
    }
    run(&session, "INSERT INTO t VALUES (repeat('x', 500), 'c')").await;
    database.checkpoint(&saki_sql::Pace::full()).unwrap();
    assert_eq!(run(&session, "SELECT count(*) FROM t").await, "2");
}

/// What a session has changed beside an old snapshot goes after the end of that, though all sessions do nothing.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_an_old_snapshot_held_back_is_freed_while_all_are_idle() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (old, session) = (Session::new(&database), Session::new(&database));
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, name text)").await;
    run(&session, "INSERT INTO t SELECT i, '' FROM generate_series(1, 200) AS s(i)").await;
    // The first version of a row stays with it.
    for _ in 0..2 {
        run(&session, "UPDATE t SET name = repeat('a', 5000)").await;
    }
    run(&old, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(run(&old, "SELECT count(*) FROM t WHERE name < 'b'").await, "200");
    run(&session, "UPDATE t SET name = repeat('b', 5000)").await;
    let engine = &database.store().engine().unwrap().database;
    // More than once the background thread has come by.
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    assert!(engine.garbage_bytes() >= 1_000_000, "{} bytes are kept for a snapshot", engine.garbage_bytes());
    assert_eq!(run(&old, "SELECT count(*) FROM t WHERE name < 'b'").await, "200");
    run(&old, "ROLLBACK").await;
    let started = std::time::Instant::now();
    while engine.garbage_bytes() >= 100_000 {
        assert!(started.elapsed().as_secs() < 20, "{} bytes are kept for nobody", engine.garbage_bytes());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
