//! What is measured: ours and the rivals behind one interface.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLock};

use saki_mvcc::epoch::{Epochs, Garbage, Participant, Pin};
use saki_mvcc::index::{Direction, Index, LeafChange, ScanBuffer};

use super::keys::Key;

/// An ordered map that threads share.
pub trait Structure<K: Key>: Sync {
    type Worker<'s>: Worker<K>
    where
        Self: 's;

    fn empty() -> Self;
    fn worker(&self) -> Self::Worker<'_>;

    /// Looks for faults inside, where it can.
    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A thread's way to it.
pub trait Worker<K: Key> {
    type Access<'w>: Access<K>
    where
        Self: 'w;

    /// For some hundred operations: whatever is pinned is so until then.
    fn access(&mut self) -> Self::Access<'_>;
}

pub trait Access<K: Key> {
    fn get(&mut self, key: K) -> Option<u64>;
    fn insert(&mut self, key: K, value: u64) -> bool;
    fn remove(&mut self, key: K, value: u64) -> bool;
    /// Tells `each` up to `limit` entries from `from` on.
    fn scan(&mut self, from: K, limit: usize, each: impl FnMut(K, u64));

    /// Values of many keys at once, if that is another thing than one by one.
    fn get_many(&mut self, _keys: &[K::Bytes], _values: &mut [Option<u64>]) {
        unimplemented!("one by one")
    }
}

pub struct Ours {
    index: Index,
    epochs: Arc<Epochs>,
}

pub struct OurWorker<'s> {
    ours: &'s Ours,
    participant: Participant,
    garbage: Garbage,
    changes: Vec<LeafChange>,
    buffer: ScanBuffer,
}

pub struct OurAccess<'w> {
    index: &'w Index,
    pin: Pin<'w>,
    garbage: &'w mut Garbage,
    changes: &'w mut Vec<LeafChange>,
    buffer: &'w mut ScanBuffer,
}

impl<K: Key> Structure<K> for Ours {
    type Worker<'s> = OurWorker<'s>;

    fn empty() -> Self {
        Self { index: Index::new(), epochs: Epochs::new(0, 64) }
    }

    fn worker(&self) -> OurWorker<'_> {
        OurWorker {
            ours: self,
            participant: self.epochs.join().expect("fewer threads than places"),
            garbage: Garbage::default(),
            changes: Vec::new(),
            buffer: ScanBuffer::default(),
        }
    }

    fn verify(&self) -> Result<(), String> {
        let mut participant = self.epochs.join().expect("fewer threads than places");
        let statistics = self.index.verify(&participant.pin())?;
        eprintln!("    {statistics:?}");
        Ok(())
    }
}

impl<K: Key> Worker<K> for OurWorker<'_> {
    type Access<'w>
        = OurAccess<'w>
    where
        Self: 'w;

    fn access(&mut self) -> OurAccess<'_> {
        self.ours.epochs.tick();
        self.garbage.collect(self.ours.epochs.watermark());
        let Self { ours, participant, garbage, changes, buffer } = self;
        OurAccess { index: &ours.index, pin: participant.pin(), garbage, changes, buffer }
    }
}

impl<K: Key> Access<K> for OurAccess<'_> {
    #[inline]
    fn get(&mut self, key: K) -> Option<u64> {
        self.index.get(key.bytes().as_ref(), &self.pin)
    }

    #[inline]
    fn insert(&mut self, key: K, value: u64) -> bool {
        self.changes.clear();
        self.index.insert(key.bytes().as_ref(), value, &self.pin, self.changes).is_ok()
    }

    #[inline]
    fn remove(&mut self, key: K, value: u64) -> bool {
        self.index.remove(key.bytes().as_ref(), value, &self.pin, self.garbage)
    }

    #[inline]
    fn scan(&mut self, from: K, limit: usize, mut each: impl FnMut(K, u64)) {
        let from = from.bytes();
        let range = (Bound::Included(from.as_ref()), Bound::Unbounded);
        let mut cursor = self.index.cursor(range, Direction::Forward, self.buffer, &self.pin);
        let mut left = limit;
        while left > 0
            && let Some(leaf) = cursor.step(left)
        {
            left -= leaf.len();
            leaf.iter().for_each(|(key, value)| each(K::from_bytes(key), value));
        }
    }

    #[inline]
    fn get_many(&mut self, keys: &[K::Bytes], values: &mut [Option<u64>]) {
        self.index.get_many_observed(keys.len(), |at| keys[at].as_ref(), |at, value, _| values[at] = value, &self.pin);
    }
}

/// A map and what threads need to use it.
pub struct Shared<M>(M);

/// The same, as a thread has it.
pub struct Handle<'s, M>(&'s M);

/// The same with a guard of its reclamation.
pub struct Guarded<'s, M, G>(&'s M, G);

