//! LIKE with a pattern that says how texts begin: a range of an index, on every path, and the same rows as without one.

use saki_base::{Pattern, Random};
use saki_sql::{Pace, ScalarValue, Session};

use crate::fast_rows::{answer as compiled, plan};
use crate::support::{answer, create, planned, run};

/// What texts are made of: characters of all lengths, wildcards and escapes among them.
const PIECES: [&str; 12] = ["a", "b", "ab", "%", "_", r"\", " ", "é", "z", "\u{7f}", "\u{d7ff}", "\u{10ffff}"];

const PATTERNS: [&str; 22] = [
    "a%",
    "ab%",
    "aba%",
    "b",
    "",
    "%",
    "%b",
    "a%b",
    "a_%",
    "ab_",
    r"a\%%",
    r"\%%",
    r"a\\%",
    "é%",
    "aé%",
    "z%z%",
    " %",
    "a %",
    "\u{d7ff}%",
    "\u{10ffff}%",
    "a\u{10ffff}%",
    "ab%%",
];

const PATHS: [&str; 3] = ["rows", "columns", "index"];

fn text(random: &mut Random) -> String {
    (0..random.below(5)).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]).collect()
}

async fn sorted(session: &Session, sql: &str) -> Vec<String> {
    let mut lines: Vec<_> = answer(session, sql).await.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

async fn fill(session: &Session, random: &mut Random, ids: std::ops::Range<u32>) {
    for id in ids {
        let value = |text: String| if text.len() > 7 { "NULL".to_owned() } else { format!("'{text}'") };
        let (s, v) = (value(text(random)), value(text(random)));
        let sql = format!(
            "INSERT INTO w VALUES ({id}, {}, {s}, {v}, coalesce({v}, '')) \
             ON CONFLICT (id) DO UPDATE SET s = excluded.s",
            id % 3
        );
        run(session, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_begin_so_are_found_on_every_path() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    database.store().start_engine().unwrap();
    let session = Session::new(&database);
    run(&session, "CREATE TABLE w (id int PRIMARY KEY, g int, s text, v varchar(20), c char(9) NOT NULL)").await;
    for index in ["w_s ON w (s)", "w_v ON w (v DESC)", "w_gs ON w (g, s DESC)", "w_c ON w (c)"] {
        run(&session, &format!("CREATE INDEX {index}")).await;
    }
    let mut random = Random::new(23);
    let is_compiled = |sql: &str| session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some());
    for round in 0..3_u32 {
        fill(&session, &mut random, round * 300..round * 300 + 500).await;
        if round == 1 {
            database.checkpoint(&Pace::full()).unwrap();
        }
        for pattern in PATTERNS {
            for (column, condition) in
                [("s", "s LIKE"), ("v", "v LIKE"), ("s", "g = 1 AND s LIKE"), ("c", "c LIKE"), ("s", "s NOT LIKE")]
            {
                let sql = format!("SELECT id FROM w WHERE {condition} '{pattern}'");
                // Of an expression nothing is known but what LIKE itself says.
                let whole = sql.replace(&format!("{column} "), &format!("({column} || '') "));
                let whole = if column == "c" { sql.replace("c LIKE", "id + 0 = id AND c LIKE") } else { whole };
                let expected = planned(&session, sorted(&session, &whole)).await;
                assert_eq!(sorted(&session, &sql).await, expected, "round {round}: {sql}");
                for path in PATHS {
                    session.set("access_path", path).unwrap();
                    assert_eq!(sorted(&session, &sql).await, expected, "round {round}, {path}: {sql}");
                }
                session.set("access_path", "auto").unwrap();
                if !condition.ends_with("LIKE") || column == "c" || condition.contains("NOT") {
                    continue;
                }
                let open = format!("SELECT id FROM w WHERE {condition} $1");
                let value = [ScalarValue::Utf8(Some(pattern.into()))];
                match compiled(&session, &plan(&session, &open), &value).await.unwrap() {
                    Some((_, mut found)) => {
                        found.sort_unstable();
                        assert_eq!(found, expected, "round {round}: {open} with {pattern}");
                    }
                    None => assert!(Pattern::read(pattern).is_none(), "{open} with {pattern}"),
                }
                let nothing = [ScalarValue::Utf8(None)];
                assert_eq!(compiled(&session, &plan(&session, &open), &nothing).await, Ok(Some((0, Vec::new()))));
            }
        }
    }
    for sql in [
        "SELECT id FROM w WHERE s LIKE 'ab%'",
        "SELECT id FROM w WHERE s LIKE 'ab%b' AND g = 2",
        "SELECT id FROM w WHERE v LIKE $1",
        "UPDATE w SET g = 7 WHERE s LIKE 'ab%'",
        "DELETE FROM w WHERE g = 1 AND s LIKE $1",
        "SELECT s FROM w WHERE s LIKE 'a%' ORDER BY s LIMIT 3",
    ] {
        assert!(is_compiled(sql), "{sql}");
    }
    let expected = planned(&session, answer(&session, "SELECT count(*) FROM w WHERE (s || '') LIKE 'ab%'")).await;
    run(&session, "UPDATE w SET g = 70 WHERE s LIKE 'ab%'").await;
    assert_eq!(answer(&session, "SELECT count(*) FROM w WHERE g = 70").await, expected);
    run(&session, "DELETE FROM w WHERE g = 70 AND s LIKE 'a%'").await;
    assert_eq!(answer(&session, "SELECT count(*) FROM w WHERE (s || '') LIKE 'ab%'").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_rows_are_read_of_many() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    database.store().start_engine().unwrap();
    let session = Session::new(&database);
    run(&session, "CREATE TABLE w (id int PRIMARY KEY, s text NOT NULL)").await;
    run(&session, "INSERT INTO w SELECT i, 'name' || i FROM generate_series(1, 20000) g(i)").await;
    run(&session, "CREATE INDEX w_s ON w (s)").await;
    database.checkpoint(&Pace::full()).unwrap();
    run(&session, "ANALYZE w").await;
    session.set("access_path", "index").unwrap();
    let plan = answer(&session, "EXPLAIN SELECT id FROM w WHERE s LIKE 'name123%4'").await;
    assert!(plan.contains("s >= 'name123', s < 'name124'"), "{plan}");
    assert!(plan.contains("w_s"), "{plan}");
}
