//! The engine beside the volume: where its logs lie, and which of its tables is whose delta.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use saki_base::{Column, DataType, KeyColumn, KeyLayout, PageSize, RowLayout, TableId, ValueRef};
use saki_mvcc::{Range, TableDefinition};

use super::logs::LogStore;
use super::table::{Delta, PerTable, definition};
use saki_catalog::{Catalog, Difference, LogState, Result, SharedMap, SqlError, Table};

/// What the logs are to bring back, and what they must know of.
pub fn range_of(state: LogState) -> Range {
    let known = state.known_through.max(state.merged_through);
    Range { after: Some(state.merged_through), known: Some(known), ..Range::default() }
}

/// The in-memory engine of one database.
pub struct Engine {
    pub database: saki_mvcc::Database,
    deltas: Mutex<Known>,
    /// How many have been made.
    runners: AtomicUsize,
    /// Of an extent of a log.
    pub extent_bytes: u64,
    of_table: PerTable,
    page_size: PageSize,
    /// Has a row for each transaction that has committed rows and a change of the catalog.
    marks: saki_mvcc::Table,
}

/// Deltas that have been made, and may be in use.
#[derive(Default)]
struct Known {
    deltas: HashMap<TableId, Weak<Delta>>,
    /// How many there are when those that nobody uses are looked for: twice as many as were left the last time, so that
    /// each new one pays for a few looks, however many there are.
    sweep_at: usize,
}

impl Known {
    fn put(&mut self, table: TableId, delta: &Arc<Delta>) {
        if self.deltas.len() >= self.sweep_at {
            self.deltas.retain(|_, delta| delta.strong_count() > 0);
            self.sweep_at = 2 * self.deltas.len() + 1;
        }
        self.deltas.insert(table, Arc::downgrade(delta));
    }
}

/// No table of the catalog has this number.
const MARKS: TableId = TableId(u32::MAX);

impl Engine {
    /// Opens the logs that the catalog speaks of and brings back what the base does not have. If they
    /// accept a loss, what of it can be read.
    ///
    /// # Errors
    /// If the logs are not there, are damaged or do not belong to the base; of storage.
    pub fn recover(
        logs: &dyn LogStore,
        state: LogState,
        catalog: &Catalog,
        of_table: PerTable,
        page_size: PageSize,
        log: saki_mvcc::LogOptions,
    ) -> Result<Self> {
        if !logs.exists() && log.accept_loss {
            logs.clear()?;
        }
        if !logs.exists() {
            return Err(SqlError::storage(format!(
                "{}: the logs of the database are not there, and they have changes that its base has not",
                logs.name()
            ))
            .hint("a database is moved together with its directory of logs"));
        }
        let Range { after, known, .. } = range_of(state);
        let options = saki_mvcc::Options { log, after, known, ..saki_mvcc::Options::default() };
        Self::open(logs, state, catalog, of_table, page_size, options)
    }

    /// Makes new logs, which begin behind what has been merged.
    pub fn create(
        logs: &dyn LogStore,
        state: LogState,
        catalog: &Catalog,
        of_table: PerTable,
        page_size: PageSize,
        log: saki_mvcc::LogOptions,
    ) -> Result<Self> {
        logs.clear()?;
        let options = saki_mvcc::Options { log, after: Some(state.merged_through), ..saki_mvcc::Options::default() };
        Self::open(logs, state, catalog, of_table, page_size, options)
    }

    fn open(
        logs: &dyn LogStore,
        state: LogState,
        catalog: &Catalog,
        of_table: PerTable,
        page_size: PageSize,
        options: saki_mvcc::Options,
    ) -> Result<Self> {
        let database = state.database.ok_or_else(|| SqlError::internal("logs without an identity"))?;
        let mut known = saki_mvcc::Catalog::in_memory(database, state.logs);
        for table in catalog.tables() {
            known.define(table.delta, definition(table, page_size), table.merged_through)?;
        }
        // Of transactions whose commit may be in the logs, and is not in the base yet.
        for staged in catalog.staged() {
            let Some(prepared) = &staged.prepared else { continue };
            let after = catalog.with_prepared(staged.id, prepared)?;
            for table in after.difference(catalog).tables.into_iter().filter_map(|table| table.after) {
                if catalog.with_delta(table.delta).next().is_none() {
                    known.define(table.delta, definition(&table, page_size), 0)?;
                }
            }
        }
        known.define(MARKS, mark_definition(), 0)?;
        let devices = logs.open(state.logs)?;
        let extent_bytes = options.log.extent_bytes;
        let database = saki_mvcc::Database::open_on(known, devices, options, &|_| {})?;
        let marks = database.table_of(MARKS).ok_or_else(|| SqlError::internal("the table of marks is not there"))?;
        let deltas = Mutex::default();
        let runners = AtomicUsize::new(0);
        Ok(Self { database, deltas, runners, extent_bytes, of_table, page_size, marks })
    }

    /// Has the commit of a transaction leave a mark in the logs.
    pub(crate) fn mark(&self, transaction: &mut saki_mvcc::Transaction<'_>, number: u32) -> Result<()> {
        transaction.write(&self.marks, &mark_key(number)?, Some(&mark_body()?)).map_err(SqlError::from)
    }

