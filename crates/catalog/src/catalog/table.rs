//! A table and everything that is stored for it, and how its rows become entries of trees.

use saki_base::{Column, DataType, KeyColumn, KeyLayout, RowColumn, RowLayout, TableId};
use saki_columns::{ColumnType, SegmentsRoot};
use saki_tree::TreeRoot;
use serde::{Deserialize, Serialize};

use super::constraint::{Check, ColumnDetail, ForeignKey};
use super::objects::bare;
use super::statistics::TableStatistics;
use crate::PUBLIC;
use crate::error::{Objects, SqlError};

/// Name of the key column of a table without a primary key. Never visible.
pub const ROW_ID: &str = "row id";

/// A table and everything that is stored for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    pub id: TableId,
    /// What statements call it: behind its schema's name, unless that is `public`.
    pub name: String,
    #[serde(default = "public")]
    pub schema: String,
    pub columns: Vec<Column>,
    /// One for each of `columns`.
    #[serde(default)]
    pub details: Vec<ColumnDetail>,
    /// The next [`ColumnDetail::id`].
    #[serde(default)]
    pub next_column_id: u32,
    /// Grows whenever keys or rows get another layout: entries encoded before are not this table's any more.
    #[serde(default)]
    pub layout_version: u32,
    /// Positions in `columns`; empty: entries are keyed by a hidden row id.
    pub primary_key: Vec<usize>,
    /// `None`: the table's name with `_pkey`.
    #[serde(default)]
    pub primary_key_constraint: Option<String>,
    /// Of the primary key's constraint.
    #[serde(default)]
    pub primary_key_comment: Option<String>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKey>,
    /// Whether rows stay in memory after a merge.
    #[serde(default)]
    pub resident: bool,
    #[serde(default)]
    pub tier: TableTier,
    #[serde(default)]
    pub comment: Option<String>,
    /// The next hidden row id.
    pub next_row_id: i64,
    pub root: TreeRoot,
    pub indexes: Vec<Index>,
    /// The rows column by column; `None`: `columns = off`.
    #[serde(default)]
    pub segments: Option<SegmentsRoot>,
    /// Columns whose segments have Bloom filters, ascending; none where there are no segments.
    #[serde(default)]
    pub bloom: Vec<usize>,
    pub statistics: Option<TableStatistics>,
    /// Which delta is the table's: another one for each layout that its rows have had.
    #[serde(default = "no_delta")]
    pub delta: TableId,
    /// The base has every transaction on the table up to this timestamp.
    #[serde(default)]
    pub merged_through: u64,
}

/// No table has this number.
pub fn no_delta() -> TableId {
    TableId(0)
}

/// A secondary index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    /// As [`Table::name`].
    pub name: String,
    /// Its table's.
    #[serde(default = "public")]
    pub schema: String,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    /// Columns carried along, for lookups that need no more.
    pub include: Vec<usize>,
    /// Whether it is a UNIQUE constraint: it goes by DROP CONSTRAINT.
    #[serde(default)]
    pub constraint: bool,
    /// Of that constraint; the index has one of its own.
    #[serde(default)]
    pub constraint_comment: Option<String>,
    #[serde(default)]
    pub comment: Option<String>,
    pub root: TreeRoot,
}

fn public() -> String {
    PUBLIC.to_owned()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndexColumn {
    pub column: usize,
    pub descending: bool,
}

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
    /// The position that stands for the hidden row id.
    pub fn row_id(&self) -> usize {
        self.columns.len()
    }

    /// Name and type of a column, the hidden one included.
    pub fn column_type(&self, column: usize) -> (&str, DataType, bool) {
        match self.columns.get(column) {
            Some(column) => (&column.name, column.data_type, column.nullable),
            None => (ROW_ID, DataType::Int8, false),
        }
    }

    /// The hidden row id as a column.
    pub fn row_id_column(&self) -> Column {
        Column { name: ROW_ID.into(), data_type: DataType::Int8, nullable: false }
    }

    /// Whether its rows refer to rows of other tables.
    pub fn is_free_of_references(&self) -> bool {
        self.foreign_keys.is_empty()
    }

    /// Whether a column that is given no value has one.
    pub fn has_default(&self, column: usize) -> bool {
        self.details.get(column).is_some_and(|detail| detail.default.is_some() || detail.identity.is_some())
    }

    /// Columns of the primary tree's key.
    pub fn key_columns(&self) -> Vec<usize> {
        if self.primary_key.is_empty() { vec![self.row_id()] } else { self.primary_key.clone() }
    }

    pub fn primary_layout(&self) -> EntryLayout {
        let key_columns = self.key_columns();
        let row_columns = (0..self.columns.len()).filter(|column| !key_columns.contains(column)).collect();
        let key = key_columns.iter().map(|column| (*column, false)).collect::<Vec<_>>();
        self.layout(&key, row_columns)
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
            row: RowLayout::new(row_columns.iter().map(|column| {
                let (_, data_type, nullable) = self.column_type(*column);
                RowColumn { data_type, nullable }
            })),
            key_columns: key.iter().map(|(column, _)| *column).collect(),
            row_columns,
        }
    }

    /// The columns that segments have: all.
    pub fn column_types(&self) -> Vec<ColumnType> {
        let column =
            |c: &saki_base::Column| ColumnType { name: c.name.clone(), data_type: c.data_type, nullable: c.nullable };
        self.columns.iter().map(column).collect()
    }

    /// Names of columns, for messages.
    pub fn names(&self, columns: &[usize]) -> String {
        columns.iter().map(|column| self.column_type(*column).0).collect::<Vec<_>>().join(", ")
    }

    /// What a message calls the constraint that the primary key is.
    pub fn primary_key_name(&self) -> String {
        self.primary_key_constraint.clone().unwrap_or_else(|| format!("{}_pkey", self.bare_name()))
    }

    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

impl Index {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

/// What was asked for with `SET (tier = …)`, about copies on fast devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableTier {
    /// As the policy has it.
    #[default]
    Auto,
    /// All that there is room for is copied, before anything that the policy chooses.
    Fast,
    /// Nothing is copied.
    Slow,
}

impl SqlError {
    /// Says which constraint of a table is not kept.
    #[must_use]
    pub fn of_constraint(mut self, table: &Table, constraint: &str) -> Self {
        self.objects = Some(Box::new(Objects { constraint: Some(constraint.to_owned()), ..objects_of(table) }));
        self
    }

    /// Says which column of a table has a value that it must not have.
    #[must_use]
    pub fn of_column(mut self, table: &Table, column: &str) -> Self {
        self.objects = Some(Box::new(Objects { column: Some(column.to_owned()), ..objects_of(table) }));
        self
    }
}

fn objects_of(table: &Table) -> Objects {
    Objects { schema: table.schema.clone(), table: table.bare_name().to_owned(), column: None, constraint: None }
}
