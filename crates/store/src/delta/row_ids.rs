//! Hidden row ids: the keys of rows of tables without a primary key.
//!
//! Statements that add rows to a delta take ids, and loads that add them to the base do. All take them here, so that
//! none is given twice; what the catalog says is only where to go on after the database has been opened again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;
use saki_base::TableId;
use saki_base::planted::{self, Fault};

use saki_catalog::{Catalog, Difference, Table};

/// The ids of one table.
#[derive(Debug)]
pub struct RowIds {
    next: AtomicI64,
    table: TableId,
    /// Whether the table is among the `moved`.
    is_noted: AtomicBool,
    moved: Arc<Moved>,
}

/// Tables of which ids were taken that the catalog may not know of.
type Moved = Mutex<Vec<TableId>>;

impl RowIds {
    fn new(table: &Table, moved: &Arc<Moved>) -> Self {
        let (next, is_noted) = (AtomicI64::new(table.next_row_id), AtomicBool::new(false));
        Self { next, table: table.id, is_noted, moved: Arc::clone(moved) }
    }

    /// Takes `count` ids; the first of them.
    pub fn take(&self, count: usize) -> i64 {
        let first = self.next.fetch_add(count as i64, Ordering::SeqCst);
        self.note();
        first
    }

    /// Ids before `next` have been taken.
    pub fn raise(&self, next: i64) {
        if self.next.fetch_max(next, Ordering::SeqCst) < next {
            self.note();
        }
    }

    /// After ids were taken. Whoever looks at the moved takes the note away before it looks at the ids
    /// ([`Self::renote`]), and all of that is in one order: so either it sees these ids, or they are noted anew.
    fn note(&self) {
        if !self.is_noted.load(Ordering::SeqCst) && !self.is_noted.swap(true, Ordering::SeqCst) {
            self.moved.lock().push(self.table);
        }
    }

    /// Takes the note away, unless the catalog does not say yet where to go on.
    fn renote(&self, published: &Table) {
        self.is_noted.store(false, Ordering::SeqCst);
        if self.next() > published.next_row_id {
            self.note();
        }
    }

    fn next(&self) -> i64 {
        self.next.load(Ordering::SeqCst)
    }
}

/// The ids of all tables. They belong to tables, not to their deltas or bases: those come and go.
#[derive(Default)]
pub struct AllRowIds {
    all: Mutex<HashMap<TableId, Arc<RowIds>>>,
    moved: Arc<Moved>,
}

impl AllRowIds {
    /// Those of a table. Begins where the catalog says.
    pub fn of(&self, table: &Table) -> Arc<RowIds> {
        if planted::is(Fault::RowIdsRestart) {
            return Arc::new(RowIds::new(table, &self.moved));
        }
        let mut all = self.all.lock();
        let ids = all.entry(table.id).or_insert_with(|| Arc::new(RowIds::new(table, &self.moved)));
        ids.raise(table.next_row_id);
        Arc::clone(ids)
    }

    /// Has a catalog that is about to be published, or prepared, say where to go on; whether that has changed it.
    /// `difference` is what it has otherwise than the `published` one.
    ///
    /// What is looked at is what has moved since, and what the catalog itself brings: tables of an open transaction are
    /// in no published catalog, and come with its commit. A note stays until what it says is published.
    pub fn store(&self, catalog: &mut Catalog, published: &Catalog, difference: &Difference) -> bool {
        let all = self.all.lock();
        let moved = std::mem::take(&mut *self.moved.lock());
        let changed = difference.tables.iter().filter_map(|table| Some(table.after.as_ref()?.id));
        let mut has_changed = false;
        for id in moved.iter().copied().chain(changed) {
            let (Some(ids), Some(table)) = (all.get(&id), catalog.table_of(id)) else { continue };
            let next_row_id = ids.next();
            if next_row_id > table.next_row_id {
                let table = Table { next_row_id, ..Table::clone(table) };
                catalog.put(table);
                has_changed = true;
            }
        }
        for id in moved {
            let Some(ids) = all.get(&id) else { continue };
            match published.table_of(id) {
                Some(table) => ids.renote(table),
                None => ids.is_noted.store(false, Ordering::SeqCst),
            }
        }
        has_changed
    }

