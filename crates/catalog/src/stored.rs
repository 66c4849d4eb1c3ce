//! Which columns a stored row has: the one place that knows what a table's rows lack of its columns.
//!
//! ```text
//!   ALTER TABLE … ADD COLUMN        era 0         era 1               era 2 (now)
//!   rows on pages say their era     a b           a b c               a b c d
//!   read as rows of now             a b C D       a b c D             a b c d       C, D: the missing values
//! ```
//!
//! A column may be added without a look at the rows that are there. Rows, in the primary tree and in the logs, stay as
//! they are and say which *era* they are of ([`saki_base::row`]); so do segments, whose entries have as many columns as
//! the table had, or say that they lack one (`saki_columns::entry`). Whoever reads them gives every row that lacks the
//! column its *missing value*: what the default was when the column was added, worked out once. What is written from
//! then on has the column: new rows, and whatever a merge makes anew.
//!
//! # Who may see what, and when
//! - A row's era is never greater than its table's. A table's era grows in the publication that adds the column, and
//!   the statement has the table to itself: until then nobody writes rows of the new era, and from then on nobody
//!   writes rows of the old one. Snapshots of before have the table of before, with its own delta, so they never meet
//!   a row of a later era.
//! - The delta of a table has rows of its present era only: a table that is laid out otherwise gets another one, and a
//!   row of the base that is written there as it is, to hold it, is brought to the present era by the delta's one door.
//!   So the engine of deltas reads bodies by the present layout and need not know of eras.
//! - An index has nothing to do with it: no column of it is younger than its entries, which are made of whole rows.
//!   The primary key is not either: another key makes all rows anew.
//! - A column's missing value never changes while there may be a row that lacks the column. Where all rows are written
//!   anew (another type, another key, too many eras), eras begin again with 0 and nothing is missing.

use saki_base::row::ERA_MAX;
use saki_base::{DataType, EarlierColumn, RowColumn, RowLayout, Value, ValueRef};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SqlError};

/// The eras of a table's rows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoredColumns {
    /// That of rows that are written now.
    era: u8,
    /// Columns that rows of some eras lack.
    added: Vec<AddedColumn>,
}

/// A column that was added while there were rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct AddedColumn {
    /// Its [`ColumnDetail::id`](crate::ColumnDetail::id).
    id: u32,
    /// The first era whose rows have it.
    since: u8,
    /// The value of rows that lack it, as a row of this one column; `None`: NULL.
    missing: Option<Vec<u8>>,
}

/// The layout of a row of one value.
fn alone(data_type: DataType) -> RowLayout {
    RowLayout::new([RowColumn { data_type, nullable: false }])
}

impl StoredColumns {
    /// Whether all rows have all columns.
    pub fn is_plain(&self) -> bool {
        self.era == 0
    }

    /// Whether there may be one era more.
    pub fn has_room(&self) -> bool {
        self.era < ERA_MAX
    }

    /// Begins an era whose rows have these columns besides: ids, types and the values of rows that lack them.
    ///
    /// # Errors
    /// If there may be no era more; a value that is not of its type.
    pub fn add<'v>(&mut self, columns: impl IntoIterator<Item = (u32, DataType, &'v Value)>) -> Result<()> {
        if !self.has_room() {
            return Err(SqlError::internal("a table's rows are of too many eras"));
        }
        let since = self.era + 1;
        for (id, data_type, value) in columns {
            let missing = match value {
                Value::Null => None,
                value => {
                    let mut row = Vec::new();
                    alone(data_type).encode(&[value.as_ref()], &mut row)?;
                    Some(row)
                }
            };
            self.added.push(AddedColumn { id, since, missing });
        }
        self.era = since;
        Ok(())
    }

    /// The value of rows that lack a column; `None`: all have it.
    pub fn missing(&self, id: u32, data_type: DataType) -> Option<Value> {
        let added = self.added.iter().find(|added| added.id == id)?;
        Some(added.value(data_type).unwrap_or_default())
    }

    /// How rows with these columns, ids and types in order, are read and written.
    pub fn layout(&self, columns: &[(u32, RowColumn)]) -> RowLayout {
        let now = RowLayout::new(columns.iter().map(|(_, column)| *column));
        if self.is_plain() {
            return now;
        }
        let since = |id: u32| self.added.iter().find(|added| added.id == id).map_or(0, |added| added.since);
        let since: Vec<u8> = columns.iter().map(|(id, _)| since(*id)).collect();
        let era = |era: u8| {
            let known = columns.iter().zip(&since).enumerate().filter(|(_, (_, since))| **since <= era);
            known.map(|(now, ((_, column), _))| EarlierColumn { column: *column, now: Some(now) }).collect()
        };
        let eras: Vec<Vec<EarlierColumn>> = (0..self.era).map(era).collect();
        let missing: Vec<Value> =
            columns.iter().map(|(id, column)| self.missing(*id, column.data_type).unwrap_or_default()).collect();
        let missing: Vec<ValueRef<'_>> = missing.iter().map(Value::as_ref).collect();
        // A document whose values are of other types has been refused when it was read.
        now.clone().after(&eras, &missing).unwrap_or(now)
    }

    /// Refuses eras that rows cannot be of, and missing values that columns, ids and types, cannot have.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self, columns: impl Iterator<Item = (u32, RowColumn)>) -> std::result::Result<(), String> {
        if self.era > ERA_MAX {
            return Err(format!("rows of era {}", self.era));
        }
        for (id, column) in columns {
            let Some(added) = self.added.iter().find(|added| added.id == id) else { continue };
            if added.since == 0 || added.since > self.era {
                return Err(format!("column {id} is of era {} of {}", added.since, self.era));
            }
            match added.value(column.data_type) {
                Some(Value::Null) if !column.nullable => return Err(format!("column {id} is missing and NOT NULL")),
                Some(_) => {}
                None => return Err(format!("the missing value of column {id} is not of its type")),
            }
        }
        Ok(())
    }
}

