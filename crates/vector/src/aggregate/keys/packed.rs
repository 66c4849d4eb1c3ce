//! Group keys packed into 64 bits.
//!
//! ```text
//!   63                                     0
//!   ┌ … │ column 0 │ column 1 │ column 2 │       0: NULL; else an integer's distance from the column's base, plus 1,
//!   └───┴──────────┴──────────┴──────────┘       or a word's number
//! ```
//! Each column has as many bits as its values so far need. When a batch leaves them, all keys are packed again with
//! more; each time the room doubles. Integers keep their order: rows in the order of a table's primary key have
//! ascending packed keys.

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

use super::index::Index;
use super::words::Words;
use crate::aggregate::values::{Integers, integer_array};
use crate::{Bounds, Column, Result};

/// Where and how a column's values lie in packed keys.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// What is subtracted from integers.
    base: i64,
    bits: u32,
    shift: u32,
}

impl Place {
    #[inline]
    fn code(&self, key: u64) -> u64 {
        match self.bits {
            0 => 0,
            bits => key >> self.shift & u64::MAX >> (u64::BITS - bits),
        }
    }
}

/// A key column.
struct Field {
    data_type: DataType,
    /// Of text; other columns are integers.
    words: Option<Words>,
    /// Of all integers so far.
    seen: Option<Bounds>,
    place: Place,
}

pub(crate) struct PackedKeys {
    fields: Vec<Field>,
    /// By group.
    keys: Vec<u64>,
    index: Index,
    /// Keys of the rows of a batch.
    rows: Vec<u64>,
}

/// Bits for the numbers from 0 to `greatest`.
fn bits_for(greatest: u64) -> u32 {
    u64::BITS - greatest.leading_zeros()
}

fn nulls(column: &Column) -> Option<&NullBuffer> {
    column.array().nulls().filter(|nulls| nulls.null_count() > 0)
}

impl Field {
    fn new(data_type: &DataType) -> Option<Self> {
        let words = match data_type {
            DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Boolean
            | DataType::Decimal128(..)
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Second, _) => None,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Words::default()),
            _ => return None,
        };
        Some(Self { data_type: data_type.clone(), words, seen: None, place: Place::default() })
    }

    /// Bounds and place that the field needs with the values of `column`; the shift is still open. `None`: they cannot
    /// be packed.
    fn with(&mut self, column: &Column) -> Option<(Option<Bounds>, Place)> {
        if column.array().null_count() == column.len() {
            return Some((self.seen, self.place));
        }
        match &mut self.words {
            Some(words) => words.admit(column).then(|| self.with_words()),
            None => self.with_bounds(Integers::of(column)?.bounds(column)),
        }
    }

    fn with_words(&self) -> (Option<Bounds>, Place) {
        let words = self.words.as_ref().map_or(0, Words::len);
        (None, Place { bits: bits_for(words as u64).max(self.place.bits), ..self.place })
    }

    fn with_bounds(&self, bounds: Bounds) -> Option<(Option<Bounds>, Place)> {
        let distance = |from: i64, to: i64| to.wrapping_sub(from) as u64;
        let bits = |base: i64, max: i64| Some(bits_for(distance(base, max).checked_add(1)?));
        let Some(seen) = self.seen else {
            return Some((Some(bounds), Place { base: bounds.min, bits: bits(bounds.min, bounds.max)?, shift: 0 }));
        };
        let bounds = Bounds { min: seen.min.min(bounds.min), max: seen.max.max(bounds.max) };
        let mut base = self.place.base;
        if bounds.min < base {
            // As much room again below, so that falling values do not move the base with each batch.
            let room = i64::try_from(distance(bounds.min, bounds.max)).unwrap_or(i64::MAX);
            base = if room < 1 << 32 { bounds.min.saturating_sub(room) } else { bounds.min };
        }
        Some((Some(bounds), Place { base, bits: bits(base, bounds.max)?.max(self.place.bits), ..self.place }))
    }

    /// Adds the column's part to the keys of rows.
    fn pack(&self, column: &Column, keys: &mut [u64]) {
        if self.place.bits == 0 || column.array().null_count() == column.len() {
            return;
        }
        match &self.words {
            Some(words) => words.pack(column, self.place.shift, keys),
            None => match Integers::of(column) {
                Some(Integers::Two(values)) => pack(values, nulls(column), self.place, keys),
                Some(Integers::Four(values)) => pack(values, nulls(column), self.place, keys),
                Some(Integers::Eight(values)) => pack(&values, nulls(column), self.place, keys),
                None => {}
            },
        }
    }

    /// The column's values in `keys`.
    fn unpack(&self, keys: &[u64]) -> Result<Column> {
        let codes = keys.iter().map(|key| self.place.code(*key));
        if let Some(words) = &self.words {
            return words.column(codes);
        }
        let valid: NullBuffer = codes.clone().map(|code| code != 0).collect();
        let value = |code: u64| self.place.base.wrapping_add(code.wrapping_sub(1) as i64);
        let values = codes.map(|code| if code == 0 { 0 } else { value(code) }).collect();
        let array = integer_array(values, Some(valid).filter(|valid| valid.null_count() > 0), &self.data_type)?;
        Ok(match self.seen {
            Some(bounds) if self.data_type != DataType::Boolean => Column::with_bounds(array, bounds),
            _ => Column::new(array),
        })
    }
}

