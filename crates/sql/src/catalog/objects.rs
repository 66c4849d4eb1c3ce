//! Relations that are not tables: views and sequences; and the schemas that all of them are in.

use std::collections::BTreeMap;

use saki_base::{DataType, TableId};
use serde::{Deserialize, Serialize};

/// The schema of names that state none.
pub const PUBLIC: &str = "public";

/// A query under a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct View {
    pub id: TableId,
    /// As [`super::Table::name`].
    pub name: String,
    pub schema: String,
    /// The query.
    pub sql: String,
    pub columns: Vec<ViewColumn>,
    /// Tables and views that the query names.
    pub relations: Vec<String>,
    /// Ids of the columns that the query needs, by table; tables under other views included.
    pub uses: BTreeMap<u32, Vec<u32>>,
    #[serde(default)]
    pub comment: Option<String>,
}

/// A column of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewColumn {
    pub name: String,
    /// What the query calls it: columns that a table gets later do not become the view's.
    pub source: String,
    /// `None`: a type that tables do not have.
    pub data_type: Option<DataType>,
}

/// A generator of numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sequence {
    pub id: TableId,
    /// As [`super::Table::name`].
    pub name: String,
    pub schema: String,
    pub data_type: DataType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
    pub cache: i64,
    /// The column it belongs to: it is dropped with it.
    pub owner: Option<SequenceOwner>,
    /// Up to where values may have been given out.
    pub position: SequencePosition,
    /// Grows with every change that is not the giving out of values; what was reserved before counts no more.
    pub version: u32,
    #[serde(default)]
    pub comment: Option<String>,
}

/// A column, by what stays the same when it is renamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequenceOwner {
    pub table: TableId,
    pub column: u32,
}

/// How far a sequence has come: PostgreSQL's `last_value` and `is_called`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequencePosition {
    pub last_value: i64,
    /// `false`: `last_value` itself is the next.
    pub is_called: bool,
}

/// A name space of relations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SchemaEntry {
    pub id: TableId,
    pub name: String,
    #[serde(default)]
    pub comment: Option<String>,
}

/// The catalog's name of a relation: alone in `public`, else behind its schema's.
pub fn qualified(schema: &str, name: &str) -> String {
    if schema == PUBLIC { name.to_owned() } else { format!("{schema}.{name}") }
}

/// A catalog name without its schema.
pub fn bare<'n>(schema: &str, name: &'n str) -> &'n str {
    if schema == PUBLIC {
        return name;
    }
    name.strip_prefix(schema).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

impl View {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

impl Sequence {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}
