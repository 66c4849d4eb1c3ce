//! Privileges between sessions: what is granted and revoked beside open transactions, and roles that go meanwhile.

use std::sync::Arc;

use saki_sql::{Database, FastAnswer, Role, RowSink, Session, ValueRef};

use crate::support::{create, run, waits};

/// The condition of the error that a statement ends with; empty if it was done.
async fn outcome(session: &Session, sql: &str) -> String {
    let outcome = match session.execute(sql).await {
        Ok(mut results) => match results.pop() {
            Some(result) => result.collect().await.map(drop),
            None => Ok(()),
        },
        Err(error) => Err(error),
    };
    outcome.map_or_else(|error| error.sqlstate().to_owned(), |()| String::new())
}

async fn text(session: &Session, sql: &str) -> String {
    let batches = session.execute(sql).await.unwrap().pop().unwrap().collect().await.unwrap();
    let column = arrow::compute::cast(batches[0].column(0), &arrow_schema::DataType::Utf8).unwrap();
    arrow_array::cast::AsArray::as_string::<i32>(&column).value(0).to_owned()
}

/// A session that somebody has logged in to.
fn session_of(database: &Arc<Database>, name: &str) -> Session {
    let session = Session::new(database);
    let generation = database.generation();
    session.parameters().log_in(generation.catalog.expect_role(name).unwrap());
    session
}