fn pack<T: Copy + Into<i64>>(values: &[T], valid: Option<&NullBuffer>, place: Place, keys: &mut [u64]) {
    let code = |value: T| (value.into().wrapping_sub(place.base) as u64).wrapping_add(1) << place.shift;
    match valid {
        None => keys.iter_mut().zip(values).for_each(|(key, value)| *key |= code(*value)),
        Some(valid) => keys.iter_mut().zip(values).zip(valid).for_each(|((key, value), valid)| {
            *key |= if valid { code(*value) } else { 0 };
        }),
    }
}

/// A column's way from one packing to another.
struct Move<'a> {
    from: Place,
    to: Place,
    /// New numbers of words, by old number.
    numbers: Option<&'a [u64]>,
}

impl Move<'_> {
    #[inline]
    fn apply(&self, key: u64) -> u64 {
        let code = match (self.from.code(key), self.numbers) {
            (0, _) => return 0,
            (code, Some(numbers)) => numbers[code as usize],
            (code, None) => code.wrapping_add(self.from.base.wrapping_sub(self.to.base) as u64),
        };
        code << self.to.shift
    }
}

fn repack(keys: &mut [u64], moves: &[Move<'_>]) {
    if moves.iter().all(|way| (way.from.base, way.from.shift) == (way.to.base, way.to.shift) && way.numbers.is_none()) {
        return;
    }
    for key in keys {
        *key = moves.iter().fold(0, |packed, way| packed | way.apply(*key));
    }
}

impl PackedKeys {
    /// `None`: a type cannot be packed.
    pub(crate) fn new(types: &[DataType]) -> Option<Self> {
        let fields = types.iter().map(Field::new).collect::<Option<_>>()?;
        Some(Self { fields, keys: Vec::new(), index: Index::Ascending, rows: Vec::new() })
    }

    pub(crate) fn groups(&self) -> usize {
        self.keys.len()
    }

    /// Of all fields together.
    pub(crate) fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.place.bits).sum()
    }

    /// Packed keys by group.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Whether the keys ascend from group to group.
    pub(crate) fn is_ascending(&self) -> bool {
        matches!(self.index, Index::Ascending)
    }

    /// The group of each row, into `groups`. False: the keys do not fit any more, and the groups are as before.
    pub(crate) fn assign(&mut self, columns: &[Column], rows: usize, groups: &mut Vec<u32>) -> bool {
        let needs: Option<Vec<_>> =
            self.fields.iter_mut().zip(columns).map(|(field, column)| field.with(column)).collect();
        if !needs.is_some_and(|needs| self.arrange(needs)) {
            return false;
        }
        self.rows.clear();
        self.rows.resize(rows, 0);
        for (field, column) in self.fields.iter().zip(columns) {
            field.pack(column, &mut self.rows);
        }
        let bits = self.bits();
        self.index.assign(&self.rows, bits, &mut self.keys, groups);
        true
    }

    /// Gives fields new bounds and places, and packs the keys again. False: there are too few bits, and nothing has
    /// changed.
    fn arrange(&mut self, mut needs: Vec<(Option<Bounds>, Place)>) -> bool {
        let mut bits = 0;
        for (_, place) in needs.iter_mut().rev() {
            place.shift = bits;
            bits += place.bits;
        }
        if bits > u64::BITS {
            return false;
        }
        let before: Vec<Place> = self.fields.iter().map(|field| field.place).collect();
        for (field, (seen, place)) in self.fields.iter_mut().zip(needs) {
            (field.seen, field.place) = (seen, place);
        }
        let moves = || {
            before.iter().zip(&self.fields).map(|(from, field)| Move { from: *from, to: field.place, numbers: None })
        };
        if moves().any(|way| way.from != way.to) {
            repack(&mut self.keys, &moves().collect::<Vec<_>>());
            if !self.is_ascending() {
                self.index = Index::build(&self.keys, bits);
            }
        }
        true
    }

    /// Packs the keys of all as those of the first are then packed, and takes them over: keys by group, and whether
    /// they ascend. What is left of the first knows how to unpack them. `None`: they do not fit into one packing; they
    /// are as before.
    pub(crate) fn unify(all: &mut [Self]) -> Option<Vec<PackedGroups>> {
        let (first, rest) = all.split_first_mut()?;
        // Packing again would keep up an index that is not needed any more.
        let ascending = first.is_ascending();
        first.index = Index::Ascending;
        let mut numbers: Vec<Vec<Option<Vec<u64>>>> = Vec::new();
        for other in rest.iter() {
            let words = first.fields.iter_mut().zip(&other.fields).map(|(ours, theirs)| ours.adopt(theirs)).collect();
            numbers.push(words);
            let needs = first.fields.iter().zip(&other.fields).map(|(ours, theirs)| match (&ours.words, theirs.seen) {
                (Some(words), _) => words.fits().then(|| ours.with_words()),
                (None, Some(seen)) => ours.with_bounds(seen),
                (None, None) => Some((ours.seen, ours.place)),
            });
            let needs: Vec<_> = needs.collect::<Option<_>>()?;
            if !first.arrange(needs) {
                return None;
            }
        }
        let mut groups = vec![PackedGroups { ascending, ..first.take_groups() }];
        for (other, numbers) in rest.iter_mut().zip(&numbers) {
            let mut taken = other.take_groups();
            let moves: Vec<_> = (other.fields.iter().zip(&first.fields).zip(numbers))
                .map(|((from, to), numbers)| Move { from: from.place, to: to.place, numbers: numbers.as_deref() })
                .collect();
            repack(&mut taken.keys, &moves);
            taken.ascending &= numbers.iter().all(Option::is_none);
            groups.push(taken);
        }
        Some(groups)
    }

    /// Gives the keys away; what is left can unpack them.
    pub(crate) fn take_groups(&mut self) -> PackedGroups {
        let ascending = self.is_ascending();
        self.index = Index::Ascending;
        PackedGroups { keys: std::mem::take(&mut self.keys), ascending }
    }

    /// The columns of packed keys.
    pub(crate) fn unpack(&self, keys: &[u64]) -> Result<Vec<Column>> {
        self.fields.iter().map(|field| field.unpack(keys)).collect()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let words: usize = self.fields.iter().filter_map(|field| Some(field.words.as_ref()?.memory_bytes())).sum();
        words + (self.keys.capacity() + self.rows.capacity()) * size_of::<u64>() + self.index.memory_bytes()
    }
}

/// Keys of groups without what finds them.
pub(crate) struct PackedGroups {
    pub(crate) keys: Vec<u64>,
    /// From group to group.
    pub(crate) ascending: bool,
}

impl Field {
    /// Takes over the words of the same field elsewhere: the number here of each number there.
    fn adopt(&mut self, other: &Self) -> Option<Vec<u64>> {
        let (ours, theirs) = (self.words.as_mut()?, other.words.as_ref()?);
        let numbers = (1..=theirs.len()).map(|number| u64::from(ours.number_of(theirs.word(number))));
        Some(std::iter::once(0).chain(numbers).collect())
    }
}
