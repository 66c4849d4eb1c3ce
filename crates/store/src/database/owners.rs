//! Whose the pages of a chunk are.
//!
//! Writers say of each page what it is part of, and the volume's journal keeps the parts of each chunk: it owns that
//! fact. Parts are of trees; which tables and indexes these are, the catalog says.

use hashbrown::HashMap;
use saki_base::{Part, PartKind, TreeId};
use saki_catalog::{CATALOG_TREE, Catalog, Table};

/// Who the trees of a catalog belong to.
pub struct ChunkOwners {
    trees: HashMap<TreeId, Tree>,
}

/// Whose a part is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    /// The table's name, or `catalog`.
    pub table: String,
    /// Of the table: `leaves`, `index i, inner pages`, `column c`, …
    pub part: String,
}

struct Tree {
    table: String,
    role: Role,
}

enum Role {
    Rows,
    Index(String),
    /// Of column segments; with the names of the columns by their places.
    Directory(HashMap<usize, String>),
}

impl ChunkOwners {
    /// Trees that transactions have built and not committed belong to their tables as well.
    pub fn new(catalog: &Catalog) -> Self {
        let mut owners = Self { trees: HashMap::new() };
        owners.put(CATALOG_TREE, "catalog", Role::Rows);
        let staged = catalog.staged().flat_map(|staged| &staged.tables);
        staged.chain(catalog.tables().map(AsRef::as_ref)).for_each(|table| owners.add(table));
        owners
    }

    fn add(&mut self, table: &Table) {
        self.put(table.root.id, &table.name, Role::Rows);
        for index in &table.indexes {
            self.put(index.root.id, &table.name, Role::Index(index.name.clone()));
        }
        if let Some(segments) = &table.segments {
            let columns = table.places().map(|(place, name)| (place, name.to_owned())).collect();
            self.put(segments.directory.id, &table.name, Role::Directory(columns));
        }
    }

    fn put(&mut self, tree: TreeId, table: &str, role: Role) {
        self.trees.insert(tree, Tree { table: table.to_owned(), role });
    }

    /// `None`: nobody's any more. Its pages are freed, in the newest generation or as soon as nobody reads them.
    pub fn owner(&self, part: Part) -> Option<Owner> {
        let Tree { table, role } = self.trees.get(&part.tree)?;
        let kind = part.kind;
        let part = match (role, kind) {
            (Role::Rows, _) => kind.to_string(),
            (Role::Index(name), _) => format!("index {name}, {kind}"),
            (Role::Directory(columns), PartKind::Column(position)) => {
                format!("column {}", columns.get(&usize::from(position)).map_or("that is gone", String::as_str))
            }
            (Role::Directory(_), _) => format!("directory, {kind}"),
        };
        Some(Owner { table: table.clone(), part })
    }

    /// The tables and the parts of them that share a chunk, each list by its names; empty if none is anybody's.
    pub fn describe(&self, parts: &[Part]) -> (String, String) {
        let mut owners: Vec<Owner> = parts.iter().filter_map(|part| self.owner(*part)).collect();
        owners.sort_unstable();
        let parts: Vec<_> = owners.iter().map(|owner| owner.part.as_str()).collect();
        let mut tables: Vec<_> = owners.iter().map(|owner| owner.table.as_str()).collect();
        tables.dedup();
        (tables.join("; "), parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use saki_base::{ChunkId, PageSize};

    use super::*;
    use crate::fixture::{Bench, Shape};

    /// Whose the pages of each chunk are, of the chunks of a database.
    fn chunks(bench: &Bench) -> Vec<(ChunkId, Vec<Owner>)> {
        let owners = ChunkOwners::new(&bench.db().generation().catalog);
        let of_chunk = |chunk: saki_volume::PublishedChunk| {
            let mut of_chunk: Vec<_> = chunk.parts.iter().filter_map(|part| owners.owner(*part)).collect();
            of_chunk.sort_unstable();
            (chunk.chunk, of_chunk)
        };
        bench.db().volume().published_chunks().into_iter().map(of_chunk).collect()
    }

    /// Chunks that have pages of a part of the table, and how many of these have nothing else.
    fn chunks_of(bench: &Bench, part: &str) -> (usize, usize) {
        let of_part = |owner: &Owner| owner.table == "t" && owner.part == part;
        let having: Vec<_> = chunks(bench).into_iter().filter(|(_, owners)| owners.iter().any(of_part)).collect();
        (having.len(), having.iter().filter(|(_, owners)| owners.len() == 1).count())
    }

    /// `check` finds the owner of each page that is referred to, and compares it with what its chunk is said to have.
    fn check(bench: &Bench) {
        bench.check();
        for (chunk, owners) in chunks(bench) {
            let inner = owners.iter().filter(|owner| owner.part.ends_with("inner pages")).count();
            assert!(!owners.is_empty(), "{chunk} is nobody's");
            assert!(inner == 0 || inner == owners.len(), "{chunk}: {owners:?}");
        }
    }

    #[test]
    fn every_page_has_an_owner_after_loads_and_merges_and_reopening() {
        let mut bench = Bench::make(None, Shape::default(), PageSize::new(4096).expect("valid"));
        bench.load((0..200_000).map(|id| (id, id * 7919 % 1_000_003))).expect("loaded");
        check(&bench);
        for part in ["leaves", "index t_v, leaves", "column id", "column v"] {
            let (all, alone) = chunks_of(&bench, part);
            // What comes before the part is large, and what follows in the last chunk, lies with others.
            assert!(alone > 0 && alone + 3 >= all, "{alone} of {all} chunks are of {part} alone");
        }
        // A document that a leaf of the catalog has no room for.
        let commented = bench.db().write(|writer| {
            let mut table = Table::clone(writer.catalog.table("t")?);
            table.comment = Some("long ".repeat(20_000));
            writer.catalog.put(table);
            Ok(())
        });
        commented.expect("published");
        let large = Owner { table: "catalog".to_owned(), part: "large values".to_owned() };
        assert!(chunks(&bench).iter().any(|(_, owners)| owners.contains(&large)));
        for round in 0..3_i64 {
            let changes: Vec<_> = (0..5_000).map(|row| (row * 39 + round, Some(row))).collect();
            bench.commit(&changes);
            bench.merge();
            check(&bench);
        }
        bench.db().close().expect("closed");
        let before = chunks(&bench);
        bench.reopen();
        assert_eq!(chunks(&bench), before, "the journal knows");
        check(&bench);
    }
}
