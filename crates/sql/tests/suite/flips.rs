//! Any bit turned on the devices of a database of many kinds of tables is found or harmless: whatever is answered
//! afterwards is what was answered before, or an error.
//!
//! `SAKI_FLIPS` says how many are tried, `SAKI_SEED` which.

use std::sync::Arc;

use saki_base::{PageSize, Random};
use saki_catalog::Result;
use saki_sql::{Database, OpenOptions, Session};
use saki_store::SimStorage;

use super::support::{options, run, text_rows};

/// Tables by key and without, keys of texts and of pairs, indexes of either kind, long values, all types.
const TABLES: &str = "
    CREATE TABLE keyed (id int PRIMARY KEY, name text NOT NULL, price numeric(12, 3), at timestamp, note text);
    CREATE UNIQUE INDEX ON keyed (name);
    CREATE INDEX ON keyed (price, at);
    CREATE TABLE plain (a bigint, b char(6), c float8, d date, e uuid, f bytea, g boolean);
    CREATE INDEX ON plain (b);
    CREATE TABLE named (k text, n smallint, v real, PRIMARY KEY (k, n));
    CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES keyed ON DELETE CASCADE);
    CREATE VIEW joined AS SELECT c.id, k.name FROM child c JOIN keyed k ON k.id = c.parent;
    CREATE SEQUENCE counted;
";

/// Rows that are loaded, and merged; and changes after that, some of them merged.
const ROWS: &str = "
    INSERT INTO keyed SELECT g, 'name ' || g * 7919 % 1000, g / 3.0, timestamp '2024-02-29' + g * interval '1 hour',
        CASE WHEN g % 50 = 0 THEN repeat('long ' || g, 900) ELSE NULL END FROM generate_series(1, 700) g;
    INSERT INTO plain SELECT g::bigint * 1000000007, 'c' || g % 9, g / 7.0, date '1999-12-31' + g, md5(g::text)::uuid,
        decode(md5(g::text), 'hex'), g % 3 = 0 FROM generate_series(1, 500) g;
    INSERT INTO named SELECT 'https://example.com/' || g / 3, g % 3, g FROM generate_series(1, 400) g;
    INSERT INTO child SELECT g, g % 600 + 1 FROM generate_series(1, 300) g;
    SELECT nextval('counted');
    CHECKPOINT;
    UPDATE keyed SET price = price + 1 WHERE id % 5 = 0;
    DELETE FROM keyed WHERE id BETWEEN 640 AND 660;
    DELETE FROM plain WHERE g;
    UPDATE named SET v = -v WHERE n = 1;
    CHECKPOINT;
    INSERT INTO plain SELECT g, 'new', 0.5, NULL, NULL, NULL, true FROM generate_series(1, 60) g;
    UPDATE keyed SET note = repeat('x', id), name = name || '!' WHERE id < 40;
    DELETE FROM child WHERE id > 280;
    ALTER TABLE named ADD COLUMN gone bigint DEFAULT 5, ADD COLUMN w text DEFAULT 'w';
    ALTER TABLE named DROP COLUMN gone;
    INSERT INTO named VALUES ('last', 1, 2, 'v');
    SELECT nextval('counted');
";

/// What is asked: by every path to rows, and of every table.
const QUESTIONS: &[&str] = &[
    "SELECT * FROM keyed ORDER BY id",
    "SELECT * FROM plain ORDER BY a, b",
    "SELECT * FROM named ORDER BY k, n",
    "SELECT * FROM joined ORDER BY id",
    "SELECT * FROM child ORDER BY id",
    "SELECT id, price FROM keyed WHERE name = 'name 900'",
    "SELECT id FROM keyed WHERE price BETWEEN 20 AND 30 ORDER BY id",
    "SELECT count(*), sum(a), min(d), max(e::text) FROM plain WHERE b = 'c4'",
    "SELECT v FROM named WHERE k = 'https://example.com/77' AND n = 1",
    "SELECT g, (SELECT name FROM keyed WHERE id = g), (SELECT parent FROM child WHERE id = g)
        FROM generate_series(1, 700) g ORDER BY g",
    "SELECT last_value FROM pg_sequences WHERE sequencename = 'counted'",
];

fn logging() -> OpenOptions {
    OpenOptions { logs: Some(2), log_extent_bytes: 64 << 10, segment_rows: 200, direct: false, ..options() }
}

/// The answer to a question, or what came in its way.
async fn answer(session: &Session, question: &str) -> Result<Vec<Vec<String>>> {
    text_rows(session.execute(question).await?.pop().expect("a statement")).await
}

/// The answers to all questions, by each path.
async fn answers(database: &Arc<Database>) -> Vec<(String, Result<Vec<Vec<String>>>)> {
    let mut answers = Vec::new();
    for path in ["rows", "columns", "auto"] {
        let session = Session::new(database);
        run(&session, &format!("SET saki.access_path = '{path}'")).await;
        for question in QUESTIONS {
            answers.push((format!("{path}: {question}"), answer(&session, question).await));
        }
    }
    answers
}

/// Whether an opening, a question or `check` finds something; nobody is told anything else than before.
async fn is_found(storage: &SimStorage, before: &[(String, Result<Vec<Vec<String>>>)], flip: &str) -> bool {
    let Ok(store) = storage.open("simulated", logging()) else { return true };
    let database = Database::over(store);
    let mut is_found = false;
    for ((question, expected), (_, answer)) in before.iter().zip(answers(&database).await) {
        match answer {
            Ok(rows) => assert!(rows == *expected.as_ref().unwrap(), "{flip}: another answer to {question}"),
            Err(error) => {
                assert_ne!(error.sqlstate(), "XX000", "{flip}: {question}: {error}");
                is_found = true;
            }
        }
    }
    is_found || database.check(&mut |_| {}).map_or(true, |report| !report.faults.is_empty())
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bit_that_is_turned_is_found_or_harmless() {
    let storage = SimStorage::default();
    let store = storage.create("simulated", PageSize::new(4096).unwrap(), logging()).unwrap();
    let database = Database::over(store);
    let session = Session::new(&database);
    run(&session, TABLES).await;
    for statement in ROWS.split(';').filter(|statement| !statement.trim().is_empty()) {
        run(&session, statement).await;
    }
    drop(session);
    let before = answers(&database).await;
    for (question, answer) in &before {
        assert!(answer.as_ref().is_ok_and(|rows| !rows.is_empty()), "{question}: {answer:?}");
    }
    drop(database);
    assert!(!is_found(&storage.crash(0), &before, "as it was").await, "found where nothing is");
    let (sectors, mut random) = (storage.sectors().unwrap(), Random::new(variable("SAKI_SEED", 1)));
    let (flips, mut found) = (variable("SAKI_FLIPS", 60), 0);
    for number in 0..flips {
        let damaged = storage.crash(number);
        let flip = damaged.turn_bit(&sectors, number, &mut random);
        found += u64::from(is_found(&damaged, &before, &flip).await);
    }
    println!("{found} of {flips} found");
    assert!(found * 10 >= flips, "{found} of {flips} found");
}
