//! Small statements that go without a query plan give and do what the same statements do by one: over all types, with
//! NULLs, whatever lies in the delta, within transactions and beside them.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use arrow_schema::DataType;
use saki_base::Random;
use saki_sql::{Database, FastAnswer, Pace, RowSink, ScalarValue, Session, StatementResult, ValueRef};

use crate::support::{create, planned, reopen, run, waits};

const COLUMNS: &str = "w int2 NOT NULL, d int4 NOT NULL, o int8 NOT NULL, c char(6), v varchar(8), n numeric(8,2), \
                       u uuid, f float8, t timestamp, e date, b boolean, k int NOT NULL, \
                       h time, i interval, PRIMARY KEY (w, d, o)";

/// A session with two tables that are to stay the same: `m` is changed without plans, `s` with them.
async fn with_tables(database: &Arc<Database>) -> Session {
    let session = Session::new(database);
    for table in ["m", "s"] {
        for sql in [
            format!("CREATE TABLE {table} ({COLUMNS})"),
            format!("CREATE INDEX {table}_c ON {table} (c)"),
            format!("CREATE INDEX {table}_n ON {table} (n, w)"),
            format!("CREATE INDEX {table}_k ON {table} (k DESC)"),
            format!("CREATE INDEX {table}_u ON {table} (u)"),
            format!("CREATE INDEX {table}_h ON {table} (h)"),
        ] {
            session.execute(&sql).await.unwrap();
        }
    }
    session
}

/// What a statement gives, as lines, or the condition it fails with.
async fn outcome(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let results = session.execute(sql).await.map_err(|error| error.sqlstate().to_owned())?;
    let batches = results.into_iter().next_back().expect("a result").collect().await;
    let batches = batches.map_err(|error| error.sqlstate().to_owned())?;
    let drawn = pretty_format_batches(&batches).unwrap().to_string();
    // Without what the columns are called: an empty result may have no batch.
    Ok(drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect())
}

/// The values of the only row that a query gives.
async fn values(session: &Session, sql: &str) -> Vec<String> {
    let line = outcome(session, sql).await.unwrap().pop().expect("a row");
    line.trim_matches('|').split('|').map(|value| value.trim().to_owned()).collect()
}

/// The lines of rows that come in no order.
async fn set(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    outcome(session, sql).await.map(|mut lines| {
        lines.sort();
        lines
    })
}

fn is_fast(session: &Session, sql: &str) -> bool {
    session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some())
}

/// A column, and values for it as SQL writes them; some that no row has, and some of other types.
const VALUES: [(&str, &[&str]); 14] = [
    ("w", &["0", "1", "2", "3", "40000", "1.0", "1.5", "NULL"]),
    ("d", &["0", "1", "2", "3", "4", "5", "'3'", "3000000000", "NULL"]),
    ("o", &["0", "1", "2", "3", "4", "5", "6", "7", "2.00", "1 + 2", "9 - 4"]),
    ("c", &["'a'", "'b '", "'cc'", "'cc    '", "'dd  '", "''", "NULL"]),
    ("v", &["'a'", "'b '", "'b'", "'cc'", "'too long for it'", "NULL"]),
    ("n", &["0", "1", "1.50", "-1.5", "2.25", "'2.25'", "1.505", "99999999999", "NULL"]),
    ("u", &["'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'", "NULL"]),
    ("f", &["NULL"]),
    ("t", &["'2024-01-01 10:00:00'", "'2024-01-02 00:00:00'", "NULL"]),
    ("e", &["'2024-01-01'", "'2024-02-29'", "NULL"]),
    ("b", &["true", "false", "NULL"]),
    ("k", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
    ("h", &["'00:00'", "'10:00:00.5'", "'24:00'", "NULL"]),
    ("i", &["'1 mon'", "'30 days'", "'-1 day'", "'25:00'", "NULL"]),
];

fn one_of<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    all[random.below(all.len() as u64) as usize]
}

fn value(random: &mut Random, column: &str) -> &'static str {
    let (_, values) = VALUES.iter().find(|(name, _)| *name == column).expect("a column");
    one_of(random, values)
}

