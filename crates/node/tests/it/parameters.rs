//! Parameters through the server: those of the startup packet, what clients are told, what values look like.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::server::{TestServer, code, connect};

/// All values of the rows that a text gives, divided by `|`.
async fn shown(client: &Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned());
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_search_path_of_the_startup_packet_governs_names() {
    let server = TestServer::start();
    let admin = server.client().await;
    admin.batch_execute("CREATE SCHEMA ten_a").await.unwrap();
    admin.batch_execute("CREATE TABLE acct (id int PRIMARY KEY, v int)").await.unwrap();
    admin.batch_execute("INSERT INTO acct VALUES (1, 1)").await.unwrap();
    let mut config = server.config();
    config.options("-c search_path=ten_a -c statement_timeout=1min");
    let tenant = connect(&config).await.unwrap();
    assert_eq!(shown(&tenant, "SELECT current_schema(), current_setting('statement_timeout')").await, "ten_a|1min");
    assert_eq!(code(tenant.simple_query("DROP TABLE acct").await), "42P01");
    assert_eq!(code(tenant.query("SELECT v FROM acct WHERE id = $1", &[&1_i32]).await), "42P01");
    tenant.batch_execute("CREATE TABLE acct (id int PRIMARY KEY, v int)").await.unwrap();
    // Prepared once, compiled, planned, and for a COPY.
    let insert = tenant.prepare("INSERT INTO acct VALUES ($1, $2)").await.unwrap();
    for id in 1..4 {
        tenant.execute(&insert, &[&id, &(id * 10)]).await.unwrap();
    }
    let point = tenant.prepare("SELECT v FROM acct WHERE id = $1").await.unwrap();
    let sum = tenant.prepare("SELECT sum(v) FROM acct WHERE id > $1").await.unwrap();
    for _ in 0..4 {
        assert_eq!(tenant.query_one(&point, &[&2_i32]).await.unwrap().get::<_, i32>(0), 20);
        assert_eq!(tenant.query_one(&sum, &[&0_i32]).await.unwrap().get::<_, i64>(0), 60);
    }
    // By another path the same statements mean other tables.
    tenant.batch_execute("SET search_path = public").await.unwrap();
    for _ in 0..4 {
        assert!(tenant.query(&point, &[&2_i32]).await.unwrap().is_empty());
        assert_eq!(tenant.query_one(&sum, &[&0_i32]).await.unwrap().get::<_, i64>(0), 1);
    }
    tenant.execute(&insert, &[&4_i32, &4_i32]).await.unwrap();
    tenant.batch_execute("RESET search_path").await.unwrap();
    assert_eq!(tenant.query_one(&sum, &[&0_i32]).await.unwrap().get::<_, i64>(0), 60);
    assert_eq!(shown(&admin, "SELECT count(*) FROM acct").await, "2");
    // A table that comes before in the path takes the name over.
    tenant.batch_execute("CREATE SCHEMA first; SET search_path = first, ten_a").await.unwrap();
    assert_eq!(tenant.query_one(&point, &[&2_i32]).await.unwrap().get::<_, i32>(0), 20);
    tenant.batch_execute("CREATE TABLE first.acct (id int PRIMARY KEY, v int)").await.unwrap();
    assert!(tenant.query(&point, &[&2_i32]).await.unwrap().is_empty());
}

#[tokio::test]
async fn sessions_that_are_read_only_write_nothing() {
    let server = TestServer::start();
    let admin = server.client().await;
    admin.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    let mut config = server.config();
    config.options("-c default_transaction_read_only=on");
    let reader = connect(&config).await.unwrap();
    let insert = reader.prepare("INSERT INTO t VALUES ($1, 0)").await.unwrap();
    assert_eq!(code(reader.execute(&insert, &[&1_i32]).await), "25006");
    assert_eq!(code(reader.simple_query("INSERT INTO t SELECT 1, 1").await), "25006");
    assert_eq!(code(reader.simple_query("COPY t FROM STDIN").await), "25006");
    assert_eq!(code(reader.simple_query("SELECT * FROM t FOR UPDATE").await), "25006");
    reader.batch_execute("BEGIN READ WRITE; INSERT INTO t VALUES (1, 1); COMMIT").await.unwrap();
    reader.batch_execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE").await.unwrap();
    reader.execute(&insert, &[&2_i32]).await.unwrap();
    assert_eq!(shown(&admin, "SELECT count(*) FROM t").await, "2");
}

