//! When nobody reads a slot any more: epochs, and each lane's oldest.
//!
//! A lane enters the present epoch before it looks a chunk up, and leaves it when the read has ended. Whoever has a
//! chunk read elsewhere from now on ends the epoch *after* changing the map: once every lane is in a later epoch, or
//! in none, no read of the old slot is under way or can begin.
//!
//! ```text
//!   lane:   publish its epoch, if it is in none ─ fence ─ look up ─ read … read has ended ─ publish the next oldest
//!   mover:  change the map ─ end epoch E ─ … ─ every lane is idle or later than E: the slot is free
//! ```
//!
//! Either the lane's fence comes first, and the mover sees the lane's epoch; or the mover's does, and the lane sees
//! the changed map. A lane that is in an older epoch already publishes nothing: it holds up the mover as it is.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

#[cfg(saki_loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(saki_loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

const IDLE: u64 = u64::MAX;

/// A lane's oldest epoch; on a cache line of its own, since the lane writes it for each read by itself.
#[repr(align(64))]
struct Pin {
    oldest: AtomicU64,
}

/// All lanes' epochs.
pub(crate) struct Epochs {
    now: AtomicU64,
    pins: Mutex<Vec<Weak<Pin>>>,
}

impl Epochs {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { now: AtomicU64::new(0), pins: Mutex::new(Vec::new()) })
    }

    /// One thread's reader.
    pub fn reader(self: &Arc<Self>) -> EpochReader {
        let pin = Arc::new(Pin { oldest: AtomicU64::new(IDLE) });
        let mut pins = self.pins.lock();
        pins.retain(|pin| pin.strong_count() > 0);
        pins.push(Arc::downgrade(&pin));
        EpochReader { epochs: Arc::clone(self), pin, entered: VecDeque::new() }
    }

    /// Ends the present epoch, whose number is returned. The map has been changed before.
    pub fn end(&self) -> u64 {
        self.now.fetch_add(1, Ordering::AcqRel)
    }

    /// Epochs that have ended.
    pub fn ended(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// Whether every read has ended that may have been looked up in this epoch or before.
    pub fn has_passed(&self, epoch: u64) -> bool {
        fence(Ordering::SeqCst);
        // Acquire: those reads have ended before the slot gets other bytes.
        let has_left = |pin: &Weak<Pin>| pin.upgrade().is_none_or(|pin| pin.oldest.load(Ordering::Acquire) > epoch);
        self.pins.lock().iter().all(has_left)
    }
}

/// One thread's epochs.
pub(crate) struct EpochReader {
    epochs: Arc<Epochs>,
    pin: Arc<Pin>,
    /// Epochs of reads that have not ended, the oldest first, and how many there are of each.
    entered: VecDeque<(u64, u32)>,
}

impl EpochReader {
    /// Enters the present epoch, before a chunk is looked up; to be left once.
    #[inline]
    pub fn enter(&mut self) -> u64 {
        // Acquire: whoever ended the epoch before changed the map first.
        let now = self.epochs.now.load(Ordering::Acquire);
        match self.entered.back_mut() {
            Some((epoch, reads)) if *epoch == now => *reads += 1,
            Some(_) => self.entered.push_back((now, 1)),
            None => {
                self.entered.push_back((now, 1));
                self.pin.oldest.store(now, Ordering::Relaxed);
                fence(Ordering::SeqCst);
            }
        }
        now
    }

    /// A read that entered in `epoch` has ended.
    #[inline]
    pub fn leave(&mut self, epoch: u64) {
        let entry = self.entered.iter_mut().find(|(entered, _)| *entered == epoch).expect("left once");
        entry.1 -= 1;
        if self.entered.front().is_some_and(|(_, reads)| *reads == 0) {
            while self.entered.front().is_some_and(|(_, reads)| *reads == 0) {
                self.entered.pop_front();
            }
            let oldest = self.entered.front().map_or(IDLE, |(epoch, _)| *epoch);
            self.pin.oldest.store(oldest, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_passed_when_its_reads_have_ended() {
        let epochs = Epochs::new();
        let (mut lane, mut other) = (epochs.reader(), epochs.reader());
        let first = lane.enter();
        assert_eq!(lane.enter(), first);
        let ended = epochs.end();
        assert_eq!(ended, first);
        assert!(!epochs.has_passed(ended));
        let second = lane.enter();
        lane.leave(first);
        assert!(!epochs.has_passed(ended), "one is still under way");
        lane.leave(first);
        assert!(epochs.has_passed(ended), "what came later does not matter");
        let again = epochs.end();
        let late = other.enter();
        assert!(late > again && !epochs.has_passed(again));
        lane.leave(second);
        assert!(epochs.has_passed(again));
        other.leave(late);
    }

    #[test]
    fn a_lane_that_is_gone_reads_nothing() {
        let epochs = Epochs::new();
        let mut lane = epochs.reader();
        lane.enter();
        drop(lane);
        assert!(epochs.has_passed(epochs.end()));
    }
}

#[cfg(all(test, saki_loom))]
mod loom_tests {
    use super::*;

    /// A chunk moves from slot 1 to slot 2, and slot 1 gets other bytes when its epoch has passed: whoever looked the
    /// chunk up reads its bytes.
    #[test]
    fn loom_a_slot_is_not_written_while_it_is_read() {
        loom::model(|| {
            let epochs = Epochs::new();
            let place = Arc::new(AtomicU64::new(1));
            // The bytes of slot 1: 7 of the chunk, or 8 of another.
            let slot = Arc::new(AtomicU64::new(7));
            let mut reader = epochs.reader();
            let lane = {
                let (place, slot) = (Arc::clone(&place), Arc::clone(&slot));
                loom::thread::spawn(move || {
                    for _ in 0..2 {
                        let epoch = reader.enter();
                        if place.load(Ordering::Acquire) == 1 {
                            assert_eq!(slot.load(Ordering::Relaxed), 7, "a slot was written while it was read");
                        }
                        reader.leave(epoch);
                    }
                })
            };
            place.store(2, Ordering::Release);
            let ended = epochs.end();
            if epochs.has_passed(ended) {
                slot.store(8, Ordering::Relaxed);
            }
            lane.join().expect("no panic");
        });
    }
}
