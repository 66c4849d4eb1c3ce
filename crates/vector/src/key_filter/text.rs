//! Filters on text and binary, by hashes.

use std::hash::BuildHasher;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use super::bits;
use super::bloom::Bloom;
use super::codes::without_nulls;
use crate::{Column, Result, VectorError, form};

#[derive(Debug)]
pub(super) struct TextFilter {
    hasher: hashbrown::DefaultHashBuilder,
    filter: Bloom,
}

impl TextFilter {
    /// Whether a column is of a form that these filters know.
    pub fn knows(column: &Column) -> bool {
        match column.array().data_type() {
            DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
            DataType::Dictionary(..) => column
                .array()
                .as_dictionary_opt::<UInt16Type>()
                .is_some_and(|dictionary| *dictionary.values().data_type() == DataType::Utf8View),
            _ => false,
        }
    }

    /// `None`: the columns have no value.
    pub fn of(columns: &[&Column]) -> Result<Option<Self>> {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let rows = columns.iter().map(|column| column.len() - column.array().null_count()).sum();
        if rows == 0 {
            return Ok(None);
        }
        let mut filter = Bloom::new(rows);
        for column in columns {
            match column.array().as_dictionary_opt::<UInt16Type>() {
                Some(dictionary) => {
                    // Values that no row has are left out: others were filtered away.
                    let mut used = vec![false; dictionary.values().len()];
                    dictionary.keys().iter().flatten().for_each(|code| used[code as usize] = true);
                    let hashes = hashes(&hasher, dictionary.values())?;
                    let used = hashes.iter().zip(used).filter(|(_, used)| *used);
                    used.for_each(|(hash, _)| filter.insert(*hash));
                }
                None => {
                    let hashes = hashes(&hasher, column.array())?;
                    match column.array().nulls() {
                        None => hashes.iter().for_each(|hash| filter.insert(*hash)),
                        Some(nulls) => nulls.valid_indices().for_each(|row| filter.insert(hashes[row])),
                    }
                }
            }
        }
        Ok(Some(Self { hasher, filter }))
    }

    pub fn distinct(&self) -> usize {
        self.filter.len()
    }

    pub fn select(&self, column: &Column) -> Result<BooleanBuffer> {
        let dictionary = column.array().as_dictionary_opt::<UInt16Type>();
        let Some(dictionary) = dictionary.filter(|dictionary| dictionary.values().len() <= dictionary.len()) else {
            let array = form::text_views(column)?;
            let found = bits::of_each(&hashes(&self.hasher, &array)?, |hash| self.filter.contains(hash));
            return Ok(without_nulls(found, array.nulls()));
        };
        let hashes = hashes(&self.hasher, dictionary.values())?;
        let passes: Vec<bool> = hashes.iter().map(|hash| self.filter.contains(*hash)).collect();
        // What lies under a NULL may be no code.
        let found =
            bits::of_each(dictionary.keys().values(), |code| passes.get(code as usize).is_some_and(|pass| *pass));
        Ok(without_nulls(found, dictionary.nulls()))
    }
}

fn hashes(hasher: &hashbrown::DefaultHashBuilder, array: &ArrayRef) -> Result<Vec<u64>> {
    let rows = 0..array.len();
    Ok(match array.data_type() {
        DataType::Utf8View => {
            let values = array.as_string_view();
            rows.map(|row| hasher.hash_one(values.value(row).as_bytes())).collect()
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            rows.map(|row| hasher.hash_one(values.value(row))).collect()
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            rows.map(|row| hasher.hash_one(values.value(row))).collect()
        }
        other => return Err(VectorError::internal(format!("{other} as text"))),
    })
}