const BEGUN: &str = "CREATE ROLE ada LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE readers;
    CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10), (2, 20)";

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_takes_no_revoke_back_that_was_committed_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, BEGUN).await;
    run(&one, "GRANT SELECT ON t TO ada").await;
    let ada = session_of(&database, "ada");
    run(&one, "BEGIN; GRANT INSERT ON t TO bob").await;
    assert_eq!(outcome(&session_of(&database, "bob"), "INSERT INTO t VALUES (3, 30)").await, "42501");
    let mut revoking = two.execute("REVOKE SELECT ON t FROM ada");
    assert!(waits(&mut revoking).await);
    assert_eq!(outcome(&ada, "SELECT * FROM t").await, "");
    run(&one, "COMMIT").await;
    revoking.await.unwrap();
    assert_eq!(outcome(&ada, "SELECT * FROM t").await, "42501");
    assert_eq!(outcome(&session_of(&database, "bob"), "INSERT INTO t VALUES (3, 30)").await, "");
    // What is undone was never granted, and lets the next one go on.
    run(&one, "BEGIN; SAVEPOINT a; GRANT SELECT ON t TO ada; ROLLBACK TO a; GRANT DELETE ON t TO ada; ROLLBACK").await;
    run(&two, "GRANT UPDATE ON t TO readers").await;
    assert_eq!(outcome(&ada, "DELETE FROM t WHERE id = 1").await, "42501");
    let privileges = "SELECT string_agg(grantee || ' ' || privilege_type, ', ' ORDER BY grantee, privilege_type) FROM \
                      information_schema.table_privileges WHERE grantee <> 'saki'";
    assert_eq!(text(&one, privileges).await, "bob INSERT, readers UPDATE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_was_dropped_meanwhile_gets_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, BEGUN).await;
    run(&one, "GRANT CREATE ON SCHEMA public TO PUBLIC").await;
    // Made before the role is dropped, committed afterwards.
    let ada = session_of(&database, "ada");
    run(&ada, "BEGIN; CREATE TABLE mine (id int); INSERT INTO mine VALUES (1)").await;
    run(&two, "DROP ROLE ada").await;
    assert_eq!(outcome(&ada, "COMMIT").await, "42704");
    assert_eq!(outcome(&one, "SELECT * FROM mine").await, "42P01");
    // Nothing can be made for it from then on.
    assert_eq!(outcome(&ada, "CREATE TABLE mine (id int)").await, "42704");
    // Dropped in a transaction, while it makes something.
    let bob = session_of(&database, "bob");
    run(&one, "BEGIN; DROP ROLE bob").await;
    run(&bob, "CREATE TABLE his (id int)").await;
    assert_eq!(outcome(&one, "COMMIT").await, "2BP01");
    assert_eq!(text(&two, "SELECT tableowner FROM pg_tables WHERE tablename = 'his'").await, "bob");
    // A table that was dropped meanwhile has no privileges.
    run(&one, "BEGIN; GRANT SELECT ON his TO readers").await;
    run(&two, "DROP TABLE his").await;
    run(&one, "COMMIT; DROP ROLE bob, readers").await;
    assert_eq!(database.generation().catalog.accesses().count(), 1, "of public alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_sees_its_own_tables_and_the_newest_privileges() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let one = Session::new(&database);
    run(&one, BEGUN).await;
    run(&one, "GRANT CREATE ON SCHEMA public TO ada; GRANT SELECT, UPDATE ON t TO ada").await;
    run(&one, "CREATE VIEW v AS SELECT v FROM t; ALTER VIEW v OWNER TO ada; GRANT SELECT ON v TO bob").await;
    let ada = session_of(&database, "ada");
    run(&ada, "BEGIN; CREATE TABLE own (id serial PRIMARY KEY, v int); INSERT INTO own (v) VALUES (1), (2)").await;
    run(&ada, "UPDATE own SET v = v + 1 WHERE id = 1; SELECT count(*) FROM own; SELECT currval('own_id_seq')").await;
    run(&ada, "GRANT SELECT ON own TO bob; CREATE INDEX ON own (v); DELETE FROM own; COMMIT").await;
    let bob = session_of(&database, "bob");
    assert_eq!(outcome(&bob, "SELECT * FROM own").await, "");
    for level in ["REPEATABLE READ", "READ COMMITTED"] {
        run(&ada, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        run(&bob, &format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM v")).await;
        for _ in 0..3 {
            run(&ada, "SELECT v FROM t WHERE id = 1; SELECT sum(v) FROM t").await;
        }
        run(&one, "REVOKE SELECT ON t FROM ada").await;
        assert_eq!(outcome(&bob, "SELECT * FROM v").await, "42501", "its owner may not any more");
        run(&ada, "SAVEPOINT a").await;
        for sql in ["SELECT v FROM t WHERE id = 1", "SELECT sum(v) FROM t", "UPDATE t SET v = 1 WHERE id = 1"] {
            assert_eq!(outcome(&ada, sql).await, "42501", "{sql} at {level}");
            run(&ada, "ROLLBACK TO a").await;
        }
        run(&ada, "ROLLBACK").await;
        run(&bob, "ROLLBACK").await;
        run(&one, "GRANT SELECT ON t TO ada").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_ask_again_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let one = Session::new(&database);
    run(&one, BEGUN).await;
    run(&one, "GRANT SELECT, INSERT, UPDATE, DELETE ON t TO ada").await;
    let ada = session_of(&database, "ada");
    for sql in [
        "SELECT v FROM t WHERE id = 1",
        "SELECT count(*) FROM t WHERE v > 3",
        "UPDATE t SET v = v + 1 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (7, 7) ON CONFLICT DO NOTHING",
    ] {
        let prepared = ada.prepare(sql, &[]).await.unwrap();
        let mut said = Vec::new();
        for change in ["", "", "REVOKE ALL ON t FROM ada", "GRANT ALL ON t TO ada", "", "ALTER ROLE ada SUPERUSER"] {
            run(&one, change).await;
            let done = match ada.execute_prepared(&prepared, &[]).await {
                Ok(result) => result.collect().await.map(drop),
                Err(error) => Err(error),
            };
            said.push(done.err().map(|error| error.sqlstate().to_owned()).unwrap_or_default());
        }
        assert_eq!(said, ["", "", "42501", "", "", ""], "{sql}");
        run(&one, "ALTER ROLE ada NOSUPERUSER").await;
    }
}

struct Nowhere;

impl RowSink for Nowhere {
    fn clear(&mut self) {}

    fn row(&mut self, _: &[ValueRef<'_>]) {}
}

/// Compiled statements leave to the others what is not allowed, and these refuse it: whoever is asked, and whatever was
/// allowed to whom before.
#[tokio::test(flavor = "multi_thread")]
async fn compiled_statements_ask_again_when_privileges_or_the_role_have_changed() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let one = Session::new(&database);
    run(&one, BEGUN).await;
    run(&one, "GRANT readers TO ada; ALTER ROLE ada NOINHERIT; GRANT ALL ON t TO ada").await;
    let ada = session_of(&database, "ada");
    for sql in [
        "SELECT v FROM t WHERE id IN (1, 2) ORDER BY v",
        "SELECT sum(v) FROM t WHERE id > 0",
        "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        "UPDATE t SET v = v + 1 WHERE id >= 1",
        "DELETE FROM t WHERE id = 9",
    ] {
        let plan = ada.prepare_fast(sql, &[]).and_then(|prepared| prepared.fast).expect("compiled");
        let mut answers = Vec::new();
        for change in ["", "REVOKE ALL ON t FROM ada", "GRANT ALL ON t TO ada"] {
            run(&one, change).await;
            let answer = ada.execute_fast(&plan, &[], &mut Nowhere).await.unwrap();
            let is_left = answer == FastAnswer::Ordinary;
            assert_eq!(is_left, outcome(&ada, sql).await == "42501", "{sql} after {change:?}");
            answers.push(is_left);
        }
        run(&ada, "SET ROLE readers").await;
        answers.push(ada.execute_fast(&plan, &[], &mut Nowhere).await.unwrap() == FastAnswer::Ordinary);
        run(&ada, "RESET ROLE").await;
        assert_eq!(answers, [false, true, false, true], "{sql}");
    }
    // What holds rows for others needs more than what reads them.
    let hold = "SELECT v FROM t WHERE id = 1 FOR UPDATE";
    let plan = ada.prepare_fast(hold, &[]).and_then(|prepared| prepared.fast).expect("compiled");
    run(&one, "REVOKE ALL ON t FROM ada; GRANT SELECT ON t TO ada").await;
    assert_eq!(ada.execute_fast(&plan, &[], &mut Nowhere).await.unwrap(), FastAnswer::Ordinary);
    assert_eq!(outcome(&ada, hold).await, "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_role_is_part_of_its_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let one = Session::new(&database);
    run(&one, BEGUN).await;
    run(&one, "GRANT readers TO ada; GRANT SELECT ON t TO readers; ALTER ROLE ada NOINHERIT").await;
    let ada = session_of(&database, "ada");
    let shown = async |session: &Session| {
        text(session, "SELECT current_user || ' ' || session_user || ' ' || current_setting('role')").await
    };
    assert_eq!(outcome(&ada, "SELECT * FROM t").await, "42501");
    run(&ada, "BEGIN; SET ROLE readers; SELECT * FROM t").await;
    assert_eq!(shown(&ada).await, "readers ada readers");
    run(&ada, "ROLLBACK").await;
    assert_eq!(shown(&ada).await, "ada ada none");
    run(&ada, "BEGIN; SAVEPOINT a; SET LOCAL ROLE readers; ROLLBACK TO a").await;
    assert_eq!(shown(&ada).await, "ada ada none");
    run(&ada, "SELECT set_config('role', 'readers', true)").await;
    assert_eq!(shown(&ada).await, "readers ada readers");
    run(&ada, "COMMIT").await;
    assert_eq!(shown(&ada).await, "ada ada none");
    for sql in ["SET ROLE bob", "SET role = 'saki'", "SELECT set_config('role', 'bob', false)"] {
        assert_eq!(outcome(&ada, sql).await, "42501", "{sql}");
    }
    assert_eq!(outcome(&ada, "SET SESSION AUTHORIZATION bob").await, "42501");
    assert_eq!(outcome(&ada, "SET ROLE nobody").await, "22023");
    run(&ada, "SET role TO readers; RESET ALL").await;
    assert_eq!(shown(&ada).await, "readers ada readers");
    run(&ada, "RESET ROLE; SET LOCAL ROLE readers").await;
    assert_eq!(shown(&ada).await, "ada ada none");
    run(&one, "SET SESSION AUTHORIZATION ada; SET ROLE readers").await;
    assert_eq!(
        (shown(&one).await, text(&one, "SHOW is_superuser").await),
        ("readers ada readers".into(), "off".into())
    );
    run(&one, "RESET SESSION AUTHORIZATION").await;
    assert_eq!((shown(&one).await, text(&one, "SHOW is_superuser").await), ("saki saki none".into(), "on".into()));
    let begun = session_of(&database, "ada");
    begun.parameters().begin_with("role", "readers").unwrap();
    assert_eq!(begun.parameters().begin_with("role", "bob").unwrap_err().sqlstate(), "42501");
    run(&begun, "SET ROLE NONE; RESET ROLE").await;
    assert_eq!(shown(&begun).await, "readers ada readers");
}

#[tokio::test(flavor = "multi_thread")]
async fn superusers_alone_change_devices_and_some_parameters() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let one = Session::new(&database);
    run(&one, BEGUN).await;
    let ada = session_of(&database, "ada");
    for sql in [
        "CALL saki.add_device('/nowhere/at/all')",
        "CALL saki.drain_device('0')",
        "CALL saki.remove_device('0')",
        "SET session_replication_role = origin",
        "SELECT set_config('log_statement', 'none', false)",
        "ALTER ROLE ada SET work_mem = '1MB'; ALTER ROLE bob SET work_mem = '1MB'",
        "ALTER ROLE ada SET log_statement = 'none'",
    ] {
        assert_eq!(outcome(&ada, sql).await, "42501", "{sql}");
        assert_ne!(outcome(&one, sql).await, "42501", "{sql}");
    }
    assert_eq!(ada.parameters().begin_with("log_statement", "none").unwrap_err().sqlstate(), "42501");
    assert_eq!(outcome(&one, "ALTER ROLE ada SET no_such_parameter = 1").await, "42704");
    run(&one, "BEGIN READ ONLY").await;
    assert_eq!(outcome(&one, "GRANT SELECT ON t TO ada").await, "25006");
    run(&one, "ROLLBACK").await;
    let mut role = Role::clone(database.generation().catalog.expect_role("ada").unwrap());
    assert_eq!(role.settings.remove("log_statement").as_deref(), Some("none"));
}