#[tokio::test]
async fn values_look_as_parameters_say() {
    let server = TestServer::start();
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, at timestamptz, d date, b bytea, f float8)")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (1, '2024-07-01 12:00:00.5+00', '2024-07-01', '\\x5c00ff41', 0.1)")
        .await
        .unwrap();
    let all = "SELECT at, d, b, f FROM t WHERE id = 1";
    assert_eq!(shown(&client, all).await, "2024-07-01 12:00:00.5+00|2024-07-01|\\x5c00ff41|0.1");
    client.batch_execute("SET TIME ZONE 'america/new_york'; SET bytea_output = escape").await.unwrap();
    client.batch_execute("SET extra_float_digits = -14").await.unwrap();
    let styled = "2024-07-01 08:00:00.5-04|2024-07-01|\\\\\\000\\377A|0.1";
    assert_eq!(shown(&client, all).await, styled);
    assert_eq!(shown(&client, "SELECT DISTINCT at, d, b, f FROM t").await, styled);
    client.batch_execute("SET datestyle = 'german'; SET intervalstyle = 'iso_8601'").await.unwrap();
    assert_eq!(
        shown(&client, "SELECT at, d, interval '1 day 2 hours' FROM t").await,
        "01.07.2024 08:00:00.5 EDT|01.07.2024|P1DT2H"
    );
    client.batch_execute("RESET ALL").await.unwrap();
    assert_eq!(shown(&client, all).await, "2024-07-01 12:00:00.5+00|2024-07-01|\\x5c00ff41|0.1");
    for zone in ["Asia/Tokyo", "Europe/London", "GMT", "Etc/UTC", "America/Argentina/Buenos_Aires", "+09", "UTC"] {
        client.batch_execute(&format!("SET TIME ZONE '{zone}'")).await.unwrap();
    }
}

#[tokio::test]
async fn every_parameter_is_shown_and_takes_its_own_value_or_is_refused() {
    let server = TestServer::start();
    let client = server.client().await;
    let names = shown(&client, "SELECT name || ' ' || context FROM pg_settings").await;
    assert!(names.lines().count() > 340);
    for line in names.lines() {
        let (name, context) = line.split_once(' ').unwrap();
        let value = shown(&client, &format!("SHOW {name}")).await;
        let set = client.simple_query(&format!("SET {name} = '{}'", value.replace('\'', "''"))).await;
        match context {
            "user" | "superuser" if name.starts_with("transaction_") => drop(set),
            "user" | "superuser" => drop(set.unwrap_or_else(|error| panic!("{name} = {value}: {error}"))),
            _ => assert_eq!(code(set), "55P02", "{name}"),
        }
    }
    assert_eq!(code(client.simple_query("SET no_such_parameter = 1").await), "42704");
}

/// The values of a text's rows, or its error.
async fn outcome(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => shown(client, sql).await,
        failed => format!("ERROR {}", code(failed)),
    }
}

/// Parameters that have an effect: what sets them, a text, and what comes of it then and not before.
const EFFECTS: &[(&str, &str, &str, &str)] = &[
    (
        "application_name",
        "SET application_name = 'other'",
        "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        "other",
    ),
    ("bytea_output", "SET bytea_output = escape", "SELECT '\\x00'::bytea", "\\000"),
    ("client_encoding", "SET client_encoding = 'SQL_ASCII'", "SHOW client_encoding", "SQL_ASCII"),
    ("DateStyle", "SET datestyle = german", "SELECT date '2024-07-01'", "01.07.2024"),
    (
        "default_transaction_isolation",
        "SET default_transaction_isolation = serializable",
        "SHOW transaction_isolation",
        "serializable",
    ),
    (
        "default_transaction_read_only",
        "SET default_transaction_read_only = on",
        "SELECT id FROM kept FOR UPDATE",
        "ERROR 25006",
    ),
    ("extra_float_digits", "SET extra_float_digits = -10", "SELECT 0.1::float8 + 0.2::float8", "0.3"),
    ("IntervalStyle", "SET intervalstyle = iso_8601", "SELECT interval '1 day'", "P1D"),
    ("lock_timeout", "SET lock_timeout = '50ms'", "ALTER TABLE held ADD COLUMN b int", "ERROR 55P03"),
    (
        "restrict_nonsystem_relation_kind",
        "SET restrict_nonsystem_relation_kind = view",
        "SELECT * FROM seen",
        "ERROR 55000",
    ),
    ("role", "SET role = reader", "SELECT current_user", "reader"),
    ("search_path", "SET search_path = elsewhere", "SELECT current_schema()", "elsewhere"),
    ("session_authorization", "SET session_authorization = reader", "SELECT session_user", "reader"),
    ("statement_timeout", "SET statement_timeout = '50ms'", "SELECT pg_sleep(0.3)", "ERROR 57014"),
    ("TimeZone", "SET timezone = 'Asia/Tokyo'", "SELECT '2024-07-01 00:00+00'::timestamptz", "2024-07-01 09:00:00+09"),
    (
        "track_activities",
        "SET track_activities = off",
        "SELECT state, query FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        "disabled|NULL",
    ),
    (
        "transaction_isolation",
        "BEGIN; SET transaction_isolation = 'repeatable read'",
        "SHOW transaction_isolation",
        "repeatable read",
    ),
    ("transaction_read_only", "BEGIN; SET transaction_read_only = on", "SELECT id FROM kept FOR UPDATE", "ERROR 25006"),
];