    /// Forgets tables that have gone by a publication.
    pub fn forget(&self, difference: &Difference) {
        let gone = difference.tables.iter().filter_map(|table| table.before.as_ref());
        let kept: HashSet<TableId> =
            difference.tables.iter().filter_map(|table| Some(table.after.as_ref()?.id)).collect();
        let mut all = self.all.lock();
        for table in gone.filter(|table| !kept.contains(&table.id)) {
            all.remove(&table.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fixture::{Bench, Rows, Shape};

    /// The table has these rows, each once.
    fn has(bench: &Bench, ids: i64) {
        let rows: Rows = (0..ids).map(|id| (id, id)).collect();
        let moment = bench.moment();
        assert_eq!(moment.range(), rows);
        assert_eq!(moment.columns(), rows);
    }

    #[test]
    fn no_id_is_given_twice_by_loads_and_statements() {
        let mut bench = Bench::new(Shape { keyed: false, ..Shape::default() });
        bench.insert(0..3);
        bench.truncate();
        bench.load((0..2000).map(|id| (id, id))).expect("loaded");
        bench.insert(2000..2010);
        has(&bench, 2010);
        bench.load((2010..3000).map(|id| (id, id))).expect("loaded behind statements");
        bench.insert(3000..3010);
        has(&bench, 3010);
        bench.reopen();
        bench.insert(3010..3020);
        has(&bench, 3020);
        bench.merge();
        bench.reopen();
        bench.insert(3020..3030);
        has(&bench, 3030);
        bench.truncate();
        has(&bench, 0);
        bench.load((0..100).map(|id| (id, id))).expect("loaded after a truncation");
        bench.insert(100..110);
        has(&bench, 110);
        bench.reopen();
        bench.load((110..200).map(|id| (id, id))).expect("loaded after reopening");
        bench.insert(200..210);
        bench.merge();
        has(&bench, 210);
        bench.check();
    }

    #[test]
    fn the_catalog_says_where_to_go_on() {
        let bench = Bench::new(Shape { keyed: false, ..Shape::default() });
        assert_eq!(bench.table().next_row_id, 0);
        bench.load((0..50).map(|id| (id, id))).expect("loaded");
        assert_eq!(bench.table().next_row_id, 50);
        bench.insert(50..57);
        bench.merge();
        assert_eq!(bench.table().next_row_id, 57);
        bench.truncate();
        assert!(bench.table().next_row_id >= 57, "a truncation gives no id again");
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Rows of statements, and rows loaded.
        Insert(i64),
        Load(i64),
        /// A load whose rows do not come to be.
        FailedLoad,
        Truncate,
        Merge,
        Release,
        Reopen,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..30_i64).prop_map(Step::Insert),
            3 => (1..900_i64).prop_map(Step::Load),
            1 => Just(Step::FailedLoad),
            1 => Just(Step::Truncate),
            3 => Just(Step::Merge),
            2 => Just(Step::Release),
            3 => Just(Step::Reopen),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn no_row_takes_the_place_of_another(steps in prop::collection::vec(step(), 1..14)) {
            let mut bench = Bench::new(Shape { keyed: false, ..Shape::default() });
            let (mut next, mut first) = (0, 0);
            for step in steps {
                match step {
                    Step::Insert(count) => {
                        bench.insert(next..next + count);
                        next += count;
                    }
                    Step::Load(count) => {
                        bench.load((next..next + count).map(|id| (id, id))).expect("loaded");
                        next += count;
                    }
                    Step::FailedLoad => {
                        let failed = bench.db().write(|writer| {
                            let ids = writer.db.of_table.row_ids.of(writer.catalog.table("t")?);
                            ids.take(10);
                            Err::<(), _>(saki_catalog::SqlError::storage("the device is away"))
                        });
                        prop_assert!(failed.is_err());
                    }
                    Step::Truncate => {
                        bench.truncate();
                        first = next;
                    }
                    Step::Merge => bench.merge(),
                    Step::Release => bench.db().release_merged().expect("released"),
                    Step::Reopen => bench.reopen(),
                }
                let rows: Rows = (first..next).map(|id| (id, id)).collect();
                let moment = bench.moment();
                prop_assert_eq!(&moment.range(), &rows);
                prop_assert_eq!(&moment.pipeline(), &rows);
                prop_assert_eq!(&moment.columns(), &rows);
            }
            bench.check();
        }
    }
}