fn test(random: &mut Random, column: &str) -> String {
    let (one, other, third) = (value(random, column), value(random, column), value(random, column));
    match random.below(9) {
        8 => format!("{column} IS {}NULL", ["", "NOT "][random.below(2) as usize]),
        // The planner sees blanks at the end of constants, and does not bring uuid and text together in lists.
        _ if column == "c" => format!("c {} {}", ["=", "<", ">="][random.below(3) as usize], one.replace(' ', "")),
        0 | 1 if column == "u" => format!("u = {one}"),
        0 => format!("{column} IN ({one}, {other}, {third})"),
        1 => format!("{column} BETWEEN {one} AND {other}"),
        2 => format!("{column} < {one}"),
        3 => format!("{column} >= {one}"),
        4 => format!("{column} <> {one}"),
        _ => format!("{column} = {one}"),
    }
}

/// A condition that begins a key, and perhaps says more; and the same with something that is only planned.
fn condition(random: &mut Random) -> (String, String) {
    let leading = one_of(random, &["w", "w", "wd", "wdo", "wdo", "c", "n", "u", "h", "k", "k"]);
    let mut all: Vec<String> = Vec::new();
    for column in leading.split("").filter(|column| !column.is_empty()) {
        all.push(test(random, column));
    }
    for _ in 0..random.below(3) {
        let column = one_of(random, &["w", "d", "o", "c", "v", "n", "u", "t", "e", "b", "k", "h", "i"]);
        all.push(test(random, column));
    }
    if random.below(4) == 0 {
        // Columns with each other.
        all.push(
            one_of(random, &["k = w", "o >= d", "k <> o + 1", "n < k", "n BETWEEN w AND d * 2", "d IN (w, k)"]).into(),
        );
    }
    let mut fast = all.join(" AND ");
    if random.below(4) == 0 {
        fast = format!("{fast} OR {}", test(random, "w"));
    }
    let slow = format!("({fast}) AND coalesce(k, k) > -1000000000");
    (fast, slow)
}

fn assignment(random: &mut Random) -> String {
    match random.below(8) {
        0 => "n = n + 1.255".to_owned(),
        1 => "n = n * 2, k = k + 1".to_owned(),
        2 => "k = k * 2 - 3".to_owned(),
        3 => "k = o".to_owned(),
        _ => {
            let column = one_of(random, &["c", "v", "n", "u", "t", "e", "b", "k", "h", "i"]);
            format!("{column} = {}", value(random, column))
        }
    }
}

fn row(random: &mut Random) -> String {
    let key = format!("{}, {}, {}", random.below(4), random.below(6), random.below(8));
    let rest = ["c", "v", "n", "u", "f", "t", "e", "b", "k", "h", "i"].map(|column| match (column, random.below(6)) {
        ("v", _) => "'b'".to_owned(),
        ("n", _) => format!("{}.{}", random.below(3), random.below(100)),
        _ => value(random, column).to_owned(),
    });
    format!("{key}, {}", rest.join(", "))
}

/// A change, undone if it fails.
async fn attempt(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let is_block = session.transaction_status() != saki_sql::TransactionStatus::Idle;
    if is_block {
        session.execute("SAVEPOINT attempt").await.unwrap();
    }
    let outcome = outcome(session, sql).await;
    if is_block && outcome.is_err() {
        session.execute("ROLLBACK TO attempt").await.unwrap();
    }
    outcome
}

/// The same change without a plan and with one.
async fn change(session: &Session, random: &mut Random) {
    let (fast, slow) = match random.below(6) {
        0 => {
            let (fast, slow) = condition(random);
            (format!("DELETE FROM m WHERE {fast}"), format!("DELETE FROM s WHERE {slow}"))
        }
        1 | 2 => {
            let ((fast, slow), set) = (condition(random), assignment(random));
            (format!("UPDATE m SET {set} WHERE {fast}"), format!("UPDATE s SET {set} WHERE {slow}"))
        }
        _ => {
            let row = row(random);
            // One row more than a fast statement takes.
            (format!("INSERT INTO m VALUES ({row})"), format!("INSERT INTO s SELECT * FROM (VALUES ({row})) AS r"))
        }
    };
    let (by_key, by_plan) = (attempt(session, &fast).await, attempt(session, &slow).await);
    assert_eq!(by_key.is_err(), by_plan.is_err(), "{fast}: {by_key:?}\n{slow}: {by_plan:?}");
    if by_key.is_err() {
        assert_eq!(by_key, by_plan, "{fast}");
    }
}

