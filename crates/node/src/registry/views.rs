//! What connections are doing, for those who watch: the views `saki.sessions` and `saki.queries`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{Field, Schema, SchemaRef};
use saki_sql::{Progress, SystemView};

use super::Registry;
use super::activity::{Activity, Client, Now, State};

/// A connection at one moment.
struct Row {
    process: i32,
    now: Now,
    client: Arc<Client>,
    rows: u64,
    progress: Progress,
}

fn rows(registry: &Weak<Registry>) -> Vec<Row> {
    let activities = registry.upgrade().map(|registry| registry.activities()).unwrap_or_default();
    let row = |(process, activity): (i32, Arc<Activity>)| {
        let now = activity.now.lock().clone();
        let client = now.client.clone()?;
        let progress = now.session.upgrade().map(|session| session.progress()).unwrap_or_default();
        Some(Row { process, now, client, rows: activity.rows.load(Ordering::Relaxed), progress })
    };
    activities.into_iter().filter_map(row).collect()
}

/// One of the views.
#[derive(Debug)]
pub struct View {
    name: &'static str,
    columns: &'static [Column],
    /// Whether it has only what runs.
    active: bool,
    registry: Weak<Registry>,
}

/// A column of a view: its name, and its values.
type Column = (&'static str, fn(&[Row]) -> ArrayRef);

fn texts<'r>(values: impl Iterator<Item = Option<&'r str>>) -> ArrayRef {
    Arc::new(StringArray::from_iter(values))
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.map(|value| i64::try_from(value).unwrap_or(i64::MAX))))
}

fn times(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter(values).with_timezone("UTC"))
}

const PID: Column = ("pid", |rows| Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| i64::from(r.process)))));
const USER: Column = ("user_name", |rows| texts(rows.iter().map(|row| Some(row.client.user.as_str()))));
const STATEMENT: Column = ("statement", |rows| texts(rows.iter().map(|row| row.now.statement.as_deref())));
const BEGAN: Column =
    ("began_at", |rows| times(rows.iter().map(|row| row.now.statement.as_ref().map(|_| row.now.began))));
const ROWS: Column = ("rows_sent", |rows| counts(rows.iter().map(|row| row.rows)));

const SESSIONS: &[Column] = &[
    PID,
    USER,
    ("database_name", |rows| texts(rows.iter().map(|row| Some(row.client.database.as_str())))),
    ("application_name", |rows| texts(rows.iter().map(|row| Some(row.now.application.as_str())))),
    ("client_address", |rows| {
        let address = |row: &Row| row.client.ends.peer().map(|(address, _)| address.to_string());
        Arc::new(StringArray::from_iter(rows.iter().map(address)))
    }),
    ("client_port", |rows| {
        // As PostgreSQL has it: -1 is a local socket.
        let port = |row: &Row| row.client.ends.peer().map_or(-1, |(_, port)| port.into());
        Arc::new(Int64Array::from_iter_values(rows.iter().map(port)))
    }),
    ("connected_at", |rows| times(rows.iter().map(|row| Some(row.client.connected)))),
    ("state", |rows| texts(rows.iter().map(|row| Some(row.now.state.name())))),
    ("state_since", |rows| times(rows.iter().map(|row| Some(row.now.since)))),
    BEGAN,
    STATEMENT,
    ROWS,
];

const QUERIES: &[Column] = &[
    PID,
    USER,
    BEGAN,
    STATEMENT,
    ROWS,
    ("visits_done", |rows| counts(rows.iter().map(|row| row.progress.visits_done))),
    ("visits_estimated", |rows| counts(rows.iter().map(|row| row.progress.visits_estimated))),
];

/// The views over a server's connections.
pub fn views(registry: &Arc<Registry>) -> [Arc<dyn SystemView>; 2] {
    let view = |name, columns, active| {
        Arc::new(View { name, columns, active, registry: Arc::downgrade(registry) }) as Arc<dyn SystemView>
    };
    [view("sessions", SESSIONS, false), view("queries", QUERIES, true)]
}

impl SystemView for View {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        let field = |(name, values): &Column| Field::new(*name, values(&[]).data_type().clone(), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    fn rows(&self) -> saki_sql::Result<RecordBatch> {
        let mut rows = rows(&self.registry);
        rows.retain(|row| !self.active || row.now.state == State::Active);
        let arrays = self.columns.iter().map(|(_, values)| values(&rows)).collect();
        Ok(RecordBatch::try_new(self.schema(), arrays)?)
    }
}
