//! The constants of an IN list.

use arrow_array::StringViewArray;
use arrow_schema::DataType;
use hashbrown::HashSet;
use saki_base::CompareOp;
use saki_base::value::Value;

use crate::expr::compare;
use crate::expr::mask::Mask;
use crate::expr::operand::{Integers, Operand, integer};
use crate::expr::text;
use crate::{Column, Result, view};

/// Constants of one type, prepared to be looked up. NULLs are left out.
#[derive(Debug)]
pub struct ValueSet {
    values: Vec<Value>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Ascending.
    Integers {
        all: Vec<i128>,
        lookup: Lookup,
    },
    Text {
        all: HashSet<Vec<u8>>,
        longest: usize,
    },
    /// Compared one after the other.
    Other,
}

/// How integers of up to 8 bytes are looked up.
#[derive(Debug)]
enum Lookup {
    /// One comparison for each.
    Few(Vec<i64>),
    /// One bit for each from `first` on.
    Dense {
        first: i64,
        bits: Vec<u64>,
    },
    Hashed(HashSet<i64>),
}

/// Constants that are compared one by one, at most.
const FEW: usize = 8;
/// Bits of a dense set, at most: they stay in the first-level cache.
const DENSE_BITS: i128 = 1 << 17;

impl ValueSet {
    pub fn new(values: impl IntoIterator<Item = Value>) -> Self {
        let values: Vec<Value> = values.into_iter().filter(|value| *value != Value::Null).collect();
        let texts =
            || values.iter().map(|value| if let Value::Text(text) = value { Some(text.as_bytes()) } else { None });
        let kind = if let Some(mut all) = values.iter().map(integer).collect::<Option<Vec<_>>>() {
            all.sort_unstable();
            all.dedup();
            Kind::Integers { lookup: Lookup::of(&all), all }
        } else if texts().all(|text| text.is_some()) {
            let all: HashSet<_> = texts().flatten().map(<[u8]>::to_vec).collect();
            Kind::Text { longest: all.iter().map(Vec::len).max().unwrap_or(0), all }
        } else {
            Kind::Other
        };
        Self { values, kind }
    }

    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Keeps the rows whose value is one of these.
    pub(crate) fn narrow(&self, operand: Operand, data_type: &DataType, mask: &mut Mask) -> Result<()> {
        if operand.is_null() {
            mask.clear();
            return Ok(());
        }
        let column = operand.into_column(data_type, mask.rows())?;
        if let Some(nulls) = column.array().nulls() {
            mask.intersect_bits(nulls.inner());
        }
        match (&self.kind, Integers::of(column.array())) {
            (Kind::Integers { all, lookup }, Some(integers)) => narrow_integers(all, lookup, integers, mask),
            (Kind::Text { all, longest }, None) => {
                text::narrow(column.array(), mask, |texts, mask| {
                    narrow_text(all, *longest, texts, mask);
                    Ok(())
                })?;
            }
            _ => self.narrow_one_by_one(&column, data_type, mask)?,
        }
        Ok(())
    }

    fn narrow_one_by_one(&self, column: &Column, data_type: &DataType, mask: &mut Mask) -> Result<()> {
        let mut rest = mask.clone();
        for value in &self.values {
            let mut equal = rest.clone();
            let operands = (Operand::Column(column.clone()), Operand::Constant(value.clone()));
            compare::narrow(CompareOp::Equal, operands.0, operands.1, data_type, &mut equal)?;
            rest.subtract(&equal);
        }
        mask.subtract(&rest);
        Ok(())
    }
}

impl Lookup {
    fn of(ascending: &[i128]) -> Self {
        let narrow: Vec<i64> = ascending.iter().filter_map(|value| i64::try_from(*value).ok()).collect();
        let (Some(first), Some(last)) = (narrow.first().copied(), narrow.last().copied()) else {
            return Self::Few(narrow);
        };
        let span = i128::from(last) - i128::from(first) + 1;
        if narrow.len() <= FEW {
            Self::Few(narrow)
        } else if span <= DENSE_BITS {
            let mut bits = vec![0; (span as usize).div_ceil(64)];
            for value in narrow {
                let at = (value - first) as usize;
                bits[at / 64] |= 1 << (at % 64);
            }
            Self::Dense { first, bits }
        } else {
            Self::Hashed(narrow.into_iter().collect())
        }
    }
}

fn narrow_integers(all: &[i128], lookup: &Lookup, integers: Integers<'_>, mask: &mut Mask) {
    fn of<T: Copy + Eq + Into<i64> + TryFrom<i64>>(lookup: &Lookup, values: &[T], mask: &mut Mask) {
        match lookup {
            Lookup::Few(few) => {
                let few: Vec<T> = few.iter().filter_map(|value| T::try_from(*value).ok()).collect();
                match few.len() {
                    0 => mask.clear(),
                    1..=4 => one_of::<T, 4>(&few, values, mask),
                    _ => one_of::<T, FEW>(&few, values, mask),
                }
            }
            Lookup::Dense { first, bits } => mask.narrow(values, |value| {
                let at = value.into().wrapping_sub(*first) as u64;
                bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
            }),
            Lookup::Hashed(all) => mask.narrow_rows(|row| all.contains(&values[row].into())),
        }
    }
    match integers {
        Integers::I16(values) => of(lookup, values, mask),
        Integers::I32(values) => of(lookup, values, mask),
        Integers::I64(values) => of(lookup, values, mask),
        Integers::I128(values) => mask.narrow_rows(|row| all.binary_search(&values[row]).is_ok()),
    }
}

/// Compares with all `N`, so that the loop has no branch: what is missing is the first again.
fn one_of<T: Copy + Eq, const N: usize>(few: &[T], values: &[T], mask: &mut Mask) {
    let mut wanted = [few[0]; N];
    wanted.iter_mut().zip(few).for_each(|(wanted, one)| *wanted = *one);
    mask.narrow(values, |value| wanted.iter().fold(false, |found, one| found | (*one == value)));
}

fn narrow_text(all: &HashSet<Vec<u8>>, longest: usize, texts: &StringViewArray, mask: &mut Mask) {
    if all.len() <= FEW {
        let mut rest = mask.clone();
        for text in all {
            let mut equal = rest.clone();
            text::narrow_equal(texts, text, &mut equal);
            rest.subtract(&equal);
        }
        mask.subtract(&rest);
    } else {
        mask.narrow(texts.views(), |view| view::length(view) as usize <= longest);
        mask.narrow_rows(|row| all.contains(texts.value(row).as_bytes()));
    }
}