/// Whether the query went without a plan.
async fn query(session: &Session, random: &mut Random) -> bool {
    let (fast, slow) = condition(random);
    let all = "w, d, o, c, v, n, u, f, t, e, b, k, h, i";
    let (shown, behind) = match random.below(11) {
        9 => (
            "count(DISTINCT n), count(DISTINCT c) AS texts, count(DISTINCT t), count(DISTINCT i) AS spans",
            String::new(),
        ),
        0 => (
            "count(*), count(n), sum(n), min(n), max(k), sum(k) AS total, min(t), max(e), max(h), coalesce(min(n), 0), \
                  coalesce(sum(n), 7) AS other",
            String::new(),
        ),
        1 => ("DISTINCT c, n", format!("ORDER BY n DESC, c OFFSET {}", random.below(3))),
        10 => {
            ("w, k + 1, d - w * 2 AS e, (7), o + d, k", format!("ORDER BY w, d, o LIMIT 7 OFFSET {}", random.below(4)))
        }
        2 => (all, "ORDER BY v, n DESC, w, d, o".to_owned()),
        3 => (all, format!("ORDER BY k, w, d DESC, o LIMIT {}", random.below(9))),
        5 => ("c, count(*), sum(n), max(k) AS most", "GROUP BY c ORDER BY c DESC LIMIT 3 OFFSET 1".to_owned()),
        6 => ("min(e), n, w AS x, count(u)", "GROUP BY w, n ORDER BY n, x DESC".to_owned()),
        7 => ("count(*), b, i IS NULL AS none", "GROUP BY b, i".to_owned()),
        4 => (all, format!("ORDER BY w DESC, d DESC, o DESC LIMIT {}", random.below(9))),
        _ => (all, String::new()),
    };
    let fast = format!("SELECT {shown} FROM m WHERE {fast} {behind}");
    let slow = format!("SELECT {shown} FROM s WHERE {slow} {behind}");
    let (by_key, by_plan) = match !behind.contains("ORDER BY") {
        true => (set(session, &fast).await, planned(session, set(session, &slow)).await),
        false => (outcome(session, &fast).await, planned(session, outcome(session, &slow)).await),
    };
    assert_eq!(by_key, by_plan, "{fast}\n{slow}");
    is_fast(session, &fast)
}

