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
    /// `None`: statements see the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
}

/// What the values of a column are that no statement sees.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hidden {
    /// SQL text over the columns that statements see.
    pub key: String,
    /// SQL text, too: rows for which it is not true have NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
}

impl Hidden {
    /// The values as one expression.
    pub fn expression(&self) -> String {
        match &self.predicate {
            Some(predicate) => format!("CASE WHEN {predicate} THEN {} END", self.key),
            None => self.key.clone(),
        }
    }
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
    /// Databases from before it was kept have keys that each statement checks.
    #[serde(default)]
    pub deferral: Deferral,
    #[serde(default)]
    pub comment: Option<String>,
}

/// What makes a foreign key this one, whatever it is called: ids, which stay when tables, columns and constraints get
/// other names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyId {
    /// The table that has it.
    pub from: TableId,
    /// Ids of its columns there.
    pub columns: Vec<u32>,
    /// The table referred to.
    pub to: TableId,
    /// Ids of its columns.
    pub referenced: Vec<u32>,
}

/// When a foreign key is checked. Actions never wait, nor does RESTRICT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Deferral {
    /// By each statement: NOT DEFERRABLE.
    #[default]
    Never,
    /// By each statement, unless the transaction says otherwise: DEFERRABLE INITIALLY IMMEDIATE.
    InitiallyImmediate,
    /// At the end of the transaction, unless that says otherwise: DEFERRABLE INITIALLY DEFERRED.
    InitiallyDeferred,
}

impl Deferral {
    /// Whether a transaction may say when it is checked.
    pub fn is_deferrable(self) -> bool {
        self != Self::Never
    }

    /// Whether it is checked at the end of a transaction that says nothing.
    pub fn is_initially_deferred(self) -> bool {
        self == Self::InitiallyDeferred
    }

    /// As a constraint's definition says it, behind all else.
    pub fn words(self) -> &'static str {
        match self {
            Self::Never => "",
            Self::InitiallyImmediate => " DEFERRABLE",
            Self::InitiallyDeferred => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
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
