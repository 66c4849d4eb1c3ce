//! Ranges that go without a query plan give what the same conditions give by one, whatever lies in the delta.

use arrow::util::pretty::pretty_format_batches;
use saki_base::Random;
use saki_sql::{Pace, Session};

use crate::support::{create, planned};

async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches = session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = batches.into_iter().next_back().expect("a result").collect().await.unwrap();
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        return Vec::new();
    }
    let drawn = pretty_format_batches(&batches).unwrap().to_string();
    drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect()
}

async fn change(session: &Session, random: &mut Random) {
    for _ in 0..150 {
        let (a, b) = (random.below(12), random.below(40));
        let (c, d) = (random.below(9), random.below(30));
        let c = if c == 0 { "NULL".to_owned() } else { format!("'c{c}'") };
        let sql = match random.below(4) {
            0 => format!("DELETE FROM t WHERE a = {a} AND b = {b}"),
            1 => format!("UPDATE t SET d = {d} WHERE a = {a} AND b = {b}"),
            _ => format!("INSERT INTO t VALUES ({a}, {b}, {c}, {d}) ON CONFLICT (a, b) DO UPDATE SET c = {c}, d = {d}"),
        };
        session.execute(&sql).await.unwrap();
    }
}

/// A statement, and the same with conditions and orders that no key has.
fn pairs(random: &mut Random) -> Vec<(String, String)> {
    let (a, b, c, d) = (random.below(12), random.below(40), 1 + random.below(8), random.below(30));
    let (upper, limit) = (b + random.below(10), 1 + random.below(20));
    let slow = |condition: &str| {
        condition.replace("a =", "a + 0 =").replace("b ", "b + 0 ").replace("c =", "c || '' =").replace("d ", "d + 0 ")
    };
    let mut pairs = Vec::new();
    for (condition, order) in [
        (format!("a = {a}"), "ORDER BY b"),
        (format!("a = {a}"), "ORDER BY b DESC"),
        (format!("a = {a} AND b >= {b} AND b < {upper}"), "ORDER BY b"),
        (format!("a = {a} AND b BETWEEN {b} AND {upper}"), "ORDER BY b DESC"),
        (format!("a = {a} AND b > {b}"), "ORDER BY a, b"),
        (format!("{b} >= b AND a = {a}"), "ORDER BY a DESC, b DESC"),
        (format!("c = 'c{c}'"), "ORDER BY d DESC, a, b"),
        (format!("c = 'c{c}'"), "ORDER BY d, a DESC, b DESC"),
        (format!("c = 'c{c}' AND d > {d}"), "ORDER BY d DESC, a, b"),
        (format!("c = 'c{c}' AND d <= {d}"), "ORDER BY d DESC, a, b"),
        (format!("c = 'c{c}' AND d = {d}"), "ORDER BY a, b"),
    ] {
        for limit in [String::new(), format!(" LIMIT {limit}")] {
            let statement =
                |condition: &str, order: &str| format!("SELECT b, a, d, c FROM t WHERE {condition} {order}{limit}");
            pairs.push((statement(&condition, order), statement(&slow(&condition), order)));
        }
    }
    pairs
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_those_of_a_plan() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (session, mut random) = (Session::new(&database), Random::new(7));
    session.execute("CREATE TABLE t (a int, b int, c text, d int NOT NULL, PRIMARY KEY (a, b))").await.unwrap();
    session.execute("CREATE INDEX t_c_d ON t (c, d DESC)").await.unwrap();
    for round in 0..8 {
        change(&session, &mut random).await;
        if round % 3 == 1 {
            database.checkpoint(&Pace::full()).unwrap();
        }
        // Warm: what is not in memory goes the ordinary way.
        rows(&session, "SELECT sum(d) FROM t WHERE c || '' <> 'x'").await;
        for (fast, slow) in pairs(&mut random) {
            assert!(session.prepare_fast(&fast, &[]).is_some_and(|prepared| prepared.fast.is_some()), "{fast}");
            let expected = planned(&session, rows(&session, &slow)).await;
            assert_eq!(rows(&session, &fast).await, expected, "round {round}: {fast}");
        }
        session.execute("BEGIN").await.unwrap();
        change(&session, &mut random).await;
        for (fast, slow) in pairs(&mut random) {
            let expected = planned(&session, rows(&session, &slow)).await;
            assert_eq!(rows(&session, &fast).await, expected, "own changes, round {round}: {fast}");
        }
        session.execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_range_of_a_key_is_planned() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    session.execute("CREATE TABLE t (a int, b int, c text, f float8, n int, PRIMARY KEY (a, b))").await.unwrap();
    session.execute("CREATE INDEX t_f ON t (f)").await.unwrap();
    session.execute("CREATE INDEX t_n ON t (n)").await.unwrap();
    // Small tables are read whole.
    session.execute("INSERT INTO t SELECT i, i, 'c', i, i FROM generate_series(1, 1500) g(i)").await.unwrap();
    database.checkpoint(&Pace::full()).unwrap();
    for sql in [
        "SELECT a FROM t WHERE b = 1",
        "SELECT a FROM t WHERE a = 1 OR b = 2",
        "SELECT a FROM t WHERE a = 1 AND (b, n) NOT IN ((1, 2))",
        "SELECT a FROM t WHERE c IS NULL",
        "SELECT random() FROM t WHERE a = 1",
        "SELECT n + pg_backend_pid() FROM t WHERE a = 1",
        "SELECT a FROM t WHERE a = 1 AND b IN (SELECT max(n) FROM t AS u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE a = 1 AND b NOT IN (SELECT n FROM t AS u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE a = 1 AND EXISTS (SELECT 1 FROM t AS u WHERE u.c = t.c)",
        "SELECT a FROM t WHERE a = 1 AND EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a LIMIT 0)",
        "SELECT a FROM t WHERE a = 1 AND EXISTS (SELECT count(*) FROM t AS u WHERE u.a = t.a)",
        "SELECT a, (SELECT b FROM t AS u WHERE u.a = t.a) FROM t WHERE a = 1",
        "SELECT t.a FROM t LEFT JOIN t AS u ON u.a = t.a AND u.b = t.n WHERE t.a = 1 AND u.b IS NULL",
        "SELECT a FROM t WHERE a = 1 ORDER BY c NULLS FIRST",
        "SELECT a FROM t WHERE f > 1.5::numeric",
        "SELECT a FROM t WHERE a = '1x'",
        "SELECT a FROM t WHERE a = 1.5e0",
        "SELECT a FROM t ORDER BY a",
        "SELECT DISTINCT a FROM t WHERE a = 1 ORDER BY b",
        "SELECT DISTINCT ON (a) a FROM t WHERE a = 1",
        "SELECT a FROM t WHERE a = 1 ORDER BY c LIMIT 1 FOR UPDATE",
        "SELECT a FROM t WHERE a = 1 FOR UPDATE NOWAIT",
        "SELECT sum(b) FILTER (WHERE b > 1) FROM t WHERE a = 1",
        "SELECT sum(b), b FROM t WHERE a = 1",
        "SELECT sum(f) FROM t WHERE a = 1",
        "SELECT c, count(*) FROM t WHERE a = 1 GROUP BY b",
        "SELECT b, count(*) AS c FROM t WHERE a = 1 GROUP BY b ORDER BY c",
        "SELECT b FROM t WHERE a = 1 GROUP BY b HAVING count(*) > 1",
        "SELECT b FROM t WHERE a = 1 GROUP BY ROLLUP (b)",
        "UPDATE t SET n = 1.5 WHERE a = 1",
        "UPDATE t SET n = n / 2 WHERE a = 1",
    ] {
        assert!(session.prepare_fast(sql, &[]).is_none(), "{sql}");
    }
}
