//! What a table's constraints and defaults refer to, and views are over: columns, other tables, sequences; and what its
//! columns are of.

mod dangling;
mod types;
mod view_depth;

use saki_base::TableId;

pub use self::view_depth::VIEW_DEPTH_MAX;
use super::constraint::{ForeignKey, Identity, KeyId};
use super::{Catalog, Table};
use crate::error::{Result, SqlError};

impl Table {
    /// The position of the column with an id.
    pub fn position_of(&self, id: u32) -> Option<usize> {
        self.details.iter().position(|detail| detail.id == id)
    }

    /// Whether rows are unique by exactly these columns, in any order: by the primary key or a unique index.
    pub fn is_unique_by(&self, columns: &[usize]) -> bool {
        let same = |mut key: Vec<usize>| {
            let mut wanted = columns.to_vec();
            key.sort_unstable();
            wanted.sort_unstable();
            key == wanted
        };
        same(self.primary_key.clone())
            || self.indexes.iter().any(|i| i.unique && same(i.columns.iter().map(|c| c.column).collect()))
    }

    /// Whether a row may be changed without a look at rules or at other tables.
    pub fn is_free_of_rules(&self, catalog: &Catalog) -> bool {
        self.checks.is_empty()
            && self.foreign_keys.is_empty()
            && !self.has_filled()
            && catalog.referencing(self.id).next().is_none()
    }

    /// Whether a constraint of the table has the name.
    pub fn has_constraint(&self, name: &str) -> bool {
        (!self.primary_key.is_empty() && self.primary_key_name() == name)
            || self.checks.iter().any(|check| check.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
            || self.indexes.iter().any(|index| index.constraint && index.bare_name() == name)
    }
}

impl ForeignKey {
    /// What makes it this one; `table` has it.
    pub fn id(&self, table: &Table) -> KeyId {
        let columns = self.columns.iter().map(|position| table.details[*position].id).collect();
        KeyId { from: table.id, columns, to: self.table, referenced: self.referenced.clone() }
    }
}

impl Catalog {
    /// The table a foreign key refers to, and the positions of the columns there.
    pub fn referenced(&self, key: &ForeignKey) -> Result<(&std::sync::Arc<Table>, Vec<usize>)> {
        let lost = || SqlError::internal(format!("foreign key {:?} refers to nothing", key.name));
        let table = self.table_of(key.table).ok_or_else(lost)?;
        let columns = key.referenced.iter().map(|id| table.position_of(*id)).collect::<Option<Vec<_>>>();
        Ok((table, columns.ok_or_else(lost)?))
    }

    /// The foreign key of this identity, with the table that has it; of several, the first. `None`: it has gone.
    pub fn foreign_key(&self, id: &KeyId) -> Option<(&std::sync::Arc<Table>, &ForeignKey)> {
        let table = self.table_of(id.from)?;
        Some((table, table.foreign_keys.iter().find(|key| key.id(table) == *id)?))
    }