async fn whole(session: &Session, table: &str) -> Vec<String> {
    outcome(session, &format!("SELECT * FROM {table} WHERE coalesce(w, w) >= 0 ORDER BY w, d, o")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn small_statements_do_what_planned_ones_do() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (session, mut random) = (with_tables(&database).await, Random::new(11));
    session.execute("INSERT INTO m VALUES (9, 9, 9, 'x', 'x', 1, NULL, 0, NULL, NULL, true, 0)").await.unwrap();
    session.execute("INSERT INTO s SELECT * FROM m").await.unwrap();
    let mut fast = 0;
    for round in 0..12 {
        for _ in 0..40 {
            change(&session, &mut random).await;
        }
        assert_eq!(whole(&session, "m").await, whole(&session, "s").await, "round {round}");
        if round % 3 == 1 {
            database.checkpoint(&Pace::full()).unwrap();
        }
        for _ in 0..60 {
            fast += u32::from(query(&session, &mut random).await);
        }
        session.execute("BEGIN").await.unwrap();
        for step in 0..20 {
            session.execute("SAVEPOINT one").await.unwrap();
            change(&session, &mut random).await;
            if step % 7 == 0 {
                session.execute("ROLLBACK TO one").await.unwrap();
            }
            query(&session, &mut random).await;
        }
        session.execute(if round % 2 == 0 { "ROLLBACK" } else { "COMMIT" }).await.unwrap();
    }
    assert!(fast > 12 * 60 / 3, "{fast} of {} queries were compiled", 12 * 60);
    let before = whole(&session, "m").await;
    drop((session, database));
    let session = Session::new(&reopen(directory.path()));
    assert_eq!((whole(&session, "m").await, whole(&session, "s").await), (before.clone(), before));
}

/// Each change is of all rows: whoever reads sees as many of them in one row as in another.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_many_rows_beside_each_other_and_beside_merges_lose_nothing() {
    const CLIENTS: usize = 3;
    const ROUNDS: usize = 21;
    const CHANGE: &str = "UPDATE m SET k = k + 1 WHERE w = 1 AND d BETWEEN 0 AND 5";
    const READ: &str = "SELECT count(*), min(k), max(k) FROM m WHERE w = 1";
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    {
        let session = with_tables(&database).await;
        run(&session, "INSERT INTO m (w, d, o, k) SELECT 1, i / 10, i, 0 FROM generate_series(0, 59) AS s (i)").await;
        assert!(is_fast(&session, CHANGE) && is_fast(&session, READ));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let session = Session::new(&database);
                tokio::spawn(async move {
                    for _ in 0..ROUNDS {
                        run(&session, CHANGE).await;
                    }
                })
            })
            .collect();
        while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            let merged = Arc::clone(&database);
            tokio::task::spawn_blocking(move || merged.checkpoint(&Pace::full()).unwrap()).await.unwrap();
            for read in [READ, &format!("{READ} AND coalesce(k, k) >= 0")] {
                let found = values(&session, read).await;
                assert!(found[0] == "60" && found[1] == found[2], "{read}: {found:?}");
            }
        }
        for client in clients {
            client.await.unwrap();
        }
    }
    let expected = ["60".to_owned(), (CLIENTS * ROUNDS).to_string(), (CLIENTS * ROUNDS).to_string()];
    assert_eq!(values(&Session::new(&database), READ).await, expected);
    drop(database);
    database = reopen(directory.path());
    assert_eq!(values(&Session::new(&database), READ).await, expected);
}

#[derive(Default)]
struct Count(Vec<String>);

