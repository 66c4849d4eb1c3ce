//! `pg_stat_activity`: what `saki.sessions` says where a server has registered it, else the session itself.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use saki_store::locks::WaitEvent;

use super::super::rows::{Cell, Rows};
use super::super::session::DATABASE_OID;
use super::source::Source;

/// # Errors
/// What keeps the sessions from being known.
pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) -> Result<()> {
    if name != "pg_stat_activity" {
        return Ok(());
    }
    match source.system.views().find("sessions") {
        Some(view) => {
            let sessions = view.rows()?;
            let sessions = source.system.as_seen(&sessions)?;
            let waits = source.system.locks().wait_events();
            (0..sessions.num_rows()).for_each(|row| server_session(source, &sessions, row, &waits, rows));
        }
        None => own_session(source, rows),
    }
    Ok(())
}

fn server_session(
    source: &Source<'_>,
    sessions: &RecordBatch,
    row: usize,
    waits: &HashMap<i64, WaitEvent>,
    rows: &mut Rows,
) {
    let array = |name: &str| sessions.column_by_name(name).filter(|array| array.is_valid(row));
    let text = |name: &str| Cell::from(array(name).and_then(|a| a.as_string_opt::<i32>()).map(|a| a.value(row)));
    let number =
        |name: &str| Cell::from(array(name).and_then(|a| a.as_primitive_opt::<Int64Type>()).map(|a| a.value(row)));
    let time = |name: &str| {
        Cell::from(array(name).and_then(|a| a.as_primitive_opt::<TimestampMicrosecondType>()).map(|a| a.value(row)))
    };
    let process = array("pid").and_then(|pids| pids.as_primitive_opt::<Int64Type>()).map(|pids| pids.value(row));
    let user = match text("user_name") {
        Cell::Text(name) => {
            source.system.with_catalog(|catalog| catalog.role_named(&name).map(|role| i64::from(role.id.0)).into())
        }
        _ => Cell::Null,
    };
    let wait = process.and_then(|process| waits.get(&process));
    rows.push([
        ("datid", DATABASE_OID.into()),
        ("datname", text("database_name")),
        ("pid", number("pid")),
        ("usesysid", user),
        ("usename", text("user_name")),
        ("application_name", text("application_name")),
        ("client_addr", text("client_address")),
        ("client_port", number("client_port")),
        ("backend_start", time("connected_at")),
        ("query_start", time("began_at")),
        ("state_change", time("state_since")),
        ("wait_event_type", wait.map(|_| "Lock").into()),
        ("wait_event", wait.map(|wait| event_name(*wait)).into()),
        ("state", text("state")),
        ("query", text("statement")),
        ("backend_type", "client backend".into()),
    ]);
}

fn event_name(event: WaitEvent) -> &'static str {
    match event {
        WaitEvent::Advisory => "advisory",
        WaitEvent::Relation => "relation",
        WaitEvent::Transaction => "transactionid",
    }
}

fn own_session(source: &Source<'_>, rows: &mut Rows) {
    let session = source.system.session();
    rows.push([
        ("datid", DATABASE_OID.into()),
        ("datname", session.database.as_str().into()),
        ("pid", session.backend_pid.into()),
        ("usesysid", i64::from(source.system.roles().session.0).into()),
        ("usename", source.system.user().into()),
        ("application_name", source.system.parameters().setting("application_name").unwrap_or_default().into()),
        ("backend_start", session.started_micros.into()),
        ("state", "active".into()),
        ("backend_type", "client backend".into()),
    ]);
}
