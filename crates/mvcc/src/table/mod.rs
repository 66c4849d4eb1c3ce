//! A table in memory: what its columns are, where its rows are found, and the keys of its indexes.

mod catalog;
mod counters;
mod definition;

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use saki_base::key::encode_column;
use saki_base::planted::{self, Fault};
use saki_base::{DataType, KeyColumn, KeyLayout, RowColumn, RowLayout, TableId, Value, ValueRef};

use crate::chain::{Holder, Row, Writer};
use crate::epoch::Pin;
use crate::error::{Contended, Error};
use crate::index::{Direction, Index, KEY_BYTES_MAX, ScanBuffer};

pub use catalog::Catalog;
pub(crate) use counters::{Counters, Growth};
pub use definition::{IndexDefinition, TableDefinition};

/// Largest body of a row, in bytes.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// A table. Clones share it.
#[derive(Clone)]
pub struct Table(Arc<Inner>);

pub(crate) struct Inner {
    /// Which database of this process it is of.
    pub instance: u32,
    pub id: TableId,
    pub definition: TableDefinition,
    pub key_layout: KeyLayout,
    pub row_layout: RowLayout,
    places: Vec<Place>,
    /// No longer keys and entries are written; there may be some up to [`KEY_BYTES_MAX`] from before.
    key_bytes_max: usize,
    /// Key to row.
    pub primary: Index,
    pub secondary: Vec<Secondary>,
    pub counters: Counters,
    /// Snapshots later than this do not look into it.
    dropped_at: AtomicU64,
    /// There once what would be written to it goes elsewhere: whose transaction need not mind.
    replaced: OnceLock<Option<Writer>>,
}

/// What of a table a look counts: versions that began later than a timestamp, and pending ones of its own. An older
/// version is as if it were not there, since a base has it; so nobody can tell whether it has been released.
#[derive(Clone, Copy)]
pub struct Newer<'t> {
    pub(crate) table: &'t Table,
    /// 0: all versions count.
    pub(crate) since: u64,
}

impl<'t> From<&'t Table> for Newer<'t> {
    #[inline]
    fn from(table: &'t Table) -> Self {
        table.newer_than(0)
    }
}

impl Newer<'_> {
    /// Whether a version counts that began then; 0: it is pending.
    #[inline]
    pub(crate) fn counts(self, begin: u64) -> bool {
        begin > self.since || begin == 0
    }
}

/// Where a column's value is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Key(usize),
    Body(usize),
}

/// A secondary index: its entry is the index columns and then those of the primary key that are not among them, to the
/// row.
pub(crate) struct Secondary {
    pub definition: IndexDefinition,
    pub entries: Index,
    key_layout: KeyLayout,
    places: Vec<Place>,
    /// Columns of the primary key that follow, by their places in it; `None`: all.
    rest: Option<Vec<usize>>,
}

