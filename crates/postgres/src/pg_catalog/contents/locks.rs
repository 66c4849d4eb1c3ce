//! `pg_locks`: locks of tables, and waits for rows as PostgreSQL shows them, for the end of a transaction.

use saki_store::locks::{LockRow, WaitEvent, is_name};

use super::super::objects::relation_oid;
use super::super::rows::Rows;
use super::super::session::DATABASE_OID;
use super::source::Source;

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    if name != "pg_locks" {
        return;
    }
    for LockRow { process, table, mode, is_granted, is_fast, since } in source.system.locks().list() {
        if is_name(table) {
            continue;
        }
        rows.push([
            ("locktype", "relation".into()),
            ("database", DATABASE_OID.into()),
            ("relation", relation_oid(table.0).into()),
            ("virtualtransaction", format!("{process}/0").into()),
            ("pid", process.into()),
            ("mode", mode.name().into()),
            ("granted", is_granted.into()),
            ("fastpath", is_fast.into()),
            ("waitstart", since.into()),
        ]);
    }
    for (process, event) in source.system.locks().wait_events() {
        if event == WaitEvent::Transaction {
            rows.push([
                ("locktype", "transactionid".into()),
                ("virtualtransaction", format!("{process}/0").into()),
                ("pid", process.into()),
                ("mode", "ShareLock".into()),
                ("granted", false.into()),
                ("fastpath", false.into()),
            ]);
        }
    }
}
