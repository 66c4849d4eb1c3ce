//! What PostgreSQL's clients ask about a database, and what PostgreSQL answers: each file of `clients` has the queries
//! of one, as it sends them, with the rows that PostgreSQL 15 gave for the same tables.
//!
//! Oids differ, so `{book}` stands for that of the relation `book`. Where answers rightly differ (sizes, versions,
//! what only PostgreSQL has), the rows are `~ runs`: the query must run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::cast::AsArray;
use arrow_array::{Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use saki_sql::{CreateOptions, Database, PG_TYPE, Session, SystemView};

const TABLES: &str = "
    CREATE TABLE author (id bigint PRIMARY KEY, name varchar(40) NOT NULL, born date);
    CREATE TABLE book (id bigint, edition integer, title text NOT NULL, price numeric(10,2), author_id bigint,
        added timestamptz, PRIMARY KEY (id, edition));
    CREATE INDEX book_title ON book (title, price DESC);
    CREATE UNIQUE INDEX book_author ON book (author_id) INCLUDE (price);
    CREATE TABLE note (body text)";

/// A value as PostgreSQL's text format has it.
fn shown(array: &dyn Array, field: &Field, row: usize) -> String {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return "\\N".to_owned();
    }
    match array.data_type() {
        DataType::Boolean => if array.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        DataType::List(item) => {
            let items = array.as_list::<i32>().value(row);
            let items: Vec<String> = (0..items.len())
                .map(|at| if items.is_null(at) { "NULL".to_owned() } else { shown(items.as_ref(), item, at) })
                .collect();
            match field.metadata().get(PG_TYPE).map(String::as_str) {
                Some("int2vector" | "oidvector") => items.join(" "),
                _ => format!("{{{}}}", items.join(",")),
            }
        }
        _ => ArrayFormatter::try_new(array, &FormatOptions::default()).unwrap().value(row).to_string(),
    }
}

/// The rows of a query, one a line, columns apart by tabs.
async fn answer(session: &Session, sql: &str) -> Result<String, String> {
    let result = session.execute(sql).await.map_err(|error| error.to_string())?.pop().ok_or("no statement")?;
    let mut text = String::new();
    for batch in result.collect().await.map_err(|error| error.to_string())? {
        for row in 0..batch.num_rows() {
            let schema = batch.schema();
            let columns = batch.columns().iter().zip(schema.fields());
            let values: Vec<String> = columns.map(|(column, field)| shown(column.as_ref(), field, row)).collect();
            writeln!(text, "{}", values.join("\t")).unwrap();
        }
    }
    Ok(text)
}

/// Puts the names of relations in the place of their oids, if they are whole values.
fn named(text: &str, oids: &BTreeMap<String, String>) -> String {
    let value = |value: &str| oids.get(value).map_or_else(|| value.to_owned(), |name| format!("{{{name}}}"));
    text.lines().map(|line| line.split('\t').map(value).collect::<Vec<_>>().join("\t") + "\n").collect()
}

/// Lines in the order that matters: any, if the query states none.
fn in_order<'t>(rows: &'t str, query: &str) -> Vec<&'t str> {
    let mut lines: Vec<&str> = rows.lines().collect();
    if !query.to_lowercase().contains("order by") {
        lines.sort_unstable();
    }
    lines
}

async fn check(session: &Session, path: &Path, failures: &mut String) {
    let oids = answer(session, "SELECT oid, relname FROM pg_class WHERE relnamespace = 2200").await.unwrap();
    let oids: BTreeMap<String, String> =
        oids.lines().filter_map(|line| line.split_once('\t')).map(|(oid, name)| (oid.into(), name.into())).collect();
    let text = std::fs::read_to_string(path).unwrap();
    let (_, blocks) = text.split_once("\n\n").unwrap();
    for block in blocks.split("\n====\n") {
        let (query, expected) = block.split_once("\n----").unwrap();
        let sql = oids.iter().fold(query.to_owned(), |sql, (oid, name)| sql.replace(&format!("{{{name}}}"), oid));
        let expected = expected.trim();
        let failure = match answer(session, &sql).await {
            Err(error) => error,
            Ok(_) if expected == "~ runs" => continue,
            Ok(rows) => {
                let rows = named(&rows, &oids);
                if in_order(rows.trim(), query) == in_order(expected, query) {
                    continue;
                }
                format!("expected\n{expected}\ngot\n{rows}")
            }
        };
        let file = path.file_name().unwrap().to_string_lossy();
        writeln!(failures, "== {file}\n{query}\n-- {failure}\n").unwrap();
    }
}

