//! Bloom filters of a column of a segment: which values it may have, where minimum and maximum do not tell.
//!
//! ```text
//!   hash:  upper half ─► block         lower half × eight odd constants ─► one bit in each of its words
//!
//!   block │ 32 bits │ 32 bits │ 32 bits │ 32 bits │ 32 bits │ 32 bits │ 32 bits │ 32 bits │   a lookup reads one
//! ```
//!
//! A split-block filter: blocks, the choice of bits and their constants are those of Apache Parquet's specification
//! (BloomFilter.md), after Putze, Sanders and Singler: "Cache-, Hash- and Space-Efficient Bloom Filters" (2007). What
//! is hashed differs: see [`hash`]. With 10 bits for each distinct value about one foreign value of a hundred passes.
//!
//! Failure model: a filter of hostile bytes answers wrongly, which a check of the volume finds; it never panics.

use std::fmt;

use saki_base::{DataType, ValueRef, checksum};
use saki_vector::Column;

use crate::ColumnsError;
use crate::values::for_each_value;

/// Bits for each distinct value.
const BITS_PER_VALUE: usize = 10;

const WORDS: usize = 8;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = WORDS * size_of::<u32>();
const _: () = assert!(BLOCK_BYTES == 32, "as in the format of entries");

/// Parquet's constants, one for each word of a block.
const SALT: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

type Block = [u32; WORDS];

/// Which values a column of a segment may have. NULL is none.
#[derive(Clone, PartialEq, Eq)]
pub struct Bloom {
    /// One at least.
    blocks: Box<[Block]>,
}

impl Bloom {
    /// Of all values of a column in any native form of `data_type`, of which about `distinct` differ.
    pub fn of(column: &Column, data_type: DataType, distinct: u32) -> Result<Self, ColumnsError> {
        let blocks = (distinct as usize * BITS_PER_VALUE).div_ceil(BLOCK_BYTES * 8).max(1);
        let mut bloom = Self { blocks: vec![Block::default(); blocks].into() };
        for_each_value(column, data_type, |value| {
            if let Some(hash) = hash(value) {
                bloom.insert(hash);
            }
        })?;
        Ok(bloom)
    }

    /// Whether the column may have a value of its own type.
    pub fn may_contain(&self, value: ValueRef<'_>) -> bool {
        hash(value).is_some_and(|hash| self.contains(hash))
    }

    /// As [`may_contain`](Self::may_contain), of a column of integers, dates, timestamps or decimals, the latter
    /// unscaled.
    pub fn may_contain_integer(&self, value: i64) -> bool {
        self.contains(hash_integer(value))
    }

    /// The blocks' words, each little-endian.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.blocks.len() * BLOCK_BYTES);
        self.blocks.as_flattened().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// The inverse of [`write`](Self::write); `None` unless the bytes are whole blocks, one at least.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (blocks, []) = bytes.as_chunks::<BLOCK_BYTES>() else { return None };
        let word = |bytes: &[u8; BLOCK_BYTES], word: usize| {
            let at = word * size_of::<u32>();
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let blocks: Box<[Block]> = blocks.iter().map(|block| std::array::from_fn(|index| word(block, index))).collect();
        (!blocks.is_empty()).then_some(Self { blocks })
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The block of a hash, and its bits there.
    #[inline]
    fn place(&self, hash: u64) -> (usize, Block) {
        let block = ((hash >> 32) * self.blocks.len() as u64) >> 32;
        (block as usize, SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27)))
    }

    fn insert(&mut self, hash: u64) {
        let (block, bits) = self.place(hash);
        self.blocks[block].iter_mut().zip(bits).for_each(|(word, bit)| *word |= bit);
    }

    fn contains(&self, hash: u64) -> bool {
        let (block, bits) = self.place(hash);
        self.blocks[block].iter().zip(bits).all(|(word, bit)| word & bit != 0)
    }
}

impl fmt::Debug for Bloom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Bloom({} blocks)", self.blocks.len())
    }
}

