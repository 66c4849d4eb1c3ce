//! Scans of column segments: when they are chosen, what they show, and when they look keys up instead.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use saki_sql::{CreateOptions, Database, OpenOptions, Session};

use crate::support::text_rows;

/// A device on which bytes are dear and requests are cheap.
fn create(directory: &Path) -> Arc<Database> {
    let model = Some("latency=20us,iops=1000000,bandwidth=20MB".to_owned());
    let open = OpenOptions { cache_bytes: 32 << 20, reactors: Some(2), model, ..OpenOptions::default() };
    Database::create(directory.join("database"), CreateOptions { open, ..CreateOptions::default() }).unwrap()
}

async fn fill(session: &Session, directory: &Path) {
    let (mut orders, mut lines) = (String::new(), String::new());
    for o in 1..=20_000_u64 {
        let _ = writeln!(orders, "{o},{},order {}", o * 7919 % 10_007, o * 31);
        for n in 1..=3 {
            let (part, price) = ((o * 7919 + n) % 30_011, (o * 104_729 + n * 31) % 999_983);
            let _ = writeln!(lines, "{o},{n},{part},{price},line {}", o * 17);
        }
    }
    for sql in [
        "CREATE TABLE orders (o_id int PRIMARY KEY, o_customer int, o_note text)",
        "CREATE TABLE line (l_order int, l_number int, l_part int, l_price numeric(10,2), l_note text, \
         PRIMARY KEY (l_order, l_number))",
        "CREATE INDEX line_part ON line (l_part)",
    ] {
        session.execute(sql).await.unwrap();
    }
    for (table, rows) in [("orders", orders), ("line", lines)] {
        let file = directory.join(table);
        std::fs::write(&file, rows).unwrap();
        session.execute(&format!("COPY {table} FROM '{}' WITH (FORMAT csv)", file.display())).await.unwrap();
    }
    session.execute("ANALYZE").await.unwrap();
}

async fn lines(session: &Session, sql: &str) -> Vec<String> {
    let result = session.execute(sql).await.unwrap().pop().unwrap();
    text_rows(result).await.unwrap().into_iter().map(|row| row.join(" ")).collect()
}

fn run<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

#[test]
fn a_few_columns_of_all_rows_are_read_from_segments_and_single_rows_from_pages() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    run(async {
        let session = Session::new(&database);
        fill(&session, directory.path()).await;
        let narrow = "SELECT sum(l_price) FROM line WHERE l_part < 20000";
        let plan = session.explain(narrow).await.unwrap();
        assert!(plan.contains("ColumnScanExec: line, 1 segments, columns [l_price], where l_part < 20000"), "{plan}");
        let single = "SELECT l_note FROM line WHERE l_order = 77 AND l_number = 2";
        let plan = session.explain(single).await.unwrap();
        assert!(plan.contains("PageScanExec: line by primary key, 1 key"), "{plan}");
        let expected = (lines(&session, narrow).await, lines(&session, single).await);
        session.set("access_path", "columns").unwrap();
        assert!(session.explain(single).await.unwrap().contains("ColumnScanExec"));
        assert_eq!((lines(&session, narrow).await, lines(&session, single).await), expected);
        session.set("access_path", "rows").unwrap();
        assert!(session.explain(narrow).await.unwrap().contains("PageScanExec"));
        assert_eq!((lines(&session, narrow).await, lines(&session, single).await), expected);
    });
}

#[test]
fn what_a_scan_did_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    run(async {
        let session = Session::new(&database);
        fill(&session, directory.path()).await;
        session.set("access_path", "columns").unwrap();
        database.drop_caches();
        let sql = "EXPLAIN ANALYZE SELECT max(l_price) FROM line WHERE l_order > 0 AND l_part + 1 < 100";
        let cold = lines(&session, sql).await.join("\n");
        // Every l_order is greater: only the other two columns are read.
        assert!(cold.contains("segments=1 (pruned=0 by_keys=0 skipped=0) runs read=2 cached=0"), "{cold}");
        let hot = lines(&session, sql).await.join("\n");
        assert!(hot.contains("runs read=0 cached=2"), "{hot}");
        let none = sql.replace("l_order > 0", "l_order > 20000");
        let none = lines(&session, &none).await.join("\n");
        assert!(none.contains("segments=1 (pruned=1"), "{none}");
    });
}

