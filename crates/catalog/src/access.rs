//! A tree of a table as pipelines read it: the executor's `TreeAccess`, and which table
//! column each of its columns is.

use std::sync::Arc;

use saki_exec::plan::{AccessColumn, Place, TreeAccess};
use saki_tree::TreeRoot;

use crate::catalog::{EntryLayout, Index, Table};

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

#[cfg(test)]
mod tests {
    use saki_base::DataType;

    use super::*;
    use crate::fixture::{column, index, table};

    /// `(a, b, c)`, keyed by `c, a`, with an index on `b` that carries `a` along, and a unique one on `b, a`.
    fn accesses() -> Vec<Arc<TableAccess>> {
        let columns = ["a", "b", "c"].map(|name| column(name, DataType::Int4, name == "b")).to_vec();
        let mut table = table("t", columns, vec![2, 0]);
        table.indexes.push(index("t_b", &[(1, true)], false, &[0]));
        table.indexes.push(index("t_b_a", &[(1, false), (0, false)], true, &[]));
        TableAccess::all(&Arc::new(table)).collect()
    }

    #[test]
    fn every_tree_of_a_table_is_an_access() {
        let names: Vec<String> = accesses().iter().map(|access| access.describe()).collect();
        assert_eq!(names, ["t by primary key", "t by index t_b", "t by index t_b_a"]);
        let trees: Vec<String> = accesses().iter().map(|access| access.tree.name.clone()).collect();
        assert_eq!(trees, ["t", "t.t_b", "t.t_b_a"]);
    }

    #[test]
    fn columns_are_found_where_the_tree_has_them() {
        let accesses = accesses();
        let placed = |access: &TableAccess| [0, 1, 2].map(|column| access.position(column));
        assert_eq!(placed(&accesses[0]), [Some(1), Some(2), Some(0)]);
        assert_eq!(placed(&accesses[1]), [Some(2), Some(0), Some(1)], "the primary key is in every index");
        for access in &accesses {
            for column in 0..3 {
                let position = access.position(column).unwrap();
                assert_eq!(access.table_column(position), column);
                assert_eq!(access.tree.columns[position].name, ["a", "b", "c"][column]);
            }
            assert_eq!(access.position(3), None);
            assert!(access.covers(0..3) && !access.covers(0..4));
        }
    }

    #[test]
    fn a_unique_tree_says_how_many_columns_determine_an_entry() {
        let widths: Vec<_> = accesses().iter().map(|access| access.unique_width()).collect();
        assert_eq!(widths, [Some(2), None, Some(2)]);
        let keys: Vec<Vec<usize>> = accesses().iter().map(|access| access.key_columns().to_vec()).collect();
        assert_eq!(keys, [vec![2, 0], vec![1, 2, 0], vec![1, 0, 2]]);
    }

    #[test]
    fn an_index_that_does_not_carry_a_column_does_not_cover_it() {
        let columns = ["a", "b", "c"].map(|name| column(name, DataType::Int4, false)).to_vec();
        let mut table = table("t", columns, vec![0]);
        table.indexes.push(index("t_b", &[(1, false)], false, &[]));
        let access = TableAccess::index(&Arc::new(table), 0);
        assert!(access.covers([0, 1].into_iter()) && !access.covers([1, 2].into_iter()));
    }
}
