//! Rows and versions as they are, in the interleavings of two threads: `loom` tries those with up to two preemptions,
//! and no longer than some seconds for each model. A transaction's end looks for those who wait for it, which makes for
//! more of them than can all be tried.

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use loom::thread;

use super::*;
use crate::epoch::{Epochs, Participant};
use crate::memory::arena::{Arena, Depot};
use crate::placement::Mapping;
use crate::sync::Ordering;

/// Models are run thousands of times: they share the memory of rows.
fn arena() -> Arena {
    static DEPOT: OnceLock<Arc<Depot>> = OnceLock::new();
    Arena::new(Arc::clone(DEPOT.get_or_init(|| Depot::new(Arc::default(), Mapping::new))))
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_duration = Some(std::time::Duration::from_secs(40));
    // How often it looks at the time, in interleavings.
    builder.checkpoint_interval = 100;
    builder.check(check);
}

/// Two rows, each with a version committed at 1.
struct World {
    epochs: Arc<Epochs>,
    rows: [u64; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let mut arena = arena();
        let rows = [(); 2].map(|()| {
            let row = Row::allocate_replayed(&mut arena, 1, b"key", Some(b"old")).expect("memory");
            // SAFETY: just made.
            unsafe { row.as_ref() }.address()
        });
        Arc::new(Self { epochs: Epochs::new(1, 2), rows })
    }

    /// A place for one transaction; taken before there are threads, since `loom` knows nothing of the lock that hands
    /// places on.
    fn place(&self) -> Participant {
        self.epochs.join().expect("a place")
    }

    fn row(&self, which: usize) -> &Row {
        // SAFETY: rows of a model are not freed.
        unsafe { Row::at(self.rows[which]) }
    }
}

/// A transaction, as runners run it.
struct Transaction<'a> {
    world: &'a World,
    participant: Participant,
    writer: Writer,
    snapshot: u64,
    arena: Arena,
    installed: Vec<(usize, NonNull<Version>, NonNull<Version>)>,
}

impl<'a> Transaction<'a> {
    fn begin(world: &'a World, participant: Participant) -> Self {
        participant.announce(world.epochs.now());
        let snapshot = world.epochs.now();
        let writer = Writer::new(participant.number(), participant.sequence());
        Self { world, participant, writer, snapshot, arena: arena(), installed: Vec::new() }
    }

    fn sees(&self, which: usize) -> u64 {
        let seen = self.world.row(which).visible(self.snapshot, self.writer, &self.world.epochs);
        let (version, begin) = seen.expect("there is a version at 1");
        assert_eq!(version.body(), Some(if begin == 1 { b"old" } else { b"new" } as &[u8]), "half a version");
        begin
    }

    fn write(&mut self, which: usize) -> Result<(), Refused> {
        let row = self.world.row(which);
        let newest = row.writable(self.snapshot, self.writer, &self.world.epochs)?;
        let version = Version::allocate(&mut self.arena, self.writer, Some(b"new")).expect("memory");
        row.install(newest.version, version)?;
        self.installed.push((which, version, NonNull::from(newest.version)));
        Ok(())
    }

    fn status(&self, status: Status) {
        self.participant.state().status.store(status.bits(), Ordering::Release);
    }

    /// Commits if `is_valid` at the timestamp.
    fn commit(self, is_valid: impl FnOnce(&Self, u64) -> bool) -> Option<u64> {
        self.status(Status::committing(self.participant.sequence()));
        let timestamp = self.world.epochs.tick();
        self.participant.state().commit.store(timestamp, Ordering::Release);
        if !is_valid(&self, timestamp) {
            self.abort();
            return None;
        }
        // SAFETY: versions of a model are not freed.
        self.installed.iter().for_each(|(_, version, _)| unsafe { version.as_ref() }.stamp(timestamp));
        self.end();
        Some(timestamp)
    }

    fn abort(self) {
        for (which, version, before) in &self.installed {
            // SAFETY: as above.
            self.world.row(*which).uninstall(unsafe { version.as_ref() }, before.as_ptr());
        }
        self.end();
    }

    fn end(self) {
        self.status(Status::running(self.participant.sequence() + 1));
        self.participant.state().commit.store(0, Ordering::Release);
        self.participant.withdraw();
    }
}

