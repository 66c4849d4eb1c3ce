//! Columns of one logical type, put together.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, StringViewArray, UInt16Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use hashbrown::HashMap;

use crate::form::{self, TextDictionary};
use crate::{Column, Result, VectorError, view};

impl Column {
    /// One column of several of the same logical type, whatever their forms. Dictionaries stay one if all have the same
    /// values, and become one, with what text there is besides, if their values are few. Other text keeps the buffers
    /// of all columns alive; a buffer that many share is listed once where the list would get long.
    pub fn concat(columns: &[&Self]) -> Result<Self> {
        let [first, rest @ ..] = columns else { return Err(VectorError::internal("no columns to put together")) };
        if rest.is_empty() {
            return Ok((*first).clone());
        }
        let all = |wanted: fn(&DataType) -> bool| columns.iter().all(|column| wanted(column.array().data_type()));
        let same = rest.iter().all(|column| column.array().data_type() == first.array().data_type());
        let array = if let Some(dictionary) = concat_dictionaries(columns)? {
            dictionary
        } else if let Some(dictionary) = merge_dictionaries(columns)? {
            dictionary
        } else if all(|t| matches!(t, DataType::Dictionary(..) | DataType::Utf8View)) {
            let views = columns.iter().map(|column| form::text_views(column)).collect::<Result<Vec<_>>>()?;
            concat_views(&views)?
        } else if same {
            concat_arrays(columns.iter().map(|column| column.array()))?
        } else {
            concat_decimals(columns)?
        };
        let bounds = columns.iter().map(|column| column.known_bounds()).reduce(|a, b| Some(a?.union(b?)));
        Ok(match bounds.flatten() {
            Some(bounds) => Self::with_bounds(array, bounds),
            None => Self::new(array),
        })
    }
}

fn concat_arrays<'a>(arrays: impl Iterator<Item = &'a ArrayRef>) -> Result<ArrayRef> {
    Ok(arrow_select::concat::concat(&arrays.map(AsRef::as_ref).collect::<Vec<_>>())?)
}

/// Decimals of both forms, in 16 bytes. Narrow ones do not know their scale: it is the wide ones'.
fn concat_decimals(columns: &[&Column]) -> Result<ArrayRef> {
    let wide_type =
        columns.iter().map(|column| column.array().data_type()).find(|t| matches!(t, DataType::Decimal128(..)));
    let Some(wide_type) = wide_type else { return Err(VectorError::internal("columns of different types")) };
    let wide =
        |column: &&Column| Ok(Arc::new(form::wide_decimals(column)?.with_data_type(wide_type.clone())) as ArrayRef);
    concat_arrays(columns.iter().map(wide).collect::<Result<Vec<_>>>()?.iter())
}

/// If all columns are dictionaries of the same values.
fn concat_dictionaries(columns: &[&Column]) -> Result<Option<ArrayRef>> {
    let dictionaries = columns.iter().map(|column| column.array().as_any().downcast_ref::<TextDictionary>());
    let Some(dictionaries) = dictionaries.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let values = dictionaries[0].values();
    if !dictionaries.iter().all(|dictionary| Arc::ptr_eq(dictionary.values(), values)) {
        return Ok(None);
    }
    let codes: Vec<&dyn Array> = dictionaries.iter().map(|dictionary| dictionary.keys() as &dyn Array).collect();
    let codes = arrow_select::concat::concat(&codes)?;
    let codes = codes.as_primitive::<UInt16Type>().clone();
    Ok(Some(Arc::new(TextDictionary::try_new(codes, Arc::clone(values))?)))
}

/// Rows for each value that dictionaries hold, at least, for them to be made one.
const ROWS_PER_VALUE_MIN: usize = 8;

