//! Payload columns of a build side: of each, one array, to take rows from.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, StringViewArray, UInt16Array, new_empty_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use hashbrown::HashMap;

use crate::form::{self, TextDictionary};
use crate::{Column, Result};

/// Bytes of text in a buffer at most: views count them in four bytes, signed for some readers.
const MAX_TEXT_BUFFER: usize = 1 << 30;

/// Dictionaries of different batches are put together up to so many values.
const MAX_DICTIONARY: usize = 1 << 16;

/// One column of the batches of a build side, in a form that suits all.
pub(super) fn unite(columns: &[Column], logical: &DataType) -> Result<Column> {
    let references: Vec<&Column> = columns.iter().collect();
    let column = match logical {
        _ if columns.is_empty() => Column::new(empty(logical)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::LargeBinary | DataType::Utf8View => {
            Column::new(unite_text(columns)?)
        }
        DataType::Decimal128(..) => unite_decimals(&references)?,
        _ => Column::concat(&references)?,
    };
    // A look at the data now spares the expressions above a check of every sum and product.
    Ok(match column.bounds() {
        Some(bounds) => Column::with_bounds(Arc::clone(column.array()), bounds),
        None => column,
    })
}

/// An array without rows in a native form.
fn empty(logical: &DataType) -> ArrayRef {
    new_empty_array(match logical {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::LargeBinary => &DataType::Utf8View,
        DataType::Binary => &DataType::BinaryView,
        DataType::Decimal128(..) | DataType::Timestamp(TimeUnit::Second, _) => &DataType::Int64,
        other => other,
    })
}

fn unite_decimals(columns: &[&Column]) -> Result<Column> {
    let column = Column::concat(columns)?;
    let narrow = column.array().as_primitive_opt().and_then(form::narrow_decimals);
    Ok(narrow.map_or(column, |narrow| Column::new(Arc::new(narrow))))
}

fn unite_text(columns: &[Column]) -> Result<ArrayRef> {
    let dictionaries: Option<Vec<&TextDictionary>> =
        columns.iter().map(|column| column.array().as_dictionary_opt::<UInt16Type>()).collect();
    if let Some(united) = dictionaries.and_then(|dictionaries| unite_dictionaries(&dictionaries)) {
        return Ok(Arc::new(united));
    }
    let columns = columns.iter().map(form::text_views).collect::<Result<Vec<_>>>()?;
    let arrays: Vec<&StringViewArray> = columns.iter().map(|column| column.as_string_view()).collect();
    Ok(Arc::new(copy_text(&arrays)))
}

/// Copies the text that rows have into buffers of its own: there are thousands of batches, and each has buffers that
/// were filled for more rows than are left of it.
fn copy_text(arrays: &[&StringViewArray]) -> StringViewArray {
    let long = |array: &&StringViewArray| -> usize {
        array.lengths().filter(|length| *length > 12).map(|length| length as usize).sum()
    };
    let bytes: usize = arrays.iter().map(long).sum();
    let rows = arrays.iter().map(|array| array.len()).sum();
    let mut text = StringViewBuilder::with_capacity(rows).with_fixed_block_size(bytes.clamp(1, MAX_TEXT_BUFFER) as u32);
    for array in arrays {
        match array.nulls() {
            None => (0..array.len()).for_each(|row| text.append_value(array.value(row))),
            Some(_) => array.iter().for_each(|value| text.append_option(value)),
        }
    }
    text.finish()
}

/// One dictionary of several; `None`: it would have too many values.
fn unite_dictionaries(dictionaries: &[&TextDictionary]) -> Option<TextDictionary> {
    let first = dictionaries.first()?;
    let same = dictionaries.iter().all(|other| Arc::ptr_eq(first.values(), other.values()));
    let mut united = UnitedValues::default();
    let rows = dictionaries.iter().map(|dictionary| dictionary.len()).sum();
    let mut keys: Vec<u16> = Vec::with_capacity(rows);
    // Neighbouring batches come from one segment and share its dictionary.
    let mut translation: Option<(&ArrayRef, Vec<u16>)> = None;
    for dictionary in dictionaries {
        let values = dictionary.values();
        if same {
            keys.extend_from_slice(dictionary.keys().values());
            continue;
        }
        let known = translation.take().filter(|(known, _)| Arc::ptr_eq(known, values));
        let (_, codes) = match known {
            Some(known) => translation.insert(known),
            None => translation.insert((values, united.add(values.as_string_view())?)),
        };
        // What lies under a NULL may be no code.
        keys.extend(dictionary.keys().values().iter().map(|key| codes.get(*key as usize).copied().unwrap_or(0)));
    }
    let values = if same { Arc::clone(first.values()) } else { united.finish() };
    let parts: Vec<_> = dictionaries.iter().map(|dictionary| (dictionary.nulls(), dictionary.len())).collect();
    let keys = UInt16Array::new(keys.into(), unite_nulls(&parts));
    TextDictionary::try_new(keys, values).ok()
}

/// The NULLs of arrays put one after the other.
fn unite_nulls(parts: &[(Option<&NullBuffer>, usize)]) -> Option<NullBuffer> {
    if parts.iter().all(|(nulls, _)| nulls.is_none()) {
        return None;
    }
    let mut valid = arrow_buffer::BooleanBufferBuilder::new(parts.iter().map(|(_, rows)| rows).sum());
    for (nulls, rows) in parts {
        match nulls {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(*rows, true),
        }
    }
    Some(NullBuffer::new(valid.finish()))
}

/// Values of several dictionaries, each once.
#[derive(Default)]
struct UnitedValues<'a> {
    codes: HashMap<&'a str, u16>,
    values: Vec<&'a str>,
}

impl<'a> UnitedValues<'a> {
    /// The code of each value of a dictionary.
    fn add(&mut self, values: &'a StringViewArray) -> Option<Vec<u16>> {
        let mut codes = Vec::with_capacity(values.len());
        for row in 0..values.len() {
            let value = values.value(row);
            let next = self.values.len();
            let code = *self.codes.entry(value).or_insert_with(|| {
                self.values.push(value);
                next as u16
            });
            if self.values.len() > MAX_DICTIONARY {
                return None;
            }
            codes.push(code);
        }
        Some(codes)
    }

    fn finish(self) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(self.values))
    }
}

/// Memory that the rows of a column take, in bytes; what several columns share is counted by none.
pub(super) fn column_bytes(column: &Column) -> usize {
    let array = column.array();
    let nulls = array.nulls().map_or(0, |_| array.len().div_ceil(8));
    let values = match array.data_type() {
        DataType::Utf8View => array.len() * size_of::<u128>() + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.len() * size_of::<u128>() + array.as_binary_view().total_buffer_bytes_used(),
        DataType::Dictionary(..) => array.len() * size_of::<u16>(),
        DataType::Boolean => array.len().div_ceil(8),
        DataType::FixedSizeBinary(width) => array.len() * *width as usize,
        other => match other.primitive_width() {
            Some(width) => array.len() * width,
            None => array.get_buffer_memory_size(),
        },
    };
    nulls + values
}