#[test]
fn few_keys_of_a_join_are_looked_up_instead_of_scanning() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    run(async {
        let session = Session::new(&database);
        fill(&session, directory.path()).await;
        session.set("index_join", "never").unwrap();
        session.set("access_path", "columns").unwrap();
        // The planner cannot know how many orders there are of a customer whose number it does not see.
        let queries = [
            (
                "SELECT l_order, l_number, l_price, l_note FROM orders JOIN line ON o_id = l_order \
                 WHERE o_customer + 0 = 77 AND l_number < 3 AND l_price <> 1 ORDER BY 1, 2",
                "keys by line by primary key instead of scanning",
            ),
            (
                "SELECT l_order, l_number, l_note FROM orders JOIN line ON o_customer = l_part \
                 WHERE o_id + 0 BETWEEN 7 AND 9 AND l_number + l_order < 19000 ORDER BY 1, 2",
                "keys by line by index line_part instead of scanning",
            ),
        ];
        for (sql, shown) in queries {
            database.drop_caches();
            let analyzed = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
            assert!(analyzed.contains(shown), "{analyzed}");
            let looked_up = lines(&session, sql).await;
            session.set("adaptive_lookups", "off").unwrap();
            database.drop_caches();
            let analyzed = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
            assert!(!analyzed.contains("looked up"), "{analyzed}");
            let scanned = lines(&session, sql).await;
            assert!(!scanned.is_empty());
            assert_eq!(looked_up, scanned, "{sql}");
            session.set("adaptive_lookups", "on").unwrap();
        }
        // Many keys are not worth it.
        let sql = "SELECT sum(l_price) FROM orders JOIN line ON o_id = l_order WHERE o_customer + 0 > 77";
        let analyzed = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
        assert!(analyzed.contains("keys [l_order") && !analyzed.contains("looked up"), "{analyzed}");
    });
}

#[test]
fn bloom_filters_rule_segments_out() {
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions { segment_rows: 1000, reactors: Some(2), ..OpenOptions::default() };
    let options = CreateOptions { open, ..CreateOptions::default() };
    let database = Database::create(directory.path().join("database"), options).unwrap();
    run(async {
        let session = Session::new(&database);
        // Every segment has mails and parts from nearly the whole range.
        for sql in [
            "CREATE TABLE customer (id int PRIMARY KEY, mail text, part bigint) WITH (bloom = 'mail, part')",
            "INSERT INTO customer SELECT value, 'customer.' || value * 7919 % 10007, value * 7919 % 10007 * 1000 \
             FROM generate_series(1, 10000) AS s(value)",
            "CREATE TABLE wanted (part bigint PRIMARY KEY)",
            "INSERT INTO wanted VALUES (7919000), (7919001), (5831000), (5831001)",
            "CHECKPOINT",
            "ANALYZE",
        ] {
            session.execute(sql).await.unwrap();
        }
        for (setting, value) in [("access_path", "columns"), ("index_join", "never"), ("adaptive_lookups", "off")] {
            session.set(setting, value).unwrap();
        }
        let pruned = async |sql: &str, counter: &str| {
            let analyzed = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
            let scan = analyzed.split("ColumnScanExec: customer").nth(1);
            let counts = scan.and_then(|scan| scan.split(counter).nth(1)).unwrap_or_else(|| panic!("{analyzed}"));
            counts.split([' ', ')']).next().unwrap().parse::<u64>().unwrap()
        };
        let one = "SELECT id FROM customer WHERE mail = 'customer.7919'";
        let two = "SELECT id FROM customer WHERE mail IN ('customer.7919', 'customer.5831')";
        let joined = "SELECT id FROM customer JOIN wanted ON customer.part = wanted.part";
        let (first, both) = (vec!["1"], vec!["1", "2"]);
        let check = async |filtered: bool| {
            for (sql, counter, expected, segments) in
                [(one, "(pruned=", &first, 8), (two, "(pruned=", &both, 8), (joined, "by_keys=", &both, 7)]
            {
                let mut found = lines(&session, sql).await;
                found.sort();
                assert_eq!(&found, expected, "{sql}");
                let pruned = pruned(sql, counter).await;
                // A foreign value passes a filter now and then.
                assert_eq!(pruned >= segments, filtered, "{sql}: {pruned} segments");
            }
        };
        check(true).await;
        session.execute("ALTER TABLE customer SET (bloom = '')").await.unwrap();
        check(false).await;
        session.execute("ALTER TABLE customer SET (bloom = 'part, mail')").await.unwrap();
        check(true).await;
        // Touched segments are written anew.
        let changes = "INSERT INTO customer VALUES (500, 'new', 5), (20000, 'newer', 6) \
                       ON CONFLICT (id) DO UPDATE SET mail = excluded.mail, part = excluded.part";
        session.execute(changes).await.unwrap();
        session.execute("CHECKPOINT").await.unwrap();
        check(true).await;
    });
}
