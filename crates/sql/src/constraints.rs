//! The pieces over tables that statements have made, with rows in a list.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use saki_base::Value;

use crate::session::Session;
use saki_catalog::{Result, SqlError, Table};
use saki_context::constraint::{Consequence, Defaults, ForeignKeys, Keys, NewValue, RowChecks};
use saki_context::database::Database;
use saki_postgres::statement::parse_query;
use saki_store::CreateOptions;

/// A session of a database that has gone through `sql`.
async fn session(directory: &tempfile::TempDir, sql: &str) -> Session {
    let database = Database::create(directory.path().join("database"), CreateOptions::default()).unwrap();
    let session = Session::new(&database);
    session.execute(sql).await.unwrap();
    session
}

fn table(session: &Session, name: &str) -> Arc<Table> {
    Arc::clone(session.database().generation().catalog.table(name).unwrap())
}

/// Rows of tables by name, looked through from one end to the other.
#[derive(Default)]
struct Lists(BTreeMap<String, Vec<Vec<Value>>>);

impl Keys for Lists {
    fn exists(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<bool> {
        Ok(!self.rows(table, columns, values)?.is_empty())
    }

    fn rows(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<Vec<Vec<Value>>> {
        let rows = self.0.get(&table.name).cloned().unwrap_or_default();
        let same = |row: &Vec<Value>| columns.iter().zip(values).all(|(column, value)| row[*column] == *value);
        Ok(rows.into_iter().filter(same).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_complete_an_inserts_query() {
    let directory = tempfile::tempdir().unwrap();
    let sql = "CREATE TABLE t (id serial, a int, b text DEFAULT 'x' || 'y', c int GENERATED ALWAYS AS IDENTITY)";
    let session = session(&directory, sql).await;
    let generation = session.database().generation();
    let table = table(&session, "t");
    let defaults = Defaults::new(&generation.catalog, &table);
    let complete = |sql: &str, given: &[usize]| {
        let (query, columns) = defaults.complete(*parse_query(sql)?, given)?;
        Ok::<_, SqlError>((query.to_string(), columns))
    };
    let (query, columns) = complete("VALUES (1), (2)", &[1]).unwrap();
    assert_eq!(columns, [1, 0, 2, 3]);
    let row = |a| format!("({a}, nextval('t_id_seq'), 'x' || 'y', nextval('t_c_seq'))");
    assert_eq!(query, format!("VALUES {}, {}", row(1), row(2)));
    let (query, columns) = complete("VALUES (DEFAULT, 'given', DEFAULT)", &[1, 2, 3]).unwrap();
    assert_eq!(columns, [1, 2, 3, 0]);
    assert_eq!(query, "VALUES (NULL, 'given', nextval('t_c_seq'), nextval('t_id_seq'))");
    let (query, columns) = complete("SELECT 1, 2", &[0, 1]).unwrap();
    assert_eq!(columns, [0, 1, 2, 3]);
    assert!(query.contains("FROM (SELECT 1, 2) AS \"source\" (\"given 0\", \"given 1\")"), "{query}");
    assert_eq!(complete("VALUES (3)", &[3]).unwrap_err().sqlstate(), "428C9");
    assert_eq!(complete("SELECT 3", &[3]).unwrap_err().sqlstate(), "428C9");
    assert_eq!(complete("VALUES (1, 2)", &[1]).unwrap_err().sqlstate(), "42601");
    let (query, _) = defaults.row().unwrap();
    assert_eq!(query.to_string(), "VALUES (nextval('t_id_seq'), NULL, 'x' || 'y', nextval('t_c_seq'))");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_checked_in_batches() {
    let directory = tempfile::tempdir().unwrap();
    let sql = "CREATE TABLE t (a int NOT NULL, b text, CONSTRAINT short CHECK (t.a < 10 AND length(b) < 3))";
    let session = session(&directory, sql).await;
    let table = table(&session, "t");
    let checks = RowChecks::new(&session.context().planner.state(), &table).unwrap();
    let batch = |a: Vec<Option<i32>>, b: Vec<Option<&str>>| {
        let columns: [ArrayRef; 2] = [Arc::new(Int32Array::from(a)), Arc::new(StringArray::from(b))];
        RecordBatch::try_from_iter_with_nullable(["a", "b"].into_iter().zip(columns).map(|(n, c)| (n, c, true)))
            .unwrap()
    };
    checks.check(&batch(vec![Some(1), Some(9)], vec![Some("xy"), None])).unwrap();
    let error = checks.check(&batch(vec![Some(1), None], vec![None, Some("x")])).unwrap_err();
    assert_eq!(error.sqlstate(), "23502");
    assert_eq!(error.message, "null value in column \"a\" of relation \"t\" violates not-null constraint");
    assert_eq!(error.detail.as_deref(), Some("Failing row contains (null, x)."));
    let error = checks.check(&batch(vec![Some(1), Some(2)], vec![None, Some("xyz")])).unwrap_err();
    assert_eq!(error.sqlstate(), "23514");
    assert_eq!(error.message, "new row for relation \"t\" violates check constraint \"short\"");
    assert_eq!(error.detail.as_deref(), Some("Failing row contains (2, xyz)."));
}

const FAMILY: &str = "CREATE TABLE parent (id bigint PRIMARY KEY, code int UNIQUE);
    CREATE TABLE cascading (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE nulled (id int PRIMARY KEY, parent bigint REFERENCES parent ON DELETE SET NULL ON UPDATE SET DEFAULT);
    CREATE TABLE strict (id int PRIMARY KEY, code int REFERENCES parent (code) ON DELETE RESTRICT);
    CREATE TABLE late (id int PRIMARY KEY, code int REFERENCES parent (code));
    CREATE TABLE node (id int PRIMARY KEY, up int REFERENCES node)";

fn parent(id: i64, code: Option<i32>) -> Vec<Value> {
    vec![Value::Int8(id), code.map_or(Value::Null, Value::Int4)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_needs_what_it_refers_to() {
    let directory = tempfile::tempdir().unwrap();
    let session = session(&directory, FAMILY).await;
    let generation = session.database().generation();
    let keys = ForeignKeys::new(&generation.catalog, &table(&session, "cascading")).unwrap();
    let mut lists = Lists::default();
    lists.0.insert("parent".into(), vec![parent(5, None)]);
    let row = |parent: Value| vec![Value::Int4(1), parent];
    let [reference] = keys.outgoing() else { panic!("one key refers to another table") };
    reference.check(&row(Value::Int4(5)), &mut lists).unwrap();
    reference.check(&row(Value::Null), &mut lists).unwrap();
    let error = reference.check(&row(Value::Int4(6)), &mut lists).unwrap_err();
    assert_eq!(error.sqlstate(), "23503");
    assert_eq!(
        error.message,
        "insert or update on table \"cascading\" violates foreign key constraint \"cascading_parent_fkey\""
    );
    assert_eq!(error.detail.as_deref(), Some("Key (parent)=(6) is not present in table \"parent\"."));
}

/// What all keys that refer to a table bring about, without doing it in between.
fn consequences(
    keys: &ForeignKeys,
    old: &[Value],
    new: Option<&[Value]>,
    lists: &mut Lists,
) -> Result<Vec<Consequence>> {
    let mut all = Vec::new();
    for reference in keys.incoming() {
        all.extend(reference.consequences(old, new, lists)?);
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_refers_to_a_row_follows_it_or_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let session = session(&directory, FAMILY).await;
    let generation = session.database().generation();
    let keys = ForeignKeys::new(&generation.catalog, &table(&session, "parent")).unwrap();
    let mut lists = Lists::default();
    lists
        .0
        .insert("cascading".into(), vec![vec![Value::Int4(1), Value::Int4(5)], vec![Value::Int4(2), Value::Int4(6)]]);
    lists.0.insert("nulled".into(), vec![vec![Value::Int4(3), Value::Int8(5)]]);
    let shown = |consequences: Vec<Consequence>| -> Vec<String> {
        let show = |consequence| match consequence {
            Consequence::Delete { table, row } => format!("delete {} {:?}", table.name, row[0]),
            Consequence::Update { table, row, set } => match &set[0] {
                (column, NewValue::Value(value)) => format!("set {} {:?} {column} {value:?}", table.name, row[0]),
                (column, NewValue::Default) => format!("default {} {:?} {column}", table.name, row[0]),
            },
            Consequence::Verify(_) => "verify".to_owned(),
        };
        let mut shown: Vec<String> = consequences.into_iter().map(show).collect();
        shown.sort();
        shown
    };
    let gone = consequences(&keys, &parent(5, None), None, &mut lists).unwrap();
    assert_eq!(shown(gone), ["delete cascading Int4(1)", "set nulled Int4(3) 1 Null"]);
    let moved = consequences(&keys, &parent(5, None), Some(&parent(7, None)), &mut lists).unwrap();
    assert_eq!(shown(moved), ["default nulled Int4(3) 1", "set cascading Int4(1) 1 Int4(7)", "verify"]);
    let same = consequences(&keys, &parent(5, Some(1)), Some(&parent(5, Some(1))), &mut lists).unwrap();
    assert!(same.is_empty());
    // A bigint that is no integer cannot be in an integer column.
    let far = consequences(&keys, &parent(5, None), Some(&parent(1 << 40, None)), &mut lists).unwrap_err();
    assert_eq!(far.sqlstate(), "22003");

    lists.0.insert("strict".into(), vec![vec![Value::Int4(1), Value::Int4(9)]]);
    let error = consequences(&keys, &parent(8, Some(9)), None, &mut lists).unwrap_err();
    assert_eq!(error.sqlstate(), "23503");
    assert_eq!(error.detail.as_deref(), Some("Key (code)=(9) is still referenced from table \"strict\"."));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_action_is_verified_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let session = session(&directory, FAMILY).await;
    let generation = session.database().generation();
    let keys = ForeignKeys::new(&generation.catalog, &table(&session, "node")).unwrap();
    let node = |id, up| vec![Value::Int4(id), Value::Int4(up)];
    let mut lists = Lists::default();
    lists.0.insert("node".into(), vec![node(1, 1), node(2, 1)]);
    let consequences = consequences(&keys, &node(1, 1), None, &mut lists).unwrap();
    let [Consequence::Verify(verification)] = &consequences[..] else { panic!("{consequences:?}") };
    lists.0.insert("node".into(), vec![node(2, 1)]);
    assert_eq!(verification.verify(&mut lists).unwrap_err().sqlstate(), "23503");
    // The statement put the key back, or took the other row too.
    lists.0.insert("node".into(), vec![node(2, 1), node(1, 2)]);
    verification.verify(&mut lists).unwrap();
    lists.0.insert("node".into(), Vec::new());
    verification.verify(&mut lists).unwrap();
}
