//! How a table's rows lie in its trees and segments.

use saki_base::{Column, KeyColumn, KeyLayout, Part, RowColumn, RowLayout, Value};
use saki_columns::{ColumnType, SegmentColumns};

use super::{Index, Table};
use crate::catalog::statistics::{ColumnStatistics, TableStatistics};
use crate::error::Result;
use crate::stored::PlacedColumn;

/// How a tree's entries are made of a table's columns.
#[derive(Clone, Debug)]
pub struct EntryLayout {
    pub key: KeyLayout,
    pub row: RowLayout,
    /// Table column of each key column; `Table::row_id()` for the hidden one.
    pub key_columns: Vec<usize>,
    /// Table column of each row column.
    pub row_columns: Vec<usize>,
}

impl Table {
    /// Columns of the primary tree's key.
    pub fn key_columns(&self) -> Vec<usize> {
        if self.primary_key.is_empty() { vec![self.row_id()] } else { self.primary_key.clone() }
    }

    pub fn primary_layout(&self) -> EntryLayout {
        let key_columns = self.key_columns();
        let row_columns = (0..self.columns.len()).filter(|column| !key_columns.contains(column)).collect();
        let key = key_columns.iter().map(|column| (*column, false)).collect::<Vec<_>>();
        let entries = self.layout(&key, row_columns);
        if self.stored.is_plain() {
            return entries;
        }
        let row = self.stored.layout(&self.placed(entries.row_columns.iter().copied()));
        EntryLayout { row, ..entries }
    }

    /// Index columns, then what remains of the primary key, then INCLUDE columns.
    pub fn index_layout(&self, index: &Index) -> EntryLayout {
        let mut key: Vec<(usize, bool)> = index.columns.iter().map(|c| (c.column, c.descending)).collect();
        for column in self.key_columns() {
            if !key.iter().any(|(present, _)| *present == column) {
                key.push((column, false));
            }
        }
        let include = index.include.iter().copied().filter(|column| !key.iter().any(|(k, _)| k == column)).collect();
        self.layout(&key, include)
    }

    fn layout(&self, key: &[(usize, bool)], row_columns: Vec<usize>) -> EntryLayout {
        EntryLayout {
            key: KeyLayout::new(key.iter().map(|(column, descending)| {
                let (_, data_type, nullable) = self.column_type(*column);
                KeyColumn { data_type, nullable, descending: *descending }
            })),
            row: RowLayout::new(row_columns.iter().map(|column| self.row_column(*column))),
            key_columns: key.iter().map(|(column, _)| *column).collect(),
            row_columns,
        }
    }

    fn row_column(&self, column: usize) -> RowColumn {
        let (_, data_type, nullable) = self.column_type(column);
        RowColumn { data_type, nullable }
    }

    /// Columns by position.
    fn placed(&self, columns: impl IntoIterator<Item = usize>) -> Vec<PlacedColumn> {
        let placed = |position: usize| PlacedColumn {
            position,
            id: self.details[position].id,
            column: self.row_column(position),
        };
        columns.into_iter().map(placed).collect()
    }

    /// What runs segments may have: of all columns, and of those that have been dropped.
    pub fn segment_columns(&self) -> SegmentColumns {
        SegmentColumns::new(self.column_types(), self.stored.dropped())
    }

    /// Places and names of the columns, as segments know them.
    pub fn places(&self) -> impl Iterator<Item = (usize, &str)> {
        let columns = self.columns.iter().enumerate();
        columns.map(|(position, column)| (self.stored.place(position), column.name.as_str()))
    }

    /// The part of the database that runs of a column are, if the table has segments.
    pub fn part_of(&self, column: usize) -> Option<Part> {
        let directory = self.segments.as_ref()?.directory.id;
        Some(Part::column(directory, self.stored.place(column)))
    }

    /// The columns that segments have: all.
    pub fn column_types(&self) -> Vec<ColumnType> {
        let column = |(position, c): (usize, &Column)| ColumnType {
            name: c.name.clone(),
            data_type: c.data_type,
            nullable: c.nullable,
            missing: self.missing(position),
        };
        self.columns.iter().enumerate().map(column).collect()
    }

    /// The value of rows and segments that lack a column; `None`: all have it.
    fn missing(&self, column: usize) -> Option<Value> {
        self.stored.missing(self.details.get(column)?.id, self.columns[column].data_type)
    }

    /// Goes on from the table `before` without a look at the rows that are there. The columns from `first` on are new,
    /// and rows lack them: theirs are the values `missing`. What `before` had besides is dropped. What is written from
    /// now on has the columns of now.
    ///
    /// # Errors
    /// As [`StoredColumns::change`](crate::StoredColumns::change).
    pub fn change_layout(&mut self, before: &Self, first: usize, missing: &[Value]) -> Result<()> {
        let gone = |position: &usize| self.position_of(before.details[*position].id).is_none();
        let dropped = before.placed((0..before.columns.len()).filter(gone));
        let added = self.details.iter().zip(&self.columns).skip(first).zip(missing);
        let added = added.map(|((detail, column), value)| (detail.id, column.data_type, value));
        let mut stored = before.stored.clone();
        stored.change(&dropped, added)?;
        self.stored = stored;
        self.layout_version += 1;
        let known = before.statistics.as_ref().filter(|known| known.columns.len() == before.columns.len());
        self.statistics = known.map(|known| {
            let kept = self.details[..first].iter().filter_map(|detail| before.position_of(detail.id));
            let kept = kept.map(|position| known.columns[position].clone());
            let columns = kept.chain(missing.iter().map(ColumnStatistics::of_one)).collect();
            TableStatistics { rows: known.rows, columns }
        });
        Ok(())
    }
}
