//! Rows that were written before their table got or lost a column, as rows of the columns that it has now.
//!
//! A table's rows stay as they are when a column is added or dropped. Each layout that they have had is an *era*, and
//! every row says in its flags which one it is of. A column that a row does not have has the value that was given for
//! it when it was added, in all rows alike; what a row has of columns that are gone is not looked at.
//!
//! A row without bytes is of any era whose rows have no columns: they are alike, for all columns are missing there.

use super::cell::{fits_fixed, variable_bytes, write_fixed};
use super::error::{RowError, malformed};
use super::shape::{ERA_SHIFT, MISSING, Place, RowColumn, Shape};
use crate::types::ValueRef;

/// The last era that a row can say it is of.
pub const ERA_MAX: u8 = u8::MAX >> ERA_SHIFT;

/// A column that rows of an earlier era have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlierColumn {
    pub column: RowColumn,
    /// Which of the present columns it is; none if it has been dropped.
    pub now: Option<usize>,
}

/// An era before the present one.
#[derive(Debug)]
struct Era {
    /// What its rows have, and where.
    columns: Vec<RowColumn>,
    own: Shape,
    /// Where they have the columns of now.
    now: Shape,
}

/// All eras up to the present one.
#[derive(Debug)]
pub(super) struct Earlier {
    eras: Vec<Era>,
    /// Of rows that have no column at all.
    nothing: Shape,
    /// Of rows of eras that there have not been.
    unknown: Shape,
    /// What a row has that lacks the column, as it would be stored; `None`: NULL.
    missing: Vec<Option<Box<[u8]>>>,
}

/// A value as a row has it; `None`: NULL.
fn stored(index: usize, column: RowColumn, value: ValueRef<'_>) -> Result<Option<Box<[u8]>>, RowError> {
    if value == ValueRef::Null {
        return Ok(None);
    }
    if let Some(bytes) = variable_bytes(column.data_type, value) {
        return Ok(Some(bytes.into()));
    }
    match column.data_type.fixed_width() {
        Some(width) if fits_fixed(column.data_type, value) => {
            let mut bytes = vec![0; width];
            write_fixed(column.data_type, value, &mut bytes);
            Ok(Some(bytes.into()))
        }
        _ => Err(RowError::WrongType { column: index, expected: column.data_type, found: value.kind() }),
    }
}

impl Earlier {
    /// Of rows that have `columns` now, and the value `missing` for each that they lack.
    pub fn new(
        columns: &[RowColumn],
        earlier: &[Vec<EarlierColumn>],
        missing: &[ValueRef<'_>],
    ) -> Result<Self, RowError> {
        debug_assert!(earlier.len() <= usize::from(ERA_MAX), "a row does not say {} eras", earlier.len());
        let absent = Place { position: 0, width: 0, null_bit: MISSING };
        let nothing = Shape { places: vec![absent; columns.len()], ..Shape::default() };
        let era = |earlier: &Vec<EarlierColumn>| {
            let columns: Vec<RowColumn> = earlier.iter().map(|earlier| earlier.column).collect();
            let own = Shape::new(&columns);
            let mut now = Shape { places: nothing.places.clone(), ..own.clone() };
            for (earlier, place) in earlier.iter().zip(&own.places) {
                if let Some(now) = earlier.now.and_then(|position| now.places.get_mut(position)) {
                    *now = *place;
                }
            }
            Era { columns, own, now }
        };
        let eras = earlier.iter().map(era).collect();
        let missing = columns.iter().zip(missing).enumerate();
        let missing =
            missing.map(|(index, (column, value))| stored(index, *column, *value)).collect::<Result<_, _>>()?;
        Ok(Self { eras, nothing, unknown: Shape::default(), missing })
    }

    /// The present one.
    pub fn era(&self) -> u8 {
        self.eras.len() as u8
    }

    /// Where a row has the columns of now; `None`: it is of the present era.
    #[inline]
    pub fn shape(&self, bytes: &[u8]) -> Option<&Shape> {
        let Some(flags) = bytes.first() else { return Some(&self.nothing) };
        let era = usize::from(flags >> ERA_SHIFT);
        if era == self.eras.len() { None } else { Some(self.eras.get(era).map_or(&self.unknown, |era| &era.now)) }
    }

    /// What a row has that lacks a column.
    pub fn missing(&self, column: usize) -> Option<&[u8]> {
        self.missing.get(column)?.as_deref()
    }

    /// Whether rows of all earlier eras have a column at that place.
    pub fn always_has(&self, column: usize, place: Place) -> bool {
        self.eras.iter().all(|era| era.now.places.get(column) == Some(&place))
    }

    /// Checks that `bytes` is a well-formed row of any era; `now` is what rows of the present one have.
    pub fn verify(&self, now: (&Shape, &[RowColumn]), bytes: &[u8]) -> Result<(), RowError> {
        let Some(flags) = bytes.first() else {
            let mut columns = self.eras.iter().map(|era| &era.columns[..]).chain([now.1]);
            return match columns.any(<[RowColumn]>::is_empty) {
                true => Ok(()),
                false => malformed("row is shorter than its fixed-width part"),
            };
        };
        let number = flags >> ERA_SHIFT;
        match self.eras.get(usize::from(number)) {
            Some(era) => era.own.verify(&era.columns, number, bytes),
            None if number == self.era() => now.0.verify(now.1, number, bytes),
            None => malformed("row of an era that its table has not had"),
        }
    }
}
