//! What the system relations read from the catalog: the one place to change when tables learn to have more.

use saki_base::DataType;

use crate::catalog::{Catalog, Index, Table};

/// A column besides its name and type.
#[derive(Clone, Debug, Default)]
pub struct ColumnExtras {
    /// SQL text of its DEFAULT.
    pub default: Option<String>,
    /// `a` for GENERATED ALWAYS AS IDENTITY, `d` for BY DEFAULT.
    pub identity: Option<char>,
    pub comment: Option<String>,
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct CheckSource {
    pub name: String,
    pub expression: String,
}

/// A FOREIGN KEY constraint; columns are positions.
#[derive(Clone, Debug)]
pub struct ForeignKeySource {
    pub name: String,
    pub columns: Vec<usize>,
    /// Id of the table referred to.
    pub table: u32,
    pub referenced: Vec<usize>,
    /// `a` no action, `r` restrict, `c` cascade, `n` set null, `d` set default.
    pub on_delete: char,
    pub on_update: char,
}

/// A view.
#[derive(Clone, Debug)]
pub struct ViewSource {
    pub id: u32,
    pub schema: String,
    pub name: String,
    pub sql: String,
    /// `None`: a type that tables do not have.
    pub columns: Vec<(String, Option<DataType>)>,
    pub comment: Option<String>,
}

/// A sequence.
#[derive(Clone, Debug)]
pub struct SequenceSource {
    pub id: u32,
    pub schema: String,
    pub name: String,
    pub data_type: DataType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
    pub cache: i64,
    /// `None`: no value was taken yet.
    pub last_value: Option<i64>,
    /// Id of a table and position of its column that the sequence belongs to.
    pub owner: Option<(u32, usize)>,
}

/// Schemas besides `public`, each with its id.
pub fn schemas(_: &Catalog) -> Vec<(u32, String)> {
    Vec::new()
}

/// Schema and name of a table.
pub fn table_name(table: &Table) -> (String, String) {
    ("public".to_owned(), table.name.clone())
}

pub fn index_name(index: &Index) -> String {
    index.name.clone()
}

/// Whether an index is a UNIQUE constraint.
pub fn is_constraint(_: &Index) -> bool {
    false
}

pub fn column_extras(_: &Table, _: usize) -> ColumnExtras {
    ColumnExtras::default()
}

pub fn checks(_: &Table) -> Vec<CheckSource> {
    Vec::new()
}

pub fn foreign_keys(_: &Catalog, _: &Table) -> Vec<ForeignKeySource> {
    Vec::new()
}

pub fn comment(_: &Table) -> Option<String> {
    None
}

pub fn views(_: &Catalog) -> Vec<ViewSource> {
    Vec::new()
}

pub fn sequences(_: &Catalog) -> Vec<SequenceSource> {
    Vec::new()
}

/// Rows of a table, and bytes of its primary tree.
pub fn size(table: &Table, page_bytes: usize) -> (u64, u64) {
    (table.root.entries, bytes(&table.root, page_bytes))
}

/// Bytes of the pages of a tree.
pub fn bytes(root: &saki_tree::TreeRoot, page_bytes: usize) -> u64 {
    (root.leaf_pages + root.inner_pages + root.overflow_pages) * page_bytes as u64
}