/// Those whose effects have tests of their own: below, and in `logs`.
const EFFECTS_ELSEWHERE: &[&str] = &[
    "client_min_messages",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "log_connections",
    "log_disconnections",
    "log_duration",
    "log_min_duration_statement",
    "log_min_error_statement",
    "log_min_messages",
    "log_statement",
];

/// Those that say how something is to be done and never what, but for the categories of [`is_advice`]. Reasons: the
/// tests of the table of parameters.
const ADVICE: &[&str] = &[
    "check_function_bodies",
    "client_connection_check_interval",
    "deadlock_timeout",
    "debug_discard_caches",
    "debug_pretty_print",
    "default_text_search_config",
    "default_toast_compression",
    "default_transaction_deferrable",
    "escape_string_warning",
    "force_parallel_mode",
    "gin_fuzzy_search_limit",
    "gin_pending_list_limit",
    "jit_expressions",
    "jit_tuple_deforming",
    "lo_compat_privileges",
    "row_security",
    "stats_fetch_consistency",
    "synchronize_seqscans",
    "track_counts",
    "transaction_deferrable",
    "update_process_title",
];

fn is_advice(name: &str, category: &str) -> bool {
    let harmless = ["Query Tuning", "Resource Usage", "Write-Ahead Log", "Replication"];
    let is_fixed = name.starts_with("temp_") && name != "temp_buffers" || name == "max_stack_depth";
    let is_harmless = harmless.iter().any(|harmless| category.starts_with(harmless)) && !is_fixed;
    is_harmless || ADVICE.contains(&name) || name.starts_with("vacuum_")
}

#[tokio::test]
async fn parameters_that_have_effects_have_them() {
    let server = TestServer::start();
    let admin = server.client().await;
    admin
        .batch_execute("CREATE SCHEMA elsewhere; CREATE ROLE reader; CREATE TABLE held (id int PRIMARY KEY)")
        .await
        .unwrap();
    admin.batch_execute("CREATE VIEW seen AS SELECT 1 AS a; CREATE TABLE kept (id int PRIMARY KEY)").await.unwrap();
    admin.batch_execute("BEGIN; LOCK TABLE held IN SHARE MODE").await.unwrap();
    for (name, set, probe, expected) in EFFECTS {
        let client = server.client().await;
        client.batch_execute("SET statement_timeout = '2s'").await.unwrap();
        let before = outcome(&client, probe).await;
        client.batch_execute(set).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((outcome(&client, probe).await.as_str(), before == *expected), (*expected, false), "{name}");
    }
}

/// Each parameter that a session may set has its effect, is advice, or takes nothing but its default.
#[tokio::test]
async fn no_parameter_is_accepted_and_ignored() {
    let server = TestServer::start();
    let client = server.client().await;
    let settable =
        "SELECT name, vartype, boot_val, category, coalesce(min_val, ''), coalesce(max_val, '') FROM pg_settings
        WHERE context IN ('user', 'superuser')";
    let lines = shown(&client, settable).await;
    for line in lines.lines() {
        let [name, kind, default, category, least, greatest] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        if name.starts_with("saki.")
            || EFFECTS.iter().any(|(effect, ..)| *effect == name)
            || EFFECTS_ELSEWHERE.contains(&name)
            || is_advice(name, category)
        {
            continue;
        }
        let others: &[&str] = match kind {
            "bool" => &["on", "off"],
            "enum" => &["on", "off", "verbose", "replica", "all", "hex", "document", "md5"],
            "string" => &["something_else"],
            _ => &[least, greatest],
        };
        for other in others.iter().filter(|other| **other != default) {
            let set = client.simple_query(&format!("SET {name} = '{other}'")).await;
            assert_eq!(code(set), "22023", "{name} = {other}: a line of EFFECTS or ADVICE is missing");
        }
    }
}

