//! Joins of few rows that go without a query plan give what the same joins give by one: inner and outer ones, in any
//! order of their tables, over NULLs, whatever lies in the delta, in memory or not, within transactions and beside
//! changes of tables.

use arrow::util::pretty::pretty_format_batches;
use saki_base::Random;
use saki_sql::{Pace, Session};

use crate::support::{create, reopen, run, waits};

async fn lines(session: &Session, sql: &str, is_ordered: bool) -> Result<Vec<String>, String> {
    let results = session.execute(sql).await.map_err(|error| error.sqlstate().to_owned())?;
    let batches = results.into_iter().next_back().expect("a result").collect().await;
    let batches = batches.map_err(|error| error.sqlstate().to_owned())?;
    let drawn = pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<_> = drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect();
    if !is_ordered {
        lines.sort();
    }
    Ok(lines)
}

fn is_fast(session: &Session, sql: &str) -> bool {
    session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some())
}

const TABLES: [&str; 6] = [
    "CREATE TABLE customer (w int, d int, id int, name char(8), credit numeric(6,2), PRIMARY KEY (w, d, id))",
    "CREATE INDEX customer_name ON customer (name)",
    "CREATE TABLE orders (w int, d int, id bigint, c int, carrier text, PRIMARY KEY (w, d, id))",
    "CREATE INDEX orders_c ON orders (w, d, c)",
    "CREATE TABLE line (w int, d int, o int, number int, item int, amount numeric(6,2), PRIMARY KEY (w, d, o, number))",
    "CREATE TABLE item (id int PRIMARY KEY, name char(8), price numeric(5,2))",
];

async fn change(session: &Session, random: &mut Random) {
    for _ in 0..40 {
        let (w, d, id, other) = (random.below(2), random.below(3), random.below(8), random.below(6));
        let c = if other == 5 { "NULL".to_owned() } else { other.to_string() };
        for sql in [
            format!(
                "INSERT INTO customer VALUES ({w}, {d}, {other}, 'n{}', {id}.5) ON CONFLICT (w, d, id) DO UPDATE \
                 SET credit = EXCLUDED.credit",
                id % 3
            ),
            format!(
                "INSERT INTO orders VALUES ({w}, {d}, {id}, {c}, 'carrier') ON CONFLICT (w, d, id) DO UPDATE \
                 SET c = EXCLUDED.c"
            ),
            format!("INSERT INTO line VALUES ({w}, {d}, {id}, {other}, {c}, {id}.25) ON CONFLICT DO NOTHING"),
            format!("INSERT INTO item VALUES ({other}, 'n{}', {id}.75) ON CONFLICT DO NOTHING", other % 3),
            format!("DELETE FROM orders WHERE w = {w} AND d = {other} AND id = {id}"),
            format!("DELETE FROM item WHERE id = {id} AND price > 2"),
        ] {
            run(session, &sql).await;
        }
    }
}

/// A join and what is behind it; whether rows come in an order.
fn join(random: &mut Random) -> (String, String, bool) {
    let (w, d, id, n) = (random.below(2), random.below(3), random.below(8), random.below(3));
    let all = [
        (
            "SELECT c.name, o.id, o.carrier FROM customer c JOIN orders o ON o.w = c.w AND o.d = c.d AND o.c = c.id",
            format!("c.w = {w} AND c.d = {d} AND c.id = {id}"),
            "",
        ),
        (
            "SELECT * FROM orders o LEFT JOIN customer c ON c.w = o.w AND c.d = o.d AND c.id = o.c AND c.credit > 3",
            format!("o.w = {w} AND o.d = {d}"),
            "ORDER BY o.id",
        ),
        (
            "SELECT o.id, c.credit FROM orders o LEFT JOIN customer c ON c.w = o.w AND c.d = o.d AND c.id = o.c",
            format!("o.w = {w} AND o.d = {d} AND c.credit >= {id}"),
            "ORDER BY o.id DESC, c.credit LIMIT 3",
        ),
        (
            "SELECT count(DISTINCT item.id), count(*), sum(amount), max(price) FROM line, item",
            format!("line.w = {w} AND line.d = {d} AND o BETWEEN {n} AND {id} AND item.id = line.item AND price < 6"),
            "",
        ),
        (
            "SELECT item.name, count(*) AS lines, sum(amount) FROM item CROSS JOIN line",
            format!("w = {w} AND d = {d} AND item = item.id AND number <> o"),
            "GROUP BY item.name ORDER BY item.name",
        ),
        (
            "SELECT o.id, l.number, i.name, c.name FROM orders AS o INNER JOIN line l ON l.w = o.w AND l.d = o.d \
             AND l.o = o.id LEFT JOIN item i ON i.id = l.item LEFT JOIN customer c ON c.w = o.w AND c.d = o.d \
             AND c.id = o.c AND c.name = i.name",
            format!("o.w = {w} AND o.d = {d} AND o.id IN ({n}, {id}, 4)"),
            "ORDER BY 1, 2",
        ),
        (
            "SELECT DISTINCT a.c, b.c FROM orders a JOIN orders b ON b.w = a.w AND b.d = a.d AND b.id > a.id",
            format!("a.w = {w} AND a.d = {d} AND a.c = {n}"),
            "ORDER BY a.c, b.c",
        ),
        (
            "SELECT c.id, o.id, l.amount FROM customer c, orders o, line l",
            format!(
                "c.name = 'n{n}' AND o.w = c.w AND c.d = o.d AND o.c = c.id AND l.o = o.id AND l.d = o.d \
                 AND l.w = c.w AND l.amount > c.credit - {id}"
            ),
            "",
        ),
        (
            "SELECT o.id, i.name, i.id FROM orders o JOIN item i ON i.id BETWEEN o.c AND o.id",
            format!("o.w = {w} AND o.d = {d}"),
            "",
        ),
        (
            "SELECT o.id, i.name, i.id FROM orders o LEFT JOIN item i ON i.id > o.c AND o.id - 1 >= i.id",
            format!("o.w = {w} AND o.d = {d} AND o.id > {n}"),
            "",
        ),
        (
            "SELECT l.number FROM line l JOIN orders o ON l.o = o.id - {n} AND l.w = o.w AND l.d = o.d",
            format!("o.w = {w} AND o.d = {d} AND o.id = {id}"),
            "LIMIT 100",
        ),
    ];
    let subqueries = subqueries(w, d, id, n);
    let all: Vec<_> = all.iter().chain(&subqueries).collect();
    let (select, condition, behind) = &all[random.below(all.len() as u64) as usize];
    let behind = if behind.contains("ORDER BY 1") { "" } else { behind };
    (select.replace("{n}", &n.to_string()), format!("{condition} |{behind}"), behind.contains("ORDER BY"))
}

