//! What belongs to a table, found without a look at what belongs to all others: places among relations and constraints,
//! by oids.

use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub struct Parts {
    /// By their table.
    pub indexes: HashMap<i64, Vec<usize>>,
    pub constraints: HashMap<i64, Vec<usize>>,
    /// By the table that they belong to, and the column's position from 0.
    pub sequences: HashMap<(i64, usize), usize>,
    /// By itself.
    pub constraint: HashMap<i64, usize>,
    /// Tables at either end of a foreign key.
    pub with_triggers: HashSet<i64>,
}

/// The places of what belongs to a table.
pub fn of(parts: &HashMap<i64, Vec<usize>>, table: i64) -> impl Iterator<Item = usize> {
    parts.get(&table).into_iter().flatten().copied()
}
