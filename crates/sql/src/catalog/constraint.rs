//! What a table's rows must satisfy beyond their types: checks and foreign keys.

use saki_base::TableId;
use serde::{Deserialize, Serialize};

use super::{Catalog, Table};
use crate::error::{Result, SqlError};

/// What a column is besides its name and type.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ColumnDetail {
    /// Stays the column's for ever: no other column of the table gets it, whatever is added, dropped or renamed.
    pub id: u32,
    /// SQL text of the DEFAULT expression.
    #[serde(default)]
    pub default: Option<String>,
    #[serde(default)]
    pub identity: Option<Identity>,
    #[serde(default)]
    pub comment: Option<String>,
}

/// Where values of an identity column come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Identity {
    /// From its sequence only.
    Always,
    /// From its sequence unless a statement gives one.
    ByDefault,
}

/// A CHECK constraint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// SQL text of the condition.
    pub expression: String,
}

/// A FOREIGN KEY of the table that has it; MATCH SIMPLE: a NULL among the columns satisfies it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignKey {
    pub name: String,
    /// Positions of columns of the table that has the constraint.
    pub columns: Vec<usize>,
    /// The table referred to.
    pub table: TableId,
    /// Ids of its columns ([`ColumnDetail::id`]), in the order of `columns`.
    pub referenced: Vec<u32>,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
}

/// What becomes of referencing rows when the row they refer to goes or changes its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ReferentialAction {
    /// Refused, unless the statement itself has mended it by its end.
    #[default]
    NoAction,
    /// Refused.
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

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

    /// Whether a constraint of the table has the name.
    pub fn has_constraint(&self, name: &str) -> bool {
        (!self.primary_key.is_empty() && self.primary_key_name() == name)
            || self.checks.iter().any(|check| check.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
            || self.indexes.iter().any(|index| index.constraint && index.bare_name() == name)
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

    /// The foreign keys that refer to a table, its own among them, each with the table that has it.
    pub fn referencing(&self, table: TableId) -> impl Iterator<Item = (&std::sync::Arc<Table>, &ForeignKey)> {
        self.tables()
            .flat_map(|other| other.foreign_keys.iter().map(move |key| (other, key)))
            .filter(move |(_, key)| key.table == table)
    }
}
