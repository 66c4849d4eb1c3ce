//! Rows as entries of trees: encoding from Arrow batches or from other entries, and back.

use std::sync::Arc;

use saki_base::ValueRef;

use crate::catalog::{EntryLayout, Table};
use crate::columns::{ColumnReader, shown};
use crate::error::Result;

/// Encodes the entries of one tree.
pub struct EntryEncoder {
    pub layout: Arc<EntryLayout>,
    pub key: Vec<u8>,
    pub row: Vec<u8>,
}

impl EntryEncoder {
    pub fn new(layout: impl Into<Arc<EntryLayout>>) -> Self {
        Self { layout: layout.into(), key: Vec::new(), row: Vec::new() }
    }

    /// Encodes an entry into `key` and `row`, from the value of each table column.
    #[inline]
    pub fn encode<'v>(&mut self, scratch: &mut Vec<ValueRef<'v>>, value: impl Fn(usize) -> ValueRef<'v>) -> Result<()> {
        self.key.clear();
        self.row.clear();
        scratch.clear();
        scratch.extend(self.layout.key_columns.iter().map(|column| value(*column)));
        self.layout.key.encode(scratch, &mut self.key)?;
        scratch.clear();
        scratch.extend(self.layout.row_columns.iter().map(|column| value(*column)));
        self.layout.row.encode(scratch, &mut self.row)?;
        Ok(())
    }

    /// Encodes row `row` of a batch.
    #[inline]
    pub fn encode_row<'v>(
        &mut self,
        scratch: &mut Vec<ValueRef<'v>>,
        readers: &'v [ColumnReader<'_>],
        row: usize,
    ) -> Result<()> {
        self.encode(scratch, |column| readers[column].value(row))
    }
}

/// Decodes primary entries into values by table column.
pub struct EntryDecoder {
    layout: Arc<EntryLayout>,
    /// Unescaped text of each key column.
    scratch: Vec<Vec<u8>>,
}

impl EntryDecoder {
    pub fn new(layout: impl Into<Arc<EntryLayout>>) -> Self {
        let layout = layout.into();
        let scratch = vec![Vec::new(); layout.key_columns.len()];
        Self { layout, scratch }
    }

