//! `pg_locks`: locks of tables, advisory locks, and waits for rows as PostgreSQL shows them, for the end of a
//! transaction.

use saki_store::locks::{AdvisoryKey, LockRow, WaitEvent, is_name};

use super::super::objects::relation_oid;
use super::super::rows::Rows;
use super::super::session::DATABASE_OID;
use super::source::Source;

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    if name != "pg_locks" {
        return;
    }
    for LockRow { process, table, advisory, mode, is_granted, is_fast, since } in source.system.locks().list() {
        if is_name(table) {
            continue;
        }
        if let Some(key) = advisory {
            let (classid, objid, objsubid) = numbers(key);
            rows.push([
                ("locktype", "advisory".into()),
                ("database", DATABASE_OID.into()),
                ("classid", classid.into()),
                ("objid", objid.into()),
                ("objsubid", objsubid.into()),
                ("virtualtransaction", format!("{process}/0").into()),
                ("pid", process.into()),
                ("mode", mode.name().into()),
                ("granted", is_granted.into()),
                ("fastpath", false.into()),
                ("waitstart", since.into()),
            ]);
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

/// A key as `classid`, `objid` and `objsubid`: the halves of one number and 1, or two numbers and 2.
fn numbers(key: AdvisoryKey) -> (i64, i64, i64) {
    match key {
        AdvisoryKey::One(key) => ((key as u64 >> 32) as i64, i64::from(key as u32), 1),
        AdvisoryKey::Two(one, two) => (i64::from(one as u32), i64::from(two as u32), 2),
    }
}