impl RowSink for Count {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn row(&mut self, values: &[ValueRef<'_>]) {
        self.0.push(format!("{values:?}"));
    }
}

/// Runs a compiled statement with values for its parameters; its rows.
async fn with_values(
    session: &Session,
    sql: &str,
    stated: &[Option<DataType>],
    values: &[ScalarValue],
) -> Result<Vec<String>, String> {
    let prepared = session.prepare_fast(sql, stated).unwrap_or_else(|| panic!("{sql} is not compiled"));
    let (plan, mut rows) = (prepared.fast.expect("compiled"), Count::default());
    match session.execute_fast(&plan, values, &mut rows).await {
        Ok(FastAnswer::Done(_)) => Ok(rows.0),
        Ok(FastAnswer::Ordinary) => panic!("{sql} went the ordinary way"),
        Err(error) => Err(error.sqlstate().to_owned()),
    }
}

fn decimal(unscaled: i128, scale: i8) -> ScalarValue {
    ScalarValue::Decimal128(Some(unscaled), 38, scale)
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_that_clients_state() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = with_tables(&database).await;
    session.execute("INSERT INTO m VALUES (1, 2, 3, 'ab', 'v', 1.5, NULL, 0, NULL, NULL, true, 5)").await.unwrap();
    let int8 = || Some(DataType::Int64);
    let key = |w: i64, d: i64, o: i64| [w, d, o].map(|value| ScalarValue::Int64(Some(value)));
    let select = "SELECT k FROM m WHERE w = $1 AND d = $2 AND o = $3";
    let stated = [int8(), int8(), int8()];
    assert_eq!(with_values(&session, select, &stated, &key(1, 2, 3)).await.unwrap(), ["[Int4(5)]"]);
    // What no smallint is equals none.
    assert!(with_values(&session, select, &stated, &key(70_000, 2, 3)).await.unwrap().is_empty());
    let update = "UPDATE m SET k = k + $4 WHERE w = $1 AND d = $2 AND o = $3";
    let all = [int8(), int8(), int8(), int8()];
    let with = |amount: i64| [&key(1, 2, 3)[..], &[ScalarValue::Int64(Some(amount))]].concat();
    with_values(&session, update, &all, &with(1)).await.unwrap();
    assert_eq!(with_values(&session, update, &all, &with(1 << 40)).await.unwrap_err(), "22003");
    let money = "UPDATE m SET n = n + $1 WHERE w = 1 AND d = 2 AND o = 3";
    with_values(&session, money, &[], &[decimal(1005, 3)]).await.unwrap();
    assert_eq!(with_values(&session, money, &[], &[decimal(10_i128.pow(7), 0)]).await.unwrap_err(), "22003");
    let shown = "SELECT n, k FROM m WHERE c = $1 AND v = $2";
    let texts = ["ab  ", "v"].map(|text| ScalarValue::Utf8(Some(text.into())));
    assert_eq!(with_values(&session, shown, &[], &texts).await.unwrap(), ["[Decimal(251), Int4(6)]"]);
    let list = ScalarValue::List(ScalarValue::new_list_nullable(
        &[1, 6, 6].map(|k| ScalarValue::Int32(Some(k))),
        &DataType::Int32,
    ));
    let any = "SELECT w FROM m WHERE k = ANY($1)";
    assert_eq!(with_values(&session, any, &[], &[list]).await.unwrap(), ["[Int2(1)]"]);
    assert!(session.prepare_fast(select, &[Some(DataType::Utf8)]).is_none(), "an integer is no text");
}

/// Expressions are compared with parameters, of the types that they have.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_are_compared_with_parameters() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = with_tables(&database).await;
    session.execute("INSERT INTO m VALUES (1, 2, 3, 'ab', 'v', 1.5, NULL, 0, NULL, NULL, true, 5)").await.unwrap();
    session.execute("INSERT INTO m VALUES (1, 2, 4, 'ab', 'long', 2.5, NULL, 0, NULL, NULL, true, 6)").await.unwrap();
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    let int = |value: i32| ScalarValue::Int32(Some(value));
    for (condition, types, values, expected) in [
        ("upper(v) = $1", vec![DataType::Utf8], vec![text("V")], vec!["[Int4(5)]"]),
        ("$1 <> upper(v)", vec![DataType::Utf8], vec![text("V")], vec!["[Int4(6)]"]),
        ("upper(v) IN ($1, 'LONG', $2)", vec![DataType::Utf8; 2], vec![text("x"), text("y")], vec!["[Int4(6)]"]),
        ("length(v) BETWEEN $1 AND $2", vec![DataType::Int32; 2], vec![int(2), int(9)], vec!["[Int4(6)]"]),
        ("k % 10 < $1 AND length(v) = $2", vec![DataType::Int32; 2], vec![int(6), int(1)], vec!["[Int4(5)]"]),
        ("upper(v) = $1", vec![DataType::Utf8], vec![ScalarValue::Utf8(None)], vec![]),
    ] {
        let sql = format!("SELECT k FROM m WHERE w = 1 AND {condition}");
        assert_eq!(session.prepare_fast(&sql, &[]).expect("compiled").parameters, types, "{sql}");
        assert_eq!(with_values(&session, &sql, &[], &values).await.unwrap(), expected, "{sql}");
    }
}

