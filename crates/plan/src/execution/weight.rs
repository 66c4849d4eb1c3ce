//! What batches weigh in memory.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// Bytes of a batch's values. Of a slice, of what it shows: batches may share what they lie in.
pub fn shown_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(bytes_of).sum()
}

fn bytes_of(array: &ArrayRef) -> usize {
    let shown = array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
    // Of views, what they show lies elsewhere.
    let lengths: u64 = match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        _ => 0,
    };
    shown + usize::try_from(lengths).unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringViewArray};

    use super::*;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("c", column)]).unwrap()
    }

    #[test]
    fn a_slice_weighs_what_it_shows() {
        let whole = batch(Arc::new(Int64Array::from(vec![7; 1000])));
        assert_eq!(shown_bytes(&whole), 8000);
        assert_eq!(shown_bytes(&whole.slice(10, 5)), 40);
    }

    #[test]
    fn long_texts_count_wherever_they_lie() {
        let long = "x".repeat(100_000);
        let rows = batch(Arc::new(StringViewArray::from(vec![long.as_str(); 3])));
        assert!(shown_bytes(&rows) >= 300_000, "{}", shown_bytes(&rows));
    }
}
