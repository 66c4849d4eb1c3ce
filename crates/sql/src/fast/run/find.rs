//! Finding the rows of one table.

use std::sync::Arc;

use saki_mvcc::Direction;

use super::super::plan::{Source, Tree};
use super::stopped::{Entry, Stopped};
use saki_catalog::{EntryLayout, Table};
use saki_context::database::Database;
use saki_context::values::expr::Inputs;
use saki_context::values::range::{Bounds, borrowed, bounds, keys};
use saki_store::{BaseReader, Delta, Eyes, IndexEntries, Point, Short, Shortly, TableReader, Wanted};

/// Entries that are read on either side at most, from memory alone: what takes more goes the ordinary way.
pub const ENTRIES_MAX: usize = 4000;
/// The same for each range, if it has many.
const ENTRIES_OF_RANGE: usize = 4;
/// What is read at a time, of that which is not in memory: the rest when the statement has begun anew.
const AWAY_MAX: usize = 1 << 15;
/// Bytes of the rows that are kept at most.
const BYTES_MAX: usize = 16 << 20;

/// A table as a statement sees it.
#[derive(Clone, Copy)]
pub struct Relation<'r> {
    pub table: &'r Arc<Table>,
    pub delta: &'r Arc<Delta>,
    /// Of its primary entries.
    pub layout: &'r Arc<EntryLayout>,
}

/// Finds rows of a table in memory, with somebody's eyes.
pub struct Finder<'f, E> {
    relation: Relation<'f>,
    reader: TableReader<'f, E>,
    base: BaseReader<'f>,
    /// How an index is read, and its entries' layout.
    index: Option<(IndexEntries, EntryLayout)>,
}

impl<'f, E: Eyes> Finder<'f, E> {
    /// By a tree of it.
    pub fn new(db: &'f Database, relation: Relation<'f>, tree: Tree, eyes: &'f E) -> Self {
        let index = match tree {
            Tree::Index(index) => {
                let layout = relation.table.index_layout(&relation.table.indexes[index]);
                Some((IndexEntries::new(relation.table, index), layout))
            }
            Tree::Keys | Tree::Primary => None,
        };
        let reader = TableReader::new(relation.table, relation.delta, eyes);
        Self { relation, reader, base: db.base_reader(), index }
    }

    /// Shows the row of a key.
    pub fn look<T>(&self, key: &[u8], show: impl FnOnce(&[u8]) -> T) -> Result<Point<T>, Stopped> {
        Ok(self.reader.get_cached(&self.base, key, show)?)
    }

    /// The first rows of a source, in its order, whatever its filter says.
    pub fn rows(&self, source: &Source, wanted: usize, inputs: &Inputs<'_>) -> Result<Vec<Entry>, Stopped> {
        match source.tree {
            Tree::Keys => self.rows_of_keys(source, wanted, inputs),
            Tree::Primary | Tree::Index(_) => self.rows_of_ranges(source, wanted, inputs),
        }
    }

    fn rows_of_keys(&self, source: &Source, wanted: usize, inputs: &Inputs<'_>) -> Result<Vec<Entry>, Stopped> {
        let mut keys = keys(&source.ranges, self.relation.layout.key.columns(), inputs)?;
        if source.is_reverse {
            keys.reverse();
        }
        let mut rows = Vec::with_capacity(keys.len().min(wanted));
        let (mut bytes, mut away) = (0, Vec::new());
        for key in keys {
            if rows.len() + away.len() == wanted || away.len() >= AWAY_MAX {
                break;
            }
            match self.look(&key, <[u8]>::to_vec)? {
                Point::Nowhere => {}
                Point::Row(row) => {
                    bytes += row.len();
                    rows.push((key, row));
                }
                Point::Away => away.push(Wanted::key(&self.relation.table.root, &key)),
            }
            if bytes > BYTES_MAX {
                return Err(Stopped::Long);
            }
        }
        if away.is_empty() { Ok(rows) } else { Err(Stopped::away(away)) }
    }

    fn rows_of_ranges(&self, source: &Source, wanted: usize, inputs: &Inputs<'_>) -> Result<Vec<Entry>, Stopped> {
        let layout = self.index.as_ref().map_or(&**self.relation.layout, |(_, layout)| layout);
        let mut all = bounds(&source.ranges, layout.key.columns(), inputs)?;
        if source.is_reverse {
            all.reverse();
        }
        let direction = if source.is_reverse { Direction::Reverse } else { Direction::Forward };
        let read = |bounds: &Bounds, rows: usize| {
            let short = Short { rows, entries: ENTRIES_MAX, direction };
            match &self.index {
                None => self.reader.range_cached(&self.base, borrowed(bounds), short),
                Some((entries, _)) => self.reader.index_range_cached(&self.base, entries, borrowed(bounds), short),
            }
        };
        let entries_max = ENTRIES_MAX.max(ENTRIES_OF_RANGE * all.len());
        let mut rows: Vec<Entry> = Vec::new();
        let (mut bytes, mut away, mut ranges_away) = (0, Vec::new(), 0);
        for bounds in &all {
            // What is not in memory may have a row in each range.
            let left = wanted - rows.len();
            if left <= ranges_away || away.len() >= AWAY_MAX {
                break;
            }
            match read(bounds, left)? {
                Shortly::Rows(mut more) => {
                    bytes += more.iter().map(|(_, row)| row.len()).sum::<usize>();
                    rows.append(&mut more);
                }
                Shortly::Away(mut more) => {
                    ranges_away += 1;
                    away.append(&mut more);
                }
                Shortly::Long => return Err(Stopped::Long),
            }
            if rows.len() + away.len() > entries_max || bytes > BYTES_MAX {
                return Err(Stopped::Long);
            }
        }
        if away.is_empty() { Ok(rows) } else { Err(Stopped::away(away)) }
    }
}