/// FOR UPDATE holds the rows that it gives.
#[tokio::test(flavor = "multi_thread")]
async fn held_rows_wait_for_the_end_of_the_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = with_tables(&database).await;
    session.execute("INSERT INTO m VALUES (1, 2, 3, 'ab', 'v', 1.5, NULL, 0, NULL, NULL, true, 5)").await.unwrap();
    let hold = "SELECT k FROM m WHERE w = 1 AND d = 2 AND o = 3 FOR UPDATE";
    assert!(is_fast(&session, hold));
    session.execute("BEGIN").await.unwrap();
    session.execute(hold).await.unwrap();
    let other = Session::new(&database);
    other.execute(hold).await.expect("outside of a block there is nothing to hold it for");
    let mut waiting = other.execute("UPDATE m SET k = k + 1 WHERE w = 1 AND d = 2 AND o = 3");
    assert!(waits(&mut waiting).await, "the row is held");
    session.execute("UPDATE m SET k = 10 WHERE w = 1 AND d = 2 AND o = 3").await.unwrap();
    session.execute("COMMIT").await.unwrap();
    waiting.await.unwrap();
    assert_eq!(outcome(&session, "SELECT k FROM m WHERE w = 1").await.unwrap(), ["| 11 |"]);
}

/// What a query is called and typed by is the same compiled and planned, as is what EXPLAIN says of either.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_answers_are_called_as_a_plan_calls_them() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = with_tables(&database).await;
    for sql in [
        "SELECT k + 1, (7), 7, d AS x, -3, w * d AS y FROM m WHERE w = 1 LIMIT 2 OFFSET 1",
        "SELECT (SELECT n FROM s WHERE s.w = m.w AND s.d = m.d AND s.o = 1), o FROM m WHERE w = 1",
        "UPDATE m SET k = 1 WHERE w = 1 RETURNING k, k + o, 5 AS five",
    ] {
        assert!(is_fast(&session, sql), "{sql}");
        let fields = async || {
            let schema = match session.prepare_fast(sql, &[]) {
                Some(prepared) => prepared.schema,
                None => session.prepare(sql, &[]).await.unwrap().schema,
            };
            let schema = schema.expect("columns");
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
        };
        let compiled = fields().await;
        session.set("compiled", "off").unwrap();
        assert_eq!(compiled, fields().await, "{sql}");
        session.set("compiled", "on").unwrap();
    }
    let explained = async |sql: &str| outcome(&session, &format!("EXPLAIN {sql}")).await.unwrap().concat();
    let query = "SELECT k FROM m WHERE c = 'x' AND EXISTS (SELECT 1 FROM s WHERE s.w = m.w AND s.d = 3)";
    let text = explained(query).await;
    assert!(text.contains("Compiled, as long as it takes few rows: m by index m_c, if there is one in s by"), "{text}");
    session.set("compiled", "off").unwrap();
    assert!(!explained(query).await.contains("Compiled"));
}

/// A statement is compiled for the newest definition of its table; a transaction may be older than that.
#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_a_snapshot_keeps_the_names_of_its_columns() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let [reader, writer] = [Session::new(&database), Session::new(&database)];
    run(&writer, "CREATE TABLE other (id int)").await;
    run(&writer, "CREATE TABLE t (id int PRIMARY KEY, n int, m int)").await;
    run(&writer, "INSERT INTO t VALUES (1, 10, 20)").await;
    let names = async |query: &str| {
        let Some(StatementResult::Rows { schema, .. }) = reader.execute(query).await.unwrap().pop() else {
            panic!("{query} gives no rows")
        };
        schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(" ")
    };
    for level in ["REPEATABLE READ", "SERIALIZABLE READ ONLY"] {
        run(&reader, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        // From here on it keeps what it has seen.
        assert_eq!(values(&reader, "SELECT count(*) FROM other").await, ["0"]);
        for exchange in ["n TO was_n", "m TO n", "was_n TO m"] {
            run(&writer, &format!("ALTER TABLE t RENAME COLUMN {exchange}")).await;
        }
        assert_eq!(values(&reader, "SELECT n FROM t WHERE id = 1").await, ["10"], "{level}");
        assert_eq!(names("SELECT * FROM t WHERE id = 1").await, "id n m", "{level}");
        run(&reader, "COMMIT").await;
        assert_eq!(values(&reader, "SELECT n FROM t WHERE id = 1").await, ["20"]);
        for exchange in ["n TO was_n", "m TO n", "was_n TO m"] {
            run(&writer, &format!("ALTER TABLE t RENAME COLUMN {exchange}")).await;
        }
    }
}
