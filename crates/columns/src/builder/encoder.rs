//! The columns of segments, encoded one after the other: each on whichever thread is free, and as the same column of
//! the segment before where that still suits.
//!
//! Finding the encodings that suit a column costs several times what encoding does. Neighbouring segments are alike, so
//! the choice made for one is kept ([`Choice`]) until it is [`KEPT_MAX`] segments old, or the column is seen to have
//! changed.

use std::sync::Arc;

use saki_vector::Column;

use crate::codec::{EncodedColumn, Encodings};
use crate::zone::Bloom;
use crate::zone::Zone;
use crate::zone::survey;
use crate::{Codec, ColumnType, ColumnsError, parallel};

/// Segments that a choice serves at most: what would take less by now is found then.
const KEPT_MAX: u32 = 16;

/// A column's blob and zone.
pub type Encoded = (Vec<u8>, Zone);
/// A table's column, and the pieces of it that are a segment's, in order.
pub type Parts<'c> = (usize, Vec<&'c Column>);

/// Encodes the columns of a table's segments.
pub struct ColumnEncoder<'c> {
    codec: &'c dyn Codec,
    columns: Vec<ColumnType>,
    threads: usize,
    /// Columns with Bloom filters.
    bloom: Vec<usize>,
    /// One for each column; `None` before its first segment.
    choices: Vec<Option<Choice>>,
}

/// How a column is encoded until further notice.
#[derive(Clone, Copy, Debug)]
struct Choice {
    encodings: Encodings,
    /// Of the blob it was made for.
    bytes_per_row: f64,
    /// Whether that column's values were few enough to be listed in its zone.
    listed: bool,
    /// Segments encoded by it.
    served: u32,
}

impl Choice {
    /// Whether a column with this zone is alike.
    fn suits(&self, zone: &Zone) -> bool {
        self.served < KEPT_MAX && self.listed == zone.values.is_some()
    }

    /// Whether a blob is not much larger than the choice promised: by an eighth, or by what small blobs differ in
    /// anyway.
    fn holds(&self, blob: &[u8], rows: usize) -> bool {
        const SLACK_BYTES: f64 = 256.0;
        blob.len() as f64 <= self.bytes_per_row * rows as f64 * 1.125 + SLACK_BYTES
    }
}

impl<'c> ColumnEncoder<'c> {
    pub fn new(codec: &'c dyn Codec, columns: Vec<ColumnType>, threads: usize, bloom: Vec<usize>) -> Self {
        assert!(bloom.iter().all(|column| *column < columns.len()), "a filter of a column that is not there");
        let choices = vec![None; columns.len()];
        Self { codec, columns, threads, bloom, choices }
    }

    pub fn columns(&self) -> &[ColumnType] {
        &self.columns
    }

