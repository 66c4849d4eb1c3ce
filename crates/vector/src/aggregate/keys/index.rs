//! Finding the group of a packed key.

use super::key_table::{KeyTable, TOUCH_ROWS};

/// An array over all possible keys may have this many entries whatever the number of groups.
const DIRECT_ENTRIES: u64 = 1 << 16;

/// A larger array is worth its first touch from so many groups on: one for each half kilobyte.
const DIRECT_ENTRIES_PER_GROUP: u64 = 128;

/// Beyond so many entries an array must be no larger than a key table, which has 32 bytes or more for a group.
const DIRECT_ENTRIES_SPARSE: u64 = 1 << 24;
const DIRECT_ENTRIES_PER_GROUP_DENSE: u64 = 8;

/// How groups are found by key; the keys themselves are listed by group beside it.
pub(crate) enum Index {
    /// Every key so far was at least as great as the one before: the last group is all that needs to be known.
    Ascending,
    /// At the place of each possible key: its group + 1, or 0. A power of two of places.
    Direct(Vec<u32>),
    Table(KeyTable),
}

impl Index {
    /// An index of `keys`, which are shorter than `bits`.
    pub(crate) fn build(keys: &[u64], bits: u32) -> Self {
        let groups = keys.len() as u64;
        let sparse = (groups * DIRECT_ENTRIES_PER_GROUP).clamp(DIRECT_ENTRIES, DIRECT_ENTRIES_SPARSE);
        if bits < 40 && 1 << bits <= sparse.max(groups * DIRECT_ENTRIES_PER_GROUP_DENSE) {
            let mut places = vec![0; 1 << bits];
            for (group, key) in (1..).zip(keys) {
                places[*key as usize] = group;
            }
            return Self::Direct(places);
        }
        let mut table = KeyTable::with_capacity(keys.len() * 2);
        for (group, key) in (0..).zip(keys) {
            table.find_or_insert(*key, group);
        }
        Self::Table(table)
    }

    /// The group of each key of `rows`, into `groups`; new ones are added to `keys`, the keys by group.
    pub(crate) fn assign(&mut self, rows: &[u64], bits: u32, keys: &mut Vec<u64>, groups: &mut Vec<u32>) {
        groups.clear();
        if matches!(self, Self::Ascending) {
            let first = rows.first().copied().unwrap_or(u64::MAX);
            if keys.last().is_none_or(|last| *last <= first) && rows.is_sorted() {
                return follow(rows, keys, groups);
            }
            *self = Self::build(keys, bits);
        }
        // A table about to grow may have become dense enough for an array.
        if let Self::Table(table) = self
            && !table.has_room(rows.len())
        {
            *self = Self::build(keys, bits);
        }
        match self {
            Self::Ascending => {}
            Self::Direct(places) => {
                let mask = places.len() - 1;
                groups.extend(rows.iter().map(|key| {
                    let place = &mut places[*key as usize & mask];
                    if *place == 0 {
                        keys.push(*key);
                        *place = keys.len() as u32;
                    }
                    *place - 1
                }));
            }
            Self::Table(table) => {
                table.reserve(rows.len());
                for rows in rows.chunks(TOUCH_ROWS) {
                    table.touch(rows);
                    groups.extend(rows.iter().map(|key| {
                        let next = keys.len() as u32;
                        let group = table.find_or_insert(*key, next);
                        if group == next {
                            keys.push(*key);
                        }
                        group
                    }));
                }
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Ascending => 0,
            Self::Direct(places) => size_of_val(places.as_slice()),
            Self::Table(table) => table.memory_bytes(),
        }
    }
}

/// Groups of ascending keys that are all at least as great as the last of `keys`.
fn follow(rows: &[u64], keys: &mut Vec<u64>, groups: &mut Vec<u32>) {
    let Some(first) = rows.first() else { return };
    let mut last = *first;
    if keys.last() != Some(first) {
        keys.push(*first);
    }
    groups.extend(rows.iter().map(|key| {
        if *key != last {
            last = *key;
            keys.push(*key);
        }
        keys.len() as u32 - 1
    }));
}
