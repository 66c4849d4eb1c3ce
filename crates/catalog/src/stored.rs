//! Which columns a stored row has: the one place that knows what a table's rows lack of its columns, and what they have
//! besides.
//!
//! ```text
//!   ALTER TABLE …                ADD c           DROP b, ADD d
//!   eras                      0         1                      2 (now)
//!   rows on pages say theirs  a b       a b c                  a c d
//!   read as rows of now       a C D     a c D                  a c d       C, D: the missing values
//!   places                    a 0       b 1, gone       c 2    d 3
//! ```
//!
//! A column may be added or dropped without a look at the rows that are there. Rows, in the primary tree and in the
//! logs, stay as they are and say which *era* they are of ([`saki_base::row`]); so do segments, whose entries have a
//! column at its *place*. Whoever reads them gives every row that lacks a column its *missing value*: what the default
//! was when the column was added, worked out once. What rows have of columns that are gone is not looked at. What is
//! written from then on has the columns of then: new rows, and whatever a merge makes anew.
//!
//! # Places
//! Every column that the table has had since all its rows were last written has a place: they are numbered in the order
//! of the columns, new ones behind all others, and those of dropped ones are never given again. So places ascend with
//! positions, the present columns have those that no dropped one has, and nothing but the places of dropped columns has
//! to be kept. A row of an era has the columns of then in the order of their places, without those of the primary key.
//!
//! # Who may see what, and when
//! - A row's era is never greater than its table's. A table's era grows in the publication that adds or drops columns
//!   (one era for all that one ALTER TABLE does), and the statement has the table to itself: until then nobody writes
//!   rows of the new era, and from then on nobody writes rows of the old one. Snapshots of before have the table of
//!   before, with its own delta, so they never meet a row of a later era, and they see a dropped column with the values
//!   that rows, trees and segments still have. ROLLBACK, also to a savepoint, goes back to the table of before, whose
//!   era has not grown: rows of the later one were in the transaction's own delta, or in trees that are given back.
//! - The delta of a table has rows of its present era only: a table that is laid out otherwise gets another one, and a
//!   row of the base that is written there as it is, to hold it, is brought to the present era by the delta's one door.
//!   So the engine of deltas reads bodies by the present layout and need not know of eras.
//! - An index has nothing to do with it: no column of it is younger than its entries, which are made of whole rows, and
//!   an index goes with any of its columns. The primary key is not either: another key makes all rows anew.
//! - A column's missing value never changes while there may be a row that lacks the column. A dropped column's type,
//!   place and eras never change while there may be a row or a segment that has it: they say how to read past it.
//!   Where all rows are written anew (another type, another key, too many eras or places), eras begin again with 0,
//!   nothing is missing, and nothing is left of what was dropped.
//! - A segment's run of a dropped column is in no reader's way, and still the table's: it is on the books, `check`
//!   looks at its bytes, and whoever gives the segment back gives it back too. The next merge that writes the directory
//!   gives back all such runs. Bytes in rows go when the row is written again. So its space is not free at once.
//! - A column with the name of a dropped one is another column: it has another id, another place and its own missing
//!   value, and nobody finds the old one's values in it. Statistics and privileges of a column go with it.

use saki_base::row::ERA_MAX;
use saki_base::{DataType, EarlierColumn, RowColumn, RowLayout, Value, ValueRef};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SqlError};

/// Columns that a table may have had since all its rows were last written, the dropped ones included.
const PLACES_MAX: usize = 4096;

/// The eras of a table's rows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoredColumns {
    /// That of rows that are written now.
    era: u8,
    /// Columns that rows of some eras lack.
    added: Vec<AddedColumn>,
    /// Columns that the table has no longer, and rows of some eras have; by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<DroppedColumn>,
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

/// A column that was dropped while there were rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct DroppedColumn {
    place: usize,
    data_type: DataType,
    nullable: bool,
    /// The first era whose rows have it.
    since: u8,
    /// The first era whose rows have it no more.
    until: u8,
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedColumn {
    /// Among the table's columns.
    pub position: usize,
    /// Its [`ColumnDetail::id`](crate::ColumnDetail::id).
    pub id: u32,
    pub column: RowColumn,
}

/// A column that rows of the eras from `since` up to `until` have, without that.
struct Known {
    place: usize,
    since: u8,
    until: u8,
    column: EarlierColumn,
}

/// The layout of a row of one value.
fn alone(data_type: DataType) -> RowLayout {
    RowLayout::new([RowColumn { data_type, nullable: false }])
}

impl StoredColumns {
    /// Whether all rows have all columns, and no others.
    pub fn is_plain(&self) -> bool {
        self.era == 0
    }

    /// Whether there may be one era more, in which a table of `columns` columns gets so many `more`.
    pub fn has_room(&self, columns: usize, more: usize) -> bool {
        self.era < ERA_MAX && columns + self.dropped.len() + more <= PLACES_MAX
    }