/// One dictionary of text that in part is by dictionaries, if all values together are few beside the rows.
fn merge_dictionaries(columns: &[&Column]) -> Result<Option<ArrayRef>> {
    let (mut values, mut dictionaries, mut rows) = (0, 0, 0);
    for column in columns {
        rows += column.len();
        values += match column.array().data_type() {
            DataType::Dictionary(..) => {
                dictionaries += 1;
                column.array().as_dictionary::<UInt16Type>().values().len()
            }
            DataType::Utf8View => column.len(),
            _ => return Ok(None),
        };
    }
    if dictionaries == 0 || values > usize::from(u16::MAX) || values * ROWS_PER_VALUE_MIN > rows {
        return Ok(None);
    }
    let mut merged = TextSet::default();
    let mut codes = Vec::with_capacity(rows);
    for column in columns {
        match column.array().as_any().downcast_ref::<TextDictionary>() {
            Some(dictionary) => {
                let ours: Vec<u16> =
                    dictionary.values().as_string_view().iter().map(|text| merged.code(text)).collect();
                // What lies under a NULL may be any code.
                let code = |theirs: &u16| ours.get(usize::from(*theirs)).copied().unwrap_or_default();
                codes.extend(dictionary.keys().values().iter().map(code));
            }
            None => codes.extend(column.array().as_string_view().iter().map(|text| merged.code(text))),
        }
    }
    let arrays: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(column.array())).collect();
    let codes = UInt16Array::new(codes.into(), concat_nulls(&arrays));
    let values = StringViewArray::from_iter_values(merged.texts);
    Ok(Some(Arc::new(TextDictionary::try_new(codes, Arc::new(values))?)))
}

/// Distinct texts, numbered as they come.
#[derive(Default)]
struct TextSet<'t> {
    texts: Vec<&'t str>,
    codes: HashMap<&'t str, u16>,
}

impl<'t> TextSet<'t> {
    /// The number of a text; of NULL, any.
    fn code(&mut self, text: Option<&'t str>) -> u16 {
        let Some(text) = text else { return 0 };
        *self.codes.entry(text).or_insert_with(|| {
            self.texts.push(text);
            (self.texts.len() - 1) as u16
        })
    }
}

/// Buffers that a column of text may list without a look whether they are the same: twins cost less than finding them.
const BUFFERS: usize = 1024;

fn concat_views(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let buffers: usize = arrays.iter().map(|array| array.as_string_view().data_buffers().len()).sum();
    if buffers <= BUFFERS {
        return concat_arrays(arrays.iter());
    }
    let (mut places, mut distinct) = (HashMap::new(), Vec::new());
    let mut views = Vec::with_capacity(arrays.iter().map(|array| array.len()).sum());
    for array in arrays {
        let array = array.as_string_view();
        let new_indexes: Vec<u32> = array
            .data_buffers()
            .iter()
            .map(|buffer| {
                *places.entry((buffer.as_ptr(), buffer.len())).or_insert_with(|| {
                    distinct.push(buffer.clone());
                    distinct.len() as u32 - 1
                })
            })
            .collect();
        views.extend(array.views().iter().map(|view| {
            // What lies under a NULL may name any buffer.
            view::with_buffer(*view, |old| new_indexes.get(old as usize).copied().unwrap_or_default())
        }));
    }
    let nulls = concat_nulls(arrays);
    Ok(Arc::new(StringViewArray::try_new(views.into(), distinct, nulls)?))
}