/// Subqueries that are look-ups. Nothing in them is called as a column is: the planner takes `o.w` for a part of that.
fn subqueries(w: u64, d: u64, id: u64, n: u64) -> [(&'static str, String, &'static str); 7] {
    [
        (
            "SELECT x.id, x.name FROM customer x",
            format!(
                "x.w = {w} AND x.d = {d} \
                 AND EXISTS (SELECT 1 FROM orders o WHERE o.w = x.w AND o.d = x.d AND o.c = x.id)"
            ),
            "",
        ),
        (
            "SELECT x.id, x.id * 2 - x.d AS twice, 7 FROM orders x",
            format!(
                "x.w = {w} AND x.d = {d} AND x.c IS NOT NULL AND NOT EXISTS (SELECT * FROM line WHERE w = x.w \
                 AND d = x.d AND line.o = x.id AND amount > {id})"
            ),
            "ORDER BY x.id LIMIT 5 OFFSET 1",
        ),
        (
            "SELECT id, carrier FROM orders",
            format!("w = {w} AND d = {d} AND c IN (SELECT id FROM item WHERE price > 3) AND id <> {id}"),
            "ORDER BY id DESC OFFSET 1",
        ),
        (
            "SELECT name, credit FROM customer",
            format!("w = {w} AND d = {d} AND id NOT IN (SELECT i.id AS other FROM item AS i WHERE price > {n})"),
            "",
        ),
        (
            "SELECT number, (SELECT name FROM item WHERE id = item), (SELECT price FROM item i WHERE i.id = line.item \
             AND i.price < 4) AS cheap, item FROM line",
            format!("w = {w} AND d = {d} AND o = {id}"),
            "ORDER BY number",
        ),
        (
            "SELECT count(*), sum(l.amount) FROM orders o JOIN line l ON l.w = o.w AND l.d = o.d AND l.o = o.id",
            format!(
                "o.w = {w} AND o.d = {d} AND EXISTS (SELECT NULL FROM customer x WHERE x.w = o.w AND x.d = o.d \
                 AND x.id = o.c AND x.credit IS NOT NULL)"
            ),
            "",
        ),
        (
            "SELECT o.id, i.name, i.price FROM orders o LEFT JOIN item i ON i.id = o.c AND i.name IS NOT NULL",
            format!("o.w = {w} AND o.d = {d} AND o.c IS NULL"),
            "ORDER BY o.id",
        ),
    ]
}