#[test]
fn clients_see_what_postgresql_would_show_them() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path().join("database"), CreateOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let failures = runtime.block_on(async {
        let session = Session::new(&database);
        session.execute(TABLES).await.unwrap();
        let mut failures = String::new();
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/clients");
        let mut files: Vec<_> = files.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty());
        for path in files {
            check(&session, &path, &mut failures).await;
        }
        failures
    });
    assert!(failures.is_empty(), "{failures}");
}

/// A view whose one row says how often it was read.
#[derive(Debug, Default)]
struct Reads(std::sync::atomic::AtomicI64);

impl SystemView for Reads {
    fn name(&self) -> &str {
        "reads"
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("count", DataType::Int64, false)]))
    }

    fn rows(&self) -> saki_sql::Result<RecordBatch> {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        Ok(RecordBatch::try_new(self.schema(), vec![Arc::new(Int64Array::from(vec![count]))])?)
    }
}

#[test]
fn the_engine_shows_itself_and_who_is_asking() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path().join("database"), CreateOptions::default()).unwrap();
    database.system_views().register(Arc::new(Reads::default()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Session::new(&database);
        session.execute(TABLES).await.unwrap();
        session.execute("INSERT INTO note VALUES ('a'), ('b')").await.unwrap();
        session.execute("CHECKPOINT").await.unwrap();
        session.execute("CREATE ROLE ann SUPERUSER; SET ROLE ann").await.unwrap();
        for (sql, expected) in [
            (
                "SELECT name, base_rows, indexes FROM saki.tables ORDER BY name",
                "author\t0\t0\nbook\t0\t2\nnote\t2\t0\n",
            ),
            ("SELECT name FROM saki.indexes WHERE is_unique AND NOT is_primary", "book_author\n"),
            ("SELECT count FROM saki.reads", "1\n"),
            ("SELECT count FROM saki.reads", "2\n"),
            ("SELECT current_user, count(*) FROM note", "ann\t2\n"),
            ("SELECT rolname FROM pg_roles WHERE rolname = current_user", "ann\n"),
            ("SELECT reltuples FROM pg_class WHERE oid = 'note'::regclass", "2.0\n"),
        ] {
            assert_eq!(answer(&session, sql).await.unwrap(), expected, "{sql}");
        }
        for (sql, message) in [
            ("SELECT 'nothing'::regclass", "relation \"nothing\" does not exist"),
            ("SELECT current_setting('nothing')", "unrecognized configuration parameter \"nothing\""),
            ("SELECT (SELECT attname FROM pg_attribute WHERE attrelid = c.oid) FROM pg_class c", "more than one row"),
        ] {
            let error = answer(&session, sql).await.unwrap_err();
            assert!(error.contains(message), "{sql}: {error}");
        }
    });
}

/// One of everything that a schema can have.
const OBJECTS: &str = "
    CREATE SCHEMA lib;
    CREATE TABLE lib.author (id serial PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, kind integer DEFAULT 7,
        CONSTRAINT author_name CHECK (id <> kind));
    CREATE TABLE book (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        author integer REFERENCES lib.author (id) ON DELETE CASCADE, title text);
    CREATE VIEW titles AS SELECT id, title FROM book;
    CREATE SEQUENCE tally START 5 INCREMENT 2 MAXVALUE 99 CYCLE;
    COMMENT ON SCHEMA lib IS 'library';
    COMMENT ON TABLE book IS 'what is read';
    COMMENT ON COLUMN book.title IS 'on its back';
    COMMENT ON VIEW titles IS 'for the shelf';
    INSERT INTO lib.author (name) VALUES ('a'), ('b');
    INSERT INTO book (author) VALUES (1)";