    /// Calls `look` with the values of all table columns, the hidden row id last where there is one.
    pub fn decode<R>(
        &mut self,
        table: &Table,
        key: &[u8],
        row: &[u8],
        look: impl FnOnce(&[ValueRef<'_>]) -> R,
    ) -> Result<R> {
        let mut values = vec![ValueRef::Null; table.columns.len() + usize::from(table.primary_key.is_empty())];
        let view = self.layout.row.view(row);
        for (position, column) in self.layout.row_columns.iter().enumerate() {
            values[*column] = view.value(position)?;
        }
        for ((position, column), scratch) in self.layout.key_columns.iter().enumerate().zip(&mut self.scratch) {
            values[*column] = self.layout.key.decode(key, position, scratch)?;
        }
        Ok(look(&values))
    }
}

impl EntryDecoder {
    /// Encodes the entry of another tree for the same row.
    pub fn encode(&mut self, table: &Table, key: &[u8], row: &[u8], into: &mut EntryEncoder) -> Result<()> {
        self.decode(table, key, row, |values| into.encode(&mut Vec::new(), |column| values[column]))?
    }
}

/// A key in words: `(l_orderkey, l_linenumber)=(7, 1)`; `width` columns of it.
pub fn describe_key(table: &Table, layout: &EntryLayout, key: &[u8], width: usize) -> String {
    let mut values = Vec::with_capacity(width);
    for (position, column) in layout.key_columns.iter().take(width).enumerate() {
        let mut scratch = Vec::new();
        let (_, data_type, _) = table.column_type(*column);
        values.push(match layout.key.decode(key, position, &mut scratch) {
            Ok(value) => shown(value, data_type),
            Err(_) => "?".into(),
        });
    }
    format!("({})=({})", table.names(&layout.key_columns[..width]), values.join(", "))
}

/// Whether any of the first `width` key columns is NULL: such keys are never equal.
pub fn has_null(layout: &EntryLayout, key: &[u8], width: usize) -> bool {
    (0..width).any(|position| {
        let mut scratch = Vec::new();
        layout.key.columns()[position].nullable
            && matches!(layout.key.decode(key, position, &mut scratch), Ok(ValueRef::Null))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{TYPES, column, index, table, value};

    /// A table of every type: the first three columns are its key, the others may be NULL.
    fn wide() -> Table {
        let types = TYPES.iter().enumerate();
        let columns = types.map(|(i, data_type)| column(&format!("c{i}"), *data_type, i > 2)).collect();
        let mut table = table("wide", columns, vec![2, 0, 1]);
        table.indexes.push(index("wide_text", &[(7, true), (1, false)], false, &[4, 2]));
        table
    }

    fn row() -> impl Strategy<Value = Vec<Value>> {
        TYPES.iter().enumerate().map(|(i, data_type)| value(*data_type, i > 2)).collect::<Vec<_>>()
    }

    #[test]
    fn a_column_is_in_the_key_or_in_the_row_and_an_index_entry_has_the_primary_key() {
        let table = wide();
        let primary = table.primary_layout();
        let mut all: Vec<_> = primary.key_columns.iter().chain(&primary.row_columns).copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..table.columns.len()).collect::<Vec<_>>());
        let index = table.index_layout(&table.indexes[0]);
        assert_eq!(index.key_columns, [7, 1, 2, 0]);
        assert_eq!(index.row_columns, [4], "a column of the key is not carried along as well");
        assert_eq!(index.key.columns().iter().map(|c| c.descending).collect::<Vec<_>>(), [true, false, false, false]);
    }

    #[test]
    fn without_a_primary_key_entries_are_keyed_by_a_hidden_row_id() {
        let table = table("heap", vec![column("a", DataType::Int4, true)], Vec::new());
        let layout = table.primary_layout();
        assert_eq!((layout.key_columns, layout.row_columns), (vec![table.row_id()], vec![0]));
        let mut encoder = EntryEncoder::new(table.primary_layout());
        let values = [ValueRef::Int4(7), ValueRef::Int8(41)];
        encoder.encode(&mut Vec::new(), |column| values[column]).unwrap();
        let seen = EntryDecoder::new(table.primary_layout()).decode(&table, &encoder.key, &encoder.row, |values| {
            values.iter().map(|v| Value::from(*v)).collect::<Vec<_>>()
        });
        assert_eq!(seen.unwrap(), [Value::Int4(7), Value::Int8(41)]);
    }

    #[test]
    fn null_in_a_key_is_found_where_a_column_may_be_null() {
        let mut table =
            table("t", vec![column("a", DataType::Int4, false), column("b", DataType::Text, true)], vec![0]);
        table.indexes.push(index("t_b", &[(1, false)], true, &[]));
        let layout = table.index_layout(&table.indexes[0]);
        let mut encoder = EntryEncoder::new(layout.clone());
        for (text, expected) in [(ValueRef::Null, true), (ValueRef::Text(""), false)] {
            let values = [ValueRef::Int4(1), text];
            encoder.encode(&mut Vec::new(), |column| values[column]).unwrap();
            assert_eq!(has_null(&layout, &encoder.key, 1), expected);
        }
    }

    #[test]
    fn a_key_is_described_by_names_and_values() {
        let table =
            table("t", vec![column("a", DataType::Int4, false), column("b", DataType::Text, false)], vec![1, 0]);
        let layout = table.primary_layout();
        let mut encoder = EntryEncoder::new(layout.clone());
        let values = [ValueRef::Int4(7), ValueRef::Text("it's")];
        encoder.encode(&mut Vec::new(), |column| values[column]).unwrap();
        assert_eq!(describe_key(&table, &layout, &encoder.key, 2), "(b, a)=(it's, 7)");
        assert_eq!(describe_key(&table, &layout, &encoder.key, 1), "(b)=(it's)");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(row in row()) {
            let table = wide();
            let mut encoder = EntryEncoder::new(table.primary_layout());
            encoder.encode(&mut Vec::new(), |column| row[column].as_ref()).unwrap();
            let mut decoder = EntryDecoder::new(table.primary_layout());
            let (key, entry) = (encoder.key.clone(), encoder.row.clone());
            let decoded = decoder
                .decode(&table, &key, &entry, |values| values.iter().map(|v| Value::from(*v)).collect::<Vec<_>>())
                .unwrap();
            prop_assert_eq!(&decoded, &row);
            // The entry of an index is the same however it is made.
            let layout = table.index_layout(&table.indexes[0]);
            let (mut direct, mut derived) = (EntryEncoder::new(layout.clone()), EntryEncoder::new(layout));
            direct.encode(&mut Vec::new(), |column| row[column].as_ref()).unwrap();
            decoder.encode(&table, &key, &entry, &mut derived).unwrap();
            prop_assert_eq!((direct.key, direct.row), (derived.key, derived.row));
        }
    }

    /// Rows of few values, so that keys meet.
    fn small_row() -> impl Strategy<Value = [Value; 3]> {
        let text = prop_oneof![Just(Value::Null), "[\\x00a]{0,3}".prop_map(Value::Text)];
        let number = prop_oneof![(-2..3_i32).prop_map(Value::Int4), any::<i32>().prop_map(Value::Int4)];
        (number, text, any::<bool>().prop_map(Value::Bool)).prop_map(|(a, b, c)| [a, b, c])
    }

    /// The order of two values in a key; NULL is above all others.
    fn order(left: &Value, right: &Value, descending: bool) -> std::cmp::Ordering {
        let order = match (left.is_null(), right.is_null()) {
            (false, false) => saki_base::value::compare(left.as_ref(), right.as_ref()),
            (left, right) => left.cmp(&right),
        };
        if descending { order.reverse() } else { order }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn keys_are_in_the_order_of_their_values(left in small_row(), right in small_row(), descending: bool) {
            let columns = vec![
                column("a", DataType::Int4, false),
                column("b", DataType::Text, true),
                column("c", DataType::Bool, false),
            ];
            let mut table = table("t", columns, vec![0, 2]);
            table.indexes.push(index("t_b", &[(1, descending), (0, !descending)], false, &[]));
            let layout = table.index_layout(&table.indexes[0]);
            let encoded = |row: &[Value; 3]| {
                let mut encoder = EntryEncoder::new(layout.clone());
                encoder.encode(&mut Vec::new(), |column| row[column].as_ref()).unwrap();
                encoder.key
            };
            let expected = order(&left[1], &right[1], descending)
                .then(order(&left[0], &right[0], !descending))
                .then(order(&left[2], &right[2], false));
            prop_assert_eq!(encoded(&left).cmp(&encoded(&right)), expected);
        }

        #[test]
        fn a_rotten_entry_is_refused_and_ends_nothing(
            key in prop::collection::vec(any::<u8>(), 0..40),
            row in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let table = wide();
            let layout = table.primary_layout();
            let _ = EntryDecoder::new(layout.clone()).decode(&table, &key, &row, |values| values.len());
            prop_assert!(!describe_key(&table, &layout, &key, 3).is_empty());
        }
    }
}