/// A reader sees both of a transaction's rows or neither, and the new ones if its snapshot is as late as their
/// timestamp.
#[test]
#[ignore = "takes hours since participants give their numbers back; run it by name"]
fn loom_readers_see_whole_transactions() {
    model(|| {
        let world = World::new();
        let own_place = world.place();
        let writer = {
            let (world, place) = (Arc::clone(&world), world.place());
            thread::spawn(move || {
                let mut transaction = Transaction::begin(&world, place);
                (0..2).for_each(|which| transaction.write(which).expect("nobody else writes"));
                assert_eq!(transaction.commit(|_, _| true), Some(2));
            })
        };
        let reader = Transaction::begin(&world, own_place);
        let expected = if reader.snapshot >= 2 { 2 } else { 1 };
        assert_eq!([reader.sees(0), reader.sees(1)], [expected; 2]);
        assert_eq!(reader.sees(0), expected, "a snapshot moves");
        reader.end();
        writer.join().unwrap();
    });
}

/// Nothing is ever seen of a transaction that fails after it took its timestamp.
#[test]
#[ignore = "takes hours since participants give their numbers back; run it by name"]
fn loom_readers_see_nothing_of_failed_transactions() {
    model(|| {
        let world = World::new();
        let own_place = world.place();
        let writer = {
            let (world, place) = (Arc::clone(&world), world.place());
            thread::spawn(move || {
                let mut transaction = Transaction::begin(&world, place);
                transaction.write(0).expect("nobody else writes");
                assert_eq!(transaction.commit(|_, _| false), None);
            })
        };
        let reader = Transaction::begin(&world, own_place);
        assert_eq!(reader.sees(0), 1);
        reader.end();
        writer.join().unwrap();
        assert!(world.row(0).head().is_some_and(|head| head.body() == Some(b"old")));
    });
}

/// Of two transactions that write the same row at once, the first wins.
#[test]
#[ignore = "takes hours since participants give their numbers back; run it by name"]
fn loom_no_lost_update() {
    model(|| {
        let world = World::new();
        let write = |world: &World, place: Participant| {
            let mut transaction = Transaction::begin(world, place);
            let snapshot = transaction.snapshot;
            match transaction.write(0) {
                Ok(()) => transaction.commit(|_, _| true).map(|timestamp| (snapshot, timestamp)),
                Err(_) => {
                    transaction.abort();
                    None
                }
            }
        };
        let own_place = world.place();
        let other = {
            let (world, place) = (Arc::clone(&world), world.place());
            thread::spawn(move || write(&world, place))
        };
        let mine = write(&world, own_place);
        let others = other.join().unwrap();
        if let (Some(mine), Some(others)) = (mine, others) {
            let (first, second) = if mine.1 < others.1 { (mine, others) } else { (others, mine) };
            assert!(second.0 >= first.1, "{second:?} has not seen {first:?}");
        }
        assert!(mine.is_some() || others.is_some());
    });
}

/// Two transactions that each read what the other writes: validation lets one pass at most.
#[test]
#[ignore = "takes hours since participants give their numbers back; run it by name"]
fn loom_no_write_skew() {
    model(|| {
        let world = World::new();
        let cross = |world: &World, place: Participant, reads: usize, writes: usize| {
            let mut transaction = Transaction::begin(world, place);
            let seen = transaction.sees(reads);
            transaction.write(writes).expect("nobody else writes it");
            let snapshot = transaction.snapshot;
            let committed = transaction.commit(|transaction, timestamp| {
                let before = world.row(reads).before(timestamp, transaction.writer, &world.epochs);
                before.is_ok_and(|version| version.is_some_and(|version| version.begin.load(Ordering::Acquire) == seen))
            });
            committed.map(|timestamp| (snapshot, timestamp))
        };
        let own_place = world.place();
        let other = {
            let (world, place) = (Arc::clone(&world), world.place());
            thread::spawn(move || cross(&world, place, 1, 0))
        };
        let (mine, others) = (cross(&world, own_place, 0, 1), other.join().unwrap());
        if let (Some(mine), Some(others)) = (mine, others) {
            let (first, second) = if mine.1 < others.1 { (mine, others) } else { (others, mine) };
            assert!(second.0 >= first.1, "write skew: {first:?}, {second:?}");
        }
    });
}

/// A cleanup that latches a row and an abort of the row's writer leave the chain as it was.
#[test]
fn loom_a_cleanup_does_not_bring_back_what_was_aborted() {
    model(|| {
        let world = World::new();
        let own_place = world.place();
        let writer = {
            let (world, place) = (Arc::clone(&world), world.place());
            thread::spawn(move || {
                let mut transaction = Transaction::begin(&world, place);
                let _ = transaction.write(0);
                transaction.abort();
            })
        };
        let seen = world
            .row(0)
            .latched(1, 1, |versions| versions.filter_map(Result::ok).all(|version| version.body() == Some(b"old")));
        assert_ne!(seen, Some(false), "an aborted version is looked at");
        writer.join().unwrap();
        let head = world.row(0).head().expect("a version");
        assert_eq!((head.body(), head.begin.load(Ordering::Acquire)), (Some(b"old" as &[u8]), 1));
    });
}
