//! Views, defaults, and what they are over: who waits for whom, and that nothing is left over what is gone; and views
//! over views.

use std::time::Duration;

use saki_sql::Session;

use crate::support::{create, number, refused, run, waits};

/// A table, a view, a sequence.
const MADE: &str = "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE u (a int, b int); \
                    CREATE VIEW below AS SELECT a, b FROM u; CREATE SEQUENCE s";

/// What names something, a change of that, and how the change ends once the other is there.
const NAMED: [(&str, &str, &str); 9] = [
    ("CREATE VIEW v AS SELECT b FROM t", "DROP TABLE t", "2BP01"),
    ("CREATE VIEW v AS SELECT b FROM t", "ALTER TABLE t DROP COLUMN b", "2BP01"),
    ("CREATE VIEW v AS SELECT b FROM t", "ALTER TABLE t ALTER b TYPE text", "0A000"),
    ("CREATE VIEW v AS SELECT b FROM below", "DROP VIEW below", "2BP01"),
    ("CREATE VIEW v AS SELECT b FROM below", "ALTER VIEW below RENAME TO other", "2BP01"),
    ("CREATE TABLE d (a int DEFAULT nextval('s'))", "DROP SEQUENCE s", "2BP01"),
    ("CREATE TABLE d (a int DEFAULT nextval('public.s'::regclass))", "DROP SEQUENCE s", "2BP01"),
    ("ALTER TABLE t ALTER b SET DEFAULT nextval('s')", "DROP SEQUENCE s", "2BP01"),
    ("ALTER TABLE t ADD COLUMN c int DEFAULT nextval('s')", "DROP SEQUENCE s", "2BP01"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_stays_for_whoever_has_named_it_first() {
    for (naming, changing, state) in NAMED {
        let directory = tempfile::tempdir().unwrap();
        let database = create(directory.path());
        let (one, two) = (Session::new(&database), Session::new(&database));
        run(&one, MADE).await;
        run(&one, &format!("BEGIN; {naming}")).await;
        let mut change = two.execute(changing);
        assert!(waits(&mut change).await, "{naming}: {changing}");
        run(&one, "COMMIT").await;
        let ended = change.await.err().map(|error| error.sqlstate().to_owned());
        assert_eq!(ended.as_deref(), Some(state), "{naming}: {changing}");
        let checked = if naming.starts_with("CREATE VIEW") { "SELECT * FROM v" } else { "SELECT nextval('s')" };
        run(&one, checked).await;
        // Undone, it is in nobody's way.
        let other = Session::new(&database);
        run(&one, "CREATE TABLE free (id int)").await;
        run(&one, "BEGIN; CREATE VIEW last AS SELECT id FROM free").await;
        let mut change = other.execute("DROP TABLE free");
        assert!(waits(&mut change).await);
        run(&one, "ROLLBACK").await;
        change.await.unwrap();
        assert_eq!(number(&one, "SELECT count(*) FROM pg_locks").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_changed_is_named_only_once_that_is_over() {
    for (naming, changing, _) in NAMED {
        let directory = tempfile::tempdir().unwrap();
        let database = create(directory.path());
        let (one, two) = (Session::new(&database), Session::new(&database));
        run(&one, MADE).await;
        run(&one, &format!("BEGIN; {changing}")).await;
        let mut named = two.execute(naming);
        assert!(waits(&mut named).await, "{changing}: {naming}");
        run(&one, "COMMIT").await;
        match changing.contains("TYPE") {
            true => {
                named.await.unwrap();
                run(&two, "INSERT INTO t VALUES (1, 'x'); SELECT * FROM v").await;
            }
            false => assert!(named.await.is_err(), "{changing}: {naming}"),
        }
        assert_eq!(number(&two, "SELECT count(*) FROM pg_locks").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_sequences_are_among_the_locks() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, MADE).await;
    run(&one, "BEGIN; CREATE VIEW v AS SELECT b FROM below; CREATE TABLE d (a int DEFAULT nextval('s'))").await;
    for name in ["below", "s"] {
        let held =
            format!("SELECT count(*) FROM pg_locks WHERE mode = 'AccessShareLock' AND relation = '{name}'::regclass");
        assert_eq!(number(&two, &held).await, 1, "{name}");
    }
    run(&one, "ROLLBACK; BEGIN; DROP VIEW below; DROP SEQUENCE s").await;
    for name in ["below", "s"] {
        let held = format!(
            "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = '{name}'::regclass"
        );
        assert_eq!(number(&two, &held).await, 1, "{name}");
    }
    run(&one, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cascade_takes_what_has_been_named_while_it_waited() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, MADE).await;
    for changing in ["ALTER TABLE t DROP COLUMN b CASCADE", "DROP TABLE t CASCADE"] {
        run(&one, "CREATE VIEW first AS SELECT * FROM t").await;
        run(&one, "BEGIN; CREATE VIEW v AS SELECT * FROM first").await;
        let mut change = two.execute(changing);
        assert!(waits(&mut change).await);
        run(&one, "COMMIT").await;
        change.await.unwrap();
        assert_eq!(number(&one, "SELECT count(*) FROM pg_views WHERE viewname IN ('first', 'v')").await, 0);
        run(&one, "CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY); ALTER TABLE t ADD COLUMN b int").await;
        run(&one, "CREATE VIEW v AS SELECT b FROM t; DROP VIEW v").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_not_made_from_an_old_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (old, other) = (Session::new(&database), Session::new(&database));
    run(&other, MADE).await;
    for change in ["ALTER TABLE t DROP COLUMN b", "DROP TABLE t"] {
        run(&old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM u").await;
        run(&other, change).await;
        let naming = if change.starts_with("DROP") { "a" } else { "b" };
        assert_eq!(refused(&old, &format!("CREATE VIEW v AS SELECT {naming} FROM t")).await, "40001", "{change}");
        run(&old, "ROLLBACK").await;
    }
}

/// Each of two transactions puts a view over another: neither sees that a circle closes.
#[tokio::test(flavor = "multi_thread")]
async fn two_transactions_make_no_circle_of_views() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (x int); CREATE VIEW b AS SELECT x FROM t; CREATE VIEW a AS SELECT x FROM b").await;
    run(&one, "CREATE VIEW d AS SELECT x FROM t; CREATE VIEW c AS SELECT x FROM d").await;
    run(&one, "BEGIN; CREATE OR REPLACE VIEW b AS SELECT x FROM c").await;
    run(&two, "BEGIN; CREATE OR REPLACE VIEW d AS SELECT x FROM a").await;
    run(&one, "COMMIT").await;
    assert_eq!(refused(&two, "COMMIT").await, "42P17");
    assert_eq!(number(&one, "SELECT count(*) FROM a").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_nested_up_to_a_bound() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2); CREATE VIEW v1 AS SELECT x FROM t").await;
    for depth in 2..=50 {
        // A join has the planner ask for what it names more than once.
        let query = format!("SELECT v.x FROM v{} AS v JOIN t ON t.x = v.x", depth - 1);
        let query = if depth % 10 == 0 { query } else { format!("SELECT x FROM v{}", depth - 1) };
        run(&session, &format!("CREATE VIEW v{depth} AS {query}")).await;
    }
    assert_eq!(number(&session, "SELECT sum(x) FROM v50").await, 3);
    assert_eq!(refused(&session, "CREATE VIEW v51 AS SELECT x FROM v50").await, "54001");
    run(&session, "CREATE VIEW ground AS SELECT x FROM t").await;
    assert_eq!(refused(&session, "CREATE OR REPLACE VIEW v1 AS SELECT x FROM ground").await, "54001");
    assert_eq!(refused(&session, "CREATE OR REPLACE VIEW v1 AS SELECT x FROM v50").await, "42P17");
    run(&session, "DROP VIEW v1 CASCADE").await;
    assert_eq!(number(&session, "SELECT count(*) FROM pg_views WHERE schemaname = 'public'").await, 1);
}

/// Two at each level, each over both below, so that there are more ways through them than anybody could go.
#[tokio::test(flavor = "multi_thread")]
async fn many_ways_between_views_take_no_time() {
    const LEVELS: usize = 35;
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    let work = async {
        run(&session, "CREATE TABLE t (x int); CREATE VIEW a0 AS SELECT x FROM t; CREATE VIEW b0 AS SELECT x FROM t")
            .await;
        for level in 1..LEVELS {
            let [a, b] = ["a", "b"].map(|side| format!("{side}{}", level - 1));
            for side in ["a", "b"] {
                let parts = format!("WITH p AS (SELECT x FROM {a}), q AS (SELECT x FROM {b})");
                run(&session, &format!("CREATE VIEW {side}{level} AS {parts} SELECT x FROM t")).await;
            }
        }
        assert_eq!(number(&session, &format!("SELECT count(*) FROM a{}", LEVELS - 1)).await, 0);
        run(&session, "CREATE OR REPLACE VIEW a0 AS SELECT x FROM t WHERE x > 0").await;
        let top = format!("a{}", LEVELS - 1);
        assert_eq!(refused(&session, &format!("CREATE OR REPLACE VIEW a0 AS SELECT x FROM {top}")).await, "42P17");
        assert_eq!(refused(&session, "DROP VIEW a0").await, "2BP01");
        run(&session, "ALTER TABLE t ADD COLUMN y int; ALTER TABLE t DROP COLUMN x CASCADE").await;
        assert_eq!(number(&session, "SELECT count(*) FROM pg_views WHERE schemaname = 'public'").await, 0);
    };
    tokio::time::timeout(Duration::from_secs(300), work).await.expect("it ends");
}