/// Whether it went without a plan.
async fn compare(session: &Session, random: &mut Random) -> bool {
    let (select, rest, is_ordered) = join(random);
    let (condition, behind) = rest.split_once('|').expect("made so");
    let fast = format!("{select} WHERE {condition} {behind}");
    let slow = format!("{select} WHERE ({condition}) AND coalesce(1, 2) = 1 {behind}");
    assert!(!is_fast(session, &slow), "{slow}");
    let (by_key, by_plan) = (lines(session, &fast, is_ordered).await, lines(session, &slow, is_ordered).await);
    assert_eq!(by_key, by_plan, "{fast}");
    is_fast(session, &fast)
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_are_those_of_a_plan() {
    const ROUNDS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (session, mut random) = (Session::new(&database), Random::new(5));
    for table in TABLES {
        run(&session, table).await;
    }
    let mut fast = 0;
    for round in 0..ROUNDS {
        change(&session, &mut random).await;
        if round % 3 == 1 {
            database.checkpoint(&Pace::full()).unwrap();
        }
        for _ in 0..40 {
            fast += usize::from(compare(&session, &mut random).await);
        }
        run(&session, "BEGIN").await;
        change(&session, &mut random).await;
        for _ in 0..15 {
            fast += usize::from(compare(&session, &mut random).await);
        }
        run(&session, if round % 2 == 0 { "ROLLBACK" } else { "COMMIT" }).await;
    }
    assert_eq!(fast, ROUNDS * 55, "all are compiled");
    database.checkpoint(&Pace::full()).unwrap();
    drop((session, database));
    for _ in 0..10 {
        let database = reopen(directory.path());
        database.store().start_engine().unwrap();
        let session = Session::new(&database);
        for _ in 0..3 {
            compare(&session, &mut random).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lookup_is_planned() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    for table in TABLES {
        run(&session, table).await;
    }
    for sql in [
        "SELECT 1 FROM orders o JOIN line l ON l.o = o.id WHERE o.w = 1",
        "SELECT o.id FROM orders o JOIN line l ON l.o = o.id WHERE o.w = 1",
        "SELECT o.id FROM orders o RIGHT JOIN customer c ON c.w = o.w WHERE o.w = 1",
        "SELECT o.id FROM orders o JOIN customer c USING (w, d) WHERE o.w = 1",
        "SELECT o.id FROM orders o NATURAL JOIN customer c WHERE o.w = 1",
        "SELECT id FROM orders o JOIN customer c ON c.w = o.w WHERE o.w = 1",
        "SELECT o.id FROM orders o LEFT JOIN item i ON i.id = o.c WHERE o.w = 1 AND i.id IS NULL",
        "SELECT o.id FROM orders o LEFT JOIN item i ON i.id = o.c OR i.name = o.carrier WHERE o.w = 1",
        "SELECT o.id FROM orders o JOIN item i ON i.name = o.carrier WHERE o.w = 1",
        "SELECT o.id FROM orders o JOIN item i ON i.id = o.c WHERE o.w = 1 FOR UPDATE",
        "SELECT o.id FROM orders o JOIN item o ON o.id = 1 WHERE o.w = 1",
        "SELECT o.id FROM orders o, LATERAL (SELECT 1) AS x WHERE o.w = 1",
    ] {
        assert!(!is_fast(&session, sql), "{sql}");
    }
}

/// A join needs the right to read all of its tables, and follows changes of any of them.
#[tokio::test(flavor = "multi_thread")]
async fn joins_ask_for_rights_and_follow_their_tables() {
    const JOIN: &str = "SELECT i.name FROM line l JOIN item i ON i.id = l.item WHERE l.w = 1 AND l.d = 2 AND l.o = 3";
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    for table in TABLES {
        run(&session, table).await;
    }
    run(&session, "INSERT INTO line VALUES (1, 2, 3, 4, 5, 1)").await;
    run(&session, "INSERT INTO item VALUES (5, 'five', 1)").await;
    assert!(is_fast(&session, JOIN));
    assert_eq!(lines(&session, JOIN, true).await.unwrap(), ["| five |"]);
    run(&session, "CREATE ROLE reader").await;
    run(&session, "GRANT SELECT ON line TO reader").await;
    run(&session, "SET ROLE reader").await;
    assert_eq!(lines(&session, JOIN, true).await.unwrap_err(), "42501");
    run(&session, "RESET ROLE").await;
    run(&session, "GRANT SELECT ON item TO reader").await;
    run(&session, "SET ROLE reader").await;
    assert_eq!(lines(&session, JOIN, true).await.unwrap(), ["| five |"]);
    run(&session, "RESET ROLE").await;
    // Compiled before the other table changed: another definition, other rows.
    let plan = session.prepare_fast(JOIN, &[]).and_then(|prepared| prepared.fast).expect("compiled");
    run(&session, "ALTER TABLE item ADD COLUMN more int").await;
    assert_eq!(lines(&session, JOIN, true).await.unwrap(), ["| five |"]);
    run(&session, "DROP TABLE item").await;
    run(&session, "CREATE TABLE item (id int PRIMARY KEY, name char(8), price numeric(5,2))").await;
    let answer = session.execute_fast(&plan, &[], &mut crate::fast_cold::Lines::default()).await.unwrap();
    assert_eq!(answer, saki_sql::FastAnswer::Ordinary);
    assert!(lines(&session, JOIN, true).await.unwrap().is_empty());
    // Within a transaction both tables are locked against being changed.
    run(&session, "BEGIN").await;
    assert!(lines(&session, JOIN, true).await.unwrap().is_empty());
    let other = Session::new(&database);
    let mut waiting = other.execute("DROP TABLE item");
    assert!(waits(&mut waiting).await, "it is read");
    run(&session, "COMMIT").await;
    waiting.await.unwrap();
}