#[tokio::test]
async fn sessions_that_idle_too_long_end() {
    let server = TestServer::start();
    for (set, expected) in [
        ("SET idle_session_timeout = '50ms'", "57P05"),
        ("SET idle_in_transaction_session_timeout = '50ms'; BEGIN", "25P03"),
        ("SET idle_in_transaction_session_timeout = '50ms'", "no error"),
    ] {
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        // What is told after the last reply may end the connection before the client has looked at this.
        let _ = client.batch_execute(set).await;
        match expected {
            "no error" => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                assert_eq!(shown(&client, "SELECT 1").await, "1");
            }
            expected => assert_eq!(code(connection.await.unwrap()), expected, "{set}"),
        }
    }
}

#[tokio::test]
async fn client_min_messages_keeps_warnings_back() {
    let server = TestServer::start();
    let (client, mut connection) = server.config().connect(NoTls).await.unwrap();
    let (sender, mut notices) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = sender.send(notice.code().code().to_owned());
            }
        }
    });
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(notices.recv().await.as_deref(), Some("25P01"));
    client.batch_execute("SET client_min_messages = error").await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    client.batch_execute("SET client_min_messages = warning").await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(notices.recv().await.as_deref(), Some("25P01"));
    assert!(notices.try_recv().is_err());
}

#[tokio::test]
async fn a_set_of_a_failed_text_is_undone() {
    let server = TestServer::start();
    let client = server.client().await;
    assert_eq!(code(client.simple_query("SET work_mem = '1GB'; SELECT 1 / 0").await), "22012");
    assert_eq!(shown(&client, "SHOW work_mem").await, "4MB");
    assert_eq!(shown(&client, "SELECT set_config('my.own', 'x', false)").await, "x");
    assert_eq!(shown(&client, "SELECT current_setting('my.own')").await, "x");
    assert_eq!(shown(&client, "SELECT set_config('work_mem', '1GB', true)").await, "1GB");
    assert_eq!(shown(&client, "SHOW work_mem").await, "4MB");
    client.batch_execute("CREATE TABLE big AS SELECT * FROM generate_series(1, 300) AS g (i)").await.unwrap();
    client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
    let slow = "SELECT count(*) FROM big a, big b, big c, big d WHERE a.i + b.i + c.i + d.i = -1";
    assert_eq!(code(client.simple_query(slow).await), "57014");
}

#[tokio::test]
async fn a_parameter_is_described_as_its_first_cast_says() {
    use tokio_postgres::types::Type;
    let server = TestServer::start();
    let client = server.client().await;
    let statement = client.prepare("SELECT $1::oid[], $2::name, $3::int4, $3::oid, $4::oid").await.unwrap();
    assert_eq!(statement.params(), [Type::OID_ARRAY, Type::NAME, Type::INT4, Type::OID]);
}

/// What a parameter stands beside gives it its type, the first place that does.
#[tokio::test]
async fn a_parameter_has_the_type_of_what_it_stands_beside() {
    use tokio_postgres::types::Type;
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE described (id int PRIMARY KEY, n numeric, s text)").await.unwrap();
    for (sql, expected) in [
        ("SELECT coalesce($1, 5)", &[Type::INT4][..]),
        ("SELECT CASE WHEN $1 THEN 1 ELSE $2 END", &[Type::BOOL, Type::INT4]),
        ("SELECT $1 IN (1, 2), greatest($2, 1::bigint)", &[Type::INT4, Type::INT8]),
        ("SELECT round($1::numeric, $2), left($3, $4)", &[Type::NUMERIC, Type::INT4, Type::TEXT, Type::INT4]),
        ("SELECT id FROM described WHERE id <> ALL ($1)", &[Type::INT4_ARRAY]),
        ("SELECT id FROM described WHERE s || 'x' = ANY ($1)", &[Type::TEXT_ARRAY]),
        ("SELECT * FROM generate_series(1, $1) g", &[Type::INT4]),
        ("SELECT id FROM described WHERE $1 IS NULL OR id = $1", &[Type::INT4]),
    ] {
        let statement = client.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(statement.params(), expected, "{sql}");
    }
    let rows = client.query("SELECT id FROM described WHERE id <> ALL ($1)", &[&vec![1, 2]]).await.unwrap();
    assert!(rows.is_empty());
}
