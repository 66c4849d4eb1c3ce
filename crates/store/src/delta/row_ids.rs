//! Hidden row ids: the keys of rows of tables without a primary key.
//!
//! Statements that add rows to a delta take ids, and loads that add them to the base do. All take them here, so that
//! none is given twice; what the catalog says is only where to go on after the database has been opened again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use saki_base::TableId;
use saki_base::planted::{self, Fault};

use saki_catalog::{Catalog, Difference, Table};

/// The ids of one table.
#[derive(Debug)]
pub struct RowIds(AtomicI64);

impl RowIds {
    /// Takes `count` ids; the first of them.
    pub fn take(&self, count: usize) -> i64 {
        self.0.fetch_add(count as i64, Ordering::Relaxed)
    }

    /// Ids before `next` have been taken.
    pub fn raise(&self, next: i64) {
        self.0.fetch_max(next, Ordering::Relaxed);
    }

    fn next(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The ids of all tables. They belong to tables, not to their deltas or bases: those come and go.
#[derive(Default)]
pub struct AllRowIds(Mutex<HashMap<TableId, Arc<RowIds>>>);

impl AllRowIds {
    /// Those of a table. Begins where the catalog says.
    pub fn of(&self, table: &Table) -> Arc<RowIds> {
        if planted::is(Fault::RowIdsRestart) {
            return Arc::new(RowIds(AtomicI64::new(table.next_row_id)));
        }
        let mut all = self.0.lock();
        let ids = all.entry(table.id).or_insert_with(|| Arc::new(RowIds(AtomicI64::new(table.next_row_id))));
        ids.raise(table.next_row_id);
        Arc::clone(ids)
    }

    /// Has a catalog that is about to be published say where to go on, and forgets tables that it has no more by its
    /// difference to the one before; whether that has changed it.
    pub fn store(&self, catalog: &mut Catalog, difference: &Difference) -> bool {
        let mut all = self.0.lock();
        let gone = difference.tables.iter().filter_map(|table| table.before.as_ref());
        let kept: HashSet<TableId> =
            difference.tables.iter().filter_map(|table| Some(table.after.as_ref()?.id)).collect();
        for table in gone.filter(|table| !kept.contains(&table.id)) {
            all.remove(&table.id);
        }
        let is_behind = |table: &Table| all.get(&table.id).is_some_and(|ids| ids.next() > table.next_row_id);
        let behind: Vec<Arc<Table>> = catalog.tables().filter(|table| is_behind(table)).map(Arc::clone).collect();
        for table in &behind {
            let next_row_id = all[&table.id].next();
            catalog.put(Table { next_row_id, ..Table::clone(table) });
        }
        !behind.is_empty()
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
