//! An index of keys that are strings of bytes: their hashes are looked up, and where one is found the strings are
//! compared.

use std::slice;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, UInt16Array};

use super::bytes::{Encoder, Strings};
use super::hashed::{Hashed, Hashes};
use super::keys::CHUNK_ROWS;
use super::packing::NO_KEY;
use super::parallel;
use super::positions::{Groups, NOWHERE};
use crate::{Column, Result};

#[derive(Debug)]
pub(crate) struct StringIndex {
    encoder: Encoder,
    buckets: Hashed<Hashes>,
    /// Of the build rows.
    strings: Strings,
}

impl StringIndex {
    /// Of batches of key columns with their numbers of rows; groups if a key occurs twice.
    pub fn build(encoder: Encoder, keys: &[(Vec<Column>, usize)], threads: usize) -> Result<(Self, Option<Groups>)> {
        let rows: usize = keys.iter().map(|(_, rows)| rows).sum();
        let share = keys.len().div_ceil(parallel::shares(rows, threads)).max(1);
        let encode = |batches: &[(Vec<Column>, usize)]| {
            let mut strings = Strings::default();
            for (columns, rows) in batches {
                encoder.encode(columns, 0, *rows, &mut strings)?;
            }
            Ok(strings)
        };
        let encode = &encode;
        let mut parts = parallel::run(keys.chunks(share).map(|batches| move || encode(batches)).collect())?.into_iter();
        let mut strings = parts.next().unwrap_or_default();
        let rest = parts.as_slice();
        strings.reserve(rest.iter().map(Strings::rows).sum(), rest.iter().map(Strings::size).sum());
        parts.for_each(|part| strings.append(&part));
        let hashes = strings.take_hashes();
        let same = |a: u32, b: u32| strings.get(a as usize) == strings.get(b as usize);
        let (buckets, groups) = Hashed::build(&hashes, same, threads)?;
        Ok((Self { encoder, buckets, strings }, groups))
    }

    pub fn nulls_equal(&self) -> bool {
        self.encoder.nulls_equal()
    }

    /// Calls `each` for every chunk of `rows` rows, with its first row and the positions of its keys.
    pub fn find(
        &self,
        keys: &[Column],
        rows: usize,
        groups: Option<&Groups>,
        mut each: impl FnMut(u32, &[u32]),
    ) -> Result<()> {
        if let Some((codes, values)) = self.small_dictionary(keys, rows) {
            // Each value is looked up once.
            let mut by_code = Vec::with_capacity(values.len());
            self.find_each(slice::from_ref(&values), values.len(), groups, |_, found| {
                by_code.extend_from_slice(found)
            })?;
            let position = |code: Option<u16>| code.map_or(NOWHERE, |code| by_code[code as usize]);
            let positions: Vec<u32> = codes.iter().map(position).collect();
            each(0, &positions);
            return Ok(());
        }
        self.find_each(keys, rows, groups, each)
    }

    fn find_each(
        &self,
        keys: &[Column],
        rows: usize,
        groups: Option<&Groups>,
        mut each: impl FnMut(u32, &[u32]),
    ) -> Result<()> {
        let (mut wanted, mut positions) = (Strings::default(), [NOWHERE; CHUNK_ROWS]);
        for start in (0..rows).step_by(CHUNK_ROWS) {
            let positions = &mut positions[..CHUNK_ROWS.min(rows - start)];
            wanted.clear();
            self.encoder.encode(keys, start, positions.len(), &mut wanted)?;
            let same = |row: usize, position: u32| {
                let found = groups.map_or(position, |groups| groups.first(position));
                wanted.hashes()[row] != NO_KEY && wanted.get(row) == self.strings.get(found as usize)
            };
            self.buckets.find(wanted.hashes(), same, positions);
            each(start as u32, positions);
        }
        Ok(())
    }

    /// The codes of the only key column and the values of its dictionary, if it has one with fewer values than rows.
    fn small_dictionary<'a>(&self, keys: &'a [Column], rows: usize) -> Option<(&'a UInt16Array, Column)> {
        let [key] = keys else { return None };
        let dictionary = key.array().as_dictionary_opt::<UInt16Type>()?;
        let values = dictionary.values();
        let useful = values.len() < rows && !(self.nulls_equal() && dictionary.null_count() > 0);
        useful.then(|| (dictionary.keys(), Column::new(ArrayRef::clone(values))))
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes() + self.strings.memory_bytes()
    }
}
