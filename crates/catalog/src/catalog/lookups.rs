//! Ways to definitions other than by their names: by their ids, and by what they are made of or depend on.
//!
//! Each is an ordered set that the copies of a catalog share. Whoever puts or removes a definition keeps them: so they
//! are always what a walk over all definitions would find.
//!
//! # Invariants
//! - Every entry ends with the name of the definition that it leads to. While a catalog is being changed a table may be
//!   there under two names; taking one away leaves the ways to the other.

use saki_base::TableId;

use super::objects::{SchemaEntry, Sequence, View};
use super::table::Table;
use crate::map::SharedMap;

/// Names of definitions under a key that several may have.
pub type Names<K> = SharedMap<(K, String), ()>;

/// What every default that draws from a sequence and does nothing else begins with.
const DRAWS: &str = "nextval(";

#[derive(Clone, Debug, Default)]
pub struct Lookups {
    /// Tables by their ids, deltas and indexes, by what their foreign keys refer to, and by defaults that draw from
    /// sequences.
    pub tables: Names<TableId>,
    pub deltas: Names<TableId>,
    pub indexes: Names<String>,
    pub referring: Names<TableId>,
    pub drawing: Names<String>,
    /// Views by their ids, by the relations that they name, and by the tables whose columns they need.
    pub views: Names<TableId>,
    pub over: Names<String>,
    pub using: Names<TableId>,
    /// Sequences by their ids, and by the tables that they belong to.
    pub sequences: Names<TableId>,
    pub owned: Names<TableId>,
    pub schemas: Names<TableId>,
}

impl Lookups {
    /// A table comes, changes or goes.
    pub fn table(&mut self, before: Option<&Table>, after: Option<&Table>) {
        let (ends, name) = ([before, after], |table: &Table| table.name.clone());
        change(&mut self.tables, ends, name, |table| vec![table.id]);
        change(&mut self.deltas, ends, name, |table| vec![table.delta]);
        change(&mut self.indexes, ends, name, |table| table.indexes.iter().map(|index| index.name.clone()).collect());
        change(&mut self.referring, ends, name, |table| table.foreign_keys.iter().map(|key| key.table).collect());
        change(&mut self.drawing, ends, name, |table| {
            let defaults = table.details.iter().filter_map(|detail| detail.default.as_ref());
            defaults.filter(|text| text.starts_with(DRAWS)).cloned().collect()
        });
    }

    pub fn view(&mut self, before: Option<&View>, after: Option<&View>) {
        let (ends, name) = ([before, after], |view: &View| view.name.clone());
        change(&mut self.views, ends, name, |view| vec![view.id]);
        change(&mut self.over, ends, name, |view| view.relations.clone());
        change(&mut self.using, ends, name, |view| view.uses.keys().map(|table| TableId(*table)).collect());
    }

    pub fn sequence(&mut self, before: Option<&Sequence>, after: Option<&Sequence>) {
        let (ends, name) = ([before, after], |sequence: &Sequence| sequence.name.clone());
        change(&mut self.sequences, ends, name, |sequence| vec![sequence.id]);
        change(&mut self.owned, ends, name, |sequence| sequence.owner.map(|owner| owner.table).into_iter().collect());
    }

    pub fn schema(&mut self, before: Option<&SchemaEntry>, after: Option<&SchemaEntry>) {
        let name = |schema: &SchemaEntry| schema.name.clone();
        change(&mut self.schemas, [before, after], name, |schema| vec![schema.id]);
    }
}

/// Has the names of what comes in the places of those of what goes.
fn change<T, K: Ord + Clone>(
    names: &mut Names<K>,
    ends: [Option<&T>; 2],
    name: impl Fn(&T) -> String,
    keys: impl Fn(&T) -> Vec<K>,
) {
    let entries = |end: Option<&T>| -> Vec<(K, String)> {
        end.map_or_else(Vec::new, |end| keys(end).into_iter().map(|key| (key, name(end))).collect())
    };
    let [before, after] = ends.map(entries);
    for entry in before.iter().filter(|entry| !after.contains(entry)) {
        names.remove(entry);
    }
    for entry in after.into_iter().filter(|entry| !before.contains(entry)) {
        names.insert(entry, ());
    }
}

