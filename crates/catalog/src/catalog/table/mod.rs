//! A table and everything that is stored for it.

mod hidden;
mod layout;

use saki_base::{Column, DataType, TableId};
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;
use serde::{Deserialize, Serialize};

pub use self::layout::EntryLayout;
use super::constraint::{Check, ColumnDetail, ForeignKey};
use super::objects::bare;
use super::statistics::TableStatistics;
use crate::PUBLIC;
use crate::error::{Objects, SqlError};
use crate::stored::StoredColumns;

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
    /// What of the columns rows have that were stored before.
    #[serde(default, skip_serializing_if = "StoredColumns::is_plain")]
    pub stored: StoredColumns,
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