    /// Begins an era whose rows have no more the columns `dropped`, in the order of their positions before, and have
    /// columns besides behind all others, `added`: ids, types and the values of rows that lack them.
    ///
    /// # Errors
    /// If there may be no era more; a value that is not of its type.
    pub fn change<'v>(
        &mut self,
        dropped: &[PlacedColumn],
        added: impl IntoIterator<Item = (u32, DataType, &'v Value)>,
    ) -> Result<()> {
        if self.era >= ERA_MAX {
            return Err(SqlError::internal("a table's rows are of too many eras"));
        }
        let next = self.era + 1;
        let places: Vec<usize> = dropped.iter().map(|dropped| self.place(dropped.position)).collect();
        for (PlacedColumn { id, column, .. }, place) in dropped.iter().zip(places) {
            let RowColumn { data_type, nullable } = *column;
            let since = self.since(*id);
            self.added.retain(|added| added.id != *id);
            self.dropped.push(DroppedColumn { place, data_type, nullable, since, until: next });
        }
        self.dropped.sort_by_key(|dropped| dropped.place);
        for (id, data_type, value) in added {
            let missing = match value {
                Value::Null => None,
                value => {
                    let mut row = Vec::new();
                    alone(data_type).encode(&[value.as_ref()], &mut row)?;
                    Some(row)
                }
            };
            self.added.push(AddedColumn { id, since: next, missing });
        }
        self.era = next;
        Ok(())
    }

    /// The first era whose rows have a column of the table.
    fn since(&self, id: u32) -> u8 {
        self.added.iter().find(|added| added.id == id).map_or(0, |added| added.since)
    }

    /// The value of rows that lack a column; `None`: all have it.
    pub fn missing(&self, id: u32, data_type: DataType) -> Option<Value> {
        let added = self.added.iter().find(|added| added.id == id)?;
        Some(added.value(data_type).unwrap_or_default())
    }

    /// The place of the table's column at a position.
    pub fn place(&self, position: usize) -> usize {
        self.dropped.iter().fold(position, |place, dropped| place + usize::from(dropped.place <= place))
    }

    /// Places and types of columns that the table has no longer, in the order of places.
    pub fn dropped(&self) -> impl Iterator<Item = (usize, DataType)> {
        self.dropped.iter().map(|dropped| (dropped.place, dropped.data_type))
    }

    /// How rows with these columns, by position, are read and written.
    pub fn layout(&self, columns: &[PlacedColumn]) -> RowLayout {
        let now = RowLayout::new(columns.iter().map(|column| column.column));
        if self.is_plain() {
            return now;
        }
        let known = self.known(columns);
        let era = |era: u8| {
            let had = known.iter().filter(|known| known.since <= era && era < known.until);
            had.map(|known| known.column).collect()
        };
        let eras: Vec<Vec<EarlierColumn>> = (0..self.era).map(era).collect();
        let value = |PlacedColumn { id, column, .. }: &PlacedColumn| self.missing(*id, column.data_type);
        let missing: Vec<Value> = columns.iter().map(|column| value(column).unwrap_or_default()).collect();
        let missing: Vec<ValueRef<'_>> = missing.iter().map(Value::as_ref).collect();
        // A document whose values are of other types has been refused when it was read.
        now.clone().after(&eras, &missing).unwrap_or(now)
    }

    /// All columns that rows have had, in the order of their places.
    fn known(&self, columns: &[PlacedColumn]) -> Vec<Known> {
        let present = columns.iter().enumerate().map(|(now, PlacedColumn { position, id, column })| Known {
            place: self.place(*position),
            since: self.since(*id),
            until: u8::MAX,
            column: EarlierColumn { column: *column, now: Some(now) },
        });
        let dropped = self.dropped.iter().map(|dropped| {
            let DroppedColumn { place, data_type, nullable, since, until } = *dropped;
            Known {
                place,
                since,
                until,
                column: EarlierColumn { column: RowColumn { data_type, nullable }, now: None },
            }
        });
        let mut known: Vec<Known> = present.chain(dropped).collect();
        known.sort_by_key(|known| known.place);
        known
    }

