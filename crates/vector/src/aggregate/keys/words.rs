//! The distinct values of a text column of group keys, numbered.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, StringViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_schema::DataType;

use super::byte_table::ByteTable;
use super::hash;
use crate::aggregate::string_array::string_array;
use crate::aggregate::values::Strings;
use crate::{Column, Result};

/// Beyond this many words a column is better hashed with the others than numbered on its own. The numbers of so few
/// fit the codes of a dictionary.
const MAX_WORDS: usize = 1 << 15;

/// A dictionary of at most this many values is numbered as a whole, whichever of them rows have.
const SMALL_DICTIONARY: usize = 256;

/// Numbers from 1 on; 0 is NULL.
#[derive(Default)]
pub(crate) struct Words {
    table: ByteTable,
    /// Of the dictionary that came last: its values, and the number of each (0: not asked for yet).
    dictionary: Option<(ArrayRef, Vec<u32>)>,
    /// Numbers of the rows that came last, if they were views.
    rows: Vec<u32>,
}

impl Words {
    /// Numbers the values of `column`; false: there are too many.
    pub(crate) fn admit(&mut self, column: &Column) -> bool {
        match column.array().as_dictionary_opt::<UInt16Type>() {
            Some(dictionary) => self.admit_dictionary(dictionary),
            None => self.admit_strings(column),
        }
        self.fits()
    }

    /// Whether there are not too many.
    pub(crate) fn fits(&self) -> bool {
        self.table.len() <= MAX_WORDS
    }

    fn admit_dictionary(&mut self, dictionary: &DictionaryArray<UInt16Type>) {
        let Some(values) = dictionary.values().as_string_view_opt() else { return };
        let known = self.dictionary.take().filter(|(known, _)| Arc::ptr_eq(known, dictionary.values()));
        let fresh = known.is_none();
        let (array, mut numbers) = known.unwrap_or_else(|| (Arc::clone(dictionary.values()), vec![0; values.len()]));
        if values.len() <= SMALL_DICTIONARY {
            if fresh {
                numbers.iter_mut().enumerate().for_each(|(code, number)| *number = self.number(values.value(code)));
            }
        } else {
            let codes = dictionary.keys();
            for row in (0..codes.len()).filter(|row| codes.is_valid(*row)) {
                let code = codes.value(row).as_usize();
                if numbers[code] == 0 {
                    numbers[code] = self.number(values.value(code));
                }
            }
        }
        self.dictionary = Some((array, numbers));
    }

    fn admit_strings(&mut self, column: &Column) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        if let Some(strings) = Strings::of(column) {
            let array = column.array();
            rows.extend((0..array.len()).map(|row| match array.is_valid(row) {
                true => self.number_of(strings.get(row)),
                false => 0,
            }));
        }
        self.rows = rows;
    }

    fn number(&mut self, word: &str) -> u32 {
        self.number_of(word.as_bytes())
    }

    pub(crate) fn number_of(&mut self, word: &[u8]) -> u32 {
        self.table.find_or_insert(hash::of_bytes(word), word) + 1
    }

    /// Adds each row's number, shifted, to `keys`. The column must have been admitted just before.
    pub(crate) fn pack(&self, column: &Column, shift: u32, keys: &mut [u64]) {
        let array = column.array();
        match (array.as_dictionary_opt::<UInt16Type>(), &self.dictionary) {
            (Some(dictionary), Some((_, numbers))) => {
                let codes = dictionary.keys().values();
                match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                    None => keys.iter_mut().zip(codes).for_each(|(key, code)| {
                        *key |= u64::from(numbers[code.as_usize()]) << shift;
                    }),
                    Some(nulls) => keys.iter_mut().zip(codes).zip(nulls).for_each(|((key, code), valid)| {
                        let number = numbers.get(code.as_usize()).filter(|_| valid);
                        *key |= u64::from(number.copied().unwrap_or(0)) << shift;
                    }),
                }
            }
            _ => keys.iter_mut().zip(&self.rows).for_each(|(key, number)| *key |= u64::from(*number) << shift),
        }
    }

    /// The greatest number.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn word(&self, number: usize) -> &[u8] {
        self.table.get(number - 1)
    }

    /// The words with these numbers, as a dictionary column.
    pub(crate) fn column(&self, numbers: impl ExactSizeIterator<Item = u64> + Clone) -> Result<Column> {
        let bytes = Buffer::from(self.table.bytes());
        let places = (0..self.table.len())
            .map(|word| self.table.start(word)..self.table.start(word) + self.table.get(word).len());
        let values: ArrayRef = string_array(&bytes, places, None, &DataType::Utf8View)?;
        let valid: NullBuffer = numbers.clone().map(|number| number != 0).collect();
        let codes = numbers.map(|number| number.saturating_sub(1) as u16).collect();
        let nulls = Some(valid).filter(|valid| valid.null_count() > 0);
        let codes = arrow_array::UInt16Array::new(codes, nulls);
        if values.is_empty() {
            return Ok(Column::new(Arc::new(StringViewArray::new_null(codes.len()))));
        }
        Ok(Column::new(Arc::new(DictionaryArray::try_new(codes, values)?)))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, |(_, numbers)| numbers.len() * size_of::<u32>());
        self.table.memory_bytes() + dictionary + self.rows.capacity() * size_of::<u32>()
    }
}