/// The names under a key, in their order.
pub fn under<K: Ord + Clone>(names: &Names<K>, key: K) -> impl Iterator<Item = &str> {
    let first = (key, String::new());
    let entries = names.starting_at(&first);
    entries.map(|(entry, ())| entry).take_while(move |(key, _)| *key == first.0).map(|(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use saki_base::DataType;

    use super::*;
    use crate::catalog::{Catalog, Deferral, ForeignKey, ObjectId, ReferentialAction, SequenceOwner, nextval};
    use crate::fixture::{column, index, sequence, table, view};

    fn names<'c, T: AsRef<str> + 'c>(found: impl Iterator<Item = T>) -> Vec<String> {
        found.map(|name| name.as_ref().to_owned()).collect()
    }

    fn tables<'c>(found: impl Iterator<Item = &'c Arc<Table>>) -> Vec<String> {
        names(found.map(|table| &table.name))
    }

    /// Table `name` that refers to another and draws from a sequence.
    fn put(catalog: &mut Catalog, name: &str, id: u32, parent: u32) {
        let mut table = table(name, vec![column("a", DataType::Int4, false)], vec![0]);
        (table.id, table.delta) = (TableId(id), TableId(id + 100));
        table.details[0].default = Some(nextval("s"));
        table.indexes.push(index(&format!("{name}_a"), &[(0, false)], false, &[]));
        table.foreign_keys.push(ForeignKey {
            name: format!("{name}_fkey"),
            columns: vec![0],
            table: TableId(parent),
            referenced: vec![0],
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
            deferral: Deferral::default(),
            comment: None,
        });
        catalog.put(table);
    }

    #[test]
    fn every_way_leads_to_what_is_there() {
        let mut catalog = Catalog::default();
        put(&mut catalog, "b", 2, 1);
        put(&mut catalog, "a", 1, 1);
        catalog.put_view(View { uses: [(1, vec![0])].into(), ..view(TableId(5), "v", &["a", "b"]) });
        let owner = Some(SequenceOwner { table: TableId(1), column: 0 });
        catalog.put_sequence(Sequence { owner, ..sequence(TableId(6), "s") });
        let before = catalog.clone();

        assert_eq!(catalog.table_of(TableId(2)).map(|table| &*table.name), Some("b"));
        assert_eq!(catalog.index("a_a").map(|(table, at)| (&*table.name, at)), Some(("a", 0)));
        assert_eq!(tables(catalog.referring(TableId(1))), ["a", "b"]);
        assert_eq!(tables(catalog.drawing(&nextval("s"))), ["a", "b"]);
        assert_eq!(tables(catalog.with_delta(TableId(101))), ["a"]);
        assert_eq!(names(catalog.views_naming("b").map(|view| &view.name)), ["v"]);
        assert_eq!(names(catalog.views_using(TableId(1)).map(|view| &view.name)), ["v"]);
        assert_eq!(names(catalog.owned_sequences(TableId(1)).map(|found| &found.name)), ["s"]);
        assert!(catalog.view_of(TableId(5)).is_some() && catalog.sequence_of(TableId(6)).is_some());
        assert!([1, 2, 5, 6].iter().all(|id| catalog.has_object(ObjectId(*id))) && !catalog.has_object(ObjectId(3)));

        // Renamed: there under two names for a while.
        let renamed = Table { name: "c".to_owned(), ..Table::clone(catalog.get("a").unwrap()) };
        catalog.put(renamed);
        catalog.remove("a");
        assert_eq!(catalog.table_of(TableId(1)).map(|table| &*table.name), Some("c"));
        assert_eq!(tables(catalog.referring(TableId(1))), ["b", "c"]);
        catalog.remove("c");
        catalog.remove_view("v");
        catalog.remove_sequence("s");
        assert!(catalog.table_of(TableId(1)).is_none() && catalog.index("a_a").is_none());
        assert_eq!(tables(catalog.referring(TableId(1))), ["b"]);
        assert!(catalog.views_naming("b").next().is_none() && catalog.views_using(TableId(1)).next().is_none());
        assert!(catalog.owned_sequences(TableId(1)).next().is_none() && catalog.sequence_of(TableId(6)).is_none());
        // A copy stays as it was.
        assert_eq!(before.table_of(TableId(1)).map(|table| &*table.name), Some("a"));
        assert_eq!(tables(before.drawing(&nextval("s"))), ["a", "b"]);
    }
}
