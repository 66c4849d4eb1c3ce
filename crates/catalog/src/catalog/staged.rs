//! What a transaction has written ahead of its commit: pages that nothing else in the catalog refers to yet.

use std::collections::HashSet;

use saki_base::PageRef;
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;

use super::{Catalog, Table};

impl Table {
    /// Gives the table new trees without entries; the old ones are to be given back by who has the table as it was.
    pub fn clear(&mut self, catalog: &Catalog) {
        self.root = TreeRoot::empty(catalog.new_tree_id());
        for index in &mut self.indexes {
            index.root = TreeRoot::empty(catalog.new_tree_id());
        }
        self.segments = self.segments.map(|_| SegmentsRoot::empty(catalog.new_tree_id()));
        self.statistics = None;
        self.layout_version += 1;
    }

    /// The first pages of its trees and segments.
    pub fn pages(&self) -> impl Iterator<Item = PageRef> {
        let trees = std::iter::once(&self.root).chain(self.indexes.iter().map(|index| &index.root));
        let directory = self.segments.as_ref().map(|segments| &segments.directory);
        trees.chain(directory).filter_map(|tree| tree.root)
    }

    /// The table with those of its trees and segments only that do not begin at one of these pages; `None` if that is
    /// none of them.
    pub fn without(&self, pages: &HashSet<PageRef>) -> Option<Self> {
        let mut table = self.clone();
        let is_other = |tree: &TreeRoot| tree.root.is_some_and(|page| pages.contains(&page));
        let empty = |tree: &mut TreeRoot| {
            if is_other(tree) {
                *tree = TreeRoot::empty(tree.id);
            }
        };
        empty(&mut table.root);
        table.indexes.iter_mut().for_each(|index| empty(&mut index.root));
        if let Some(segments) = &mut table.segments
            && is_other(&segments.directory)
        {
            *segments = SegmentsRoot::empty(segments.directory.id);
        }
        table.statistics = None;
        let has_any = table.pages().next().is_some();
        has_any.then_some(table)
    }
}
