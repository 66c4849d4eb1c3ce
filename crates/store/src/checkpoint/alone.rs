//! Tables that one statement has for itself, with everything in their base.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::TableId;
use saki_mvcc::Holder;

use super::{ALL, merge_table, wait_durable};
use crate::database::Database;
use crate::locks::{LockMode, LockOwner, Policy, Requested, Stop};
use crate::merge::Pace;
use crate::reader::NewerRows;
use saki_catalog::{Result, SqlError, Table};

/// How long work that belongs to no session waits for tables that transactions use.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps everybody else from using some tables for as long as it lives.
pub struct Alone(#[expect(dead_code, reason = "held")] Arc<LockOwner>);

impl Database {
    /// Keeps transactions from using some tables, and merges what their deltas have: from here on what they are is
    /// their base. Waits, so it belongs on a thread that may. For work that belongs to no session.
    ///
    /// # Errors
    /// 55P03 if a transaction that uses one does not end; of storage.
    pub fn alone(&self, tables: &[String]) -> Result<Alone> {
        let (stop, owner) = (Stop::default(), LockOwner::new(self.locks()));
        let until = Instant::now() + PATIENCE;
        loop {
            let before = self.ids_of(tables);
            for (id, name) in &before {
                let asked = owner.lock(*id, LockMode::AccessExclusive, Policy::Wait, None)?;
                let patience = until.saturating_duration_since(Instant::now());
                if let Requested::Waiting(wait) = asked
                    && !wait.wait(&stop, patience)?
                {
                    return Err(SqlError::invalid(format!(
                        "table {name:?} is used by a transaction that does not end"
                    ))
                    .code("55P03")
                    .hint("end transactions that use it, then try again"));
                }
            }
            // A name may mean another table after a wait.
            if self.ids_of(tables) == before {
                break;
            }
        }
        self.bring_to_base(tables, &stop, None)?;
        Ok(Alone(owner))
    }

    /// Tables by their numbers, in one order for everybody, so that no two wait for each other.
    fn ids_of<'n>(&self, names: &'n [String]) -> Vec<(TableId, &'n String)> {
        let catalog = &self.generation().catalog;
        let mut ids: Vec<_> = names.iter().filter_map(|name| Some((catalog.get(name)?.id, name))).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Merges what the deltas of some tables have, and gives those that had something a new one. The caller keeps
    /// changes of their rows out, by a lock of SHARE or stronger; if `behalf` is its transaction, until the end of
    /// that.
    ///
    /// # Errors
    /// 57014 if it is told to stop: then nothing was changed; of storage.
    pub fn bring_to_base(&self, tables: &[String], stop: &Stop, behalf: Option<Holder>) -> Result<()> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let current = self.generation();
        let moment = engine.database.moment()?;
        let mut changed = Vec::new();
        for table in tables.iter().filter_map(|name| current.catalog.get(name)) {
            let Some(delta) = current.delta(table) else { continue };
            let reader = moment.reader()?;
            // Also what has been merged and not released: rows that go straight to the base are not compared with the
            // delta.
            let is_empty = NewerRows::new(&reader, delta.rows.newer_than(0), ALL).peek().is_none();
            if !is_empty {
                changed.push((Arc::clone(table), delta, reader));
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        wait_durable(engine, moment.timestamp())?;
        self.write_unless(stop, |writer| {
            writer.on_behalf_of = behalf;
            for (table, delta, reader) in changed {
                writer.stop.check()?;
                let now = writer.catalog.table(&table.name)?;
                if now.delta != table.delta {
                    // Another statement that keeps changes out has done it meanwhile.
                    continue;
                }
                let now = Arc::clone(now);
                merge_table(writer, &now, delta, reader, moment.timestamp(), &Pace::full())?;
                // What is in the delta still would pass for what comes to be in the base.
                let mut table = Table::clone(writer.catalog.table(&now.name)?);
                table.delta = writer.catalog.new_table_id();
                writer.catalog.put(table);
            }
            Ok(())
        })
    }
}
