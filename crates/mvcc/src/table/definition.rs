//! What tables and indexes are made of.

use saki_base::Column;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What a table is made of.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct TableDefinition {
    pub name: String,
    pub columns: Vec<Column>,
    /// Columns of the primary key, in key order; none may be nullable. Of a table over a base it may be empty: then
    /// rows have a hidden number of type `Int8` as their key.
    pub primary_key: Vec<usize>,
    pub indexes: Vec<IndexDefinition>,
    /// The table is the newer part of another one, its base. That a key is not here says nothing, and a delete is
    /// information: it stays until it is released ([`Database::release`](crate::Database::release)).
    #[serde(default)]
    pub over_base: bool,
    /// Bytes of the longest key and entry of an index that may be written, for a base that takes no longer ones; at
    /// most [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), which it is if nothing is said here.
    #[serde(default)]
    pub key_bytes_max: Option<usize>,
}

/// A secondary index.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct IndexDefinition {
    pub name: String,
    pub columns: Vec<usize>,
    /// Which of the columns are in descending order; empty: none.
    #[serde(default)]
    pub descending: Vec<bool>,
    /// No two rows may have the same values, unless one of them is NULL.
    pub unique: bool,
}

impl TableDefinition {
    /// Refuses a definition that contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let definition = self;
        let fault = |message: String| Err(Error::Name { message: format!("table \"{}\": {message}", definition.name) });
        let count = definition.columns.len();
        let indexes = definition.indexes.iter().map(|index| &index.columns);
        if let Some(column) = indexes.chain([&definition.primary_key]).flatten().find(|column| **column >= count) {
            return fault(format!("a key names column {column}, but there are {count} columns"));
        }
        if definition.primary_key.is_empty() && !definition.over_base {
            return fault("it needs a primary key".into());
        }
        let is_odd = |index: &&IndexDefinition| ![0, index.columns.len()].contains(&index.descending.len());
        if let Some(index) = definition.indexes.iter().find(is_odd) {
            return fault(format!(
                "index \"{}\" says of other columns than it has whether they are descending",
                index.name
            ));
        }
        if let Some(column) = definition.primary_key.iter().find(|column| definition.columns[**column].nullable) {
            return fault(format!("column \"{}\" of the primary key is nullable", definition.columns[*column].name));
        }
        let mut keys = definition.primary_key.clone();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return fault("a column occurs twice in the primary key".into());
        }
        let mut names: Vec<_> = definition.indexes.iter().map(|index| &index.name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => fault(format!("two indexes are named \"{}\"", pair[0])),
            None => Ok(()),
        }
    }
}
