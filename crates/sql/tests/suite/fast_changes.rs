//! Compiled changes do what planned ones do: what RETURNING says, unique keys, ON CONFLICT, conditions and references;
//! beside others that change the same rows, after the table has changed, for roles that may not, and opened again.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use saki_base::Random;
use saki_sql::{Database, Pace, ScalarValue, Session, StatementResult, TransactionStatus};

use crate::fast_rows::{answer, done, plan};
use crate::support::{create, number, reopen, run};

/// Two families of tables that are to stay the same: `m` is changed without plans, `s` with them.
async fn with_tables(database: &Arc<Database>) -> Session {
    let session = Session::new(database);
    for t in ["m", "s"] {
        for sql in [
            format!("CREATE TABLE {t}_parent (id int PRIMARY KEY, name text UNIQUE)"),
            format!(
                "CREATE TABLE {t} (id int PRIMARY KEY, a int UNIQUE, b int NOT NULL, c varchar(6), n int DEFAULT 3, \
                 p int REFERENCES {t}_parent ON DELETE CASCADE, q int REFERENCES {t}_parent (id) ON UPDATE CASCADE, \
                 CHECK (b >= 0), CHECK (n < 40 OR length(c) < 3), UNIQUE (b, c))"
            ),
            format!("CREATE INDEX {t}_n ON {t} (n)"),
            format!("CREATE INDEX {t}_p ON {t} (p)"),
            format!("INSERT INTO {t}_parent VALUES (0, 'zero'), (1, 'one'), (2, 'two')"),
            format!("INSERT INTO {t} VALUES (0, 0, 0, 'x', 0, 0, 0)"),
        ] {
            run(&session, &sql).await;
        }
    }
    session
}

/// What a planned statement answers, as [`answer`] says it.
async fn planned(session: &Session, sql: &str) -> Result<(u64, Vec<String>), String> {
    let results = session.execute(sql).await.map_err(|error| error.sqlstate().to_owned())?;
    let (rows, batches) = match results.into_iter().next_back().expect("a result") {
        StatementResult::Done { rows, .. } => (rows, Vec::new()),
        StatementResult::Returning { rows, batch, .. } => (rows, vec![batch]),
        result => (0, result.collect().await.map_err(|error| error.sqlstate().to_owned())?),
    };
    let drawn = pretty_format_batches(&batches).unwrap().to_string();
    let lines = drawn.lines().filter(|line| line.starts_with('|')).skip(1);
    let values = |line: &str| line[1..line.len() - 1].split('|').map(str::trim).collect::<Vec<_>>().join("|");
    Ok((rows, lines.map(values).collect()))
}

async fn whole(session: &Session, table: &str) -> Vec<String> {
    let columns = if table.ends_with("parent") { "id, name" } else { "id, a, b, c, n, p, q" };
    planned(session, &format!("SELECT {columns} FROM {table} WHERE coalesce(id, id) > -9 ORDER BY id")).await.unwrap().1
}

fn one_of<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    all[random.below(all.len() as u64) as usize]
}

/// The values of a row of `m`.
fn row(random: &mut Random) -> String {
    let id = random.below(16);
    let a = one_of(random, &["NULL", "NULL", "1", "2", "3", "4", "5", "6", "7"]);
    let b = one_of(random, &["0", "1", "2", "3", "4", "5", "6", "-1", "NULL"]);
    let c = one_of(random, &["'x'", "'y'", "'long'", "'too long'", "NULL"]);
    let n = one_of(random, &["DEFAULT", "1", "2", "50"]);
    let p = one_of(random, &["NULL", "0", "1", "2", "3", "4"]);
    let q = one_of(random, &["NULL", "0", "1", "2", "9"]);
    format!("({id}, {a}, {b}, {c}, {n}, {p}, {q})")
}

fn condition(random: &mut Random) -> String {
    let (one, other) = (random.below(16), random.below(8));
    match random.below(8) {
        0 => format!("a = {other}"),
        1 => format!("b = {other} AND c = 'x'"),
        2 => format!("n = {other} AND id < {one}"),
        3 => format!("id BETWEEN {one} AND {one} + 2"),
        4 => format!("p = {}", random.below(4)),
        _ => format!("id = {one}"),
    }
}