macro_rules! rival {
    ($map:ty, $guard:ty, $enter:expr) => {
        impl<K: Key> Structure<K> for Shared<$map> {
            type Worker<'s> = Handle<'s, $map>;

            fn empty() -> Self {
                Self(<$map>::default())
            }

            fn worker(&self) -> Handle<'_, $map> {
                Handle(&self.0)
            }
        }

        impl<K: Key> Worker<K> for Handle<'_, $map> {
            type Access<'w>
                = Guarded<'w, $map, $guard>
            where
                Self: 'w;

            fn access(&mut self) -> Guarded<'_, $map, $guard> {
                Guarded(self.0, $enter)
            }
        }
    };
}

rival!(scc::TreeIndex<K, u64>, scc::Guard, scc::Guard::new());
rival!(crossbeam_skiplist::SkipMap<K, u64>, (), ());
rival!(RwLock<BTreeMap<K, u64>>, (), ());

impl<K: Key> Access<K> for Guarded<'_, scc::TreeIndex<K, u64>, scc::Guard> {
    #[inline]
    fn get(&mut self, key: K) -> Option<u64> {
        self.0.peek(&key, &self.1).copied()
    }

    #[inline]
    fn insert(&mut self, key: K, value: u64) -> bool {
        self.0.insert_sync(key, value).is_ok()
    }

    #[inline]
    fn remove(&mut self, key: K, value: u64) -> bool {
        self.0.remove_if_sync(&key, |existing| *existing == value)
    }

    #[inline]
    fn scan(&mut self, from: K, limit: usize, mut each: impl FnMut(K, u64)) {
        self.0.range(from.., &self.1).take(limit).for_each(|(key, value)| each(*key, *value));
    }
}

impl<K: Key> Access<K> for Guarded<'_, crossbeam_skiplist::SkipMap<K, u64>, ()> {
    #[inline]
    fn get(&mut self, key: K) -> Option<u64> {
        self.0.get(&key).map(|entry| *entry.value())
    }

    #[inline]
    fn insert(&mut self, key: K, value: u64) -> bool {
        *self.0.get_or_insert(key, value).value() == value
    }

    #[inline]
    fn remove(&mut self, key: K, value: u64) -> bool {
        self.0.remove(&key).is_some_and(|entry| *entry.value() == value)
    }

    #[inline]
    fn scan(&mut self, from: K, limit: usize, mut each: impl FnMut(K, u64)) {
        self.0.range(from..).take(limit).for_each(|entry| each(*entry.key(), *entry.value()));
    }
}

impl<K: Key> Access<K> for Guarded<'_, RwLock<BTreeMap<K, u64>>, ()> {
    #[inline]
    fn get(&mut self, key: K) -> Option<u64> {
        self.0.read().expect("nobody panics").get(&key).copied()
    }

    #[inline]
    fn insert(&mut self, key: K, value: u64) -> bool {
        self.0.write().expect("nobody panics").insert(key, value).is_none()
    }

    #[inline]
    fn remove(&mut self, key: K, value: u64) -> bool {
        self.0.write().expect("nobody panics").remove(&key) == Some(value)
    }

    #[inline]
    fn scan(&mut self, from: K, limit: usize, mut each: impl FnMut(K, u64)) {
        self.0.read().expect("nobody panics").range(from..).take(limit).for_each(|(key, value)| each(*key, *value));
    }
}

/// For keys that are words, and those only.
pub type Congee = congee::Congee<usize, usize>;

impl Structure<u64> for Shared<Congee> {
    type Worker<'s> = Handle<'s, Congee>;

    fn empty() -> Self {
        Self(Congee::default())
    }

    fn worker(&self) -> Handle<'_, Congee> {
        Handle(&self.0)
    }
}

impl Worker<u64> for Handle<'_, Congee> {
    type Access<'w>
        = Guarded<'w, Congee, crossbeam_epoch::Guard>
    where
        Self: 'w;

    fn access(&mut self) -> Guarded<'_, Congee, crossbeam_epoch::Guard> {
        Guarded(self.0, crossbeam_epoch::pin())
    }
}

impl Access<u64> for Guarded<'_, Congee, crossbeam_epoch::Guard> {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.get(&(key as usize), &self.1).map(|value| value as u64)
    }

    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> bool {
        self.0.insert(key as usize, value as usize, &self.1).is_ok_and(|before| before.is_none())
    }

    #[inline]
    fn remove(&mut self, key: u64, value: u64) -> bool {
        self.0.remove(&(key as usize), &self.1) == Some(value as usize)
    }

    #[inline]
    fn scan(&mut self, from: u64, limit: usize, mut each: impl FnMut(u64, u64)) {
        const LIMIT_MAX: usize = 64;
        let mut found = [(0, 0); LIMIT_MAX];
        let count = self.0.range(&(from as usize), &usize::MAX, &mut found[..limit], &self.1);
        found[..count].iter().for_each(|&(key, value)| each(key as u64, value as u64));
    }
}
