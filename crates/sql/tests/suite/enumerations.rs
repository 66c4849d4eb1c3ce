//! Enumerations where more than one thing has to agree about labels: paths to rows, prepared statements, transactions,
//! databases that are opened again, columns and types that are dropped.

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use saki_sql::{Prepared, Session, SqlError, StatementResult, enumeration};

use crate::added_columns::check;
use crate::support::{answer, create, refused, reopen, run, text_rows, waits};

const MOOD: &str = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')";

/// 300 rows in the base and 30 in the delta, a third of each label.
const ROWS: &str = "CREATE TABLE t (id int PRIMARY KEY, m mood, note text); CREATE INDEX t_m ON t (m);
    CREATE VIEW some AS SELECT i, (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood AS m, 'n' || i AS note
        FROM generate_series(1, 330) AS s (i);
    INSERT INTO t SELECT * FROM some WHERE i <= 300; CHECKPOINT; INSERT INTO t SELECT * FROM some WHERE i > 300;
    DROP VIEW some";

/// Answers by every path, planned and compiled; they have to be the same.
async fn everywhere(session: &Session, sql: &str) -> String {
    let mut answers = vec![answer(session, sql).await];
    session.set("compiled", "off").unwrap();
    for path in ["rows", "columns", "index", "scan", "auto"] {
        session.set("access_path", path).unwrap();
        for operators in ["native", "datafusion"] {
            session.set("operators", operators).unwrap();
            answers.push(answer(session, sql).await);
        }
    }
    for setting in ["compiled", "access_path", "operators"] {
        run(session, &format!("RESET saki.{setting}")).await;
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{sql}: {answers:?}");
    answers.remove(0)
}

async fn looks(session: &Session, merry: &str) {
    let all = everywhere(session, "SELECT m, count(*), min(id) FROM t GROUP BY m ORDER BY m").await;
    assert_eq!(all, format!("sad,110,3\nok,110,1\n{merry},110,2"));
    let some =
        everywhere(session, "SELECT id, m FROM t WHERE m > 'sad' AND id > 298 AND id < 304 ORDER BY m, id").await;
    assert_eq!(some, format!("301,ok\n299,{merry}\n302,{merry}"));
    let one = everywhere(session, "SELECT m FROM t WHERE id = 302").await;
    assert_eq!(one, merry);
    let few = everywhere(session, &format!("SELECT count(*) FROM t WHERE m = '{merry}' AND note < 'n2'")).await;
    assert_eq!(few, everywhere(session, "SELECT count(*) FROM t WHERE id % 3 = 2 AND note < 'n2'").await);
    assert_eq!(everywhere(session, "SELECT min(m), max(m), count(DISTINCT m) FROM t").await, format!("sad,{merry},3"));
    let joined =
        "SELECT a.m, count(*) FROM t a JOIN t b ON a.m = b.m AND b.id < 10 GROUP BY a.m ORDER BY a.m DESC LIMIT 1";
    assert_eq!(everywhere(session, joined).await, format!("{merry},330"));
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_the_same_by_every_path_and_when_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    let session = Session::new(&database);
    run(&session, MOOD).await;
    run(&session, ROWS).await;
    looks(&session, "happy").await;
    run(&session, "ALTER TYPE mood RENAME VALUE 'happy' TO 'merry'").await;
    looks(&session, "merry").await;
    drop((session, database));

    database = reopen(directory.path());
    let session = Session::new(&database);
    looks(&session, "merry").await;
    run(&session, "ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'; INSERT INTO t VALUES (0, 'meh', '')").await;
    let low = "SELECT id, m FROM t WHERE m < 'ok' AND id < 4 ORDER BY m DESC";
    assert_eq!(everywhere(&session, low).await, "0,meh\n3,sad");
    run(&session, "CHECKPOINT; DELETE FROM t WHERE m = 'meh'; INSERT INTO t VALUES (0, 'meh', ''); CHECKPOINT").await;
    assert_eq!(everywhere(&session, low).await, "0,meh\n3,sad");
    drop((session, database));

    database = reopen(directory.path());
    assert_eq!(everywhere(&Session::new(&database), low).await, "0,meh\n3,sad");
    check(&database);
}

/// A label as a parameter of a statement, as a client's text becomes one when it binds it.
fn label(session: &Session, prepared: &Prepared, text: &str) -> ScalarValue {
    let data_type = session.current_type(&prepared.parameters[0]);
    let DataType::Timestamp(_, zone) = &data_type else { panic!("{data_type}") };
    ScalarValue::TimestampSecond(enumeration(&data_type).unwrap().value(text), zone.clone())
}

async fn given(session: &Session, prepared: &Prepared, values: &[ScalarValue]) -> Result<String, SqlError> {
    match session.execute_prepared(prepared, values).await? {
        StatementResult::Done { rows, .. } => Ok(rows.to_string()),
        other => Ok(text_rows(other).await?.iter().map(|row| row.join(",")).collect::<Vec<_>>().join("\n")),
    }
}

/// Compiled ones, ones whose plan serves all values, and ones that are bound; each is run before and after.
#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_know_the_labels_of_now() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, MOOD).await;
    run(&session, ROWS).await;
    let by_key = session.prepare_fast("SELECT m FROM t WHERE id = 2", &[]).expect("a compiled statement");
    let by_label = session.prepare("SELECT count(*), max(m) FROM t WHERE m = $1", &[]).await.unwrap();
    let named = session.prepare("SELECT $1::mood, enum_last($1::mood)", &[]).await.unwrap();
    let change = session.prepare("UPDATE t SET m = $1 WHERE id = 2", &[]).await.unwrap();
    for _ in 0..3 {
        assert_eq!(given(&session, &by_key, &[]).await.unwrap(), "happy");
        let value = label(&session, &by_label, "happy");
        assert_eq!(given(&session, &by_label, &[value]).await.unwrap(), "110,happy");
        let value = label(&session, &named, "ok");
        assert_eq!(given(&session, &named, &[value]).await.unwrap(), "ok,happy");
    }
    run(&session, "ALTER TYPE mood RENAME VALUE 'happy' TO 'merry'; ALTER TYPE mood ADD VALUE 'glad'").await;
    assert!(!session.is_current(&by_key) && !session.is_current(&by_label) && !session.is_current(&named));
    for _ in 0..3 {
        assert_eq!(given(&session, &by_key, &[]).await.unwrap(), "merry");
        let value = label(&session, &by_label, "merry");
        assert_eq!(given(&session, &by_label, &[value]).await.unwrap(), "110,merry");
        let value = label(&session, &named, "glad");
        assert_eq!(given(&session, &named, &[value]).await.unwrap(), "glad,glad");
    }
    let value = label(&session, &change, "glad");
    assert_eq!(given(&session, &change, &[value]).await.unwrap(), "1");
    assert_eq!(given(&session, &by_key, &[]).await.unwrap(), "glad");
    assert_eq!(label(&session, &by_label, "happy"), label(&session, &by_label, "nothing"), "neither is a label now");

    run(&session, "DROP TABLE t; DROP TYPE mood").await;
    let gone = given(&session, &named, &[ScalarValue::Null]).await.unwrap_err();
    assert_eq!(gone.sqlstate(), "42704");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_undone_has_never_been() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    let session = Session::new(&database);
    run(&session, MOOD).await;
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, m mood); INSERT INTO t VALUES (1, 'ok')").await;
    run(&session, "BEGIN; ALTER TYPE mood ADD VALUE 'meh' AFTER 'ok'; INSERT INTO t VALUES (2, 'meh')").await;
    assert_eq!(answer(&session, "SELECT m FROM t WHERE m > 'ok'").await, "meh");
    run(&session, "SAVEPOINT s; ALTER TYPE mood RENAME VALUE 'meh' TO 'so so'").await;
    run(&session, "CREATE TYPE hue AS ENUM ('red'); ALTER TABLE t ADD COLUMN h hue DEFAULT 'red'").await;
    assert_eq!(answer(&session, "SELECT m, h FROM t WHERE id = 2").await, "so so,red");
    run(&session, "ROLLBACK TO s").await;
    assert_eq!(answer(&session, "SELECT * FROM t ORDER BY id").await, "1,ok\n2,meh");
    run(&session, "ROLLBACK").await;
    assert_eq!(answer(&session, "SELECT * FROM t").await, "1,ok");
    assert_eq!(refused(&session, "INSERT INTO t VALUES (2, 'meh')").await, "22P02");
    assert_eq!(refused(&session, "SELECT 'red'::hue").await, "42704");
    assert_eq!(answer(&session, "SELECT enum_range(NULL::mood)::text").await, "{sad,ok,happy}");

    run(&session, "BEGIN; ALTER TYPE mood ADD VALUE 'meh' AFTER 'ok'; INSERT INTO t VALUES (3, 'meh')").await;
    run(&session, "SAVEPOINT s; DROP TYPE mood CASCADE; ROLLBACK TO s; COMMIT").await;
    assert_eq!(answer(&session, "SELECT id, m FROM t WHERE m BETWEEN 'ok' AND 'meh' ORDER BY m").await, "1,ok\n3,meh");
    drop((session, database));
    database = reopen(directory.path());
    let session = Session::new(&database);
    assert_eq!(answer(&session, "SELECT id, m FROM t WHERE m < 'happy' ORDER BY m").await, "1,ok\n3,meh");
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn others_see_a_label_once_it_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, other) = (Session::new(&database), Session::new(&database));
    run(&one, MOOD).await;
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, m mood); INSERT INTO t VALUES (1, 'ok')").await;
    run(&other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t").await;
    run(&one, "BEGIN; ALTER TYPE mood ADD VALUE 'meh'; ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'").await;
    run(&one, "INSERT INTO t VALUES (2, 'meh')").await;
    assert_eq!(answer(&other, "SELECT * FROM t").await, "1,ok");
    assert_eq!(answer(&other, "SELECT enum_range(NULL::mood)::text").await, "{sad,ok,happy}");
    // Whoever adds another label, or writes rows there, waits.
    let third = Session::new(&database);
    let mut adding = Box::pin(third.execute("ALTER TYPE mood ADD VALUE 'glad'"));
    assert!(waits(&mut adding).await);
    run(&one, "COMMIT").await;
    adding.await.unwrap();
    assert_eq!(answer(&other, "SELECT * FROM t").await, "1,ok", "its snapshot is of before");
    run(&other, "COMMIT").await;
    assert_eq!(answer(&other, "SELECT * FROM t ORDER BY id").await, "1,fine\n2,meh");
    assert_eq!(answer(&other, "SELECT enum_range(NULL::mood)::text").await, "{sad,fine,happy,meh,glad}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_stays_while_columns_come_to_be_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, other) = (Session::new(&database), Session::new(&database));
    run(&one, MOOD).await;
    run(&one, "BEGIN; CREATE TABLE t (id int PRIMARY KEY, m mood)").await;
    run(&other, "DROP TYPE mood").await;
    assert_eq!(refused(&one, "COMMIT").await, "40001");
    assert_eq!(answer(&one, "SELECT count(*) FROM pg_class WHERE relname = 't'").await, "0");
    run(&one, MOOD).await;
    run(&one, "BEGIN; DROP TYPE mood").await;
    run(&other, "CREATE TABLE t (id int PRIMARY KEY, m mood)").await;
    assert_eq!(refused(&one, "COMMIT").await, "40001");
    run(&other, "INSERT INTO t VALUES (1, 'happy')").await;
    assert_eq!(answer(&one, "SELECT m FROM t").await, "happy");
}

/// Rows of before are read past a column whose type is gone, and so are segments and logs.
#[tokio::test(flavor = "multi_thread")]
async fn rows_outlive_a_dropped_type() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    let session = Session::new(&database);
    run(&session, MOOD).await;
    run(&session, ROWS).await;
    run(&session, "CREATE VIEW v AS SELECT id FROM t WHERE m = 'ok'").await;
    assert_eq!(refused(&session, "DROP TYPE mood").await, "2BP01");
    run(&session, "DROP TYPE mood CASCADE").await;
    assert_eq!(refused(&session, "SELECT * FROM v").await, "42P01");
    run(&session, "CREATE TYPE mood AS ENUM ('new'); ALTER TABLE t ADD COLUMN m mood DEFAULT 'new'").await;
    run(&session, "INSERT INTO t (id, note) VALUES (331, 'n331')").await;
    const LAST: &str = "SELECT id, note, m FROM t WHERE id IN (1, 300, 330, 331) ORDER BY id";
    const SHOWN: &str = "1,n1,new\n300,n300,new\n330,n330,new\n331,n331,new";
    assert_eq!(everywhere(&session, LAST).await, SHOWN);
    drop((session, database));
    database = reopen(directory.path());
    let session = Session::new(&database);
    assert_eq!(everywhere(&session, LAST).await, SHOWN);
    run(&session, "UPDATE t SET note = note WHERE id = 300; CHECKPOINT").await;
    assert_eq!(everywhere(&session, LAST).await, SHOWN);
    check(&database);
    // A key is not dropped by the way.
    run(&session, "CREATE TABLE k (m mood PRIMARY KEY, n int); INSERT INTO k VALUES ('new', 1)").await;
    assert_eq!(refused(&session, "DROP TYPE mood CASCADE").await, "0A000");
    assert_eq!(answer(&session, "SELECT * FROM k").await, "new,1");
    run(&session, "DROP TABLE k; DROP TYPE mood CASCADE").await;
    assert_eq!(answer(&session, "SELECT * FROM t WHERE id = 300").await, "300,n300");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_in_a_text_of_the_catalog_keeps_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, MOOD).await;
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, m mood DEFAULT 'ok', CONSTRAINT c CHECK (m <> 'sad'))").await;
    assert_eq!(refused(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await, "0A000");
    run(&session, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'; INSERT INTO t (id) VALUES (1)").await;
    assert_eq!(answer(&session, "SELECT m FROM t").await, "fine");
    run(&session, "ALTER TABLE t DROP CONSTRAINT c; CREATE INDEX t_i ON t (id) WHERE m = 'sad'").await;
    assert_eq!(refused(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await, "0A000");
    run(&session, "DROP INDEX t_i; CREATE VIEW v AS SELECT id, 'sad'::mood AS s FROM t").await;
    assert_eq!(refused(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await, "0A000");
    assert_eq!(refused(&session, "ALTER TYPE mood RENAME TO humour").await, "0A000");
    assert_eq!(answer(&session, "SELECT * FROM v").await, "1,sad");
    run(&session, "ALTER TYPE mood RENAME VALUE 'happy' TO 'merry'").await;
    assert_eq!(answer(&session, "SELECT * FROM v").await, "1,sad");
    for kept in ["DEFAULT note::mood", "CHECK (note::mood > m)", "CHECK (m IN ('sad', note::mood))"] {
        let sql = format!("CREATE TABLE u (id int PRIMARY KEY, note text, m mood {kept})");
        assert_eq!(refused(&session, &sql).await, "0A000", "{kept}");
    }
    run(&session, "DROP VIEW v; ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    assert_eq!(answer(&session, "SELECT enum_range(NULL::mood)::text").await, "{blue,fine,merry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_its_owners() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE ROLE ada; CREATE ROLE bob; GRANT CREATE ON SCHEMA public TO ada, bob; SET ROLE ada").await;
    run(&session, MOOD).await;
    run(&session, "SET ROLE bob").await;
    for sql in ["ALTER TYPE mood ADD VALUE 'x'", "DROP TYPE mood", "ALTER TYPE mood OWNER TO bob"] {
        assert_eq!(refused(&session, sql).await, "42501", "{sql}");
    }
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, m mood); INSERT INTO t VALUES (1, 'ok'); RESET ROLE").await;
    assert_eq!(refused(&session, "DROP ROLE ada").await, "2BP01");
    assert_eq!(refused(&session, "ALTER TYPE nomood OWNER TO bob").await, "42704");
    let owner = "SELECT rolname FROM pg_type t JOIN pg_roles r ON r.oid = t.typowner WHERE typname = 'mood'";
    assert_eq!(answer(&session, owner).await, "ada");
    run(&session, "ALTER TYPE mood OWNER TO bob").await;
    assert_eq!(answer(&session, owner).await, "bob");
    run(&session, "REASSIGN OWNED BY bob TO saki; DROP OWNED BY ada; DROP ROLE ada").await;
    assert_eq!(answer(&session, owner).await, "saki");
    run(&session, "ALTER TYPE mood ADD VALUE 'x'; DROP TYPE mood CASCADE").await;
    assert_eq!(answer(&session, "SELECT * FROM t").await, "1");
}
