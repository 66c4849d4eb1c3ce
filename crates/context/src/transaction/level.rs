//! Isolation levels.

use datafusion::sql::sqlparser::ast::TransactionIsolationLevel;
use saki_mvcc::Isolation;

/// An isolation level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    pub fn isolation(self) -> Isolation {
        match self {
            Self::ReadCommitted | Self::RepeatableRead => Isolation::Snapshot,
            Self::Serializable => Isolation::Serializable,
        }
    }

    /// Its SQL name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// The level that SQL names so; the weakest for any other name.
    pub fn named(name: &str) -> Self {
        let levels = [Self::Serializable, Self::RepeatableRead];
        levels.into_iter().find(|level| level.name() == name).unwrap_or_default()
    }

    pub fn of(level: TransactionIsolationLevel) -> Self {
        match level {
            // Weaker than is asked for there is nothing.
            TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
                Self::ReadCommitted
            }
            TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => Self::RepeatableRead,
            TransactionIsolationLevel::Serializable => Self::Serializable,
        }
    }
}
