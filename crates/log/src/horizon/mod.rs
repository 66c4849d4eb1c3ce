//! The durable horizon: the greatest timestamp through which all are durable.
//!
//! Timestamps are dense, so "all through T are durable" is a run of set bits. Log threads mark what they have written
//! in a ring of bits, one per timestamp of the window, and one of them at a time moves the horizon over the bits that
//! follow it, clearing them.
//!
//! ```text
//!            durable                 durable + window
//!   … 0 0 0 0 │ 1 1 1 0 1 1 0 0 0 0 … 0 │
//!             └─────► moves to the first 0
//! ```
//!
//! Who may touch what: any log thread sets bits of (durable, durable + window]; only the advancing thread clears bits,
//! those up to the new horizon, before it publishes that horizon.

pub mod waiters;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

/// See the module's introduction.
pub struct Horizon {
    /// Read by everyone, all the time: alone on its cache line.
    durable: CachePadded<AtomicU64>,
    /// Calls of `advance` that are not answered yet: 0 when nobody advances.
    requests: CachePadded<AtomicU64>,
    words: Box<[AtomicU64]>,
}

impl Horizon {
    /// Everything through `durable` is durable; `window` timestamps may be marked after the horizon, a power of two, 64
    /// or more.
    pub fn new(durable: u64, window: u64) -> Self {
        assert!(window.is_power_of_two() && window >= 64, "window of {window}");
        assert!(durable < u64::MAX - window, "no window is left after {durable}");
        Self {
            durable: CachePadded::new(AtomicU64::new(durable)),
            requests: CachePadded::new(AtomicU64::new(0)),
            words: (0..window / 64).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn window(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// The horizon. Acquire: who sees it also sees that the bits up to it are cleared, so may have timestamps one
    /// window later marked.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Marks timestamps as durable. Each once, each within the window: the callers' promise, kept by `commit`.
    pub fn mark(&self, timestamps: &[u64]) {
        let mut rest = timestamps.iter().copied().peekable();
        while let Some(timestamp) = rest.next() {
            let word = self.word_of(timestamp);
            let mut bits = bit_of(timestamp);
            // Neighbours are mostly in the same word: one atomic operation for all of them.
            while let Some(next) = rest.next_if(|next| self.word_of(*next) == word) {
                bits |= bit_of(next);
            }
            // Relaxed: published by the release of `requests` in the `advance` that follows.
            let before = self.words[word].fetch_or(bits, Ordering::Relaxed);
            assert_eq!(before & bits, 0, "a timestamp about {timestamp} was marked twice");
        }
    }

    /// Moves the horizon as far as it goes; to be called after `mark`. `false` if another thread is at it, which will
    /// not leave before it has seen what was marked before this call.
    pub fn advance(&self) -> bool {
        // AcqRel. Release: our marks are visible to whoever reads this or a later value, the advancing thread. Acquire,
        // if we become that thread: the marks of those who asked, and the horizon and cleared bits of the one before
        // us.
        if self.requests.fetch_add(1, Ordering::AcqRel) != 0 {
            return false;
        }
        let mut answered = 1;
        loop {
            self.move_over_set_bits();
            // Release: the next advancing thread sees our stores. Acquire on failure: others asked meanwhile, so their
            // marks are visible to the next round. Every write to `requests` is a read-modify-write, so each release
            // reaches whoever reads later.
            match self.requests.compare_exchange(answered, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(asked) => answered = asked,
            }
        }
    }

    /// Only for the thread that raised `requests` from 0.
    fn move_over_set_bits(&self) {
        // Relaxed: written only here, and the thread before us is ordered by `requests`.
        let before = self.durable.load(Ordering::Relaxed);
        let mut durable = before;
        loop {
            let next = durable + 1;
            let (word, shift) = (&self.words[self.word_of(next)], next % 64);
            // Relaxed, as for the marks: ordered by `requests`. Bits set meanwhile are seen now or in the next round.
            let count = (word.load(Ordering::Relaxed) >> shift).trailing_ones();
            if count == 0 {
                break;
            }
            let mask = (u64::MAX >> (64 - count)) << shift;
            // Relaxed: ordered before the release of `durable` below.
            word.fetch_and(!mask, Ordering::Relaxed);
            durable += u64::from(count);
        }
        if durable != before {
            // Release: the cleared bits are visible to all who act on the new horizon.
            self.durable.store(durable, Ordering::Release);
        }
    }

    fn word_of(&self, timestamp: u64) -> usize {
        (timestamp / 64) as usize & (self.words.len() - 1)
    }
}

fn bit_of(timestamp: u64) -> u64 {
    1 << (timestamp % 64)
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;
    use saki_base::Random;

    #[test]
    fn the_horizon_stops_at_the_first_gap() {
        let horizon = Horizon::new(10, 64);
        horizon.mark(&[12, 13, 11]);
        assert!(horizon.advance());
        assert_eq!(horizon.durable(), 13);
        horizon.mark(&[15, 16]);
        horizon.advance();
        assert_eq!(horizon.durable(), 13);
        horizon.mark(&[14]);
        horizon.advance();
        assert_eq!(horizon.durable(), 16);
    }

    #[test]
    fn any_order_within_the_window_ends_at_its_end() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let window = 64 << random.below(4);
            let mut durable = random.below(1_000);
            let horizon = Horizon::new(durable, window);
            for _ in 0..20 {
                let count = random.range(1..window + 1);
                let mut timestamps: Vec<u64> = (durable + 1..=durable + count).collect();
                random.shuffle(&mut timestamps);
                for part in timestamps.chunks(random.range(1..20) as usize) {
                    horizon.mark(part);
                    horizon.advance();
                }
                durable += count;
                assert_eq!(horizon.durable(), durable, "seed {seed}, window {window}");
            }
        }
    }
}

/// `RUSTFLAGS="--cfg saki_loom" cargo test -p saki-log --lib loom --release`
#[cfg(all(test, saki_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever the interleaving, once all have called `advance` the horizon is where it belongs, and it never says too
    /// much.
    fn check(parts: &'static [&'static [u64]], last: u64) {
        loom::model(move || {
            let horizon = Arc::new(Horizon::new(0, 64));
            let markers: Vec<_> = parts[1..]
                .iter()
                .map(|part| {
                    let horizon = Arc::clone(&horizon);
                    thread::spawn(move || {
                        horizon.mark(part);
                        horizon.advance();
                    })
                })
                .collect();
            horizon.mark(parts[0]);
            horizon.advance();
            markers.into_iter().for_each(|marker| marker.join().unwrap());
            assert_eq!(horizon.durable(), last);
        });
    }

    #[test]
    fn loom_two_logs_meet() {
        check(&[&[1, 3], &[2, 4]], 4);
    }

    #[test]
    fn loom_three_logs_meet() {
        check(&[&[2], &[1], &[3]], 3);
    }

    #[test]
    fn loom_a_gap_holds() {
        check(&[&[1, 2], &[4]], 2);
    }

    /// A bit is clear again before the timestamp one window later may use it.
    #[test]
    fn loom_a_bit_is_used_again() {
        loom::model(|| {
            let horizon = Arc::new(Horizon::new(62, 64));
            let other = {
                let horizon = Arc::clone(&horizon);
                thread::spawn(move || {
                    horizon.mark(&[63]);
                    horizon.advance();
                })
            };
            if horizon.durable() >= 63 {
                horizon.mark(&[63 + 64]);
                horizon.advance();
                assert_eq!(horizon.durable(), 63, "64 to 126 are missing");
                other.join().unwrap();
                horizon.mark(&(64..=126).collect::<Vec<_>>());
                horizon.advance();
                assert_eq!(horizon.durable(), 127);
            } else {
                other.join().unwrap();
                assert_eq!(horizon.durable(), 63);
            }
        });
    }
}
