//! Advisory locks, waits, and sessions that stop each other.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::server::{TestServer, code, connect};

async fn truth(client: &Client, sql: &str) -> bool {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn texts(client: &Client, sql: &str) -> Vec<String> {
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Waits until a session waits for an advisory lock.
async fn waited_for(client: &Client) {
    let waiting = "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'";
    while !truth(client, waiting).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_locks_as_often_as_it_took_them() {
    let server = TestServer::start();
    let (one, two) = (server.client().await, server.client().await);
    one.batch_execute(
        "SELECT pg_advisory_lock(7); BEGIN; SELECT pg_advisory_lock(7), pg_advisory_lock(1, 2); ROLLBACK",
    )
    .await
    .unwrap();
    assert!(!truth(&two, "SELECT pg_try_advisory_lock(7)").await);
    assert!(!truth(&two, "SELECT pg_try_advisory_lock_shared(1, 2)").await);
    assert!(truth(&two, "SELECT pg_try_advisory_lock(4294967298)").await, "(1, 2) is another key than 1 << 32 | 2");
    let held = "SELECT classid || ' ' || objid || ' ' || objsubid || ' ' || mode FROM pg_locks \
                WHERE locktype = 'advisory' AND granted ORDER BY 1";
    let expected = ["0 7 1 ExclusiveLock", "0 7 1 ExclusiveLock", "1 2 1 ExclusiveLock", "1 2 2 ExclusiveLock"];
    assert_eq!(texts(&one, held).await, expected);
    assert!(truth(&one, "SELECT pg_advisory_unlock(7)").await);
    assert!(!truth(&two, "SELECT pg_try_advisory_lock(7)").await, "it was taken twice");
    assert!(truth(&one, "SELECT pg_advisory_unlock(7)").await);
    assert!(!truth(&one, "SELECT pg_advisory_unlock(7)").await, "it has gone");
    assert!(truth(&two, "SELECT pg_try_advisory_lock(7)").await);
    one.batch_execute("DISCARD ALL").await.unwrap();
    assert!(truth(&two, "SELECT pg_try_advisory_lock(1, 2)").await);
    drop(two);
    one.batch_execute("SELECT pg_advisory_lock(7), pg_advisory_unlock_all()").await.unwrap();
    while !texts(&one, held).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transactions_locks_go_with_it_and_are_waited_for() {
    let server = TestServer::start();
    let (one, two) = (server.client().await, server.client().await);
    one.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(5)").await.unwrap();
    one.batch_execute("SAVEPOINT s; SELECT pg_advisory_xact_lock(6); ROLLBACK TO s").await.unwrap();
    assert!(truth(&two, "SELECT pg_try_advisory_lock(6)").await, "the savepoint's");
    assert!(!truth(&one, "SELECT pg_advisory_unlock(5)").await, "a transaction's is not let go by hand");
    // A parameter is what the function takes.
    assert!(!two.query_one("SELECT pg_try_advisory_lock($1)", &[&5_i64]).await.unwrap().get::<_, bool>(0));
    two.batch_execute("SET lock_timeout = '50ms'").await.unwrap();
    assert_eq!(code(two.simple_query("SELECT pg_advisory_lock(5)").await), "55P03");
    two.batch_execute("SET lock_timeout = 0; SET statement_timeout = '50ms'").await.unwrap();
    assert_eq!(code(two.simple_query("SELECT pg_advisory_lock(5)").await), "57014");
    two.batch_execute("SET statement_timeout = 0").await.unwrap();
    let waiting = tokio::spawn(async move { two.batch_execute("SELECT pg_advisory_lock(5)").await.map(|()| two) });
    waited_for(&one).await;
    one.batch_execute("COMMIT").await.unwrap();
    let two = waiting.await.unwrap().unwrap();
    assert!(!truth(&one, "SELECT pg_try_advisory_xact_lock(5)").await);
    assert!(truth(&two, "SELECT pg_advisory_unlock(5)").await);
    // Of a query by itself nothing stays.
    assert!(truth(&one, "SELECT pg_try_advisory_xact_lock(5)").await);
    assert!(truth(&two, "SELECT pg_try_advisory_lock(5)").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_waits_through_tables_and_keys_is_refused() {
    let server = TestServer::start();
    let (one, two) = (server.client().await, server.client().await);
    one.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    one.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
    two.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let watch = server.client().await;
    let waiting = tokio::spawn(async move {
        let outcome = two.batch_execute("SELECT pg_advisory_lock(1)").await;
        two.batch_execute("ROLLBACK").await.unwrap();
        outcome
    });
    waited_for(&watch).await;
    assert_eq!(code(one.simple_query("INSERT INTO t VALUES (1)").await), "40P01");
    one.batch_execute("SELECT pg_advisory_unlock(1)").await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sleepers_hold_no_thread_and_are_woken() {
    let server = TestServer::start();
    let client = server.client().await;
    let began = Instant::now();
    let mut sleepers = Vec::new();
    for _ in 0..40 {
        let sleeper = server.client().await;
        sleepers.push(tokio::spawn(async move { sleeper.batch_execute("SELECT pg_sleep(0.4)").await }));
    }
    assert!(truth(&client, "SELECT 1 = 1").await);
    for sleeper in sleepers {
        sleeper.await.unwrap().unwrap();
    }
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert!(began.elapsed() < Duration::from_secs(8), "one after the other takes sixteen");
    client.batch_execute("SET statement_timeout = '200ms'").await.unwrap();
    assert_eq!(code(client.simple_query("SELECT pg_sleep(60)").await), "57014");
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    assert!(truth(&client, "SELECT pg_sleep(-1) = '' AND pg_sleep(NULL) IS NULL").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_stopped_by_those_who_may() {
    let server = TestServer::start();
    let first = server.client().await;
    first
        .batch_execute(
            "CREATE ROLE bob LOGIN PASSWORD 'right'; \
             CREATE ROLE guard LOGIN PASSWORD 'right' IN ROLE pg_signal_backend",
        )
        .await
        .unwrap();
    let as_role = |name: &str| {
        let mut config = server.config();
        config.user(name).password("right");
        config
    };
    let (bob, guard) = (connect(&as_role("bob")).await.unwrap(), connect(&as_role("guard")).await.unwrap());
    let pid: i32 = bob.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let first_pid: i32 = first.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    assert_eq!(code(bob.simple_query(&format!("SELECT pg_cancel_backend({first_pid})")).await), "42501");
    assert_eq!(code(guard.simple_query(&format!("SELECT pg_terminate_backend({first_pid})")).await), "42501");
    assert!(!truth(&first, "SELECT pg_cancel_backend(2000000000)").await);
    let sleeping = tokio::spawn(async move {
        let outcome = bob.simple_query("SELECT pg_sleep(60)").await;
        (code(outcome), bob)
    });
    while !truth(&first, "SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'active' AND usename = 'bob'").await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(truth(&guard, &format!("SELECT pg_cancel_backend({pid})")).await);
    let (cancelled, bob) = sleeping.await.unwrap();
    assert_eq!(cancelled, "57014");
    bob.simple_query("SELECT 1").await.unwrap();
    // One that is idle ends too.
    assert!(truth(&first, &format!("SELECT pg_terminate_backend({pid})")).await);
    while truth(&first, "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'bob'").await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(bob.simple_query("SELECT 1").await.is_err());
    // And one that works is told why.
    let bob = connect(&as_role("bob")).await.unwrap();
    let pid: i32 = bob.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let sleeping = tokio::spawn(async move { bob.simple_query("SELECT pg_sleep(60)").await });
    while !truth(&first, "SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'active' AND usename = 'bob'").await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(truth(&guard, &format!("SELECT pg_terminate_backend({pid})")).await);
    let ended = sleeping.await.unwrap().unwrap_err();
    let ended = ended.as_db_error().expect("it is told before the connection ends");
    assert_eq!(
        (ended.code().code(), ended.message()),
        ("57P01", "terminating connection due to administrator command")
    );
}