fn concat_nulls(arrays: &[ArrayRef]) -> Option<NullBuffer> {
    arrays.iter().any(|array| array.null_count() > 0).then(|| {
        let mut valid = BooleanBufferBuilder::new(arrays.iter().map(|array| array.len()).sum());
        for array in arrays {
            match array.nulls() {
                Some(nulls) => valid.append_buffer(nulls.inner()),
                None => valid.append_n(array.len(), true),
            }
        }
        NullBuffer::new(valid.finish())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bounds;
    use arrow_array::{Decimal128Array, Int64Array};

    const TEXTS: [&str; 3] = ["short", "a text that is not inline", "another text that is not inline"];

    fn texts(column: &Column) -> Vec<Option<String>> {
        let views = form::text_views(column).unwrap();
        views.as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
    }

    fn views(rows: &[Option<&str>]) -> Column {
        Column::new(Arc::new(StringViewArray::from_iter(rows)))
    }

    #[test]
    fn buffers_that_are_shared_are_listed_once() {
        let rows = [Some(TEXTS[0]), Some(TEXTS[1]), None, Some(TEXTS[2])];
        let (one, other) = (views(&rows), views(&rows[1..]));
        let parts: Vec<Column> =
            (0..BUFFERS).flat_map(|part| [one.slice(part % 4, 4 - part % 4), other.clone()]).collect();
        let whole = Column::concat(&parts.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(whole.array().as_string_view().data_buffers().len(), 2);
        assert_eq!(texts(&whole), parts.iter().flat_map(texts).collect::<Vec<_>>());
    }

    #[test]
    fn dictionaries_stay_if_they_are_the_same() {
        let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(TEXTS));
        let of = |codes: Vec<Option<u16>>, values: &ArrayRef| {
            Column::new(Arc::new(TextDictionary::new(UInt16Array::from(codes), Arc::clone(values))))
        };
        let (first, second) = (of(vec![Some(2), None], &values), of(vec![Some(0)], &values));
        let same = Column::concat(&[&first, &second]).unwrap();
        assert!(Arc::ptr_eq(same.array().as_dictionary::<UInt16Type>().values(), &values));
        let other = of(vec![Some(1)], &(Arc::new(StringViewArray::from_iter_values(TEXTS)) as ArrayRef));
        for parts in [[&first, &second, &other], [&first, &other, &views(&[None, Some("x")])]] {
            let expected: Vec<_> = parts.iter().flat_map(|part| texts(part)).collect();
            assert_eq!(texts(&Column::concat(&parts).unwrap()), expected);
        }
    }

    #[test]
    fn dictionaries_of_few_values_become_one() {
        let of = |codes: Vec<Option<u16>>, values: &[&str]| {
            let values = Arc::new(StringViewArray::from_iter_values(values));
            Column::new(Arc::new(TextDictionary::new(UInt16Array::from(codes), values)))
        };
        let many = |first: u16, second| {
            (0..60).map(move |row| (row % 5 > 0).then_some(if row % 2 > 0 { first } else { second }))
        };
        let (one, other) = (of(many(2, 0).collect(), &TEXTS), of(many(1, 0).collect(), &[TEXTS[2], "x"]));
        let text = views(&[None, Some("x"), Some(TEXTS[1])]);
        for parts in [vec![&one, &other], vec![&text, &one], vec![&one, &text, &other, &text]] {
            let whole = Column::concat(&parts).unwrap();
            assert_eq!(texts(&whole), parts.iter().flat_map(|part| texts(part)).collect::<Vec<_>>());
            let values = whole.array().as_dictionary::<UInt16Type>().values().as_string_view();
            let mut distinct: Vec<_> = values.iter().flatten().collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), values.len(), "{values:?}");
        }
        let few_rows = Column::concat(&[&one.slice(0, 3), &other.slice(0, 3)]).unwrap();
        assert_eq!(few_rows.array().data_type(), &DataType::Utf8View);
        assert_eq!(texts(&few_rows), [texts(&one.slice(0, 3)), texts(&other.slice(0, 3))].concat());
        // Nothing but NULLs beside a dictionary without values.
        let empty = of(vec![None; 8], &[]);
        assert_eq!(texts(&Column::concat(&[&empty, &empty.slice(0, 2)]).unwrap()), vec![None; 10]);
    }

    #[test]
    fn decimals_widen_together() {
        let narrow = Column::with_bounds(Arc::new(Int64Array::from(vec![Some(1), None])), Bounds { min: 1, max: 1 });
        let wide = Decimal128Array::from(vec![1 << 70]).with_precision_and_scale(30, 4).unwrap();
        let wide = Column::new(Arc::new(wide));
        let both = Column::concat(&[&narrow, &wide]).unwrap();
        let values: Vec<_> = form::wide_decimals(&both).unwrap().iter().collect();
        assert_eq!((values, both.known_bounds()), (vec![Some(1), None, Some(1 << 70)], None));
        assert_eq!(both.array().data_type(), &DataType::Decimal128(30, 4));
        let twice = Column::concat(&[&narrow, &narrow]).unwrap();
        assert_eq!((twice.known_bounds(), twice.len()), (Some(Bounds { min: 1, max: 1 }), 4));
    }
}
