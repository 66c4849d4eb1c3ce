//! The locks of one table that others have to see: who holds it how, and who waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::grant::Grant;
use super::mode::LockMode;

/// A lock that is held.
pub(super) struct Granted {
    pub owner: u64,
    pub mode: LockMode,
}

/// A place in the queue.
pub(super) struct Waiter {
    pub owner: u64,
    pub mode: LockMode,
    /// It leaves its place in line soon.
    pub gives_way: bool,
    pub grant: Arc<Grant>,
}

/// Holders and waiters of a table. A waiter stands behind those that it conflicts with and that came before it, so that
/// none waits for ever.
#[derive(Default)]
pub(super) struct Queue {
    pub granted: Vec<Granted>,
    pub waiting: VecDeque<Waiter>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.waiting.is_empty()
    }

    /// Where a request has its place: at the end, unless its owner holds what somebody who waits is waiting for. It
    /// would stand behind its own shadow there.
    pub fn place_of(&self, owner: u64) -> usize {
        let blocks = |waiter: &Waiter| {
            waiter.owner != owner
                && self.granted.iter().any(|held| held.owner == owner && held.mode.conflicts_with(waiter.mode))
        };
        self.waiting.iter().position(blocks).unwrap_or(self.waiting.len())
    }

    /// Other owners that stand in the way of a request: those who hold a conflicting mode, and those who wait for one
    /// before `place`.
    pub fn blockers(&self, owner: u64, mode: LockMode, place: usize) -> impl Iterator<Item = u64> + '_ {
        self.in_way(owner, mode, place, |_| true)
    }

    /// Those of them that end before the request is granted, whatever happens: not those who give way.
    pub fn awaited(&self, owner: u64, mode: LockMode, place: usize) -> impl Iterator<Item = u64> + '_ {
        self.in_way(owner, mode, place, |waiter| !waiter.gives_way)
    }

    fn in_way(
        &self,
        owner: u64,
        mode: LockMode,
        place: usize,
        counts: fn(&Waiter) -> bool,
    ) -> impl Iterator<Item = u64> + '_ {
        let holding = self.granted.iter().map(|held| (held.owner, held.mode));
        let before = self.waiting.iter().take(place).filter(move |waiter| counts(waiter));
        let before = before.map(|waiter| (waiter.owner, waiter.mode));
        let in_way = move |(other, held): &(u64, LockMode)| *other != owner && mode.conflicts_with(*held);
        holding.chain(before).filter(in_way).map(|(other, _)| other)
    }

    /// The place at which an owner waits.
    pub fn waiting_place(&self, owner: u64) -> Option<usize> {
        self.waiting.iter().position(|waiter| waiter.owner == owner)
    }

    /// Takes a lock out of those that are held.
    pub fn remove(&mut self, owner: u64, mode: LockMode) {
        let found = self.granted.iter().position(|held| held.owner == owner && held.mode == mode);
        let found = found.expect("what is let go of is held");
        self.granted.swap_remove(found);
    }

    /// Gives the lock to everybody in the queue whom nobody stands in the way of any more.
    pub fn serve(&mut self) -> Vec<Waiter> {
        let mut served = Vec::new();
        let mut place = 0;
        while place < self.waiting.len() {
            let Waiter { owner, mode, .. } = self.waiting[place];
            if self.blockers(owner, mode, place).next().is_some() {
                place += 1;
                continue;
            }
            self.granted.push(Granted { owner, mode });
            served.extend(self.waiting.remove(place));
        }
        served
    }
}
