//! Pins and retirements in every interleaving of two threads.

use std::sync::Arc;

use ::loom::thread;

use super::*;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

const FREED: u64 = 0;

/// Frees memory that is not there: the cell at `address` turns to what no reader may see.
///
/// # Safety
/// `address` is that of a leaked cell.
// SAFETY: what it owes to `retire`; the tests retire leaked cells only.
unsafe fn poison(address: *mut u8) {
    // SAFETY: the tests retire addresses of leaked cells.
    unsafe { &*address.cast::<AtomicU64>() }.store(FREED, Ordering::Relaxed);
}

struct World {
    epochs: Arc<Epochs>,
    /// Which of the cells is linked.
    link: AtomicUsize,
    cells: &'static [AtomicU64; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let cells = Box::leak(Box::new([AtomicU64::new(10), AtomicU64::new(11)]));
        Arc::new(Self { epochs: Epochs::new(0, 2), link: AtomicUsize::new(0), cells })
    }

    fn read_pinned(&self, participant: &mut Participant) {
        let _pin = participant.pin();
        let cell = self.link.load(Ordering::Acquire);
        assert_ne!(self.cells[cell].load(Ordering::Relaxed), FREED, "a reader sees freed memory");
    }

    /// Links the other cell, and frees the first as soon as that is allowed.
    fn replace(&self, ticks: usize) -> usize {
        self.link.store(1, Ordering::Release);
        let mut garbage = Garbage::default();
        let address = std::ptr::from_ref(&self.cells[0]).cast_mut().cast();
        // SAFETY: unlinked; `poison` is for such cells.
        unsafe { garbage.retire(&self.epochs, address, poison) };
        for _ in 0..ticks {
            self.epochs.tick();
        }
        garbage.collect(self.epochs.watermark())
    }
}

/// Whoever is pinned never sees memory freed, whenever the pin began.
#[test]
fn loom_pinned_readers_see_no_freed_memory() {
    ::loom::model(|| {
        let world = World::new();
        let mut participant = world.epochs.join().unwrap();
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.replace(1))
        };
        world.read_pinned(&mut participant);
        writer.join().unwrap();
        world.read_pinned(&mut participant);
    });
}

/// The clock is advanced by another than the one who frees.
#[test]
fn loom_commits_of_others_do_not_free_too_early() {
    ::loom::model(|| {
        let world = World::new();
        let mut participant = world.epochs.join().unwrap();
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.replace(0))
        };
        world.epochs.tick();
        world.read_pinned(&mut participant);
        writer.join().unwrap();
    });
}

/// A snapshot that another participant takes over keeps what it sees, also while the announcements are being looked
/// through.
#[test]
fn loom_snapshots_are_taken_over() {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let world = World::new();
        // In either order of places.
        let places = [(); 2].map(|()| world.epochs.join().unwrap());
        let [second, first] = places;
        first.announce(world.epochs.now());
        first.announce_exact(world.epochs.now());
        let cell = world.link.load(Ordering::Acquire);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.replace(1))
        };
        second.take_over(0);
        first.withdraw();
        assert_ne!(world.cells[cell].load(Ordering::Relaxed), FREED, "the snapshot was lost on the way");
        writer.join().unwrap();
        assert_ne!(world.cells[cell].load(Ordering::Relaxed), FREED, "the snapshot was lost on the way");
    });
}

/// The garbage of one is freed by another, whose watermark may be of before it came there.
#[test]
fn loom_others_sweep() {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let world = World::new();
        let mut participant = world.epochs.join().unwrap();
        let shelf = Arc::new(::loom::sync::Mutex::new(Garbage::default()));
        let owner = {
            let (world, shelf) = (Arc::clone(&world), Arc::clone(&shelf));
            thread::spawn(move || {
                world.link.store(1, Ordering::Release);
                let address = std::ptr::from_ref(&world.cells[0]).cast_mut().cast();
                // SAFETY: unlinked; `poison` is for such cells.
                unsafe { shelf.lock().unwrap().retire(&world.epochs, address, poison) };
                world.epochs.tick();
            })
        };
        let sweeper = {
            let (world, shelf) = (Arc::clone(&world), Arc::clone(&shelf));
            thread::spawn(move || {
                let watermark = world.epochs.watermark();
                shelf.lock().unwrap().collect(watermark);
            })
        };
        world.read_pinned(&mut participant);
        owner.join().unwrap();
        sweeper.join().unwrap();
        let watermark = world.epochs.watermark();
        let mut shelf = shelf.lock().unwrap();
        shelf.collect(watermark);
        assert!(shelf.is_empty(), "it stays though nobody sees it");
    });
}

/// Of one who ends and one who is about to wait for that, at least one takes notice of the other.
#[test]
fn loom_no_end_is_missed() {
    ::loom::model(|| {
        let epochs = Epochs::new(0, 1);
        let ends = {
            let epochs = Arc::clone(&epochs);
            thread::spawn(move || epochs.announcement(0).end_met(1 << 1))
        };
        let waits = epochs.announcement(0).await_end(0);
        assert!(ends.join().unwrap() || !waits, "it waits for ever");
    });
}

/// What nobody sees is freed after the next commit.
#[test]
fn loom_garbage_goes_away() {
    ::loom::model(|| {
        let world = World::new();
        assert_eq!(world.replace(0), 0);
        assert_eq!(world.replace(1), 1);
    });
}

/// A transaction validates ahead, and after its timestamp only what commits that it watches have noted: one that got in
/// between is seen when it validates ahead, or noted.
#[test]
fn loom_what_is_committed_meanwhile_is_noted() {
    const COMMITTING: u64 = 1;
    ::loom::model(|| {
        let epochs = Epochs::new(0, 2);
        // Not handed out before; the other's row, and what is noted of it.
        let places = [(); 2].map(|()| epochs.join().unwrap());
        let (stamp, noted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let [watching, other] = places;
        let commits = {
            let (epochs, stamp, noted) = (Arc::clone(&epochs), Arc::clone(&stamp), Arc::clone(&noted));
            thread::spawn(move || {
                other.state().status.store(COMMITTING, Ordering::Release);
                let timestamp = epochs.tick();
                other.state().commit.store(timestamp, Ordering::Release);
                if epochs.is_watched() {
                    noted.store(timestamp, Ordering::Relaxed);
                }
                stamp.store(timestamp, Ordering::Release);
                other.state().status.store(1 << 1, Ordering::Release);
                other.state().commit.store(0, Ordering::Release);
                timestamp
            })
        };
        epochs.watch();
        let since = epochs.wait_for_commits();
        let ahead = stamp.load(Ordering::Acquire);
        let holds_ahead = ahead == 0 || ahead > since;
        watching.state().status.store(COMMITTING, Ordering::Release);
        let timestamp = epochs.tick();
        watching.state().commit.store(timestamp, Ordering::Release);
        epochs.wait_for_commits_before(timestamp);
        let is_valid = holds_ahead && noted.load(Ordering::Relaxed) == 0;
        watching.state().status.store(1 << 1, Ordering::Release);
        epochs.unwatch();
        let committed = commits.join().unwrap();
        assert!(!is_valid || committed > timestamp, "what {committed} wrote was missed at {timestamp}");
    });
}