/// The hash of a value: xxh3-64 of its bytes, which are the same for values that are equal; `None` for NULL. Part of
/// the file format.
///
/// | type | bytes |
/// |---|---|
/// | integers, dates, times, timestamps, decimals | the integer in 8 bytes, little-endian; in 16 if it does not fit |
/// | floats | the bits in double precision, little-endian; one zero, one NaN |
/// | boolean | 1 byte |
/// | intervals | their length in microseconds in 16 bytes, little-endian |
/// | text, bytea, uuid | as they are; `character(n)` without blanks at its end |
fn hash(value: ValueRef<'_>) -> Option<u64> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Bool(value) => checksum(&[value.into()]),
        ValueRef::Int2(value) => hash_integer(value.into()),
        ValueRef::Int4(value) | ValueRef::Date(value) => hash_integer(value.into()),
        ValueRef::Int8(value) | ValueRef::Timestamp(value) | ValueRef::Timestamptz(value) | ValueRef::Time(value) => {
            hash_integer(value)
        }
        // Those that are equal are of one length.
        ValueRef::Interval(value) => checksum(&value.length().to_le_bytes()),
        ValueRef::Decimal(value) => match i64::try_from(value) {
            Ok(value) => hash_integer(value),
            Err(_) => checksum(&value.to_le_bytes()),
        },
        ValueRef::Float4(value) => hash_float(value.into()),
        ValueRef::Float8(value) => hash_float(value),
        ValueRef::Text(value) => checksum(value.as_bytes()),
        ValueRef::Bytea(value) => checksum(value),
        ValueRef::Uuid(value) => checksum(&value),
    })
}

fn hash_integer(value: i64) -> u64 {
    checksum(&value.to_le_bytes())
}

fn hash_float(value: f64) -> u64 {
    // Adding zero turns -0 into 0.
    let one = if value.is_nan() { f64::NAN } else { value + 0.0 };
    checksum(&one.to_bits().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    fn integers(values: impl IntoIterator<Item = i64>) -> Column {
        Column::new(Arc::new(Int64Array::from_iter_values(values)))
    }

    #[test]
    fn one_foreign_value_of_a_hundred_passes() {
        const VALUES: i64 = 100_000;
        let numbers = Bloom::of(&integers((0..VALUES).map(|value| value * 3)), DataType::Int8, VALUES as u32).unwrap();
        assert!((0..VALUES).all(|value| numbers.may_contain_integer(value * 3)));
        let name = |value: i64| format!("customer {value}");
        let names = Column::new(Arc::new(StringViewArray::from_iter_values((0..VALUES).map(name))));
        let names = Bloom::of(&names, DataType::Text, VALUES as u32).unwrap();
        assert!((0..VALUES).all(|value| names.may_contain(ValueRef::Text(&name(value)))));
        let foreign = [
            (0..VALUES).filter(|value| numbers.may_contain_integer(value * 3 + 1)).count(),
            (VALUES..2 * VALUES).filter(|value| names.may_contain(ValueRef::Text(&name(*value)))).count(),
        ];
        for passed in foreign {
            let rate = passed as f64 / VALUES as f64;
            assert!((0.001..0.03).contains(&rate), "{rate}");
        }
    }

    /// Filters are stored: neither the hash of a value nor the choice of blocks and bits may change.
    #[test]
    fn bits_are_those_of_the_format() {
        let words = |values: std::ops::Range<i64>| {
            let distinct = values.clone().count() as u32;
            Bloom::of(&integers(values), DataType::Int8, distinct).unwrap().blocks.into_vec()
        };
        assert_eq!(words(7..8), [[1 << 9, 1 << 19, 1 << 6, 1 << 16, 1 << 19, 1 << 10, 1 << 21, 1]]);
        let set = |block: &Block| block.iter().map(|word| word.count_ones()).sum::<u32>();
        assert_eq!(words(0..60).iter().map(set).collect::<Vec<_>>(), [119, 124, 125]);
    }

    #[test]
    fn equal_values_have_one_hash() {
        assert_eq!(hash(ValueRef::Float8(-0.0)), hash(ValueRef::Float8(0.0)));
        assert_eq!(hash(ValueRef::Float8(f64::NAN)), hash(ValueRef::Float8(-f64::NAN)));
        assert_eq!(hash(ValueRef::Float4(-0.0)), hash(ValueRef::Float4(0.0)));
        assert_eq!(hash(ValueRef::Decimal(-7)), Some(hash_integer(-7)));
        assert_ne!(hash(ValueRef::Decimal(1 << 64)), hash(ValueRef::Decimal(0)));
        assert_eq!(hash(ValueRef::Null), None);
    }

    proptest! {
        #[test]
        fn bytes_are_a_filter_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), value in any::<i64>()) {
            match Bloom::read(&bytes) {
                Some(bloom) => {
                    let mut written = Vec::new();
                    bloom.write(&mut written);
                    prop_assert_eq!(&written, &bytes);
                    prop_assert_eq!(bloom.may_contain_integer(value), bloom.may_contain(ValueRef::Int8(value)));
                }
                None => prop_assert!(bytes.is_empty() || bytes.len() % BLOCK_BYTES != 0),
            }
        }
    }
}
