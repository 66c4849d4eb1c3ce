//! Finding the rows of a statement.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use saki_base::ValueRef;
use saki_mvcc::Transaction;

use super::super::plan::{Computed, Source, Tree};
use super::super::rules::Rules;
use super::find::{Finder, Relation};
use super::stopped::{Entry, Stopped};
use saki_catalog::{EntryDecoder, EntryLayout, Result, Table};
use saki_context::database::Database;
use saki_context::transaction::{Deferring, Waiting};
use saki_context::values::condition::Filter;
use saki_context::values::expr::Inputs;
use saki_context::values::range::keys;
use saki_store::{Delta, Generation, Missed, Point, Wanted};

/// A statement that runs.
pub struct Running<'r> {
    pub db: &'r Database,
    pub generation: &'r Arc<Generation>,
    pub table: &'r Arc<Table>,
    pub delta: &'r Arc<Delta>,
    pub layout: &'r Arc<EntryLayout>,
    /// The tables of its lookups.
    pub joined: &'r [Relation<'r>],
    /// What is worked out of each row that it gives.
    pub computed: &'r [Computed],
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
    /// Takes the checks of foreign keys that it leaves to the end of its transaction, if that goes on after it.
    pub deferring: Option<Deferring>,
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

    /// The rows of a source, in its order.
    pub fn rows(&self, source: &Source, transaction: &Transaction<'_>) -> Result<Vec<Entry>, Stopped> {
        let rows = self.finder(source.tree, transaction).rows(source, usize::MAX, &self.inputs())?;
        self.filtered(source, rows)
    }

    /// Finds rows of its table.
    pub fn finder<'f, 't>(&'f self, tree: Tree, transaction: &'f Transaction<'t>) -> Finder<'f, Transaction<'t>> {
        let relation = Relation { table: self.table, delta: self.delta, layout: self.layout };
        Finder::new(self.db, relation, tree, transaction)
    }

    /// Shows the row of a key.
    pub fn find<T>(
        &self,
        transaction: &Transaction<'_>,
        key: &[u8],
        show: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Stopped> {
        match self.finder(Tree::Keys, transaction).look(key, show)? {
            Point::Nowhere => Ok(None),
            Point::Row(shown) => Ok(Some(shown)),
            Point::Away => Err(Stopped::away(vec![Wanted::key(&self.table.root, key)])),
        }
    }

    /// Shows the values of a row, by table column.
    pub fn decode<T>(&self, key: &[u8], row: &[u8], show: impl FnOnce(&[ValueRef<'_>]) -> T) -> Result<T> {
        EntryDecoder::new(Arc::clone(self.layout)).decode(self.table, key, row, show)
    }

    fn filtered(&self, source: &Source, rows: Vec<Entry>) -> Result<Vec<Entry>, Stopped> {
        let Some(filter) = &source.filter else { return Ok(rows) };
        let filter = Filter::new(filter, &self.inputs())?;
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        let mut kept = Vec::with_capacity(rows.len());
        for (key, row) in rows {
            let is_met = decoder.decode(self.table, &key, &row, |row| filter.holds(&self.inputs_over(row)))??;
            if is_met {
                kept.push((key, row));
            }
        }
        Ok(kept)
    }
}