fn assignment(random: &mut Random) -> String {
    let value = random.below(8);
    match random.below(9) {
        0 => format!("a = {value}"),
        1 => "b = b - 1".to_owned(),
        2 => format!("b = {value}, c = 'y'"),
        3 => "n = n * 3".to_owned(),
        4 => format!("p = {}", random.below(5)),
        5 => "q = NULL, p = q".to_owned(),
        6 => "c = 'too long'".to_owned(),
        _ => format!("n = n + {value}"),
    }
}

fn on_conflict(random: &mut Random) -> String {
    let target = one_of(random, &["(id)", "(id)", "(a)", "(c, b)"]);
    let set = one_of(
        random,
        &["b = EXCLUDED.b", "n = m.n + 1", "n = EXCLUDED.n + n, c = excluded.c", "a = EXCLUDED.a", "n = 7, p = NULL"],
    );
    match random.below(8) {
        0..=2 => format!(" ON CONFLICT {target} DO UPDATE SET {set}"),
        3 => format!(" ON CONFLICT {target} DO NOTHING"),
        4 => " ON CONFLICT DO NOTHING".to_owned(),
        _ => String::new(),
    }
}

/// A change of `m` or of what it refers to.
fn change(random: &mut Random) -> String {
    let returning =
        one_of(random, &["", " RETURNING *", " RETURNING id, id + 1, 3 AS x", " RETURNING m.n AS more, c, id"]);
    match random.below(10) {
        0 => format!("DELETE FROM m WHERE {}{returning}", condition(random)),
        1..=3 => format!("UPDATE m SET {} WHERE {}{returning}", assignment(random), condition(random)),
        4 => {
            let id = random.below(5);
            match random.below(4) {
                0 => format!("DELETE FROM m_parent WHERE id = {id} RETURNING *"),
                1 => format!("UPDATE m_parent SET name = '{}' WHERE id = {id}", random.below(3)),
                _ => format!("INSERT INTO m_parent VALUES ({id}, '{id}') ON CONFLICT DO NOTHING RETURNING name"),
            }
        }
        kind => {
            let rows = (0..if kind == 9 { 3 } else { 1 }).map(|_| row(random)).collect::<Vec<_>>().join(", ");
            format!("INSERT INTO m VALUES {rows}{}{returning}", on_conflict(random))
        }
    }
}

/// The same of `s`.
fn of_s(sql: &str) -> String {
    let mut same = sql.replace("m_parent", "s_parent").replace(" m.", " s.");
    for verb in ["INSERT INTO ", "UPDATE ", "DELETE FROM "] {
        same = same.replace(&format!("{verb}m "), &format!("{verb}s "));
    }
    same
}

/// A change without a plan, undone if it fails: its answer, and whether it did go without one.
async fn attempt(session: &Session, sql: &str, compiled: bool) -> (Result<(u64, Vec<String>), String>, bool) {
    let is_block = session.transaction_status() != TransactionStatus::Idle;
    if is_block {
        run(session, "SAVEPOINT attempt").await;
    }
    let mut is_fast = false;
    let outcome = match compiled {
        false => planned(session, sql).await,
        true => match answer(session, &plan(session, sql), &[]).await {
            Ok(None) => planned(session, sql).await,
            Ok(Some(answer)) => {
                is_fast = true;
                Ok(answer)
            }
            Err(error) => {
                is_fast = true;
                Err(error)
            }
        },
    };
    if is_block && outcome.is_err() {
        run(session, "ROLLBACK TO attempt").await;
    }
    let sorted = outcome.map(|(rows, mut lines)| {
        lines.sort();
        (rows, lines)
    });
    (sorted, is_fast)
}

