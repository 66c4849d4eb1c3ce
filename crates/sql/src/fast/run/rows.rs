//! Finding the rows of a statement.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use saki_base::ValueRef;
use saki_mvcc::{Direction, Transaction};

use super::super::condition::holds;
use super::super::expr::{Inputs, Misfit};
use super::super::plan::{Source, Tree};
use super::super::range::{Bounds, borrowed, bounds, keys};
use super::super::rules::Rules;
use saki_catalog::{EntryDecoder, EntryLayout, Result, SqlError, Table};
use saki_context::database::Database;
use saki_context::transaction::{Refusal, Waiting};
use saki_store::{Delta, Generation, IndexEntries, Missed, Missing, Point, Short, Shortly, TableReader, Wanted};

/// Entries that are read on either side at most, from memory alone: what takes more goes the ordinary way.
const ENTRIES_MAX: usize = 4000;
/// Bytes of the rows that are kept at most.
const BYTES_MAX: usize = 16 << 20;

/// A key and its row.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Why a statement does not come to its end here.
pub enum Stopped {
    /// It has to go the ordinary way.
    Ordinary,
    /// The same, since it takes too many entries.
    Long,
    /// This is not in memory.
    Read(Box<Missing>),
    Refused(Refusal),
}

impl Stopped {
    /// These are not in memory.
    fn away(wanted: Vec<Wanted>) -> Self {
        Self::Read(Box::new(Missing::Pages(wanted)))
    }
}

impl From<Missing> for Stopped {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Long => Self::Long,
            missing => Self::Read(Box::new(missing)),
        }
    }
}

