//! The latch of a node: a version that readers compare, and that one writer at a time may hold.
//!
//! ```text
//!   reader: v = version ── read words (Relaxed) ── fence ── version == v?     nothing shared is written
//!   writer: version = v | LOCKED ── fence ── write words (Relaxed) ── version = v + STEP
//! ```
//!
//! A reader that saw one word of a writer has, after its fence, also seen the lock that came before the writer's fence,
//! so its comparison fails. Versions never come back: a node's memory keeps counting when it is used again.

use saki_base::Critical;
use saki_base::panics::{self, Place};

use crate::sync::{AtomicU64, Backoff, Ordering, fence};

const OBSOLETE: u64 = 1;
const LOCKED: u64 = 2;
const STEP: u64 = 4;

/// What was read may not have been there all at once: begin again.
#[derive(Debug)]
pub(crate) struct Restart;

/// A version with a lock bit and an obsolete bit.
#[repr(transparent)]
pub(crate) struct Latch(AtomicU64);

impl Latch {
    #[cfg(all(test, saki_loom))]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A latch is an atomic word with a meaning.
    #[inline]
    pub(crate) fn from_word(word: &AtomicU64) -> &Self {
        // SAFETY: `repr(transparent)`.
        unsafe { &*std::ptr::from_ref(word).cast() }
    }

    /// The version to validate by, once no writer holds the latch.
    #[inline]
    pub(crate) fn read(&self) -> Result<u64, Restart> {
        let version = self.0.load(Ordering::Acquire);
        if version & (LOCKED | OBSOLETE) == 0 { Ok(version) } else { self.wait_for_writer() }
    }

    #[cold]
    fn wait_for_writer(&self) -> Result<u64, Restart> {
        let mut backoff = Backoff::default();
        loop {
            let version = self.0.load(Ordering::Acquire);
            match version & (LOCKED | OBSOLETE) {
                0 => return Ok(version),
                LOCKED => backoff.wait(),
                _ => return Err(Restart),
            }
        }
    }

    /// Whether all that was read since `read` gave `version` was there at once.
    #[inline]
    pub(crate) fn validate(&self, version: u64) -> Result<(), Restart> {
        // Acquire: the words read before come before the version read here.
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == version { Ok(()) } else { Err(Restart) }
    }

    /// Takes the latch if nothing has changed since `version`.
    #[inline]
    pub(crate) fn lock(&self, version: u64) -> Result<Locked<'_>, Restart> {
        match self.0.compare_exchange(version, version | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                // Release: whoever sees a word written from here on sees the lock.
                fence(Ordering::Release);
                Ok(Locked { latch: self, version, critical: Some(Critical::enter("changing an index in memory")) })
            }
            Err(_) => Err(Restart),
        }
    }

    /// Makes the latch of memory that nobody else can see usable again, with a version it never had.
    pub(crate) fn renew(&self) -> u64 {
        let version = (self.0.load(Ordering::Relaxed) & !(LOCKED | OBSOLETE)) + STEP;
        self.0.store(version, Ordering::Release);
        version
    }
}

/// The right to change a node. Dropped, it says that nothing was changed.
pub(crate) struct Locked<'a> {
    latch: &'a Latch,
    version: u64,
    /// Readers must not take half of a change for a node.
    critical: Option<Critical>,
}

impl Locked<'_> {
    /// The version before.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Shows the changes to readers; returns the new version.
    #[inline]
    pub(crate) fn publish(self) -> u64 {
        panics::pass(Place::Latched);
        let version = self.version + STEP;
        self.latch.0.store(version, Ordering::Release);
        std::mem::forget(self);
        version
    }

    /// Tells readers that the node is no longer part of the tree.
    pub(crate) fn abandon(self) {
        self.latch.0.store((self.version + STEP) | OBSOLETE, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        drop(self.critical.take());
        self.latch.0.store(self.version, Ordering::Release);
    }
}

#[cfg(all(test, saki_loom))]
mod loom {
    use super::*;
    use ::loom::sync::Arc;
    use ::loom::thread;

    struct Pair {
        latch: Latch,
        words: [AtomicU64; 2],
    }

    impl Pair {
        fn new() -> Arc<Self> {
            Arc::new(Self { latch: Latch::new(), words: [AtomicU64::new(0), AtomicU64::new(0)] })
        }

        fn read(&self) -> Result<(u64, u64), Restart> {
            let version = self.latch.read()?;
            let words = (self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed));
            self.latch.validate(version)?;
            Ok(words)
        }

        fn increment(&self) -> Result<(), Restart> {
            let version = self.latch.read()?;
            let old = self.words[0].load(Ordering::Relaxed);
            let locked = self.latch.lock(version)?;
            for word in &self.words {
                word.store(old + 1, Ordering::Relaxed);
            }
            locked.publish();
            Ok(())
        }
    }

    /// What a reader validates was never half of a change.
    #[test]
    fn loom_reads_are_whole() {
        ::loom::model(|| {
            let pair = Pair::new();
            let writer = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || {
                    let _ = pair.increment();
                    let _ = pair.increment();
                })
            };
            if let Ok((one, two)) = pair.read() {
                assert_eq!(one, two);
            }
            writer.join().unwrap();
        });
    }

    /// Of two writers neither overwrites what the other did.
    #[test]
    fn loom_no_lost_update() {
        ::loom::model(|| {
            let pair = Pair::new();
            let writer = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || u64::from(pair.increment().is_ok()))
            };
            let mine = u64::from(pair.increment().is_ok());
            let others = writer.join().unwrap();
            assert_eq!(pair.read().unwrap(), (mine + others, mine + others));
            assert!(mine + others > 0);
        });
    }

    /// A reader that got through before a node was abandoned saw it as it was; one that comes later is turned away.
    #[test]
    fn loom_abandoned_nodes_turn_readers_away() {
        ::loom::model(|| {
            let pair = Pair::new();
            let remover = {
                let pair = Arc::clone(&pair);
                thread::spawn(move || {
                    let locked = pair.latch.lock(0).unwrap_or_else(|_| unreachable!("nobody else locks"));
                    pair.words[0].store(7, Ordering::Relaxed);
                    locked.abandon();
                })
            };
            if let Ok(words) = pair.read() {
                assert_eq!(words, (0, 0));
            }
            remover.join().unwrap();
            assert!(pair.read().is_err());
        });
    }
}
