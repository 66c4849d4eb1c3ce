//! What a table's rows must satisfy beyond their types: checks and foreign keys.

use saki_base::TableId;
use serde::{Deserialize, Serialize};

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
    #[serde(default)]
    pub comment: Option<String>,
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
    #[serde(default)]
    pub comment: Option<String>,
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