    /// Whether the logs have brought back a mark.
    pub(crate) fn is_marked(&self, number: u32) -> Result<bool> {
        let reader = self.database.moment()?.reader()?;
        Ok(reader.look(&self.marks, &mark_key(number)?, |seen| matches!(seen, saki_mvcc::Seen::Row(_))))
    }

    /// Forgets marks of commits up to a timestamp, which are in the base.
    pub(crate) fn release_marks(&self, through: u64) -> Result<()> {
        self.database.release(&self.marks, through).map(drop).map_err(SqlError::from)
    }

    /// What runs the transactions of one session. Sessions take turns with the logs.
    pub fn runner(&self) -> Result<saki_mvcc::Runner> {
        let log = self.runners.fetch_add(1, Ordering::Relaxed) % self.database.logs();
        self.database.runner_on(log).map_err(SqlError::from)
    }

    /// The deltas of all tables of a catalog; those that are new begin empty.
    pub fn deltas(&self, catalog: &Catalog) -> Result<SharedMap<TableId, Arc<Delta>>> {
        catalog.tables().map(|table| Ok((table.delta, self.delta(table)?))).collect()
    }

    /// The deltas of all tables of a catalog that differs so from the one with the deltas `before`.
    pub fn deltas_after(
        &self,
        before: &SharedMap<TableId, Arc<Delta>>,
        difference: &Difference,
    ) -> Result<SharedMap<TableId, Arc<Delta>>> {
        let mut deltas = before.clone();
        for table in difference.tables.iter().filter_map(|table| table.before.as_ref()) {
            deltas.remove(&table.delta);
        }
        for table in difference.tables.iter().filter_map(|table| table.after.as_ref()) {
            deltas.insert(table.delta, self.delta(table)?);
        }
        Ok(deltas)
    }

    pub(crate) fn delta(&self, table: &Table) -> Result<Arc<Delta>> {
        let mut known = self.deltas.lock();
        if let Some(delta) = known.deltas.get(&table.delta).and_then(Weak::upgrade) {
            return Ok(delta);
        }
        let rows = match self.database.table_of(table.delta) {
            Some(rows) => rows,
            None => self.database.define_table(table.delta, definition(table, self.page_size))?,
        };
        let delta = Arc::new(Delta::new(&self.database, rows, table, &self.of_table)?);
        known.put(table.delta, &delta);
        Ok(delta)
    }
}

fn mark_definition() -> TableDefinition {
    let column = Column { name: "transaction".into(), data_type: DataType::Int8, nullable: false };
    TableDefinition {
        name: "marks".into(),
        columns: vec![column],
        primary_key: vec![0],
        indexes: Vec::new(),
        over_base: true,
        key_bytes_max: None,
    }
}

fn mark_key(number: u32) -> Result<Vec<u8>> {
    let layout = KeyLayout::new([KeyColumn { data_type: DataType::Int8, nullable: false, descending: false }]);
    let mut key = Vec::new();
    layout.encode(&[ValueRef::Int8(number.into())], &mut key)?;
    Ok(key)
}

fn mark_body() -> Result<Vec<u8>> {
    let mut body = Vec::new();
    RowLayout::new([]).encode(&[], &mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::mark_key;
    use crate::fixture::{Bench, Rows, Shape, table};
    use saki_catalog::Table;

    #[test]
    fn every_transaction_has_a_mark_of_its_own() {
        let keys: Vec<_> = [0, 1, 255, 256, 1 << 31, u32::MAX].map(|number| mark_key(number).expect("a key")).into();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    }

    #[test]
    fn a_table_that_is_gone_has_no_delta() {
        let bench = Bench::new(Shape::default());
        bench.commit(&[(1, Some(1))]);
        let (before, table) = (bench.db().generation(), bench.table());
        let mut without = before.catalog.clone();
        without.remove("t").expect("it is there");
        let engine = bench.db().engine.get().expect("it has logs");
        let gone = engine.deltas_after(&before.deltas, &without.difference(&before.catalog)).expect("known");
        assert!(before.deltas.contains_key(&table.delta) && !gone.contains_key(&table.delta));
        let again = engine.deltas_after(&gone, &before.catalog.difference(&without)).expect("known");
        assert!(Arc::ptr_eq(again.get(&table.delta).expect("known"), before.deltas.get(&table.delta).expect("known")));
    }

    /// Of two, the one that is dropped first would take the rows with it.
    #[test]
    fn a_table_that_changes_keeps_its_one_delta_beside_others() {
        let bench = Bench::new(Shape::default());
        bench.commit(&[(1, Some(1))]);
        let other = bench.db().write(|writer| {
            let mut other = Table { name: "u".to_owned(), ..table(&mut writer.catalog, Shape::default()) };
            other.indexes[0].name = "u_v".to_owned();
            writer.catalog.put(other);
            Ok(())
        });
        other.expect("made");
        let before = bench.db().generation();
        let delta = Arc::clone(before.delta(&bench.table()).expect("there"));
        let changed = bench.db().write(|writer| {
            let table = Table::clone(writer.catalog.table("t")?);
            writer.catalog.put(Table { comment: Some("changed".to_owned()), ..table });
            Ok(())
        });
        changed.expect("changed");
        assert!(Arc::ptr_eq(&delta, bench.db().generation().delta(&bench.table()).expect("there")));
        drop((before, delta));
        assert_eq!(bench.moment().range(), Rows::from([(1, 1)]));
    }
}