    /// The foreign keys that refer to a table, its own among them, each with the table that has it.
    pub fn referencing(&self, table: TableId) -> impl Iterator<Item = (&std::sync::Arc<Table>, &ForeignKey)> {
        self.referring(table)
            .flat_map(|other| other.foreign_keys.iter().map(move |key| (other, key)))
            .filter(move |(_, key)| key.table == table)
    }
}

/// The expression that draws from a sequence.
pub fn nextval(sequence: &str) -> String {
    format!("nextval('{}')", quoted_path(sequence).replace('\'', "''"))
}

/// A catalog name as text that is read back as that name.
fn quoted_path(name: &str) -> String {
    let plain = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    if name.split('.').all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl Table {
    /// What fills a column that a statement gives no value for: SQL text. `None`: NULL.
    pub fn default_of(&self, catalog: &Catalog, position: usize) -> Option<String> {
        let detail = &self.details[position];
        match detail.identity {
            Some(Identity::Always | Identity::ByDefault) => {
                catalog.owned_sequence(self.id, detail.id).map(|sequence| nextval(&sequence.name))
            }
            None => detail.default.clone(),
        }
    }

    /// Whether a column takes no value that a statement gives: GENERATED ALWAYS.
    pub fn refuses_values(&self, position: usize) -> bool {
        self.details.get(position).is_some_and(|detail| detail.identity == Some(Identity::Always))
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;

    use super::*;
    use crate::catalog::{Deferral, ReferentialAction, nextval};
    use crate::error::ErrorKind;
    use crate::fixture::{column, index, table};

    fn key(name: &str, table: TableId, columns: &[usize], referenced: &[u32]) -> ForeignKey {
        ForeignKey {
            name: name.to_owned(),
            columns: columns.to_vec(),
            table,
            referenced: referenced.to_vec(),
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
            deferral: Deferral::default(),
            comment: None,
        }
    }

    fn three() -> Table {
        let columns = ["a", "b", "c"].map(|name| column(name, DataType::Int4, false)).to_vec();
        table("t", columns, vec![1, 0])
    }

    #[test]
    fn uniqueness_asks_for_exactly_the_columns_in_any_order() {
        let mut table = three();
        table.indexes.push(index("t_c", &[(2, true)], true, &[]));
        table.indexes.push(index("t_a", &[(0, false)], false, &[]));
        for (columns, expected) in [
            (&[0, 1][..], true),
            (&[1, 0], true),
            (&[2], true),
            (&[0], false),
            (&[1], false),
            (&[0, 1, 2], false),
            (&[], false),
            (&[2, 2], false),
        ] {
            assert_eq!(table.is_unique_by(columns), expected, "{columns:?}");
        }
    }

    #[test]
    fn a_table_without_a_key_is_unique_by_nothing() {
        let mut table = three();
        table.primary_key.clear();
        assert!(!table.has_constraint("t_pkey"));
        assert!(!table.is_unique_by(&[0, 1]));
    }

    #[test]
    fn a_key_keeps_the_name_it_was_given() {
        let mut table = three();
        assert!(table.has_constraint("t_pkey"));
        table.primary_key_constraint = Some("k".to_owned());
        assert!(table.has_constraint("k") && !table.has_constraint("t_pkey"));
    }

    #[test]
    fn columns_are_referred_to_by_ids_that_outlive_their_places() {
        let mut catalog = Catalog::default();
        let mut parent = three();
        parent.id = TableId(7);
        // A column before them was dropped, and the two changed places.
        parent.columns.remove(0);
        parent.details.remove(0);
        parent.details.reverse();
        assert_eq!((parent.position_of(1), parent.position_of(2), parent.position_of(0)), (Some(1), Some(0), None));
        catalog.put(parent);
        let (_, columns) = catalog.referenced(&key("k", TableId(7), &[0, 1], &[1, 2])).unwrap();
        assert_eq!(columns, [1, 0]);
        for lost in [key("k", TableId(7), &[0], &[0]), key("k", TableId(8), &[0], &[1])] {
            let error = catalog.referenced(&lost).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Internal);
            assert!(error.message.contains("foreign key \"k\" refers to nothing"), "{error}");
        }
    }

    #[test]
    fn a_table_that_refers_to_itself_is_among_those_that_do() {
        let mut catalog = Catalog::default();
        let mut own = three();
        own.id = TableId(7);
        own.foreign_keys.push(key("own", TableId(7), &[0], &[1]));
        own.foreign_keys.push(key("other", TableId(9), &[0], &[1]));
        catalog.put(own);
        let names: Vec<&str> = catalog.referencing(TableId(7)).map(|(_, key)| key.name.as_str()).collect();
        assert_eq!(names, ["own"]);
        assert_eq!(catalog.referencing(TableId(8)).count(), 0);
    }

    #[test]
    fn a_sequence_is_drawn_from_by_a_text_that_is_read_back_as_its_name() {
        for (name, text) in [
            ("s", "nextval('s')"),
            ("a_1", "nextval('a_1')"),
            ("x.s", "nextval('x.s')"),
            ("1a", "nextval('\"1a\"')"),
            ("S", "nextval('\"S\"')"),
            ("it's", "nextval('\"it''s\"')"),
            ("a\"b", "nextval('\"a\"\"b\"')"),
            ("", "nextval('\"\"')"),
        ] {
            assert_eq!(nextval(name), text);
        }
    }

    #[test]
    fn an_identity_draws_from_its_sequence_alone() {
        let mut catalog = Catalog::default();
        let mut table = three();
        table.details[0].identity = Some(Identity::ByDefault);
        table.details[0].default = Some("5".to_owned());
        table.details[1].default = Some("6".to_owned());
        catalog.put(table.clone());
        let defaults = [0, 1, 2].map(|column| table.default_of(&catalog, column));
        assert_eq!(defaults, [None, Some("6".to_owned()), None], "its sequence is not there");
    }
}
