//! Columns that are dropped without a look at the rows, beside others that are added: sequences of statements against a
//! model, by every path, across merges, reopening and transactions that are taken back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use saki_base::Random;
use saki_sql::{Database, Session, TransactionStatus};

use crate::added_columns::{check, roots};
use crate::fast_rows::done;
use crate::support::{answer, create, number, refused, reopen, run};

const NULL: &str = "NULL";
/// Names that columns have one after the other.
const NAMES: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Int,
    Text,
    Numeric,
}

/// What is to be found in `t`: a column is an id, an indexed number, or one of those that come and go.
#[derive(Clone, Default, Debug)]
struct Model {
    extras: Vec<(&'static str, Kind)>,
    /// By id: `v`, and the extras as texts.
    rows: BTreeMap<i64, (i64, Vec<String>)>,
}

struct History {
    random: Random,
    model: Model,
    next: i64,
}

impl History {
    fn below(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    /// A value, as it is written and as it is shown.
    fn value(&mut self, kind: Kind) -> (String, String) {
        let number = self.below(50);
        match kind {
            _ if number == 0 => (NULL.to_owned(), NULL.to_owned()),
            Kind::Int => (number.to_string(), number.to_string()),
            Kind::Numeric => (format!("{number}.5"), format!("{number}.50")),
            Kind::Text => {
                let text = format!("t{number}").repeat(1 + number % 3);
                (format!("'{text}'"), text)
            }
        }
    }

    /// `ADD COLUMN`, if a name is free.
    fn add(&mut self) -> Option<String> {
        let free: Vec<_> =
            NAMES.into_iter().filter(|name| !self.model.extras.iter().any(|(known, _)| known == name)).collect();
        if free.is_empty() {
            return None;
        }
        let name = free[self.below(free.len())];
        let kind = [Kind::Int, Kind::Text, Kind::Numeric][self.below(3)];
        let (written, shown) = self.value(kind);
        self.model.extras.push((name, kind));
        self.model.rows.values_mut().for_each(|(_, row)| row.push(shown.clone()));
        let kind = ["int", "text", "numeric(12, 2)"][kind as usize];
        Some(format!("ADD COLUMN {name} {kind} DEFAULT {written}"))
    }

    /// `DROP COLUMN`, if there is one to drop.
    fn drop(&mut self) -> Option<String> {
        if self.model.extras.is_empty() {
            return None;
        }
        let at = self.below(self.model.extras.len());
        let (name, _) = self.model.extras.remove(at);
        self.model.rows.values_mut().for_each(|(_, row)| _ = row.remove(at));
        Some(format!("DROP COLUMN {name}"))
    }

    fn alter(&mut self) -> Option<String> {
        let count = 1 + self.below(4);
        let actions: Vec<String> =
            (0..count).filter_map(|_| if self.below(2) == 0 { self.add() } else { self.drop() }).collect();
        (!actions.is_empty()).then(|| format!("ALTER TABLE t {}", actions.join(", ")))
    }

    fn insert(&mut self) -> String {
        let count = 1 + self.below(60);
        let mut rows = Vec::new();
        for _ in 0..count {
            let (id, v) = (self.next, self.next % 7);
            self.next += 1;
            let kinds: Vec<Kind> = self.model.extras.iter().map(|(_, kind)| *kind).collect();
            let (written, shown): (Vec<_>, Vec<_>) = kinds.into_iter().map(|kind| self.value(kind)).unzip();
            let all: Vec<String> = [id.to_string(), v.to_string()].into_iter().chain(written).collect();
            rows.push(format!("({})", all.join(", ")));
            self.model.rows.insert(id, (v, shown));
        }
        let names: Vec<&str> = ["id", "v"].into_iter().chain(self.model.extras.iter().map(|(name, _)| *name)).collect();
        format!("INSERT INTO t ({}) VALUES {}", names.join(", "), rows.join(", "))
    }

    /// Ids of a range of rows.
    fn range(&mut self) -> (i64, i64) {
        let from = self.random.below(self.next as u64 + 1) as i64;
        let length = self.below(40) as i64;
        (from, from + length)
    }

    fn update(&mut self) -> String {
        let (from, to) = self.range();
        if self.model.extras.is_empty() || self.below(4) == 0 {
            self.model.rows.range_mut(from..=to).for_each(|(_, (v, _))| *v += 1);
            return format!("UPDATE t SET v = v + 1 WHERE id BETWEEN {from} AND {to}");
        }
        let at = self.below(self.model.extras.len());
        let (name, kind) = self.model.extras[at];
        let (written, shown) = self.value(kind);
        self.model.rows.range_mut(from..=to).for_each(|(_, (_, row))| row[at].clone_from(&shown));
        format!("UPDATE t SET {name} = {written} WHERE id BETWEEN {from} AND {to}")
    }

    fn delete(&mut self) -> String {
        let (from, to) = self.range();
        let to = to.min(from + 9);
        self.model.rows.retain(|id, _| !(from..=to).contains(id));
        format!("DELETE FROM t WHERE id BETWEEN {from} AND {to}")
    }

    fn statement(&mut self) -> String {
        loop {
            let drawn = match self.below(9) {
                0..=3 => self.alter(),
                4 | 5 => Some(self.insert()),
                6 | 7 => Some(self.update()),
                _ => Some(self.delete()),
            };
            if let Some(drawn) = drawn {
                return drawn;
            }
        }
    }

    /// Statements of a transaction, some of which are taken back.
    async fn transaction(&mut self, session: &Session) {
        let before = self.model.clone();
        run(session, "BEGIN").await;
        for _ in 0..1 + self.below(3) {
            run(session, &self.statement()).await;
            see(session, &self.model).await;
        }
        if self.below(2) == 0 {
            let mark = self.model.clone();
            run(session, "SAVEPOINT s").await;
            for _ in 0..1 + self.below(3) {
                run(session, &self.statement()).await;
            }
            see(session, &self.model).await;
            run(session, "ROLLBACK TO s").await;
            self.model = mark;
            run(session, &self.statement()).await;
        }
        see(session, &self.model).await;
        if self.below(2) == 0 {
            run(session, "ROLLBACK").await;
            self.model = before;
        } else {
            run(session, "COMMIT").await;
        }
    }
}

impl Model {
    fn shown(&self) -> String {
        let row = |(id, (v, row)): (&i64, &(i64, Vec<String>))| {
            [id.to_string(), v.to_string()].into_iter().chain(row.iter().cloned()).collect::<Vec<_>>().join(",")
        };
        self.rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// Looks at all rows by every path, at each column by itself, and at one row by its id.
async fn see(session: &Session, model: &Model) {
    for path in ["scan", "index", "columns"] {
        session.set("access_path", path).unwrap();
        assert_eq!(answer(session, "SELECT * FROM t ORDER BY id").await, model.shown(), "{path}");
        for (at, (name, _)) in model.extras.iter().enumerate() {
            let wanted = model.rows.iter().filter(|(_, (v, row))| *v == 3 && row[at] != NULL);
            let wanted: Vec<String> = wanted.map(|(id, (_, row))| format!("{id},{}", row[at])).collect();
            let query = format!("SELECT id, {name} FROM t WHERE v = 3 AND {name} IS NOT NULL ORDER BY id");
            assert_eq!(answer(session, &query).await, wanted.join("\n"), "{path}: {query}");
        }
    }
    session.set("access_path", "auto").unwrap();
    for (at, (name, kind)) in model.extras.iter().enumerate() {
        let counted = model.rows.values().filter(|(_, row)| row[at] != NULL).count() as i64;
        assert_eq!(number(session, &format!("SELECT count({name}) FROM t")).await, counted);
        if let (Kind::Int, Some((id, (_, row)))) = (kind, model.rows.iter().next_back()) {
            assert_eq!(answer(session, &format!("SELECT {name} FROM t WHERE id = {id}")).await, row[at]);
            let equal = model.rows.values().filter(|(_, other)| other[at] == row[at] && row[at] != NULL).count() as i64;
            assert_eq!(number(session, &format!("SELECT count(*) FROM t WHERE {name} = {}", row[at])).await, equal);
        }
    }
    let refusal = NAMES.into_iter().find(|name| !model.extras.iter().any(|(known, _)| known == name));
    // In a transaction it would be the end of it.
    if let Some(name) = refusal.filter(|_| session.transaction_status() == TransactionStatus::Idle) {
        assert_eq!(refused(session, &format!("SELECT {name} FROM t")).await, "42703");
    }
}

async fn history(seed: u64, directory: &Path, definition: &str) {
    let mut history = History { random: Random::new(seed), model: Model::default(), next: 0 };
    let mut database = create(directory);
    let mut session = Session::new(&database);
    run(&session, definition).await;
    for _ in 0..40 {
        match history.below(12) {
            0 | 1 => run(&session, "CHECKPOINT").await,
            2 => {
                drop(session);
                drop(database);
                database = reopen(directory);
                session = Session::new(&database);
            }
            3 => run(&session, "ANALYZE t").await,
            4 | 5 => history.transaction(&session).await,
            _ => run(&session, &history.statement()).await,
        }
        see(&session, &history.model).await;
        check(&database);
    }
    run(&session, "CHECKPOINT").await;
    see(&session, &history.model).await;
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_have_the_columns_that_histories_leave() {
    let definitions = [
        "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); CREATE INDEX t_v ON t (v)",
        "CREATE TABLE t (id int NOT NULL, v int NOT NULL); CREATE INDEX t_v ON t (v); CREATE INDEX t_id ON t (id)",
        "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); CREATE INDEX t_v ON t (v); \
         CREATE INDEX t_e ON t ((v + 1))",
        "CREATE TABLE t (id int, v int NOT NULL, PRIMARY KEY (v, id)) WITH (resident = on)",
    ];
    let first = std::env::var("SAKI_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + 12 {
        println!("seed {seed}");
        let directory = tempfile::tempdir().unwrap();
        history(seed, directory.path(), definitions[seed as usize % definitions.len()]).await;
    }
}

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, a int, b text, v int, d numeric(9, 2) NOT NULL DEFAULT 1);
    CREATE INDEX t_v ON t (v); CREATE INDEX t_b ON t (b); CREATE INDEX t_lower ON t (lower(b));
    INSERT INTO t SELECT i, -i, 'b' || i, i, i FROM generate_series(1, 20000) AS s (i); CHECKPOINT; ANALYZE t";

fn written(database: &Database) -> u64 {
    let generation = database.store().generation();
    let table = generation.catalog.table("t").unwrap();
    table.root.pages() + table.segments.as_ref().map_or(0, |segments| segments.pages)
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_dropped_without_writing_rows() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    let (before, pages) = (roots(&database), written(&database));
    let kept = |database: &Database, indexes: usize| {
        let now = roots(database);
        // The primary tree, the index on `v`, and the segments.
        assert_eq!((now[0], now[1], now.last()), (before[0], before[1], before.last()));
        assert_eq!((now.len(), written(database)), (2 + indexes, pages));
    };
    run(&session, "ALTER TABLE t DROP COLUMN a").await;
    kept(&database, 3);
    run(&session, "ALTER TABLE t DROP COLUMN b, ADD COLUMN b int DEFAULT 5, ADD COLUMN a text DEFAULT 'a'").await;
    kept(&database, 1);
    run(&session, "BEGIN; ALTER TABLE t DROP COLUMN d; ROLLBACK").await;
    assert_eq!(number(&session, "SELECT sum(d)::bigint FROM t").await, 200_010_000);
    run(
        &session,
        "BEGIN; ALTER TABLE t DROP COLUMN d, DROP COLUMN b; SAVEPOINT s; ALTER TABLE t DROP a; ROLLBACK TO s; COMMIT",
    )
    .await;
    kept(&database, 1);
    assert_eq!(answer(&session, "SELECT * FROM t WHERE id = 7").await, "7,7,a");
    assert_eq!(refused(&session, "SELECT d FROM t").await, "42703");
    let statistics = |database: &Database| {
        let generation = database.store().generation();
        let table = generation.catalog.table("t").unwrap();
        let known = table.statistics.clone().unwrap();
        (known.rows, known.columns.iter().map(|column| column.distinct.round()).collect::<Vec<_>>())
    };
    assert_eq!(statistics(&database), (20_000, vec![20_000.0, 20_000.0, 1.0]));
    check(&database);
    drop(session);
    drop(database);
    database = reopen(directory.path());
    let session = Session::new(&database);
    kept(&database, 1);
    check(&database);
    assert_eq!(answer(&session, "SELECT count(*), sum(v), max(a) FROM t").await, "20000,200010000,a");
    // Merged, segments have no more what was dropped: about three columns of five go.
    run(&session, "UPDATE t SET v = 0 WHERE id = 1; CHECKPOINT").await;
    check(&database);
    assert!(written(&database) < pages, "{} pages of {pages}", written(&database));
    assert_eq!(answer(&session, "SELECT count(*), sum(v), max(a) FROM t").await, "20000,200009999,a");
    // Another key has all rows written anew.
    let table = |database: &Database| Arc::clone(database.store().generation().catalog.table("t").unwrap());
    assert!(!table(&database).stored.is_plain());
    run(&session, "ALTER TABLE t DROP COLUMN id").await;
    assert!(table(&database).stored.is_plain() && table(&database).primary_key.is_empty());
    assert_eq!(answer(&session, "SELECT count(*), sum(v), max(a) FROM t").await, "20000,200009999,a");
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_on_a_column_goes_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1); CREATE ROLE reader").await;
    run(
        &session,
        "CREATE TABLE t (id int PRIMARY KEY, o int REFERENCES other, u int UNIQUE, s serial, k int CHECK (k > 0), z int,
             CHECK (z > id)) WITH (bloom = 'z');
         INSERT INTO t SELECT i, 1, i, i, i, i + 1 FROM generate_series(1, 3000) AS s (i); CHECKPOINT;
         GRANT SELECT (o, z) ON t TO reader",
    )
    .await;
    let before = roots(&database);
    run(&session, "ALTER TABLE t DROP COLUMN o, DROP COLUMN u, DROP COLUMN s, DROP COLUMN k").await;
    let after = roots(&database);
    assert_eq!((after[0], after.last()), (before[0], before.last()), "Bloom filters of what is left are as they were");
    assert_eq!(answer(&session, "SELECT id, z FROM t WHERE z = 8").await, "7,8");
    run(&session, "INSERT INTO t VALUES (4000, 4001); DELETE FROM other").await;
    assert_eq!(refused(&session, "INSERT INTO t VALUES (4002, 4001)").await, "23514");
    assert_eq!(number(&session, "SELECT count(*) FROM pg_class WHERE relname LIKE 't\\_%seq'").await, 0);
    let attributes = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum";
    assert_eq!(answer(&session, attributes).await, "id\nz");
    let may_read = |column: &str| format!("SELECT has_column_privilege('reader', 't', '{column}', 'SELECT')::int");
    assert_eq!(number(&session, &may_read("z")).await, 1);
    run(&session, "ALTER TABLE t DROP COLUMN z, ADD COLUMN o int").await;
    assert_eq!(number(&session, &may_read("o")).await, 0, "what has the name is another column");
    // Nothing is left that the role could hang on.
    run(&session, "DROP ROLE reader; CHECKPOINT").await;
    assert_eq!(answer(&session, "SELECT count(*), count(o) FROM t").await, "3001,0");
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_statements_do_not_see_what_was_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, TABLE).await;
    database.store().start_engine().unwrap();
    let rows = |rows: &[&str]| Ok((rows.len() as u64, rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()));
    assert_eq!(done(&session, "SELECT * FROM t WHERE id = 7").await, rows(&["7|-7|b7|7|Decimal(700)"]));
    run(&session, "ALTER TABLE t DROP COLUMN a, DROP COLUMN b, ADD COLUMN a int DEFAULT 3").await;
    assert_eq!(done(&session, "SELECT * FROM t WHERE id = 7").await, rows(&["7|7|Decimal(700)|3"]));
    for change in [
        "UPDATE t SET d = 0 WHERE id = 7",
        "UPDATE t SET a = a + 1 WHERE v = 8",
        "INSERT INTO t (id, v) VALUES (30000, 5)",
        "DELETE FROM t WHERE id = 9",
    ] {
        assert_eq!(done(&session, change).await.map(|(rows, _)| rows), Ok(1), "{change}");
    }
    for merge in [false, true] {
        if merge {
            run(&session, "CHECKPOINT").await;
        }
        for (id, row) in [
            (7, &["7|7|Decimal(0)|3"][..]),
            (8, &["8|8|Decimal(800)|4"]),
            (9, &[]),
            (10, &["10|10|Decimal(1000)|3"]),
            (30_000, &["30000|5|Decimal(100)|3"]),
        ] {
            assert_eq!(done(&session, &format!("SELECT * FROM t WHERE id = {id}")).await, rows(row));
        }
        assert_eq!(done(&session, "SELECT id, a FROM t WHERE v = 10").await, rows(&["10|3"]));
    }
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_era_left_all_rows_are_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE INDEX t_v ON t (v)").await;
    run(&session, "INSERT INTO t SELECT i, i FROM generate_series(1, 500) AS s (i); CHECKPOINT").await;
    let before = roots(&database)[0];
    let mut anew = 0;
    for round in 0..70 {
        run(&session, &format!("ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT {round}")).await;
        run(&session, &format!("UPDATE t SET v = v WHERE id = {}", round + 1)).await;
        assert_eq!(number(&session, "SELECT sum(c) FROM t").await, 500 * round);
        run(&session, "ALTER TABLE t DROP COLUMN c").await;
        anew += i32::from(database.store().generation().catalog.table("t").unwrap().stored.is_plain());
    }
    assert!(anew >= 1 && roots(&database)[0] != before);
    assert_eq!(number(&session, "SELECT sum(v) FROM t").await, 125_250);
    check(&database);
}