    /// Encodes columns of one segment; gives them in the order of `parts`.
    pub fn encode(&mut self, parts: &[Parts<'_>]) -> Result<Vec<Encoded>, ColumnsError> {
        let encoded = parallel::map(parts, self.threads, |(index, parts)| self.encode_column(*index, parts));
        assert_eq!(encoded.len(), parts.len(), "columns were encoded that were not asked for");
        let mut columns = Vec::with_capacity(parts.len());
        for (column, (index, _)) in encoded.into_iter().zip(parts) {
            let (encoded, choice) = column?;
            self.choices[*index] = choice;
            columns.push(encoded);
        }
        Ok(columns)
    }

    fn encode_column(&self, index: usize, parts: &[&Column]) -> Result<(Encoded, Option<Choice>), ColumnsError> {
        let data_type = self.columns[index].data_type;
        let whole = Column::concat(parts).map_err(|error| ColumnsError::Internal(error.to_string()))?;
        let mut zone = survey(&whole, data_type)?;
        // Values that are listed decide more than a filter could.
        if self.bloom.contains(&index) && zone.values.is_none() {
            zone.bloom = Some(Arc::new(Bloom::of(&whole, data_type, zone.distinct)?));
        }
        let rows = whole.len();
        assert!(zone.nulls as usize <= rows, "{} NULLs were counted in {rows} rows", zone.nulls);
        if let Some(choice) = self.choices[index].filter(|choice| choice.suits(&zone)) {
            let kept = self.codec.encode_among(&whole, data_type, Some(choice.encodings))?;
            if choice.holds(&kept.blob, rows) {
                return Ok(((kept.blob, zone), Some(Choice { served: choice.served + 1, ..choice })));
            }
        }
        let EncodedColumn { blob, encodings } = self.codec.encode_among(&whole, data_type, None)?;
        let bytes_per_row = blob.len() as f64 / rows.max(1) as f64;
        // A column without a value tells nothing of the next.
        let choice = (zone.nulls as usize != rows).then(|| Choice {
            encodings,
            bytes_per_row,
            listed: zone.values.is_some(),
            served: 1,
        });
        Ok(((blob, zone), choice))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use arrow_array::{BooleanArray, Int64Array};
    use arrow_buffer::Buffer;
    use saki_base::{DataType, Random};

    use super::*;
    use crate::VortexCodec;
    use crate::test::Test;

    /// Notes for each call whether it was among certain encodings.
    #[derive(Default)]
    struct Noted {
        codec: VortexCodec,
        kept: Mutex<Vec<bool>>,
    }

    impl Codec for Noted {
        fn encode_among(
            &self,
            column: &Column,
            data_type: DataType,
            among: Option<Encodings>,
        ) -> Result<EncodedColumn, ColumnsError> {
            self.kept.lock().unwrap().push(among.is_some());
            self.codec.encode_among(column, data_type, among)
        }

        fn decode(&self, bytes: &Buffer, data_type: DataType, rows: usize) -> Result<Column, ColumnsError> {
            self.codec.decode(bytes, data_type, rows)
        }

        fn select(&self, _: &Buffer, _: DataType, _: usize, _: &Test) -> Result<Option<BooleanArray>, ColumnsError> {
            Ok(None)
        }
    }

    const ROWS: usize = 5000;

    /// Numbers below `bound`, at random.
    fn numbers(seed: u64, bound: u64) -> Column {
        let mut random = Random::new(seed);
        let values: Vec<i64> = (0..ROWS).map(|_| random.below(bound) as i64).collect();
        Column::new(Arc::new(Int64Array::from(values)))
    }

    /// What was noted for each segment of a column, all of which must decode to what they were.
    fn noted(segments: impl IntoIterator<Item = Column>) -> Vec<Vec<bool>> {
        let codec = Noted::default();
        let column = ColumnType { name: "a".into(), data_type: DataType::Int8, nullable: true, missing: None };
        let mut encoder = ColumnEncoder::new(&codec, vec![column], 2, Vec::new());
        let mut noted = Vec::new();
        for segment in segments {
            let encoded = encoder.encode(&[(0, vec![&segment])]).unwrap();
            let blob = Buffer::from_slice_ref(&encoded[0].0);
            assert_eq!(codec.decode(&blob, DataType::Int8, ROWS).unwrap().array(), segment.array());
            noted.push(std::mem::take(&mut *codec.kept.lock().unwrap()));
        }
        noted
    }

    #[test]
    fn a_choice_serves_alike_segments_and_is_made_again_in_time() {
        let calls = noted((0..2 * u64::from(KEPT_MAX) + 1).map(|segment| numbers(segment, 1000)));
        for (segment, calls) in calls.into_iter().enumerate() {
            assert_eq!(calls, [segment % KEPT_MAX as usize > 0], "segment {segment}");
        }
    }

    #[test]
    fn a_choice_ends_where_it_does_not_suit() {
        let zeros = Column::new(Arc::new(Int64Array::from(vec![0; ROWS])));
        let nothing = Column::new(Arc::new(Int64Array::from(vec![None; ROWS])));
        let segments = [
            numbers(1, 1000),
            // Larger by a half: tried, and chosen anew.
            numbers(2, 1 << 15),
            numbers(3, 1 << 15),
            // Few values: not even tried.
            numbers(4, 5),
            zeros.clone(),
            // A constant's encoding has no place for another value.
            numbers(5, 5),
            numbers(6, 5),
            nothing,
            numbers(7, 5),
        ];
        let expected: [&[bool]; 9] =
            [&[false], &[true, false], &[true], &[false], &[true], &[true], &[true], &[true], &[true]];
        assert_eq!(noted(segments), expected);
        assert_eq!(noted([zeros, numbers(5, 5)]), [vec![false], vec![true, false]]);
    }
}
