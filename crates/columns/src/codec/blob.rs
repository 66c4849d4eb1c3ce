//! The outside of an encoded column: what is ours around what the library serialises.
//!
//! ```text
//!   0         1        2           4            8
//!   ┌─────────┬────────┬───────────┬────────────┬───────────────────┬──────────────────────────────┐
//!   │ version │ shape  │ 0, 0      │ rows (u32) │ validity bitmap   │ values                       │
//!   └─────────┴────────┴───────────┴────────────┴───────────────────┴──────────────────────────────┘
//!               bits 0-1  0: no NULL; 1: the bitmap is there;         the library's serialisation of
//!                         2: nothing but NULL: no values either       an array without NULLs; aligned
//!               bit 2     a value is two numbers of 8 bytes           within the blob
//! ```
//!
//! The bitmap has a bit for each row from the lowest of the first byte on, 1 for a value, and fills whole words of
//! 8 bytes. The type of the values is not in the blob: it follows from the column's type and the shape ([`Shape`]), so
//! damage cannot change it. A blob of no rows ends behind the head.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use crate::ColumnsError;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 8;

const NULLS_NONE: u8 = 0;
const NULLS_SOME: u8 = 1;
const NULLS_ALL: u8 = 2;
const NULLS_MASK: u8 = 3;
const TWO_LIMBS: u8 = 4;

/// How values are laid out in arrays of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One element for each value.
    Plain,
    /// High and low half of a value of 16 bytes.
    TwoLimbs,
}

/// An encoded column, taken apart.
pub struct Blob {
    pub shape: Shape,
    pub nulls: Option<NullBuffer>,
    /// `None`: no row has a value.
    pub values: Option<Buffer>,
}

impl Blob {
    /// The parts of `bytes`, which must hold `rows` rows. Copies nothing.
    pub fn parse(bytes: &Buffer, rows: usize) -> Result<Self, ColumnsError> {
        let damaged = |what: &str| ColumnsError::Corrupt(format!("encoded column: {what}"));
        let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Err(damaged("no head")) };
        let [version, shape, 0, 0, stated @ ..] = *head else { return Err(damaged("unknown head")) };
        if version != VERSION {
            return Err(ColumnsError::Corrupt(format!("encoded column: version {version} is not known")));
        }
        if shape & !(NULLS_MASK | TWO_LIMBS) != 0 {
            return Err(damaged("unknown shape"));
        }
        if u32::from_le_bytes(stated) as usize != rows {
            return Err(damaged("another number of rows"));
        }
        let bitmap = if shape & NULLS_MASK == NULLS_SOME { bitmap_bytes(rows) } else { 0 };
        if bytes.len() - HEAD_BYTES < bitmap {
            return Err(damaged("cut off"));
        }
        let nulls = match shape & NULLS_MASK {
            NULLS_NONE => None,
            NULLS_SOME => {
                Some(NullBuffer::new(BooleanBuffer::new(bytes.slice_with_length(HEAD_BYTES, bitmap), 0, rows)))
            }
            NULLS_ALL => Some(NullBuffer::new_null(rows)),
            _ => return Err(damaged("unknown shape")),
        };
        let has_values = rows > 0 && shape & NULLS_MASK != NULLS_ALL;
        Ok(Self {
            shape: if shape & TWO_LIMBS == 0 { Shape::Plain } else { Shape::TwoLimbs },
            nulls,
            values: has_values.then(|| bytes.slice(HEAD_BYTES + bitmap)),
        })
    }
}

/// A blob being written: everything before the values.
pub fn head(shape: Shape, nulls: Option<&NullBuffer>, rows: usize) -> Result<Vec<u8>, ColumnsError> {
    let stated = u32::try_from(rows).map_err(|_| ColumnsError::Unsupported(format!("{rows} rows in a segment")))?;
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let validity = match nulls {
        None => NULLS_NONE,
        Some(nulls) if nulls.null_count() == rows => NULLS_ALL,
        Some(_) => NULLS_SOME,
    };
    let limbs = if shape == Shape::TwoLimbs { TWO_LIMBS } else { 0 };
    let mut bytes = vec![VERSION, validity | limbs, 0, 0];
    bytes.extend_from_slice(&stated.to_le_bytes());
    if let (NULLS_SOME, Some(nulls)) = (validity, nulls) {
        let bits = nulls.inner().sliced();
        bytes.extend_from_slice(&bits[..rows.div_ceil(8)]);
        // Bits past the last row are whatever the bitmap was cut from: equal columns have equal bytes.
        if let (Some(last), spare @ 1..) = (bytes.last_mut(), rows.next_multiple_of(8) - rows) {
            *last &= 0xff >> spare;
        }
        bytes.resize(HEAD_BYTES + bitmap_bytes(rows), 0);
    }
    Ok(bytes)
}

fn bitmap_bytes(rows: usize) -> usize {
    rows.div_ceil(64) * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_format() {
        let some = NullBuffer::from(vec![true, false, true]);
        assert_eq!(head(Shape::Plain, None, 3).unwrap(), [1, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(head(Shape::TwoLimbs, None, 3).unwrap(), [1, 4, 0, 0, 3, 0, 0, 0]);
        assert_eq!(head(Shape::Plain, Some(&NullBuffer::new_null(3)), 3).unwrap(), [1, 2, 0, 0, 3, 0, 0, 0]);
        let bitmap = [0b101, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(head(Shape::Plain, Some(&some), 3).unwrap(), [&[1, 1, 0, 0, 3, 0, 0, 0][..], &bitmap].concat());
    }

    #[test]
    fn bits_behind_the_last_row_are_zero() {
        let nulls = NullBuffer::from(vec![true; 64]);
        let cut = NullBuffer::from([vec![false], vec![true; 9], vec![true; 70]].concat()).slice(0, 10);
        assert_eq!(head(Shape::Plain, Some(&cut), 10).unwrap()[8..], [0xfe, 0x03, 0, 0, 0, 0, 0, 0]);
        assert_eq!(head(Shape::Plain, Some(&nulls), 64).unwrap().len(), HEAD_BYTES);
    }

    #[test]
    fn what_is_parsed_is_what_was_written() {
        let nulls = NullBuffer::from((0..100).map(|row| row % 3 > 0).collect::<Vec<_>>());
        let mut bytes = head(Shape::TwoLimbs, Some(&nulls), 100).unwrap();
        bytes.extend_from_slice(b"values");
        let blob = Blob::parse(&Buffer::from_vec(bytes), 100).unwrap();
        assert_eq!((blob.shape, blob.nulls), (Shape::TwoLimbs, Some(nulls)));
        assert_eq!(blob.values.unwrap().as_slice(), b"values");
    }

    #[test]
    fn unknown_heads_are_refused() {
        let refused = |head: [u8; 8]| Blob::parse(&Buffer::from_slice_ref(head), 3).is_err();
        for head in [
            [0, 0, 0, 0, 3, 0, 0, 0],
            [2, 0, 0, 0, 3, 0, 0, 0],
            [1, 3, 0, 0, 3, 0, 0, 0],
            [1, 8, 0, 0, 3, 0, 0, 0],
            [1, 1, 0, 0, 3, 0, 0, 0],
            [1, 0, 1, 0, 3, 0, 0, 0],
            [1, 0, 0, 0, 4, 0, 0, 0],
        ] {
            assert!(refused(head), "{head:?}");
        }
        assert!(!refused([1, 0, 0, 0, 3, 0, 0, 0]));
    }
}
