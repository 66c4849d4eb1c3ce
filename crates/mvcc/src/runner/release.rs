//! Rows that leave memory as they are: those that a merge has brought to the base, and those of tables that were
//! dropped.
//!
//! A row that everyone sees in the base need not be in memory as well. It is latched, so that nobody becomes its
//! writer; its entries leave the secondary indexes; then it is dead, leaves the primary index, and is freed when all
//! who may have found it are gone. A writer that had found it finds it dead, and looks its key up again; so does a
//! serializable transaction that has read it, when it commits. Rows that are being written stay, and so do those that a
//! cleanup still refers to: until the next release.
//!
//! A table that was dropped is refused to all whose snapshots are later than the drop. Once all others are gone,
//! runners bury its rows along with their own garbage, some at a time.

use std::ops::Bound;
use std::ptr::NonNull;

use super::Runner;
use crate::chain::{NEVER, Row, Version};
use crate::epoch::Pin;
use crate::index::{Direction, ScanBuffer};
use crate::table::Table;

/// Rows that are looked at before others get a chance to free what these leave.
const SLICE_ROWS: usize = 1024;
/// Rows that are copied out of the index at once.
const STEP_ROWS: usize = 128;

/// What a release took out of memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Released {
    pub rows: u64,
    pub bytes: u64,
}

