//! Keys of one or more columns as one word.
//!
//! ```text
//!   word = (code₀ - min₀) | (code₁ - min₁) << bits₀ | …
//! ```
//!
//! What the build side's codes lie between says how many bits a column needs. A probe row with a code outside of that
//! has no partner: its word is [`NO_KEY`]. So has one with a NULL, unless NULLs are equal: then 0 stands for NULL and
//! codes start at 1.

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;

use super::code::{self, Code, Visitor};
use crate::{Bounds, Column, Result};

/// The word of a row that no build row equals. Packed keys have 63 bits at most.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// How the key columns of a build side are packed.
#[derive(Debug)]
pub(crate) struct Packing {
    fields: Vec<Field>,
    /// Words are less than this.
    range: u64,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    bounds: Bounds,
    /// What is added to a code's distance from the least one: 1 if 0 stands for NULL.
    base: u64,
    shift: u32,
    nulls_equal: bool,
}

impl Packing {
    /// For key columns whose codes lie between `bounds` (`None`: there are none). `None` if they need more than 63
    /// bits.
    pub fn new(bounds: &[Option<Bounds>], nulls_equal: bool) -> Option<Self> {
        let base = u64::from(nulls_equal);
        let (mut shift, mut range) = (0_u32, 1_u128);
        let mut fields = Vec::with_capacity(bounds.len());
        for bounds in bounds {
            let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
            let greatest = (i128::from(bounds.max) - i128::from(bounds.min)) as u128 + u128::from(base);
            fields.push(Field { bounds, base, shift, nulls_equal });
            range += greatest << shift;
            shift += u128::BITS - greatest.leading_zeros();
            if shift >= u64::BITS {
                return None;
            }
        }
        Some(Self { fields, range: range as u64 })
    }

    /// Words are less than this.
    pub fn range(&self) -> u64 {
        self.range
    }

    pub fn nulls_equal(&self) -> bool {
        self.fields.iter().any(|field| field.nulls_equal)
    }

    /// Key columns in the form that [`Packing::words`] wants.
    pub fn prepare(&self, keys: &[Column]) -> Vec<ArrayRef> {
        keys.iter().zip(&self.fields).map(|(column, field)| code::codable_or(column.array(), field.outside())).collect()
    }

    /// The words of the rows from `start` on.
    #[inline]
    pub fn words(&self, keys: &[ArrayRef], start: usize, words: &mut [u64]) -> Result<()> {
        if self.fields.is_empty() {
            words.fill(0);
        }
        for (position, (array, field)) in keys.iter().zip(&self.fields).enumerate() {
            let rows = words.len();
            let nulls = code::nulls_of(array.as_ref(), start, rows);
            let pack = Pack { field: *field, first: position == 0, nulls, words };
            code::visit(array.as_ref(), start, rows, pack)?;
        }
        Ok(())
    }
}

impl Field {
    /// A code that no build row has: there is one, since the bounds span less than 64 bits.
    fn outside(&self) -> i64 {
        if self.bounds.min > i64::MIN { i64::MIN } else { i64::MAX }
    }
}

/// Adds a column to words.
struct Pack<'a> {
    field: Field,
    first: bool,
    nulls: Option<NullBuffer>,
    words: &'a mut [u64],
}

impl Visitor for Pack<'_> {
    type Output = ();

    #[inline]
    fn visit<T: Code>(self, values: &[T]) {
        let Field { bounds, base, shift, nulls_equal } = self.field;
        let span = bounds.max.wrapping_sub(bounds.min) as u64;
        let pack = |value: T| {
            let distance = value.code().wrapping_sub(bounds.min) as u64;
            if distance <= span { (distance + base) << shift } else { NO_KEY }
        };
        match (self.nulls, nulls_equal) {
            (None, _) if self.first => {
                for (word, value) in self.words.iter_mut().zip(values) {
                    *word = pack(*value);
                }
            }
            (None, _) => {
                for (word, value) in self.words.iter_mut().zip(values) {
                    *word |= pack(*value);
                }
            }
            (Some(nulls), _) => {
                let null = if nulls_equal { 0 } else { NO_KEY };
                for ((word, value), valid) in self.words.iter_mut().zip(values).zip(&nulls) {
                    let bits = if valid { pack(*value) } else { null };
                    *word = if self.first { bits } else { *word | bits };
                }
            }
        }
    }
}
