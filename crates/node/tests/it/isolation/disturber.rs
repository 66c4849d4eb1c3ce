//! What happens beside a history: its table is altered, indexed, loaded into and merged, and statements of its sessions
//! are cancelled, wherever they are just then.

use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, NoTls};

use super::checker::Key;

/// Keys of rows that are loaded are from here on, and no history has one of them.
pub const LOADED: Key = 1 << 24;
/// As many as go into a table's base, and not through memory.
const ROWS: Key = 40_000;
/// In so many histories one loads, and the next one takes the rows away.
const LOADING: u64 = 10;
/// The longest between two disturbances, in milliseconds.
const PAUSE_MAX: u64 = 12;

/// What the table and others have to bear.
const STATEMENTS: [&str; 14] = [
    "ALTER TABLE lists ADD COLUMN IF NOT EXISTS extra int DEFAULT 7",
    "ALTER TABLE lists ADD COLUMN IF NOT EXISTS note text",
    "ALTER TABLE lists DROP COLUMN IF EXISTS extra",
    "ALTER TABLE lists DROP COLUMN IF EXISTS note",
    "CREATE INDEX IF NOT EXISTS by_list ON lists (list)",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_list ON lists (list)",
    "DROP INDEX IF EXISTS by_list",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_both ON lists (key, list)",
    "REINDEX TABLE CONCURRENTLY lists",
    "DROP INDEX CONCURRENTLY IF EXISTS by_both",
    "CHECKPOINT",
    "CHECKPOINT",
    "ANALYZE lists",
    "INSERT INTO beside VALUES (1); TRUNCATE beside",
];

/// A session that disturbs others.
pub struct Disturber<'c> {
    client: &'c Client,
    victims: &'c [Client],
    /// By which the server knows the victims.
    processes: Vec<i32>,
    /// Rows that were loaded and are there.
    loaded: u64,
}

impl<'c> Disturber<'c> {
    pub async fn new(client: &'c Client, victims: &'c [Client]) -> Self {
        client.batch_execute("CREATE TABLE beside (id int); SET lock_timeout = '5s'").await.unwrap();
        let processes = join_all(
            victims.iter().map(async |victim| victim.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)),
        );
        Self { client, victims, processes: processes.await, loaded: 0 }
    }

    /// One disturbance after the other, until the history is over.
    pub async fn disturb(&mut self, history: u64, is_over: &Cell<bool>) {
        let mut random = StdRng::seed_from_u64(!history);
        match history % LOADING {
            5 => self.load(history).await,
            6 => self.unload().await,
            _ => {}
        }
        while !is_over.get() {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..=PAUSE_MAX))).await;
            match random.random_range(0..3) {
                0 => self.cancel(&mut random).await,
                _ => {
                    let statement = STATEMENTS[random.random_range(0..STATEMENTS.len())];
                    Self::done(statement, self.client.batch_execute(statement).await);
                }
            }
        }
    }

    /// What a statement gave; `None` if others were in its way.
    fn done<T>(statement: &str, outcome: Result<T, Error>) -> Option<T> {
        let error = match outcome {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        // Serialization, deadlock, a lock that was not had, what cannot be while others change the table.
        let is_fair = error.code().is_some_and(|code| ["40001", "40P01", "55P03", "55006"].contains(&code.code()));
        assert!(is_fair, "{statement}: {error:?}");
        None
    }

    /// By a request or by a statement; there may be nothing to cancel.
    async fn cancel(&self, random: &mut StdRng) {
        let victim = random.random_range(0..self.victims.len());
        match random.random_bool(0.5) {
            true => self.victims[victim].cancel_token().cancel_query(NoTls).await.unwrap(),
            false => {
                let cancelling = format!("SELECT pg_cancel_backend({})", self.processes[victim]);
                self.client.batch_execute(&cancelling).await.unwrap();
            }
        }
    }

    async fn load(&mut self, history: u64) {
        let first = LOADED + Key::try_from(history / LOADING % 100).unwrap() * ROWS;
        let mut rows = String::new();
        (first..first + ROWS).for_each(|key| writeln!(rows, "{key}\t").unwrap());
        let copying = async {
            let sink = self.client.copy_in::<_, Bytes>("COPY lists (key, list) FROM STDIN").await?;
            let mut sink = std::pin::pin!(sink);
            sink.send(Bytes::from(rows)).await?;
            sink.finish().await
        };
        self.loaded += Self::done("COPY", copying.await).unwrap_or(0);
    }

    async fn unload(&mut self) {
        let deleting = self.client.execute("DELETE FROM lists WHERE key >= $1", &[&LOADED]);
        if let Some(rows) = Self::done("DELETE", deleting.await) {
            assert_eq!(rows, self.loaded, "what was loaded");
            self.loaded = 0;
        }
    }
}