/// Queries about them with what PostgreSQL 15 answers.
const ABOUT_OBJECTS: &[(&str, &str)] = &[
    ("SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND oid >= 16384", "lib\n"),
    (
        "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname IN ('lib', 'public') ORDER BY 1, 2",
        "lib\tauthor\tr\nlib\tauthor_id_seq\tS\nlib\tauthor_name_key\ti\nlib\tauthor_pkey\ti\npublic\tbook\tr\n\
         public\tbook_id_seq\tS\npublic\tbook_pkey\ti\npublic\ttally\tS\npublic\ttitles\tv\n",
    ),
    (
        "SELECT column_name, column_default, is_identity, identity_generation, is_nullable \
         FROM information_schema.columns WHERE table_name IN ('author', 'book') ORDER BY table_name, ordinal_position",
        "id\tnextval('lib.author_id_seq'::regclass)\tNO\t\\N\tNO\nname\t\\N\tNO\t\\N\tNO\nkind\t7\tNO\t\\N\tYES\n\
         id\t\\N\tYES\tALWAYS\tNO\nauthor\t\\N\tNO\t\\N\tYES\ntitle\t\\N\tNO\t\\N\tYES\n",
    ),
    (
        "SELECT conname, contype, pg_get_constraintdef(oid, true), conkey, confdeltype FROM pg_constraint \
         WHERE conrelid >= 16384 ORDER BY conname",
        "author_name\tc\tCHECK (id <> kind)\t{1,3}\t \nauthor_name_key\tu\tUNIQUE (name)\t{2}\t \n\
         author_pkey\tp\tPRIMARY KEY (id)\t{1}\t \n\
         book_author_fkey\tf\tFOREIGN KEY (author) REFERENCES lib.author(id) ON DELETE CASCADE\t{2}\tc\n\
         book_pkey\tp\tPRIMARY KEY (id)\t{1}\t \n",
    ),
    (
        "SELECT c.relname, d.objsubid, d.description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid \
         WHERE d.classoid = 'pg_class'::regclass ORDER BY 1, 2",
        "book\t0\twhat is read\nbook\t3\ton its back\ntitles\t0\tfor the shelf\n",
    ),
    ("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'lib'", "library\n"),
    (
        "SELECT pg_get_serial_sequence('lib.author', 'id'), pg_get_serial_sequence('book', 'id')",
        "lib.author_id_seq\tpublic.book_id_seq\n",
    ),
    (
        "SELECT sequencename, start_value, increment_by, max_value, cycle, last_value FROM pg_sequences ORDER BY 1",
        "author_id_seq\t1\t1\t2147483647\tf\t2\n\
         book_id_seq\t1\t1\t9223372036854775807\tf\t1\n\
         tally\t5\t2\t99\tt\t\\N\n",
    ),
    ("SELECT viewname FROM pg_views WHERE schemaname = 'public'", "titles\n"),
    (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a \
         WHERE a.attrelid = 'titles'::regclass AND a.attnum > 0 ORDER BY a.attnum",
        "id\tbigint\ntitle\ttext\n",
    ),
    (
        "SELECT conname FROM pg_constraint WHERE confrelid IN (SELECT pg_partition_ancestors('lib.author'::regclass) \
         UNION ALL VALUES ('lib.author'::regclass)) AND contype = 'f'",
        "book_author_fkey\n",
    ),
];

#[test]
fn all_that_a_schema_has_is_in_the_catalog() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path().join("database"), CreateOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Session::new(&database);
        session.execute(OBJECTS).await.unwrap();
        for (sql, expected) in ABOUT_OBJECTS {
            assert_eq!(answer(&session, sql).await.unwrap(), *expected, "{sql}");
        }
        assert_eq!(answer(&session, "SELECT nextval('tally')").await.unwrap(), "5\n");
        let last = "SELECT last_value FROM pg_sequences WHERE sequencename = 'tally'";
        assert_eq!(answer(&session, last).await.unwrap(), "5\n");
        // Rows count before they are merged.
        let rows = "SELECT reltuples FROM pg_class WHERE relname = 'author'";
        assert_eq!(answer(&session, rows).await.unwrap(), "2.0\n");
    });
}
