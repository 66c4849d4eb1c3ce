//! Pins and retirements in every interleaving of two threads.

use std::sync::Arc;

use ::loom::thread;

use super::*;

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
        garbage.collect(self.epochs.horizon())
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

/// A snapshot that another participant takes over keeps what it sees, also while the slots are being looked through.
#[test]
fn loom_snapshots_are_taken_over() {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let world = World::new();
        // In either order of slots.
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

/// Of one who ends and one who is about to wait for that, at least one takes notice of the other.
#[test]
fn loom_no_end_is_missed() {
    ::loom::model(|| {
        let epochs = Epochs::new(0, 1);
        let ends = {
            let epochs = Arc::clone(&epochs);
            thread::spawn(move || epochs.slot(0).end_met(1 << 1))
        };
        let waits = epochs.slot(0).await_end(0);
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
