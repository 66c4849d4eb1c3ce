//! The memory that statements may take together: one pool, from which everything large reserves before it is made.
//!
//! What is reserved is what is large and lives for a while: what operators hold, rows that wait to be written, texts
//! and what is read from them, values that functions make. The rest is small beside it, and not counted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Words by which the exhaustion of a pool is known where only its message is left.
pub const OF_THE_SERVER: &str = "than the server has for statements";

/// A number of bytes, and how many of them are taken.
#[derive(Debug)]
pub struct Pool {
    limit: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
    refused: AtomicU64,
}

/// The pool has no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted {
    pub asked: usize,
    pub used: usize,
    pub limit: usize,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, used, limit } = self;
        write!(f, "{asked} bytes more are needed {OF_THE_SERVER}: {used} of {limit} bytes are in use")
    }
}

impl std::error::Error for Exhausted {}

impl Default for Pool {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Pool {
    pub fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// From now on there are so many bytes; what is taken beyond them is kept.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Relaxed);
    }

    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Bytes that are taken.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Bytes that were taken at most.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// How often somebody was refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Takes bytes, to be given back by [`Self::give_back`].
    ///
    /// # Errors
    /// If there are not so many.
    pub fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        let limit = self.limit();
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.used.fetch_update(Relaxed, Relaxed, more) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Relaxed);
                Ok(())
            }
            Err(used) => {
                self.refused.fetch_add(1, Relaxed);
                Err(Exhausted { asked: bytes, used, limit })
            }
        }
    }

    /// Takes bytes that are in use already, whether there are so many or not.
    pub fn take_anyway(&self, bytes: usize) {
        let before = self.used.fetch_add(bytes, Relaxed);
        self.peak.fetch_max(before + bytes, Relaxed);
    }

    pub fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        assert!(before >= bytes, "more memory is given back than was taken");
    }

    /// Takes bytes until what is returned is dropped.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Exhausted> {
        self.take(bytes)?;
        Ok(Reservation { pool: Arc::clone(self), bytes })
    }
}

/// Bytes of a pool, given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: Arc<Pool>,
    bytes: usize,
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more.
    ///
    /// # Errors
    /// As [`Pool::take`]; what it has is kept.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.pool.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes more or gives back, until it has so many.
    ///
    /// # Errors
    /// As [`Pool::take`]; what it has is kept.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            return self.grow(more);
        }
        self.pool.give_back(self.bytes - bytes);
        self.bytes = bytes;
        Ok(())
    }

    /// Takes all of another's.
    pub fn join(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.pool, &other.pool), "one pool");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Keeps nothing.
    pub fn clear(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_there_is() {
        let pool = Arc::new(Pool::new(100));
        let mut first = pool.reserve(60).unwrap();
        assert_eq!(pool.reserve(41).unwrap_err(), Exhausted { asked: 41, used: 60, limit: 100 });
        first.grow(40).unwrap();
        assert!(first.grow(1).is_err() && pool.take(usize::MAX).is_err());
        assert_eq!((first.bytes(), pool.used(), pool.peak(), pool.refused()), (100, 100, 100, 3));
        first.resize(30).unwrap();
        assert_eq!((first.bytes(), pool.used()), (30, 30));
        assert!(first.resize(101).is_err());
        first.resize(50).unwrap();
        assert_eq!((first.bytes(), pool.used()), (50, 50));
        drop(first);
        assert_eq!((pool.used(), pool.peak()), (0, 100));
    }

    #[test]
    fn what_is_joined_is_given_back_once() {
        let pool = Arc::new(Pool::new(100));
        let (mut all, more) = (pool.reserve(10).unwrap(), pool.reserve(20).unwrap());
        all.join(more);
        assert_eq!((all.bytes(), pool.used()), (30, 30));
        pool.take_anyway(100);
        assert_eq!(pool.used(), 130);
        pool.give_back(100);
        all.clear();
        assert_eq!(pool.used(), 0);
    }
}
