//! Locks that mean what their users say they mean: `pg_advisory_lock` and its like.
//!
//! They stand in the same queues as locks of tables, under numbers that no table has. A key has a number for as long
//! as somebody holds it or waits for it; both happen under the manager's one mutex, so that a key never has two.

use std::collections::HashMap;

use saki_base::TableId;

/// Numbers from here on, below those of names, are advisory keys'.
const FIRST: u32 = 1 << 30;

/// What is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AdvisoryKey {
    /// One number of 64 bits.
    One(i64),
    /// Two of 32: other keys than those of one number.
    Two(i32, i32),
}

/// The numbers of keys in use.
#[derive(Default)]
pub(super) struct Keys {
    numbers: HashMap<AdvisoryKey, TableId>,
    keys: HashMap<TableId, AdvisoryKey>,
    next: u32,
}

impl Keys {
    /// A key's number; it gets one if it has none.
    pub fn number(&mut self, key: AdvisoryKey) -> TableId {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = loop {
            let number = TableId(FIRST + self.next);
            self.next = (self.next + 1) % FIRST;
            if !self.keys.contains_key(&number) {
                break number;
            }
        };
        self.numbers.insert(key, number);
        self.keys.insert(number, key);
        number
    }

    /// A key's number, if it has one.
    pub fn find(&self, key: AdvisoryKey) -> Option<TableId> {
        self.numbers.get(&key).copied()
    }

    /// The key that has a number.
    pub fn key(&self, number: TableId) -> Option<AdvisoryKey> {
        self.keys.get(&number).copied()
    }

    /// Nobody uses the number any more.
    pub fn forget(&mut self, number: TableId) {
        if let Some(key) = self.keys.remove(&number) {
            self.numbers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_number_while_it_is_used() {
        let mut keys = Keys::default();
        let (one, two) = (AdvisoryKey::One(1 << 32 | 2), AdvisoryKey::Two(1, 2));
        let number = keys.number(one);
        assert_eq!(keys.number(one), number);
        assert_ne!(keys.number(two), number, "two halves are another key than the whole");
        keys.forget(number);
        assert_eq!((keys.find(one), keys.key(number)), (None, None));
        keys.next = FIRST - 1;
        let last = keys.number(one);
        assert!(last.0 < super::super::NAMES);
        assert_eq!(keys.number(AdvisoryKey::One(9)).0, FIRST, "numbers begin anew");
    }
}