impl Runner {
    /// Releases a slice of a table's rows, those after the key `after`; whether it was the last one. For an announced
    /// runner that visits no chain.
    pub(crate) fn release_some(
        &mut self,
        table: &Table,
        through: u64,
        after: &mut Option<Vec<u8>>,
        released: &mut Released,
    ) -> bool {
        let inner = table.inner();
        let from = after.take();
        let pin = Pin::of_announced(&self.participant);
        let mut buffer = ScanBuffer::default();
        let range = (from.as_deref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut cursor = inner.primary.cursor(range, Direction::Forward, &mut buffer, &pin);
        let reclaimer = &mut *self.shelf.lock();
        let mut seen = 0;
        while let Some(leaf) = cursor.step(STEP_ROWS) {
            for (key, address) in leaf.iter() {
                seen += 1;
                // SAFETY: out of the index under the pin.
                let row = unsafe { Row::at(address) };
                let nodes = &mut reclaimer.nodes;
                let mut leave_indexes = |newest: &Version| {
                    let entries = newest.body().map(|body| inner.entries_of(row.key(), body));
                    for (index, entry) in entries.into_iter().flatten().flatten() {
                        inner.secondary[index].entries.remove(&entry, address, &pin, nodes);
                    }
                };
                let newest = self.participant.visiting(|| row.release(through, &mut leave_indexes));
                if let Some(newest) = newest {
                    inner.counters.count_released();
                    inner.primary.remove(key, address, &pin, nodes);
                    let growth = reclaimer.dead_row(NonNull::from(row), newest, &self.shared.epochs);
                    inner.counters.grow(self.participant.number(), growth);
                    released.rows += 1;
                    released.bytes += growth.bytes.unsigned_abs();
                }
                if seen == SLICE_ROWS {
                    *after = Some(key.to_vec());
                    return false;
                }
            }
        }
        true
    }

    /// Buries some rows of a table that was dropped, if nobody can look into it any more. For an announced runner.
    pub(crate) fn bury_dropped(&mut self, watermark: u64) {
        let Some(mut dropped) = self.shared.next_dropped() else { return };
        if dropped.at < watermark {
            let is_over = self.release_some(&dropped.table, NEVER, &mut dropped.after, &mut Released::default());
            let pin = Pin::of_announced(&self.participant);
            if is_over && dropped.table.inner().primary.is_empty(&pin) {
                return;
            }
        }
        self.shared.put_dropped(dropped);
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use std::sync::Arc;

    use saki_base::{Column, DataType, KeyColumn, KeyLayout, ValueRef};
    use saki_io::{Device, SimDevice, SimOptions};

    use super::*;
    use crate::{Catalog, Database, IndexDefinition, Isolation, Options, TableDefinition};

    /// Numbers with a colour, by which they are indexed.
    fn numbers() -> TableDefinition {
        let column = |name: &str, data_type| Column { name: name.into(), data_type, nullable: false };
        TableDefinition {
            name: "numbers".into(),
            columns: vec![
                column("id", DataType::Int8),
                column("colour", DataType::Int4),
                column("name", DataType::Text),
            ],
            primary_key: vec![0],
            indexes: vec![IndexDefinition { name: "by_colour".into(), columns: vec![1], ..Default::default() }],
            over_base: true,
            ..Default::default()
        }
    }

    fn database() -> Database {
        let mut catalog = Catalog::in_memory(7, 1);
        catalog.add(numbers()).unwrap();
        let device = SimDevice::new(SimOptions { seed: 1, length_bytes: 0, ..SimOptions::default() });
        let mut options = Options { participants_max: 4, ..Options::default() };
        options.log.extent_bytes = 64 << 10;
        options.log.write_bytes_max = 16 << 10;
        Database::open_on(catalog, vec![device as Arc<dyn Device>], options, &|_| {}).unwrap()
    }

    fn key(id: i64) -> Vec<u8> {
        let keys = KeyLayout::new([KeyColumn { data_type: DataType::Int8, nullable: false, descending: false }]);
        let mut key = Vec::new();
        keys.encode(&[ValueRef::Int8(id)], &mut key).unwrap();
        key
    }

    fn body(table: &Table, colour: i32, name: &str) -> Vec<u8> {
        let mut body = Vec::new();
        table.row_layout().encode(&[ValueRef::Int4(colour), ValueRef::Text(name)], &mut body).unwrap();
        body
    }

    /// An entry that stayed would lead to memory that is somebody else's by then.
    #[test]
    fn rows_that_leave_memory_leave_its_indexes() {
        let database = database();
        let table = database.table("numbers").unwrap();
        let mut runner = database.runner().unwrap();
        for id in 0..100 {
            let body = body(&table, id as i32 % 7, "");
            runner.run(Isolation::Snapshot, |t| t.write(&table, &key(id), Some(&body))).unwrap();
        }
        let are_empty = |runner: &mut Runner| {
            runner.pinned(|runner| {
                let pin = Pin::of_announced(&runner.participant);
                [&table.inner().primary, &table.inner().secondary[0].entries].map(|index| index.is_empty(&pin))
            })
        };
        assert_eq!(are_empty(&mut runner), [false, false]);
        assert_eq!(database.release(&table, database.now()).unwrap().rows, 100);
        assert_eq!(are_empty(&mut runner), [true, true]);
    }

    /// Rows and bytes, as they are found in memory.
    fn there(runner: &mut Runner, table: &Table) -> (u64, u64) {
        runner.pinned(|runner| {
            let pin = Pin::of_announced(&runner.participant);
            let mut buffer = ScanBuffer::default();
            let all = (Bound::Unbounded, Bound::Unbounded);
            let mut cursor = table.inner().primary.cursor(all, Direction::Forward, &mut buffer, &pin);
            let (mut rows, mut bytes) = (0, 0);
            while let Some(leaf) = cursor.step(usize::MAX) {
                for (_, address) in leaf.iter() {
                    // SAFETY: out of the index under the pin.
                    let row = unsafe { Row::at(address) };
                    rows += 1;
                    bytes += row.bytes_with(row.head().expect("it is in the index")) as u64;
                }
            }
            (rows, bytes)
        })
    }

    /// A key, and what becomes of its row.
    type Change<'a> = (i64, Option<&'a [u8]>);

    /// What a commit counts, and what leaves memory counts out again, is what is there: by it merges are begun.
    #[test]
    fn what_is_counted_is_what_is_there() {
        let database = database();
        let table = database.table("numbers").unwrap();
        let mut runner = database.runner().unwrap();
        let [short, long, longer] = [1, 300, 5_000].map(|length| body(&table, 3, &"x".repeat(length)));
        let steps: [&[Change<'_>]; 9] = [
            // New rows: whole, with a version apart, a delete, one that becomes a delete.
            &[(1, Some(&short)), (2, Some(&long))],
            &[(3, Some(&short)), (3, Some(&long)), (3, Some(&longer))],
            &[(4, None)],
            &[(5, Some(&long)), (5, None)],
            // Others: longer, shorter, several times, gone, there again.
            &[(1, Some(&longer))],
            &[(1, Some(&long)), (2, Some(&longer)), (3, Some(&short))],
            &[(1, Some(&longer)), (1, Some(&short))],
            &[(2, None), (3, None)],
            &[(4, Some(&longer)), (2, Some(&short))],
        ];
        for (number, step) in steps.into_iter().enumerate() {
            runner
                .run(Isolation::Snapshot, |t| step.iter().try_for_each(|(id, body)| t.write(&table, &key(*id), *body)))
                .unwrap();
            assert_eq!((table.rows(), table.bytes()), there(&mut runner, &table), "step {number}");
        }
        assert_eq!(table.rows(), 5);
        let held = table.bytes();
        assert!(held > 5_800, "rows and what they have apart take {held} bytes");
        let released = database.release(&table, database.now()).unwrap();
        assert_eq!((released.rows, released.bytes), (5, held));
        assert_eq!((table.rows(), table.bytes()), (0, 0));
        assert_eq!(there(&mut runner, &table), (0, 0));
        runner.run(Isolation::Snapshot, |t| t.write(&table, &key(1), Some(&short))).unwrap();
        assert_eq!((table.rows(), table.bytes()), there(&mut runner, &table), "after the release");
    }
}
