//! Who waits for what: one graph of tables and rows.

use std::collections::{HashMap, HashSet};

use saki_base::{TableId, wall_micros};
use saki_mvcc::Holder;

use super::mode::LockMode;

/// What an owner waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// Its place in the queue of a table.
    Table(TableId),
    /// Nothing just now, since it gives way: it asks for a table again later.
    Later(TableId, LockMode),
    /// The end of a transaction that holds a row.
    Row(Holder),
}

/// Owners that wait. Those on a circle all do, so nobody else need be known: a transaction that holds a row is found by
/// what its owner said of it when it began to wait itself.
#[derive(Default)]
pub(super) struct Waits {
    waiting: HashMap<u64, Wait>,
    owner_of: HashMap<Holder, u64>,
}

struct Wait {
    awaited: Awaited,
    me: Option<Holder>,
    /// In microseconds since 1970.
    since: i64,
}

impl Waits {
    pub fn enter(&mut self, owner: u64, awaited: Awaited, me: Option<Holder>) {
        if let Some(me) = me {
            self.owner_of.insert(me, owner);
        }
        let before = self.waiting.insert(owner, Wait { awaited, me, since: wall_micros() });
        assert!(before.is_none(), "an owner waits for one thing at a time");
    }

    pub fn leave(&mut self, owner: u64) {
        if let Some(me) = self.waiting.remove(&owner).and_then(|wait| wait.me) {
            self.owner_of.remove(&me);
        }
    }

    pub fn since(&self, owner: u64) -> Option<i64> {
        self.waiting.get(&owner).map(|wait| wait.since)
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, &Awaited)> {
        self.waiting.iter().map(|(owner, wait)| (*owner, &wait.awaited))
    }

    /// Whether an owner waits for itself, by way of others. `blockers` says who stands in the way of an owner that
    /// waits for a table, in its queue or, by a mode, later.
    pub fn is_circle(&self, start: u64, blockers: impl Fn(u64, TableId, Option<LockMode>) -> Vec<u64>) -> bool {
        let (mut seen, mut pending) = (HashSet::new(), vec![start]);
        while let Some(owner) = pending.pop() {
            let next = match self.waiting.get(&owner).map(|wait| wait.awaited) {
                None => continue,
                Some(Awaited::Table(table)) => blockers(owner, table, None),
                Some(Awaited::Later(table, mode)) => blockers(owner, table, Some(mode)),
                Some(Awaited::Row(holder)) => self.owner_of.get(&holder).copied().into_iter().collect(),
            };
            for owner in next {
                if owner == start {
                    return true;
                }
                if seen.insert(owner) {
                    pending.push(owner);
                }
            }
        }
        false
    }
}
