//! Changes of a stretch of keys, with the rows they meet: what passes between a merge's threads.

use std::ops::Range;

use saki_tree::{Applied, Change, Effect, TreeReader, TreeRoot, apply_met};
use saki_volume::PageWriter;

use saki_catalog::{Result, SqlError};

/// Bytes of changes in a chunk, about: small beside a merge, all of whose threads work once its first chunk has passed.
/// In this crate's tests a few hundred changes are one, so that what lies in several is tried too.
pub const CHUNK_BYTES: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// What becomes of a key: its row in the tree's own format, or none if it is to be gone.
pub type KeyChange<'c> = (&'c [u8], Option<&'c [u8]>);

/// Changes of a table in the format of its primary tree.
pub trait ChangeSource {
    /// The next change, borrowed until the next call: a key, and its row or none if it is to be gone. Keys ascend
    /// strictly; each may or may not be in the table.
    fn next(&mut self) -> Result<Option<KeyChange<'_>>>;
}

/// Changes in ascending key order.
#[derive(Default)]
pub struct Changes {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

struct Place {
    key: Range<usize>,
    row: Option<Range<usize>>,
}

impl Changes {
    pub fn push(&mut self, (key, row): KeyChange<'_>) {
        let key = store(&mut self.bytes, key);
        let row = row.map(|row| store(&mut self.bytes, row));
        self.places.push(Place { key, row });
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether it is time for the next chunk.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + self.places.len() * size_of::<Place>() >= CHUNK_BYTES
    }

    pub fn get(&self, index: usize) -> KeyChange<'_> {
        let Place { key, row } = &self.places[index];
        (&self.bytes[key.clone()], row.clone().map(|row| &self.bytes[row]))
    }

    pub fn last_key(&self) -> Option<&[u8]> {
        Some(self.get(self.len().checked_sub(1)?).0)
    }

    pub fn iter(&self) -> impl Iterator<Item = KeyChange<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Replaces `root` by itself with the changes, telling `met` of the values they meet.
    pub fn apply(
        &self,
        reader: &mut TreeReader,
        pages: &mut PageWriter,
        root: &TreeRoot,
        met: &mut dyn FnMut(usize, &[u8]) -> Effect,
    ) -> Result<Applied> {
        let changes: Vec<Change<'_>> = self.iter().map(|(key, value)| Change { key, value }).collect();
        apply_met(reader.fetcher(), pages, root, &changes, Some(met)).map_err(SqlError::from)
    }
}

fn store(arena: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let start = arena.len();
    arena.extend_from_slice(bytes);
    start..arena.len()
}

/// Changes that have been applied to the primary tree.
pub struct Chunk {
    changes: Changes,
    old: Vec<u8>,
    met: Vec<Met>,
}

/// What a change has met.
enum Met {
    Nothing,
    /// A row that it replaced or removed.
    Row(Range<usize>),
    /// A row that stayed.
    Kept,
}

/// A row that is another one now. One of the two is there at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowChange<'c> {
    pub key: &'c [u8],
    pub old: Option<&'c [u8]>,
    pub new: Option<&'c [u8]>,
}

impl Chunk {
    pub fn new(changes: Changes) -> Self {
        let met = changes.places.iter().map(|_| Met::Nothing).collect();
        Self { changes, old: Vec::new(), met }
    }

    /// Applies the changes to the primary tree and keeps what they meet; `keep` decides by change and old row whether
    /// the row there stays.
    pub fn apply(
        &mut self,
        reader: &mut TreeReader,
        pages: &mut PageWriter,
        root: &TreeRoot,
        mut keep: impl FnMut(KeyChange<'_>, &[u8]) -> bool,
    ) -> Result<Applied> {
        let Self { changes, old, met } = self;
        changes.apply(reader, pages, root, &mut |index, row| {
            if keep(changes.get(index), row) {
                met[index] = Met::Kept;
                return Effect::Keep;
            }
            met[index] = Met::Row(store(old, row));
            Effect::Change
        })
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// A change, unless it changed nothing.
    pub fn get(&self, index: usize) -> Option<RowChange<'_>> {
        let (key, new) = self.changes.get(index);
        let old = match &self.met[index] {
            Met::Nothing => None,
            Met::Row(row) => Some(&self.old[row.clone()]),
            Met::Kept => return None,
        };
        (old.is_some() || new.is_some()).then_some(RowChange { key, old, new })
    }

    /// What has changed, in key order.
    pub fn changes(&self) -> impl Iterator<Item = RowChange<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Changes {
        let mut changes = Changes::default();
        changes.push((b"a", Some(b"1")));
        changes.push((b"bb", None));
        changes.push((b"c", Some(b"")));
        changes
    }

    #[test]
    fn changes_come_back_as_they_were_pushed() {
        let changes = changes();
        let all: Vec<KeyChange<'_>> = changes.iter().collect();
        assert_eq!(all, [(&b"a"[..], Some(&b"1"[..])), (b"bb", None), (b"c", Some(b""))]);
        assert_eq!(changes.last_key(), Some(&b"c"[..]));
        assert!(Changes::default().last_key().is_none() && Changes::default().is_empty());
    }

    #[test]
    fn a_chunk_is_full_by_its_bytes() {
        let mut changes = Changes::default();
        let row = vec![7; CHUNK_BYTES / 4];
        let mut pushed = 0;
        while !changes.is_full() {
            changes.push((b"key", Some(&row)));
            pushed += 1;
        }
        assert_eq!(pushed, 4);
    }

    #[test]
    fn what_changed_nothing_is_no_change() {
        let mut chunk = Chunk::new(changes());
        // The second was not there and is to be gone; the third stays as it was.
        chunk.met[2] = Met::Kept;
        let keys: Vec<&[u8]> = chunk.changes().map(|change| change.key).collect();
        assert_eq!(keys, [b"a"]);
        chunk.old = b"old".to_vec();
        chunk.met[1] = Met::Row(0..3);
        let gone = chunk.get(1).expect("a row is gone");
        assert_eq!(gone, RowChange { key: b"bb", old: Some(b"old"), new: None });
    }
}