/// The key of a table without a primary key.
const HIDDEN_KEY: KeyColumn = KeyColumn { data_type: DataType::Int8, nullable: false, descending: false };

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// `Name` for a definition that contradicts itself, `Memory`.
    pub(crate) fn new(instance: u32, id: TableId, definition: TableDefinition) -> Result<Self, Error> {
        definition.check()?;
        let columns = &definition.columns;
        let is_key = |column: usize| definition.primary_key.iter().position(|key| *key == column);
        let mut bodies = 0..;
        let places = (0..columns.len())
            .map(|column| is_key(column).map_or_else(|| Place::Body(bodies.next().unwrap_or_default()), Place::Key))
            .collect::<Vec<_>>();
        let key_column = |column: usize, descending: bool| KeyColumn {
            data_type: columns[column].data_type,
            nullable: columns[column].nullable,
            descending,
        };
        let primary_key = definition.primary_key.iter().map(|column| key_column(*column, false));
        let hidden_key = definition.primary_key.is_empty().then_some(HIDDEN_KEY);
        let key_layout = KeyLayout::new(primary_key.chain(hidden_key));
        let body_columns = columns.iter().enumerate().filter(|(column, _)| is_key(*column).is_none());
        let row_layout = RowLayout::new(
            body_columns.map(|(_, column)| RowColumn { data_type: column.data_type, nullable: column.nullable }),
        );
        let secondary = definition.indexes.iter().map(|index| {
            let descending = index.descending.iter().copied().chain(std::iter::repeat(false));
            let key = definition.primary_key.iter();
            let rest = (0..).zip(key).filter(|(_, column)| !index.columns.contains(column)).map(|(place, _)| place);
            let rest: Vec<usize> = rest.collect();
            Secondary {
                definition: index.clone(),
                entries: Index::new(),
                key_layout: KeyLayout::new(index.columns.iter().zip(descending).map(|(c, d)| key_column(*c, d))),
                places: index.columns.iter().map(|column| places[*column]).collect(),
                rest: (rest.len() < definition.primary_key.len()).then_some(rest),
            }
        });
        let secondary = secondary.collect();
        Ok(Self(Arc::new(Inner {
            instance,
            id,
            key_layout,
            row_layout,
            places,
            key_bytes_max: definition.key_bytes_max.map_or(KEY_BYTES_MAX, |bytes| bytes.min(KEY_BYTES_MAX)),
            primary: Index::new(),
            secondary,
            definition,
            counters: Counters::default(),
            dropped_at: AtomicU64::new(u64::MAX),
            replaced: OnceLock::new(),
        })))
    }

    pub fn id(&self) -> TableId {
        self.0.id
    }

    /// The part of the table that is newer than a timestamp: what is to be looked at where a base has the rest.
    #[inline]
    pub fn newer_than(&self, since: u64) -> Newer<'_> {
        Newer { table: self, since: if planted::is(Fault::MergedRowsAsked) { 0 } else { since } }
    }

    pub fn name(&self) -> &str {
        &self.0.definition.name
    }

    pub fn definition(&self) -> &TableDefinition {
        &self.0.definition
    }

    /// Whether it is the newer part of another table.
    pub fn is_over_base(&self) -> bool {
        self.0.definition.over_base
    }

    /// Rows in memory, deletes included, about: those that are being committed may be missing.
    pub fn rows(&self) -> u64 {
        self.0.counters.rows()
    }

    /// Bytes that these take with their newest versions, about. Indexes come on top of it, and versions for older
    /// snapshots.
    pub fn bytes(&self) -> u64 {
        self.0.counters.bytes()
    }

    /// Another table has taken its place, and what changes is written there: of a serializable transaction that has
    /// read this one nobody can say any more whether its reads still hold, so it is not committed, unless it is the one
    /// that has replaced the table and keeps others from writing until its end. To be said before anybody writes to the
    /// other one.
    pub fn replaced(&self, by: Option<Holder>) {
        // Whoever was the first to say so goes for all.
        let _ = self.0.replaced.set(by.map(|holder| holder.writer));
    }

    /// Whether what a transaction has read here can be looked at again.
    #[inline]
    pub(crate) fn answers(&self, reader: Writer) -> bool {
        self.0.replaced.get().is_none_or(|by| *by == Some(reader))
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.0.dropped_at.load(Ordering::Acquire) != u64::MAX
    }

    /// How primary keys are encoded.
    pub fn key_layout(&self) -> &KeyLayout {
        &self.0.key_layout
    }

    /// How bodies are: the columns that are not of the primary key, in the table's order.
    pub fn row_layout(&self) -> &RowLayout {
        &self.0.row_layout
    }

    /// How the column part of a secondary index's entries is encoded.
    pub fn index_key_layout(&self, index: IndexId) -> &KeyLayout {
        &self.0.secondary[index.0].key_layout
    }

    /// The secondary index of that name.
    pub fn index(&self, name: &str) -> Option<IndexId> {
        self.0.definition.indexes.iter().position(|index| index.name == name).map(IndexId)
    }

    /// Key and body of a row, appended to `key` and `body`.
    ///
    /// # Errors
    /// `Malformed` for values that are not of the table's columns.
    pub fn encode(&self, values: &[ValueRef<'_>], key: &mut Vec<u8>, body: &mut Vec<u8>) -> Result<(), Error> {
        if values.len() != self.0.places.len() {
            return Err(self.malformed(format!(
                "it has {} columns, found {} values",
                self.0.places.len(),
                values.len()
            )));
        }
        let keys: Vec<_> = self.0.definition.primary_key.iter().map(|column| values[*column]).collect();
        let bodies: Vec<_> = std::iter::zip(values, &self.0.places)
            .filter_map(|(value, place)| matches!(place, Place::Body(_)).then_some(*value))
            .collect();
        self.0.key_layout.encode(&keys, key).map_err(|error| self.malformed(error.to_string()))?;
        self.0.row_layout.encode(&bodies, body).map_err(|error| self.malformed(error.to_string()))
    }

    /// The values of a row, in the table's order.
    ///
    /// # Errors
    /// `Malformed` for bytes that are no row of the table.
    pub fn decode(&self, key: &[u8], body: &[u8]) -> Result<Vec<Value>, Error> {
        let mut scratch = Vec::new();
        let value = |place: &Place| self.0.value(*place, key, body, &mut scratch, |value| Value::from(value));
        self.0.places.iter().map(value).collect()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Refuses a key or body beyond the limits.
    #[inline]
    pub(crate) fn check_sizes(&self, key: &[u8], body: &[u8]) -> Result<(), Error> {
        if key.len() > self.0.key_bytes_max {
            return Err(self.0.key_too_long(None, key.len()));
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::RowTooLarge { table: self.name().into(), bytes: body.len(), limit: BODY_BYTES_MAX });
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn conflict(&self, key: &[u8], holder: Option<Writer>) -> Error {
        let holder = holder.map(|writer| Holder { writer, instance: self.0.instance });
        let row = Contended { table: self.0.id, key: key.into() };
        Error::Conflict { table: self.name().into(), holder, row }
    }

    #[cold]
    pub(crate) fn gone(&self) -> Error {
        Error::Name { message: format!("table \"{}\" was dropped", self.name()) }
    }

    #[cold]
    pub(crate) fn malformed(&self, reason: String) -> Error {
        Error::Malformed { table: self.name().into(), reason }
    }
}

/// A secondary index of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexId(pub usize);

impl Inner {
    /// Whether a snapshot is too late to look into the table, since it was dropped. Whoever is told otherwise is waited
    /// for before the rows go: either its snapshot was announced before the drop, or else it has to have seen the mark
    /// (`epoch` has the argument).
    #[inline]
    pub fn is_gone(&self, snapshot: u64) -> bool {
        self.dropped_at.load(Ordering::Acquire) < snapshot
    }

    pub fn set_dropped(&self, at: u64) {
        self.dropped_at.store(at, Ordering::Release);
    }

    fn value<T>(
        &self,
        place: Place,
        key: &[u8],
        body: &[u8],
        scratch: &mut Vec<u8>,
        with: impl FnOnce(ValueRef<'_>) -> T,
    ) -> Result<T, Error> {
        let malformed = |reason: String| Error::Malformed { table: self.definition.name.clone(), reason };
        match place {
            Place::Key(column) => {
                self.key_layout.decode(key, column, scratch).map(with).map_err(|error| malformed(error.to_string()))
            }
            Place::Body(column) => {
                self.row_layout.view(body).value(column).map(with).map_err(|error| malformed(error.to_string()))
            }
        }
    }

    /// Visits all rows of the primary index.
    pub fn each_row<'p>(&self, pin: &Pin<'p>, mut visit: impl FnMut(&'p Row)) {
        let mut buffer = ScanBuffer::default();
        let mut cursor =
            self.primary.cursor((Bound::Unbounded, Bound::Unbounded), Direction::Forward, &mut buffer, pin);
        while let Some(leaf) = cursor.step(128) {
            // SAFETY: out of the index under the pin.
            leaf.iter().for_each(|(_, address)| visit(unsafe { Row::at(address) }));
        }
    }

    /// Appends the entry of a row in a secondary index.
    ///
    /// # Errors
    /// `Malformed` for a body that is no row, `KeyTooLong`.
    pub fn secondary_entry(&self, index: &Secondary, key: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let mut scratch = Vec::new();
        for (place, column) in std::iter::zip(&index.places, index.key_layout.columns()) {
            let encoded = self.value(*place, key, body, &mut scratch, |value| encode_column(*column, value, out))?;
            encoded
                .map_err(|error| Error::Malformed { table: self.definition.name.clone(), reason: error.to_string() })?;
        }
        self.append_rest(index, key, out)?;
        let bytes = out.len() - start;
        if bytes > KEY_BYTES_MAX { Err(self.key_too_long(Some(index), bytes)) } else { Ok(()) }
    }

    /// Refuses entries, about to be written, beyond the limit.
    #[inline]
    pub fn check_entries(&self, entries: &[NumberedEntry]) -> Result<(), Error> {
        match entries.iter().find(|(_, entry)| entry.len() > self.key_bytes_max) {
            None => Ok(()),
            Some((index, entry)) => Err(self.key_too_long(Some(&self.secondary[*index]), entry.len())),
        }
    }

    #[cold]
    fn key_too_long(&self, index: Option<&Secondary>, bytes: usize) -> Error {
        Error::KeyTooLong {
            table: self.definition.name.clone(),
            index: index.map(|index| index.definition.name.clone()),
            bytes,
            limit: self.key_bytes_max,
        }
    }
}

impl Inner {
    /// Appends the columns of a primary key that an index does not have itself.
    #[inline]
    fn append_rest(&self, index: &Secondary, key: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(rest) = &index.rest else {
            out.extend_from_slice(key);
            return Ok(());
        };
        let malformed = |reason: String| Error::Malformed { table: self.definition.name.clone(), reason };
        for column in rest {
            let at = self.key_layout.offset(key, *column).map_err(|error| malformed(error.to_string()))?;
            let from = key.get(at..).ok_or_else(|| malformed(format!("a key ends before its column {column}")))?;
            let width = self.key_layout.column_width(*column, from).map_err(|error| malformed(error.to_string()))?;
            out.extend_from_slice(&from[..width]);
        }
        Ok(())
    }
}

/// Comparing the bytes of columns, without making entries of them.
impl Inner {
    /// Whether two bodies of a row have the same columns in an index.
    ///
    /// # Errors
    /// `Malformed` for a body that is no row.
    pub fn same_columns(&self, index: &Secondary, left: &[u8], right: &[u8]) -> Result<bool, Error> {
        let malformed = |reason: String| Error::Malformed { table: self.definition.name.clone(), reason };
        for place in &index.places {
            let Place::Body(column) = place else { continue };
            let [left, right] = [left, right]
                .map(|body| self.row_layout.view(body).bytes_of(*column).map_err(|error| malformed(error.to_string())));
            if left? != right? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a body of a row has this entry, which is made anew in `made` to compare it.
    pub fn has_entry(&self, index: &Secondary, key: &[u8], body: &[u8], entry: &[u8], made: &mut Vec<u8>) -> bool {
        made.clear();
        self.secondary_entry(index, key, body, made).is_ok() && made == entry
    }

    /// The entries of a row in all secondary indexes, each with the number of its index.
    ///
    /// # Errors
    /// As `secondary_entry`.
    pub fn entries_of(&self, key: &[u8], body: &[u8]) -> Result<Vec<NumberedEntry>, Error> {
        let entry = |(index, secondary): (usize, &Secondary)| {
            let mut entry = Vec::new();
            self.secondary_entry(secondary, key, body, &mut entry)?;
            Ok((index, entry.into_boxed_slice()))
        };
        self.secondary.iter().enumerate().map(entry).collect()
    }

    /// The index columns' part of an entry.
    ///
    /// # Errors
    /// `Malformed` for bytes that are no entry.
    pub fn column_prefix(&self, index: &Secondary, entry: &[u8]) -> Result<EntryPrefix, Error> {
        let malformed = |reason: String| Error::Malformed { table: self.definition.name.clone(), reason };
        let mut bytes = 0;
        let mut has_null = false;
        for (column, layout) in index.key_layout.columns().iter().enumerate() {
            let width =
                index.key_layout.column_width(column, &entry[bytes..]).map_err(|error| malformed(error.to_string()))?;
            has_null |= layout.nullable && width == 1;
            bytes += width;
        }
        Ok(EntryPrefix { bytes, has_null })
    }
}

/// An entry of a secondary index, with the number of the index.
pub(crate) type NumberedEntry = (usize, Box<[u8]>);

/// The index columns' part of an entry.
#[derive(Clone, Copy)]
pub(crate) struct EntryPrefix {
    pub bytes: usize,
    pub has_null: bool,
}
