//! What the tests share: a small database, statements that have to work, and statements that have to wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use saki_catalog::convert::shown;
use saki_sql::{CreateOptions, Database, OpenOptions, Session, SqlError, StatementResult};

pub fn options() -> OpenOptions {
    OpenOptions { cache_bytes: 8 << 20, reactors: Some(1), ..OpenOptions::default() }
}

pub fn create(directory: &Path) -> Arc<Database> {
    let options = CreateOptions { open: options(), ..CreateOptions::default() };
    Database::create(directory.join("database"), options).unwrap()
}

pub fn reopen(directory: &Path) -> Arc<Database> {
    Database::open(directory.join("database"), options()).unwrap()
}

pub async fn run(session: &Session, sql: &str) {
    session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The condition that a statement is refused with.
pub async fn refused(session: &Session, sql: &str) -> String {
    match session.execute(sql).await {
        Ok(_) => panic!("{sql} was done"),
        Err(error) => error.sqlstate().to_owned(),
    }
}

/// The rows of a result as text, with a word for what could not be seen.
pub async fn text_rows(result: StatementResult) -> Result<Vec<Vec<String>>, SqlError> {
    let mut rows = Vec::new();
    let options = FormatOptions::default().with_null("NULL");
    for batch in result.collect().await? {
        let columns: Vec<_> = batch.columns().iter().map(shown).collect();
        let columns: Vec<ArrayFormatter<'_>> =
            columns.iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let text = |column: &ArrayFormatter<'_>| match column.value(row).to_string() {
                empty if empty.is_empty() => "(empty)".to_owned(),
                text => text,
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    Ok(rows)
}

/// The rows of a statement that works: a line each, values between commas.
pub async fn answer(session: &Session, sql: &str) -> String {
    let result = session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).pop().expect("a result");
    let rows = text_rows(result).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join("\n")
}

/// Has a session plan what it would run compiled.
pub async fn planned<T>(session: &Session, work: impl Future<Output = T>) -> T {
    session.set("compiled", "off").unwrap();
    let done = work.await;
    session.set("compiled", "on").unwrap();
    done
}

/// One number that a query gives.
pub async fn number(session: &Session, sql: &str) -> i64 {
    let batches = session.execute(sql).await.unwrap().pop().unwrap().collect().await.unwrap();
    let column = arrow::compute::cast(batches[0].column(0), &arrow_schema::DataType::Int64).unwrap();
    arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(&column).value(0)
}

/// Whether a statement is still under way after a while.
pub async fn waits(statement: &mut (impl Future + Unpin)) -> bool {
    tokio::time::timeout(Duration::from_millis(100), statement).await.is_err()
}

/// Keeps all others from publishing, from when its turn comes until it is let go.
pub struct HeldWriter {
    letting_go: mpsc::Sender<()>,
    holds: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl HeldWriter {
    /// Behind those who wait to publish already.
    pub fn queue(database: &Arc<Database>) -> Self {
        let (letting_go, told) = mpsc::channel();
        let (database, holds) = (Arc::clone(database), Arc::new(AtomicBool::new(false)));
        let has = Arc::clone(&holds);
        let hold = move || {
            let wait = |_: &mut saki_store::Writer<'_>| {
                has.store(true, Ordering::SeqCst);
                told.recv().unwrap();
                Ok(())
            };
            database.store().write(wait).unwrap();
        };
        Self { letting_go, holds, thread: std::thread::spawn(hold) }
    }

    /// Waits for its turn.
    pub async fn holds(&self) {
        while !self.holds.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn let_go(self) {
        self.letting_go.send(()).unwrap();
        self.thread.join().unwrap();
    }
}
