//! Columns that are added without a look at the rows: what is written for it, and who finds them afterwards.

use saki_sql::{Database, Session};

use crate::fast_rows::done;
use crate::support::{create, number, refused, reopen, run};

/// Where the pages of `t` begin.
pub fn roots(database: &Database) -> Vec<Option<saki_base::PageRef>> {
    let generation = database.store().generation();
    let table = generation.catalog.table("t").unwrap();
    let indexes = table.indexes.iter().map(|index| index.root.root);
    let segments = table.segments.as_ref().map(|segments| segments.directory.root);
    [table.root.root].into_iter().chain(indexes).chain(segments).collect()
}

pub fn check(database: &Database) {
    let faults = database.store().check(&mut |_| {}).unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
}

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, v int, name text); CREATE INDEX t_v ON t (v);
    INSERT INTO t SELECT i, i, 'n' || i FROM generate_series(1, 5000) AS s (i); CHECKPOINT";

#[tokio::test(flavor = "multi_thread")]
async fn a_column_with_one_value_for_all_rows_is_added_without_writing_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    let before = roots(&database);
    for column in [
        "a int",
        "b text DEFAULT 'b'",
        "c int NOT NULL DEFAULT 1 + 2",
        "d timestamptz DEFAULT now()",
        "e date NOT NULL DEFAULT CURRENT_DATE CHECK (e > '2000-01-01')",
        "f varchar(5) DEFAULT lower('F'), ADD COLUMN g numeric(20, 2)",
    ] {
        run(&session, &format!("ALTER TABLE t ADD COLUMN {column}")).await;
        assert_eq!(roots(&database), before, "{column}");
    }
    assert_eq!(refused(&session, "ALTER TABLE t ADD COLUMN z int NOT NULL").await, "23502");
    assert_eq!(refused(&session, "ALTER TABLE t ADD COLUMN z varchar(2) DEFAULT 'long'").await, "22001");
    run(&session, "BEGIN; ALTER TABLE t ADD COLUMN h int DEFAULT 8; ROLLBACK").await;
    run(&session, "BEGIN; ALTER TABLE t ADD COLUMN h int DEFAULT 9; COMMIT").await;
    assert_eq!(roots(&database), before);
    let rows = "SELECT count(*) FROM t WHERE a IS NULL AND b = 'b' AND c = 3 AND d <= now() AND f = 'f' AND h = 9";
    assert_eq!(number(&session, rows).await, 5000);
    check(&database);
    drop(session);
    drop(database);
    database = reopen(directory.path());
    let session = Session::new(&database);
    assert_eq!(number(&session, rows).await, 5000);
    assert_eq!(roots(&database), before);
    check(&database);
    // What may be another value for each row is one.
    run(&session, "ALTER TABLE t ADD COLUMN i serial, ADD COLUMN j double precision DEFAULT random()").await;
    assert!(roots(&database).iter().zip(&before).all(|(after, before)| after != before));
    assert_eq!(number(&session, "SELECT count(DISTINCT i) FROM t").await, 5000);
    assert!(number(&session, "SELECT count(DISTINCT j) FROM t").await > 1);
    assert_eq!(number(&session, rows).await, 5000);
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_statements_find_what_rows_lack() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    // Compiled statements run once there are transactions.
    database.store().start_engine().unwrap();
    let rows = |rows: &[&str]| Ok((rows.len() as u64, rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()));
    assert_eq!(done(&session, "SELECT v, name FROM t WHERE id = 7").await, rows(&["7|n7"]));
    run(&session, "ALTER TABLE t ADD COLUMN note text DEFAULT 'none', ADD COLUMN extra int NOT NULL DEFAULT 5").await;
    assert_eq!(done(&session, "SELECT v, note, extra FROM t WHERE id = 7").await, rows(&["7|none|5"]));
    assert_eq!(done(&session, "SELECT id, note, extra FROM t WHERE v = 8").await, rows(&["8|none|5"]));
    for update in [
        "UPDATE t SET v = -1 WHERE id = 7",
        "UPDATE t SET extra = extra + 1 WHERE id = 8",
        "UPDATE t SET note = NULL WHERE id = 9",
        "DELETE FROM t WHERE id = 10",
        "INSERT INTO t (id, v) VALUES (6000, 10)",
    ] {
        assert_eq!(done(&session, update).await.map(|(rows, _)| rows), Ok(1), "{update}");
    }
    for merge in [false, true] {
        if merge {
            run(&session, "CHECKPOINT").await;
        }
        for (id, expected) in [
            (6, &["6|n6|none|5"][..]),
            (7, &["-1|n7|none|5"]),
            (8, &["8|n8|none|6"]),
            (9, &["9|n9||5"]),
            (10, &[]),
            (6000, &["10||none|5"]),
        ] {
            let query = format!("SELECT v, name, note, extra FROM t WHERE id = {id}");
            assert_eq!(done(&session, &query).await, rows(expected), "{id}");
        }
        assert_eq!(number(&session, "SELECT sum(extra) FROM t").await, 25_001);
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE note = 'none'").await, 4999);
    }
    check(&database);
}
