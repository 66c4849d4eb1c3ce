//! An index of rows by key: which rows have the keys of other rows.
//!
//! ```text
//!   key columns ─► words or strings ─► ranked │ direct │ hashed │ strings ─► positions of rows
//! ```
//!
//! Integer-like key columns are packed into one word (`packing`). Words that lie close together index an array
//! (`direct`), or count rows if these ascend (`ranked`); others a hash table (`hashed`); keys that do not fit a word
//! are compared as strings of bytes (`bytes`). Lookups go chunk by chunk in loops without branches, so that the loads
//! of many rows are under way at once.

mod bytes;
pub(crate) mod code;
mod direct;
pub(crate) mod hashed;
mod keys;
mod packing;
pub(crate) mod parallel;
pub(crate) mod positions;
mod ranked;
mod strings;

use arrow_schema::DataType;

use self::bytes::Encoder;
use self::direct::Direct;
use self::hashed::{Hashed, LongWords, ShortWords};
use self::keys::{CHUNK_ROWS, PackedWords};
use self::packing::Packing;
use self::positions::{Groups, NOWHERE};
use self::ranked::Ranked;
use self::strings::StringIndex;
use crate::{Bounds, Column, Result};

/// Finds the build rows of keys.
#[derive(Debug)]
pub(crate) struct Index {
    kind: Kind,
    /// The rows of each key, if any key has several.
    groups: Option<Groups>,
}

#[derive(Debug)]
enum Kind {
    Ranked(Packing, Ranked),
    Direct(Packing, Direct),
    Short(Packing, Hashed<ShortWords>),
    Long(Packing, Hashed<LongWords>),
    Strings(StringIndex),
}

impl Index {
    /// Of batches of key columns with their numbers of rows, whose codes lie between `bounds`; `None`: a column has
    /// values without a code.
    pub fn build(
        types: &[DataType],
        keys: &[(Vec<Column>, usize)],
        bounds: Option<&[Option<Bounds>]>,
        nulls_equal: bool,
        threads: usize,
    ) -> Result<Self> {
        let Some(packing) = bounds.and_then(|bounds| Packing::new(bounds, nulls_equal)) else {
            let (index, groups) = StringIndex::build(Encoder::new(types, nulls_equal), keys, threads)?;
            return Ok(Self { kind: Kind::Strings(index), groups });
        };
        let words = PackedWords::new(&packing, keys);
        let (rows, range) = (keys.iter().map(|(_, rows)| rows).sum(), packing.range());
        let ranked = Ranked::suits(range, rows).then(|| Ranked::build(&words, range)).transpose()?.flatten();
        if let Some(index) = ranked {
            return Ok(Self { kind: Kind::Ranked(packing, index), groups: None });
        }
        let same = |_, _| true;
        let (kind, groups) = if Direct::suits(range, rows) {
            let (index, groups) = Direct::build(&words, range, threads)?;
            (Kind::Direct(packing, index), groups)
        } else if range <= u64::from(u32::MAX) {
            let (index, groups) = Hashed::build(&words, same, threads)?;
            (Kind::Short(packing, index), groups)
        } else {
            let (index, groups) = Hashed::build(&words, same, threads)?;
            (Kind::Long(packing, index), groups)
        };
        Ok(Self { kind, groups })
    }

    /// The rows of each key, if any key has several.
    pub(crate) fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    pub fn nulls_equal(&self) -> bool {
        match &self.kind {
            Kind::Ranked(packing, _) | Kind::Direct(packing, _) | Kind::Short(packing, _) | Kind::Long(packing, _) => {
                packing.nulls_equal()
            }
            Kind::Strings(index) => index.nulls_equal(),
        }
    }

    /// Calls `each` for every chunk of `rows` rows, with its first row and the positions of its keys.
    pub fn find(&self, keys: &[Column], rows: usize, each: impl FnMut(u32, &[u32])) -> Result<()> {
        let same = |_, _| true;
        match &self.kind {
            Kind::Ranked(packing, index) => {
                find_words(packing, keys, rows, |words, positions| index.find(words, positions), each)
            }
            Kind::Direct(packing, index) => {
                find_words(packing, keys, rows, |words, positions| index.find(words, positions), each)
            }
            Kind::Short(packing, index) => {
                find_words(packing, keys, rows, |words, positions| index.find(words, same, positions), each)
            }
            Kind::Long(packing, index) => {
                find_words(packing, keys, rows, |words, positions| index.find(words, same, positions), each)
            }
            Kind::Strings(index) => index.find(keys, rows, self.groups(), each),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let index = match &self.kind {
            Kind::Ranked(_, index) => index.memory_bytes(),
            Kind::Direct(_, index) => index.memory_bytes(),
            Kind::Short(_, index) => index.memory_bytes(),
            Kind::Long(_, index) => index.memory_bytes(),
            Kind::Strings(index) => index.memory_bytes(),
        };
        index + self.groups.as_ref().map_or(0, Groups::memory_bytes)
    }
}

fn find_words(
    packing: &Packing,
    keys: &[Column],
    rows: usize,
    find: impl Fn(&[u64], &mut [u32]),
    mut each: impl FnMut(u32, &[u32]),
) -> Result<()> {
    let keys = packing.prepare(keys);
    let (mut words, mut positions) = ([0; CHUNK_ROWS], [NOWHERE; CHUNK_ROWS]);
    for start in (0..rows).step_by(CHUNK_ROWS) {
        let rows = CHUNK_ROWS.min(rows - start);
        packing.words(&keys, start, &mut words[..rows])?;
        find(&words[..rows], &mut positions[..rows]);
        each(start as u32, &positions[..rows]);
    }
    Ok(())
}