impl AddedColumn {
    /// `None`: it is not of the type.
    fn value(&self, data_type: DataType) -> Option<Value> {
        let Some(row) = &self.missing else { return Some(Value::Null) };
        let layout = alone(data_type);
        layout.verify(row).ok()?;
        layout.view(row).value(0).ok().map(Value::from)
    }
}

#[cfg(test)]
mod tests {
    use saki_base::Random;

    use super::*;

    const INT: RowColumn = RowColumn { data_type: DataType::Int4, nullable: true };
    const TEXT: RowColumn = RowColumn { data_type: DataType::Text, nullable: false };

    fn read(layout: &RowLayout, row: &[u8]) -> Vec<Value> {
        layout.verify(row).unwrap();
        (0..layout.columns().len()).map(|column| layout.view(row).value(column).unwrap().into()).collect()
    }

    fn written(layout: &RowLayout, values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut row = Vec::new();
        layout.encode(values, &mut row).unwrap();
        row
    }

    #[test]
    fn rows_of_each_era_have_what_they_lack() {
        let mut stored = StoredColumns::default();
        assert!(stored.is_plain() && stored.missing(0, DataType::Int4).is_none());
        let first = written(&stored.layout(&[(0, INT)]), &[ValueRef::Int4(1)]);
        stored.add([(3, DataType::Text, &Value::from("c"))]).unwrap();
        let second = written(&stored.layout(&[(0, INT), (3, TEXT)]), &[ValueRef::Null, ValueRef::Text("two")]);
        stored.add([(4, DataType::Int4, &Value::Null), (5, DataType::Int4, &Value::Int4(5))]).unwrap();
        let layout = stored.layout(&[(0, INT), (3, TEXT), (4, INT), (5, INT)]);
        let [one, five] = [1, 5].map(Value::Int4);
        assert_eq!(read(&layout, &first), [one, Value::from("c"), Value::Null, five.clone()]);
        assert_eq!(read(&layout, &second), [Value::Null, Value::from("two"), Value::Null, five]);
        assert_eq!(stored.missing(3, DataType::Text), Some(Value::from("c")));
        assert_eq!(stored.missing(4, DataType::Int4), Some(Value::Null));
        assert_eq!(stored.missing(0, DataType::Int4), None, "all rows have it");
    }

    #[test]
    fn a_column_that_was_dropped_later_is_no_more_of_any_era() {
        let mut stored = StoredColumns::default();
        for id in 0..u32::from(ERA_MAX) {
            assert!(stored.has_room());
            stored.add([(id + 1, DataType::Int4, &Value::Int4(id as i32))]).unwrap();
        }
        assert!(!stored.has_room());
        assert!(stored.add([(99, DataType::Int4, &Value::Null)]).is_err());
        assert_eq!(stored.missing(63, DataType::Int4), Some(Value::Int4(62)));
    }

    #[test]
    fn a_document_that_cannot_be_is_refused() {
        let mut stored = StoredColumns::default();
        stored.add([(1, DataType::Int4, &Value::Int4(7)), (2, DataType::Text, &Value::Null)]).unwrap();
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<StoredColumns>(&json).unwrap(), stored);
        let verify = |stored: &StoredColumns, columns: &[(u32, RowColumn)]| stored.verify(columns.iter().copied());
        assert_eq!(verify(&stored, &[(0, INT), (1, INT)]), Ok(()));
        assert!(verify(&stored, &[(1, TEXT)]).is_err(), "of another type");
        assert!(verify(&stored, &[(2, TEXT)]).is_err(), "NULL where there is none");
        for (era, since) in [(ERA_MAX + 1, 1), (1, 2), (1, 0)] {
            let added = vec![AddedColumn { since, ..stored.added[0].clone() }];
            assert!(verify(&StoredColumns { era, added }, &[(1, INT)]).is_err(), "{era} {since}");
        }
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            let bytes = (0..random.below(12)).map(|_| random.below(256) as u8).collect();
            let added = vec![AddedColumn { id: 1, since: 1, missing: Some(bytes) }];
            let stored = StoredColumns { era: 1, added };
            let is_right = verify(&stored, &[(1, TEXT)]).is_ok();
            // Whether it is refused or not, a row is read.
            let layout = stored.layout(&[(0, INT), (1, TEXT)]);
            assert!(!is_right || layout.view(&[0, 0, 9, 0, 0, 0]).value(1).is_ok());
        }
    }
}