/// How many of the changes went without a plan.
async fn changes(session: &Session, random: &mut Random, count: usize) -> usize {
    let mut all = 0;
    for _ in 0..count {
        let fast = change(random);
        let (by_key, is_fast) = attempt(session, &fast, true).await;
        session.set("compiled", "off").unwrap();
        let (by_plan, _) = attempt(session, &of_s(&fast), false).await;
        session.set("compiled", "on").unwrap();
        assert_eq!(by_key, by_plan, "{fast}");
        all += usize::from(is_fast);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_changes_answer_and_do_what_planned_ones_do() {
    const ROUNDS: usize = 6;
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (session, mut random) = (with_tables(&database).await, Random::new(23));
    let mut fast = 0;
    let same = async |session: &Session, round: usize| {
        for (m, s) in [("m", "s"), ("m_parent", "s_parent")] {
            assert_eq!(whole(session, m).await, whole(session, s).await, "round {round}");
        }
    };
    for round in 0..ROUNDS {
        fast += changes(&session, &mut random, 40).await;
        same(&session, round).await;
        if round % 3 == 1 {
            database.checkpoint(&Pace::full()).unwrap();
        }
        run(&session, "BEGIN").await;
        for step in 0..6 {
            run(&session, "SAVEPOINT one").await;
            fast += changes(&session, &mut random, 4).await;
            if step % 3 == 0 {
                run(&session, "ROLLBACK TO one").await;
            }
            same(&session, round).await;
        }
        run(&session, if round % 2 == 0 { "ROLLBACK" } else { "COMMIT" }).await;
    }
    let all = ROUNDS * (40 + 6 * 4);
    assert!(fast > all * 3 / 4, "{fast} of {all} changes went without a plan");
    let before = whole(&session, "m").await;
    drop((session, database));
    let session = Session::new(&reopen(directory.path()));
    assert_eq!((whole(&session, "m").await, whole(&session, "s").await), (before.clone(), before.clone()));
    // What is not in memory is read, and the statement begins anew.
    run(&session, "UPDATE m SET n = n WHERE coalesce(id, id) = -1").await;
    for row in before {
        let id = row.split('|').next().expect("a key");
        let again = format!("INSERT INTO m VALUES ({id}, 99, 1, 'x') ON CONFLICT (id) DO NOTHING RETURNING id");
        assert_eq!(done(&session, &again).await, Ok((0, Vec::new())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn returning_gives_columns_of_changed_rows() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE TABLE t (id serial PRIMARY KEY, n int DEFAULT 7, c text)").await;
    let rows = async |sql: &str| done(&session, sql).await.unwrap();
    run(&session, "INSERT INTO t (c) VALUES ('first')").await;
    assert_eq!(
        rows("INSERT INTO t (c) VALUES ('a'), ('b') RETURNING id, c").await,
        (2, vec!["2|a".into(), "3|b".into()])
    );
    assert_eq!(rows("INSERT INTO t AS x (c) VALUES ('d') RETURNING x.*").await, (1, vec!["4|7|d".into()]));
    assert_eq!(rows("UPDATE t SET n = n + 1 WHERE id = 2 RETURNING n, n AS m, t.id").await, (1, vec!["8|8|2".into()]));
    assert_eq!(rows("UPDATE t SET n = 0 WHERE id = 99 RETURNING *").await, (0, vec![]));
    assert_eq!(rows("DELETE FROM t WHERE id IN (2, 3) RETURNING *").await, (2, vec!["2|8|a".into(), "3|7|b".into()]));
    let schema = plan(&session, "UPDATE t SET n = 0 WHERE id = 1 RETURNING n AS m, c").schema().unwrap();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["m", "c"]);
    assert!(plan(&session, "DELETE FROM t WHERE id = 1").schema().is_none());
    for planned in
        ["UPDATE t SET n = 0 WHERE id = 1 RETURNING random()", "DELETE FROM t WHERE id = 1 RETURNING other.n"]
    {
        assert!(session.prepare_fast(planned, &[]).is_none(), "{planned}");
    }
    // A result of many statements at once is told as a planned one's.
    let results = session.execute("INSERT INTO t (c) VALUES ('e') RETURNING id").await.unwrap();
    assert!(matches!(&results[..], [StatementResult::Returning { tag, rows: 1, .. }] if tag == "INSERT"));
    // Who may not read what is returned is told so where the statement is looked at closer.
    run(&session, "CREATE ROLE r; GRANT INSERT, UPDATE, DELETE ON t TO r; GRANT USAGE ON SEQUENCE t_id_seq TO r").await;
    let returning = plan(&session, "INSERT INTO t (c) VALUES ('f') RETURNING id");
    let silent = plan(&session, "INSERT INTO t (c) VALUES ('f')");
    run(&session, "SET ROLE r").await;
    assert_eq!(answer(&session, &returning, &[]).await, Ok(None));
    assert!(answer(&session, &silent, &[]).await.unwrap().is_some());
    run(&session, "RESET ROLE; GRANT SELECT ON t TO r; SET ROLE r").await;
    assert!(answer(&session, &returning, &[]).await.unwrap().is_some());
    run(&session, "RESET ROLE; REVOKE SELECT ON t FROM r; SET ROLE r").await;
    assert_eq!(answer(&session, &returning, &[]).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_have_to_be_unique_are_refused_in_postgresql_s_words() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE, b int, c text)").await;
    run(&session, "CREATE UNIQUE INDEX t_b_c ON t (b, c)").await;
    run(&session, "INSERT INTO t VALUES (1, 10, 1, 'x'), (2, 20, 2, 'y')").await;
    let refused = async |sql: &str| {
        let plan = plan(&session, sql);
        let mut rows = crate::fast_rows::Texts::default();
        let error = session.execute_fast(&plan, &[], &mut rows).await.expect_err("refused");
        (error.sqlstate().to_owned(), error.to_string(), error.detail.clone().unwrap_or_default())
    };
    for merged in [false, true] {
        if merged {
            database.checkpoint(&Pace::full()).unwrap();
        }
        for (sql, name, detail) in [
            ("INSERT INTO t VALUES (1, 11, 3, 'z')", "t_pkey", "Key (id)=(1) already exists."),
            ("INSERT INTO t VALUES (3, 10, 3, 'z')", "t_a_key", "Key (a)=(10) already exists."),
            ("INSERT INTO t VALUES (4, 4, 4, 'z'), (5, 4, 5, 'z')", "t_a_key", "Key (a)=(4) already exists."),
            ("UPDATE t SET b = 1, c = 'x' WHERE id = 2", "t_b_c", "Key (b, c)=(1, x) already exists."),
        ] {
            let (code, message, found) = refused(sql).await;
            assert_eq!((&*code, &*found), ("23505", detail), "{sql}");
            let expected = format!("duplicate key value violates unique constraint \"{name}\"");
            assert!(message.contains(&expected), "{message}");
        }
        assert_eq!(number(&session, "SELECT count(*) FROM t").await, 2);
        // Its own value is nobody else's, and NULL is none.
        assert_eq!(done(&session, "UPDATE t SET a = 10, c = 'x' WHERE id = 1").await.unwrap().0, 1);
        assert_eq!(
            done(&session, "INSERT INTO t VALUES (7, NULL, NULL, 'x'), (8, NULL, NULL, 'x')").await.unwrap().0,
            2
        );
        assert_eq!(done(&session, "DELETE FROM t WHERE id IN (7, 8)").await.unwrap().0, 2);
    }
}

/// One of many that insert the same value has it, whoever else is at it; and nobody else's change is lost.
#[tokio::test(flavor = "multi_thread")]
async fn many_at_the_same_rows_take_turns() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 60;
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    {
        let session = Session::new(&database);
        run(&session, "CREATE TABLE t (id serial PRIMARY KEY, k int UNIQUE, n int NOT NULL)").await;
        run(&session, "INSERT INTO t (k, n) VALUES (0, 0)").await;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let session = Session::new(&database);
                tokio::spawn(async move {
                    let upsert = "INSERT INTO t (k, n) VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1 \
                                  RETURNING k, n";
                    let upsert = (plan(&session, upsert), upsert);
                    let once = plan(&session, "INSERT INTO t (k, n) VALUES ($1, 1)");
                    let (mut seen, mut won) = (Vec::new(), 0);
                    for round in 0..ROUNDS {
                        let k = [ScalarValue::Int32(Some((round % 3) as i32))];
                        let (rows, lines) = match answer(&session, &upsert.0, &k).await.unwrap() {
                            Some(answer) => answer,
                            // Such as when the next values of the sequence have to be written first.
                            None => planned(&session, &upsert.1.replace("$1", &(round % 3).to_string())).await.unwrap(),
                        };
                        assert_eq!((rows, lines.len()), (1, 1), "{lines:?}");
                        seen.extend(lines);
                        let mine = [ScalarValue::Int32(Some(1000 + round as i32))];
                        match answer(&session, &once, &mine).await {
                            Ok(Some(_)) => won += 1,
                            Ok(None) => {
                                let sql = format!("INSERT INTO t (k, n) VALUES ({}, 1)", 1000 + round);
                                won += usize::from(planned(&session, &sql).await.is_ok());
                            }
                            Err(code) => assert_eq!(code, "23505"),
                        }
                    }
                    (seen, won)
                })
            })
            .collect();
        while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            let merged = Arc::clone(&database);
            tokio::task::spawn_blocking(move || merged.checkpoint(&Pace::full()).unwrap()).await.unwrap();
        }
        let (mut seen, mut won) = (HashSet::new(), 0);
        for client in clients {
            let (lines, wins) = client.await.unwrap();
            won += wins;
            for line in lines {
                assert!(seen.insert(line.clone()), "two were told {line}");
            }
        }
        assert_eq!(won, ROUNDS);
    }
    for _ in 0..2 {
        let session = Session::new(&database);
        assert_eq!(number(&session, "SELECT sum(n) FROM t WHERE k < 3").await, (CLIENTS * ROUNDS) as i64);
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE k >= 1000").await, ROUNDS as i64);
        assert_eq!(number(&session, "SELECT count(DISTINCT id) - count(*) FROM t").await, 0);
        drop((session, database));
        database = reopen(directory.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_compiled_before_a_table_changed_follow_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE p (id int PRIMARY KEY)").await;
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, a int, b int DEFAULT 1)").await;
    run(&session, "INSERT INTO p VALUES (1)").await;
    run(&session, "INSERT INTO t VALUES (1, 1, 1)").await;
    let insert = plan(&session, "INSERT INTO t (id, a) VALUES ($1, $2) RETURNING b");
    let upsert = "INSERT INTO t (id, a) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a RETURNING a";
    let upsert = plan(&session, upsert);
    let update = plan(&session, "UPDATE t SET a = $2 WHERE id = $1 RETURNING a");
    let int = |value: i32| ScalarValue::Int32(Some(value));
    for (step, (change, value, refused)) in [
        ("SELECT 1", -1, None),
        ("UPDATE t SET a = 1; ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)", -1, Some("23514")),
        ("ALTER TABLE t DROP CONSTRAINT positive", -1, None),
        ("UPDATE t SET a = id; CREATE UNIQUE INDEX t_a ON t (a)", 1, Some("23505")),
        ("DROP INDEX t_a", 1, None),
        ("UPDATE t SET a = 1; ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p", 7, Some("23503")),
        ("INSERT INTO p VALUES (7)", 7, None),
    ]
    .into_iter()
    .enumerate()
    {
        run(&session, "CHECKPOINT").await;
        run(&session, change).await;
        let id = 10 * step as i32 + 10;
        for (plan, id) in [(&insert, id), (&upsert, id + 1)] {
            let outcome = answer(&session, plan, &[int(id), int(value)]).await;
            match (outcome, refused) {
                // It says that it does not fit: then the statement is planned.
                (Ok(None), _) => {}
                (Ok(Some(_)), None) => {}
                (Err(code), Some(expected)) => assert_eq!(code, expected, "after {change}"),
                (outcome, _) => panic!("after {change}: {outcome:?}"),
            }
        }
        let outcome = answer(&session, &update, &[int(1), int(value)]).await;
        // The value is the row's own where it is its own.
        match (outcome, refused.filter(|code| *code != "23505")) {
            (Ok(None), _) | (Ok(Some(_)), None) => {}
            (Err(code), Some(expected)) => assert_eq!(code, expected, "after {change}"),
            (outcome, _) => panic!("after {change}: {outcome:?}"),
        }
    }
    // What the primary key was is none any more.
    run(&session, "ALTER TABLE t DROP CONSTRAINT t_pkey").await;
    assert_eq!(answer(&session, &upsert, &[int(1), int(1)]).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_says_something_else_each_time_is_planned() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n >= 0 AND random() < 2))").await;
    run(&session, "INSERT INTO t (id) VALUES (0)").await;
    let insert = plan(&session, "INSERT INTO t (id) VALUES ($1)");
    assert_eq!(answer(&session, &insert, &[ScalarValue::Int32(Some(1))]).await, Ok(None));
    run(&session, "CREATE TABLE u (id int PRIMARY KEY, c text CHECK (length(c) > 1 AND c <> 'no'))").await;
    run(&session, "INSERT INTO u VALUES (0, 'yes')").await;
    assert_eq!(done(&session, "INSERT INTO u VALUES (1, 'no')").await.unwrap_err(), "23514");
    assert_eq!(
        done(&session, "INSERT INTO u VALUES (1, 'maybe') RETURNING c").await.unwrap(),
        (1, vec!["maybe".into()])
    );
}
