//! A tree of a table as pipelines read it: the executor's `TreeAccess`, and which table
//! column each of its columns is.

use std::sync::Arc;

use saki_exec::plan::{AccessColumn, Place, TreeAccess};
use saki_tree::TreeRoot;

use crate::catalog::{EntryLayout, Index, Table};
use crate::delta::ReadView;

/// One tree of a table.
#[derive(Clone, Debug)]
pub struct TableAccess {
    pub table: Arc<Table>,
    /// Position in `Table::indexes`; `None` for the primary tree.
    pub index: Option<usize>,
    pub tree: Arc<TreeAccess>,
    /// Table column of each access column: key columns first, then row columns.
    columns: Vec<usize>,
    key_width: usize,
}

impl TableAccess {
    pub fn primary(table: &Arc<Table>) -> Arc<Self> {
        Self::new(table, None, table.name.clone(), &table.root, table.primary_layout())
    }

    pub fn index(table: &Arc<Table>, position: usize) -> Arc<Self> {
        let index: &Index = &table.indexes[position];
        let name = format!("{}.{}", table.name, index.name);
        Self::new(table, Some(position), name, &index.root, table.index_layout(index))
    }

    /// The primary tree and every index.
    pub fn all(table: &Arc<Table>) -> impl Iterator<Item = Arc<Self>> {
        std::iter::once(Self::primary(table)).chain((0..table.indexes.len()).map(|i| Self::index(table, i)))
    }

    fn new(table: &Arc<Table>, index: Option<usize>, name: String, root: &TreeRoot, layout: EntryLayout) -> Arc<Self> {
        let column = |column: usize, place| {
            let (name, data_type, nullable) = table.column_type(column);
            AccessColumn { name: name.to_owned(), data_type, nullable, place }
        };
        let keys = layout.key_columns.iter().enumerate().map(|(i, c)| column(*c, Place::Key(i)));
        let rows = layout.row_columns.iter().enumerate().map(|(i, c)| column(*c, Place::Row(i)));
        let key_width = layout.key_columns.len();
        let access = TreeAccess {
            tree: root.id,
            name,
            root: root.root,
            height: root.height.into(),
            leaf_pages: root.leaf_pages,
            columns: keys.chain(rows).collect(),
            key: layout.key,
            row: layout.row,
            overlay: None,
        };
        Arc::new(Self {
            table: Arc::clone(table),
            index,
            tree: Arc::new(access),
            columns: layout.key_columns.into_iter().chain(layout.row_columns).collect(),
            key_width,
        })
    }

    /// The tree with what lies over it in a view.
    pub fn seen_by(&self, view: &ReadView) -> Arc<TreeAccess> {
        match view.tree_overlay(&self.table, self.index) {
            None => Arc::clone(&self.tree),
            overlay => Arc::new(TreeAccess { overlay, ..TreeAccess::clone(&self.tree) }),
        }
    }

    /// Its name, in words: `orders by primary key`.
    pub fn describe(&self) -> String {
        match self.index {
            None => format!("{} by primary key", self.table.name),
            Some(index) => format!("{} by index {}", self.table.name, self.table.indexes[index].name),
        }
    }

    /// Where a table column is in this tree.
    pub fn position(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|c| *c == column)
    }

    pub fn covers(&self, mut columns: impl Iterator<Item = usize>) -> bool {
        columns.all(|column| self.position(column).is_some())
    }

    /// Table column of an access column.
    pub fn table_column(&self, position: usize) -> usize {
        self.columns[position]
    }

    /// Table columns of the key, in order.
    pub fn key_columns(&self) -> &[usize] {
        &self.columns[..self.key_width]
    }

    /// Leading key columns that determine at most one entry: the primary key, or the columns of a unique index
    /// (whose entries carry the primary key too, but never twice with the same index columns).
    pub fn unique_width(&self) -> Option<usize> {
        match self.index {
            None => Some(self.key_width),
            Some(index) => self.table.indexes[index].unique.then(|| self.table.indexes[index].columns.len()),
        }
    }
}