    /// Refuses eras that rows cannot be of, missing values that `columns`, all of the table's by ids and types, cannot
    /// have, and places that no column can have had.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self, columns: impl ExactSizeIterator<Item = (u32, RowColumn)>) -> std::result::Result<(), String> {
        if self.era > ERA_MAX {
            return Err(format!("rows of era {}", self.era));
        }
        let places = columns.len() + self.dropped.len();
        if !self.dropped.is_sorted_by(|a, b| a.place < b.place) {
            return Err("places of dropped columns out of order".to_owned());
        }
        for DroppedColumn { place, since, until, .. } in &self.dropped {
            if *place >= places || since >= until || *until > self.era {
                return Err(format!("a dropped column at place {place} of {places} from era {since} to {until}"));
            }
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
    use saki_columns::{ColumnType, SegmentColumns};

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

    /// Columns one after the other, as a table without a key has them.
    fn placed(columns: &[(u32, RowColumn)]) -> Vec<PlacedColumn> {
        let column =
            |(position, (id, column)): (usize, &(u32, RowColumn))| PlacedColumn { position, id: *id, column: *column };
        columns.iter().enumerate().map(column).collect()
    }

    #[test]
    fn rows_of_each_era_have_what_they_lack() {
        let mut stored = StoredColumns::default();
        assert!(stored.is_plain() && stored.missing(0, DataType::Int4).is_none());
        let first = written(&stored.layout(&placed(&[(0, INT)])), &[ValueRef::Int4(1)]);
        stored.change(&[], [(3, DataType::Text, &Value::from("c"))]).unwrap();
        let layout = stored.layout(&placed(&[(0, INT), (3, TEXT)]));
        let second = written(&layout, &[ValueRef::Null, ValueRef::Text("two")]);
        stored.change(&[], [(4, DataType::Int4, &Value::Null), (5, DataType::Int4, &Value::Int4(5))]).unwrap();
        let layout = stored.layout(&placed(&[(0, INT), (3, TEXT), (4, INT), (5, INT)]));
        let [one, five] = [1, 5].map(Value::Int4);
        assert_eq!(read(&layout, &first), [one, Value::from("c"), Value::Null, five.clone()]);
        assert_eq!(read(&layout, &second), [Value::Null, Value::from("two"), Value::Null, five]);
        assert_eq!(stored.missing(3, DataType::Text), Some(Value::from("c")));
        assert_eq!(stored.missing(4, DataType::Int4), Some(Value::Null));
        assert_eq!(stored.missing(0, DataType::Int4), None, "all rows have it");
    }

    #[test]
    fn rows_of_each_era_have_what_was_dropped_and_nobody_sees_it() {
        // `a b c`, of which `b` is dropped and `d` added; then `d` and `a`.
        let (three, mut stored) = ([(0, INT), (1, TEXT), (2, INT)], StoredColumns::default());
        let values = [ValueRef::Int4(1), ValueRef::Text("b"), ValueRef::Int4(3)];
        let first = written(&stored.layout(&placed(&three)), &values);
        let seven = Value::Int4(7);
        stored.change(&placed(&three)[1..2], [(3, DataType::Int4, &seven)]).unwrap();
        let three = [(0, INT), (2, INT), (3, INT)];
        let second =
            written(&stored.layout(&placed(&three)), &[ValueRef::Int4(10), ValueRef::Int4(30), ValueRef::Null]);
        assert_eq!(read(&stored.layout(&placed(&three)), &first), [Value::Int4(1), Value::Int4(3), seven.clone()]);
        assert_eq!([0, 1, 2].map(|position| stored.place(position)), [0, 2, 3]);
        let gone = [placed(&three)[0], placed(&three)[2]];
        stored.change(&gone, []).unwrap();
        assert_eq!(stored.missing(3, DataType::Int4), None, "it is gone");
        let layout = stored.layout(&placed(&[(2, INT)]));
        assert_eq!(read(&layout, &first), [Value::Int4(3)]);
        assert_eq!(read(&layout, &second), [Value::Int4(30)]);
        assert_eq!([0, 1].map(|position| stored.place(position)), [2, 4]);
        let dropped: Vec<_> = stored.dropped().collect();
        assert_eq!(dropped, [(0, DataType::Int4), (1, DataType::Text), (3, DataType::Int4)]);
        // One of the same name is another: no row has it yet.
        stored.change(&[], [(4, DataType::Int4, &seven)]).unwrap();
        let layout = stored.layout(&placed(&[(2, INT), (4, INT)]));
        assert_eq!(read(&layout, &second), [Value::Int4(30), seven]);
    }

    #[test]
    fn a_key_has_a_place_and_is_in_no_row() {
        let all = placed(&[(0, INT), (1, INT), (2, INT), (3, INT)]);
        let mut stored = StoredColumns::default();
        let rows = [all[0], all[2], all[3]];
        let row = written(&stored.layout(&rows), &[ValueRef::Int4(0), ValueRef::Int4(2), ValueRef::Int4(3)]);
        stored.change(&all[2..3], []).unwrap();
        let rows = [all[0], PlacedColumn { position: 2, ..all[3] }];
        assert_eq!(read(&stored.layout(&rows), &row), [Value::Int4(0), Value::Int4(3)]);
    }

    #[test]
    fn there_may_be_so_many_eras_and_places() {
        let mut stored = StoredColumns::default();
        assert!(stored.has_room(PLACES_MAX, 0) && !stored.has_room(PLACES_MAX, 1));
        for id in 0..u32::from(ERA_MAX) {
            assert!(stored.has_room(1, 1));
            stored.change(&[], [(id + 1, DataType::Int4, &Value::Int4(id as i32))]).unwrap();
        }
        assert!(!stored.has_room(1, 0));
        assert!(stored.change(&[], [(99, DataType::Int4, &Value::Null)]).is_err());
        assert_eq!(stored.missing(63, DataType::Int4), Some(Value::Int4(62)));
    }

    #[test]
    fn what_was_dropped_takes_places() {
        let all = placed(&[(0, INT), (1, INT)]);
        let mut stored = StoredColumns::default();
        stored.change(&all[..1], []).unwrap();
        assert!(stored.has_room(1, PLACES_MAX - 2) && !stored.has_room(1, PLACES_MAX - 1));
    }

    #[test]
    fn a_document_that_cannot_be_is_refused() {
        let mut stored = StoredColumns::default();
        stored.change(&[], [(1, DataType::Int4, &Value::Int4(7)), (2, DataType::Text, &Value::Null)]).unwrap();
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<StoredColumns>(&json).unwrap(), stored);
        let verify = |stored: &StoredColumns, columns: &[(u32, RowColumn)]| stored.verify(columns.iter().copied());
        assert_eq!(verify(&stored, &[(0, INT), (1, INT)]), Ok(()));
        assert!(verify(&stored, &[(1, TEXT)]).is_err(), "of another type");
        assert!(verify(&stored, &[(2, TEXT)]).is_err(), "NULL where there is none");
        for (era, since) in [(ERA_MAX + 1, 1), (1, 2), (1, 0)] {
            let added = vec![AddedColumn { since, ..stored.added[0].clone() }];
            let dropped = Vec::new();
            assert!(verify(&StoredColumns { era, added, dropped }, &[(1, INT)]).is_err(), "{era} {since}");
        }
        assert!(!json.contains("dropped"), "as ever, where there is none: {json}");
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            let bytes = (0..random.below(12)).map(|_| random.below(256) as u8).collect();
            let added = vec![AddedColumn { id: 1, since: 1, missing: Some(bytes) }];
            let stored = StoredColumns { era: 1, added, dropped: Vec::new() };
            let is_right = verify(&stored, &[(1, TEXT)]).is_ok();
            // Whether it is refused or not, a row is read.
            let layout = stored.layout(&placed(&[(0, INT), (1, TEXT)]));
            assert!(!is_right || layout.view(&[0, 0, 9, 0, 0, 0]).value(1).is_ok());
        }
    }

    /// Two work out which place is whose: one finds a column's, the other walks over all.
    #[test]
    fn segments_have_the_same_places() {
        let mut random = Random::new(2);
        for _ in 0..200 {
            let (mut stored, mut now) = (StoredColumns::default(), vec![0]);
            for id in 1..30 {
                let columns = placed(&now.iter().map(|id| (*id, INT)).collect::<Vec<_>>());
                if now.len() > 1 && random.chance(0.4) {
                    let at = random.below(now.len() as u64) as usize;
                    stored.change(&[columns[at]], []).unwrap();
                    now.remove(at);
                } else {
                    stored.change(&[], [(id, DataType::Int4, &Value::Null)]).unwrap();
                    now.push(id);
                }
            }
            let column = ColumnType { name: String::new(), data_type: DataType::Int4, nullable: true, missing: None };
            let segments = SegmentColumns::new(vec![column; now.len()], stored.dropped());
            for position in 0..now.len() {
                assert_eq!(segments.place_of(position), stored.place(position), "{stored:?}");
            }
        }
    }

    #[test]
    fn a_document_of_columns_that_cannot_have_been_is_refused() {
        let all = placed(&[(0, INT), (1, INT), (2, INT)]);
        let mut stored = StoredColumns::default();
        stored.change(&[all[0], all[2]], []).unwrap();
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<StoredColumns>(&json).unwrap(), stored);
        let verify = |stored: &StoredColumns| stored.verify([(1, INT)].into_iter());
        assert_eq!(verify(&stored), Ok(()));
        let refused = |change: fn(&mut StoredColumns)| {
            let mut stored = stored.clone();
            change(&mut stored);
            verify(&stored).is_err()
        };
        assert!(refused(|stored| stored.dropped[1].place = 3));
        assert!(refused(|stored| stored.dropped[1].place = 0));
        assert!(refused(|stored| stored.dropped.swap(0, 1)));
        assert!(refused(|stored| stored.dropped[0].since = 1));
        assert!(refused(|stored| stored.dropped[0].until = 2));
        assert!(refused(|stored| stored.era = 0));
    }
}