impl From<Misfit> for Stopped {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Ordinary => Self::Ordinary,
            Misfit::Error(error) => error.into(),
        }
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<SqlError> for Stopped {
    fn from(error: SqlError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<saki_mvcc::Error> for Stopped {
    fn from(error: saki_mvcc::Error) -> Self {
        Self::Refused(error.into())
    }
}

/// A statement that runs.
pub struct Running<'r> {
    pub db: &'r Database,
    pub generation: &'r Arc<Generation>,
    pub table: &'r Arc<Table>,
    pub delta: &'r Arc<Delta>,
    pub layout: &'r Arc<EntryLayout>,
    /// For what it changes.
    pub rules: &'r Rules,
    pub parameters: &'r [ScalarValue],
    /// Values of sequences for its rows.
    pub drawn: &'r [i64],
    /// When the transaction began, in microseconds since 1970, and what the session's clocks showed.
    pub now: i64,
    pub local_now: i64,
    /// Memory of what it changes, if its transaction goes on after it: by itself it changes no more than its own text
    /// and values are large, or what it has found.
    pub waiting: Option<Waiting>,
    /// What its changes were missing in memory.
    pub missed: Missed,
}

impl Running<'_> {
    /// Makes a row, or a delete, the newest version of a key.
    pub fn write(&self, transaction: &mut Transaction<'_>, key: &[u8], row: Option<&[u8]>) -> Result<(), Stopped> {
        self.count(key, row)?;
        Ok(self.delta.write(transaction, key, row)?)
    }

    /// Takes note of a row that is about to be written.
    ///
    /// # Errors
    /// 53200 if the server has not so much memory.
    pub fn count(&self, key: &[u8], row: Option<&[u8]>) -> Result<(), Stopped> {
        let bytes = key.len() + row.map_or(0, <[u8]>::len);
        Ok(self.waiting.as_ref().map_or(Ok(()), |waiting| waiting.add_one(bytes))?)
    }

    /// What expressions that name no column are worked out with.
    pub fn inputs(&self) -> Inputs<'_> {
        self.inputs_over(&[])
    }

    /// The same, over a row.
    pub fn inputs_over<'i>(&'i self, row: &'i [ValueRef<'i>]) -> Inputs<'i> {
        Inputs {
            row,
            excluded: &[],
            parameters: self.parameters,
            drawn: self.drawn,
            now: self.now,
            local_now: self.local_now,
        }
    }

    /// The key of a source that is about one row, if it has no filter; `Some(None)`: a part of it is NULL or beyond its
    /// type, which equals nothing.
    pub fn single_key(&self, source: &Source) -> Result<Option<Option<Vec<u8>>>, Stopped> {
        if source.filter.is_some() || !source.is_single() {
            return Ok(None);
        }
        Ok(Some(keys(&source.ranges, self.layout.key.columns(), &self.inputs())?.pop()))
    }

    /// The first rows of a source, in its order.
    pub fn rows(&self, source: &Source, limit: usize, transaction: &Transaction<'_>) -> Result<Vec<Entry>, Stopped> {
        // What the filter leaves is not known before.
        let wanted = if source.filter.is_some() { usize::MAX } else { limit };
        let mut rows = match source.tree {
            Tree::Keys => self.rows_of_keys(source, wanted, transaction)?,
            Tree::Primary | Tree::Index(_) => self.rows_of_ranges(source, wanted, transaction)?,
        };
        if source.filter.is_some() {
            rows = self.filtered(source, rows)?;
            rows.truncate(limit);
        }
        Ok(rows)
    }

    /// Shows the row of a key.
    pub fn find<T>(
        &self,
        transaction: &Transaction<'_>,
        key: &[u8],
        show: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Stopped> {
        match self.look(transaction, key, show)? {
            Point::Nowhere => Ok(None),
            Point::Row(shown) => Ok(Some(shown)),
            Point::Away => Err(Stopped::away(vec![Wanted::key(&self.table.root, key)])),
        }
    }

    fn look<T>(
        &self,
        transaction: &Transaction<'_>,
        key: &[u8],
        show: impl FnOnce(&[u8]) -> T,
    ) -> Result<Point<T>, Stopped> {
        Ok(TableReader::new(self.table, self.delta, transaction).get_cached(&self.db.base_reader(), key, show)?)
    }

    /// Shows the values of a row, by table column.
    pub fn decode<T>(&self, key: &[u8], row: &[u8], show: impl FnOnce(&[ValueRef<'_>]) -> T) -> Result<T> {
        EntryDecoder::new(Arc::clone(self.layout)).decode(self.table, key, row, show)
    }

    fn rows_of_keys(
        &self,
        source: &Source,
        wanted: usize,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<Entry>, Stopped> {
        let mut keys = keys(&source.ranges, self.layout.key.columns(), &self.inputs())?;
        if source.is_reverse {
            keys.reverse();
        }
        let mut rows = Vec::with_capacity(keys.len().min(wanted));
        let (mut bytes, mut away) = (0, Vec::new());
        for key in keys {
            if rows.len() + away.len() == wanted {
                break;
            }
            match self.look(transaction, &key, <[u8]>::to_vec)? {
                Point::Nowhere => {}
                Point::Row(row) => {
                    bytes += row.len();
                    rows.push((key, row));
                }
                Point::Away => away.push(Wanted::key(&self.table.root, &key)),
            }
            if bytes > BYTES_MAX {
                return Err(Stopped::Long);
            }
        }
        if away.is_empty() { Ok(rows) } else { Err(Stopped::away(away)) }
    }

    fn rows_of_ranges(
        &self,
        source: &Source,
        wanted: usize,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<Entry>, Stopped> {
        let index = match source.tree {
            Tree::Index(index) => Some((IndexEntries::new(self.table, index), self.index_layout(index))),
            Tree::Keys | Tree::Primary => None,
        };
        let layout = index.as_ref().map_or(self.layout, |(_, layout)| layout);
        let mut all = bounds(&source.ranges, layout.key.columns(), &self.inputs())?;
        if source.is_reverse {
            all.reverse();
        }
        let direction = if source.is_reverse { Direction::Reverse } else { Direction::Forward };
        let (reader, base) = (TableReader::new(self.table, self.delta, transaction), self.db.base_reader());
        let read = |bounds: &Bounds, rows: usize| {
            let short = Short { rows, entries: ENTRIES_MAX, direction };
            match &index {
                None => reader.range_cached(&base, borrowed(bounds), short),
                Some((entries, _)) => reader.index_range_cached(&base, entries, borrowed(bounds), short),
            }
        };
        let mut rows: Vec<Entry> = Vec::new();
        let (mut bytes, mut away, mut ranges_away) = (0, Vec::new(), 0);
        for bounds in &all {
            // What is not in memory may have a row in each range.
            let left = wanted - rows.len();
            if left <= ranges_away {
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
            if rows.len() + away.len() > ENTRIES_MAX || bytes > BYTES_MAX {
                return Err(Stopped::Long);
            }
        }
        if away.is_empty() { Ok(rows) } else { Err(Stopped::away(away)) }
    }

    fn index_layout(&self, index: usize) -> Arc<EntryLayout> {
        Arc::new(self.table.index_layout(&self.table.indexes[index]))
    }

    fn filtered(&self, source: &Source, rows: Vec<Entry>) -> Result<Vec<Entry>, Stopped> {
        let Some(filter) = &source.filter else { return Ok(rows) };
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        let mut kept = Vec::with_capacity(rows.len());
        for (key, row) in rows {
            let is_met = decoder.decode(self.table, &key, &row, |row| holds(filter, &self.inputs_over(row)))??;
            if is_met {
                kept.push((key, row));
            }
        }
        Ok(kept)
    }
}
