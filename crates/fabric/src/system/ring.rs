//! A ring of messages in memory that the sender writes and the receiver polls.
//!
//! ```text
//! 0     head: bytes taken by the receiver so far          (written by the receiver)
//! 64    asleep: 1 while the receiver wants to be knocked   (written by both)
//! 4096  the ring: records one after the other, each at a multiple of 16 and never wrapped
//!
//! record   0  length of the message; all ones: the rest of the ring is skipped
//!          8  indicator: the length is there
//!         16  message, and zeroes up to a multiple of 8
//!          …  indicator: the message is there; then up to a multiple of 16
//! ```
//!
//! An **indicator** is a number that is right for one position of one ring only, so that what an earlier record left
//! there is never taken for it and nothing has to be cleared. Positions count bytes from the ring's beginning and never
//! wrap; the record of a position lies at the position modulo the ring's size.
//!
//! The same code serves memory that both sides map, and memory that a device copies over: there a sender writes into a
//! mirror, and what [`Ring::push`] gives is the range to copy.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use saki_base::random::hash_integer;

use super::mapping::Mapping;

const HEAD: usize = 0;
const ASLEEP: usize = 64;
/// Bytes before the records.
pub const RING_START: usize = 4096;
const RECORD_HEAD: usize = 16;
const SKIP: u64 = u64::MAX;

/// One side of a ring: its memory from `base` on, and how far this side has come.
pub struct Ring {
    base: usize,
    size: usize,
    position: u64,
    /// The head that the sender knows of.
    head: u64,
    salt: u64,
    message_most: usize,
}

/// What a ring says that cannot be.
pub type Broken = &'static str;

impl Ring {
    /// A ring of `size` bytes (a power of two) in memory that begins at `base` with [`RING_START`] bytes more.
    pub fn new(base: usize, size: usize, salt: u64, message_most: usize) -> Self {
        assert!(size.is_power_of_two() && record_bytes(message_most) <= size / 2, "a ring of {size} bytes");
        Self { base, size, position: 0, head: 0, salt, message_most }
    }

    fn indicator(&self, position: u64, which: u64) -> u64 {
        hash_integer(self.salt ^ (position | which))
    }

    fn place(&self, position: u64) -> usize {
        self.base + RING_START + (position as usize & (self.size - 1))
    }

    /// Writes a message and gives the ranges of memory that were written, in order; the second is empty unless the
    /// rest of the ring was skipped. `Ok(None)`: no room until the receiver has taken more.
    pub fn push(&mut self, memory: &Mapping, message: &[u8]) -> Result<Option<[Range<usize>; 2]>, Broken> {
        let wanted = record_bytes(message.len());
        let at = self.position as usize & (self.size - 1);
        let skipped = if at + wanted > self.size { self.size - at } else { 0 };
        if !self.has_room(memory, skipped + wanted)? {
            return Ok(None);
        }
        let mut skip = 0..0;
        if skipped > 0 {
            let place = self.place(self.position);
            memory.word(place).store(SKIP, Ordering::Relaxed);
            memory.word(place + 8).store(self.indicator(self.position, 0), Ordering::Release);
            skip = place..place + RECORD_HEAD;
            self.position += skipped as u64;
        }
        let place = self.place(self.position);
        let end = place + RECORD_HEAD + message.len().next_multiple_of(8);
        memory.word(place).store(message.len() as u64, Ordering::Relaxed);
        memory.write(place + RECORD_HEAD, message);
        // Release, both: whoever sees an indicator sees what it is for.
        memory.word(end).store(self.indicator(self.position, 1), Ordering::Release);
        memory.word(place + 8).store(self.indicator(self.position, 0), Ordering::Release);
        self.position += wanted as u64;
        let record = place..end + 8;
        Ok(Some(if skip.is_empty() { [record, 0..0] } else { [skip, record] }))
    }

    fn has_room(&mut self, memory: &Mapping, wanted: usize) -> Result<bool, Broken> {
        let fits = |head: u64| self.position - head + wanted as u64 <= self.size as u64;
        if !fits(self.head) {
            // Acquire: the receiver has copied what lies before its head.
            let head = self.head_word(memory).load(Ordering::Acquire);
            if head < self.head || head > self.position || !head.is_multiple_of(16) {
                return Err("a ring's head where it cannot be");
            }
            self.head = head;
        }
        Ok(fits(self.head))
    }

    /// Takes the next message, if its indicators are there, and moves the head.
    pub fn pop(&mut self, memory: &Mapping) -> Result<Option<Vec<u8>>, Broken> {
        loop {
            let place = self.place(self.position);
            // Acquire: the length was written before.
            if memory.word(place + 8).load(Ordering::Acquire) != self.indicator(self.position, 0) {
                return Ok(None);
            }
            // Read once: it may change under a hostile sender.
            let length = memory.word(place).load(Ordering::Relaxed);
            let at = self.position as usize & (self.size - 1);
            if length == SKIP {
                self.advance(memory, self.size - at);
                continue;
            }
            let most = self.message_most.min(self.size - at);
            if length as usize > most || at + record_bytes(length as usize) > self.size {
                return Err("a message in a ring that is longer than it can be");
            }
            let length = length as usize;
            let end = place + RECORD_HEAD + length.next_multiple_of(8);
            // Acquire: the message was written before.
            if memory.word(end).load(Ordering::Acquire) != self.indicator(self.position, 1) {
                return Ok(None);
            }
            let mut message = vec![0; length];
            memory.read(place + RECORD_HEAD, &mut message);
            self.advance(memory, record_bytes(length));
            return Ok(Some(message));
        }
    }

    fn advance(&mut self, memory: &Mapping, bytes: usize) {
        self.position += bytes as u64;
        // Release: the sender may write over what lies before.
        self.head_word(memory).store(self.position, Ordering::Release);
    }

    /// Bytes that this side has sent or taken so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn head_word<'m>(&self, memory: &'m Mapping) -> &'m AtomicU64 {
        memory.word(self.base + HEAD)
    }

    /// The receiver announces that it sleeps; `false` if a message is there already.
    pub fn before_sleep(&self, memory: &Mapping) -> bool {
        memory.half_word(self.base + ASLEEP).store(1, Ordering::Relaxed);
        // With the fence of `receiver_sleeps`: either the sender sees the announcement, or we its message.
        fence(Ordering::SeqCst);
        let place = self.place(self.position);
        memory.word(place + 8).load(Ordering::Relaxed) != self.indicator(self.position, 0)
    }

    /// Whether the receiver of what was pushed sleeps; says so once.
    pub fn receiver_sleeps(&self, memory: &Mapping) -> bool {
        fence(Ordering::SeqCst);
        let asleep = memory.half_word(self.base + ASLEEP);
        asleep.load(Ordering::Relaxed) == 1 && asleep.swap(0, Ordering::Relaxed) == 1
    }
}

/// Bytes of a ring's memory.
pub const fn ring_bytes(size: usize) -> usize {
    RING_START + size
}

fn record_bytes(message: usize) -> usize {
    (RECORD_HEAD + message.next_multiple_of(8) + 8).next_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 4096;

    fn pair() -> (Mapping, Ring, Ring) {
        let memory = Mapping::private(ring_bytes(SIZE)).unwrap();
        (memory, Ring::new(0, SIZE, 7, 1000), Ring::new(0, SIZE, 7, 1000))
    }

    #[test]
    fn a_full_ring_takes_no_more_until_it_is_read() {
        let (memory, mut sender, mut receiver) = pair();
        let mut sent = 0;
        while sender.push(&memory, &[sent; 500]).unwrap().is_some() {
            sent += 1;
        }
        assert_eq!(sent, 7);
        assert_eq!(receiver.pop(&memory).unwrap(), Some(vec![0; 500]));
        assert!(sender.push(&memory, &[sent; 600]).unwrap().is_none(), "the rest of the ring is skipped");
        assert_eq!(receiver.pop(&memory).unwrap(), Some(vec![1; 500]));
        assert!(sender.push(&memory, &[sent; 600]).unwrap().is_some());
        for number in 2..sent {
            assert_eq!(receiver.pop(&memory).unwrap(), Some(vec![number; 500]));
        }
        assert_eq!(receiver.pop(&memory).unwrap(), Some(vec![sent; 600]));
        assert_eq!(receiver.pop(&memory).unwrap(), None);
    }

    #[test]
    fn a_message_is_not_seen_before_all_of_it_is_there() {
        let (memory, mut sender, mut receiver) = pair();
        let mirror = Mapping::private(ring_bytes(SIZE)).unwrap();
        let [record, _] = sender.push(&mirror, b"twenty-four bytes of it.").unwrap().unwrap();
        for end in record.clone().step_by(8) {
            let mut bytes = vec![0; end - record.start];
            mirror.read(record.start, &mut bytes);
            memory.write(record.start, &bytes);
            assert_eq!(receiver.pop(&memory).unwrap(), None, "{} bytes are there", bytes.len());
        }
        let mut bytes = vec![0; record.len()];
        mirror.read(record.start, &mut bytes);
        memory.write(record.start, &bytes);
        assert_eq!(receiver.pop(&memory).unwrap().unwrap(), b"twenty-four bytes of it.");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (memory, mut sender, mut receiver) = pair();
        sender.push(&memory, &[1; 100]).unwrap();
        for length in [1001, SIZE as u64, 1 << 40, u64::MAX - 1] {
            memory.word(RING_START).store(length, Ordering::Relaxed);
            assert!(receiver.pop(&memory).is_err(), "a length of {length}");
        }
        memory.word(RING_START).store(100, Ordering::Relaxed);
        assert!(receiver.pop(&memory).is_ok());
        for head in [1 << 30, 8] {
            memory.word(0).store(head, Ordering::Relaxed);
            assert!((0..100).any(|_| sender.push(&memory, &[1; 100]).is_err()), "a head of {head}");
        }
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let (memory, mut sender, receiver) = pair();
        assert!(!sender.receiver_sleeps(&memory));
        assert!(receiver.before_sleep(&memory));
        sender.push(&memory, b"x").unwrap();
        assert!(sender.receiver_sleeps(&memory) && !sender.receiver_sleeps(&memory));
        assert!(!receiver.before_sleep(&memory), "a message is there");
    }

    proptest! {
        /// Whatever is pushed comes out, in order, whatever the lengths and however far the receiver lags.
        #[test]
        fn messages_come_out_as_they_went_in(
            steps in proptest::collection::vec((0_usize..1000, 0_usize..4), 1..200),
        ) {
            let (memory, mut sender, mut receiver) = pair();
            let mut inside = std::collections::VecDeque::new();
            for (number, (length, pops)) in steps.into_iter().enumerate() {
                let message = vec![number as u8; length];
                if sender.push(&memory, &message).unwrap().is_some() {
                    inside.push_back(message);
                }
                for _ in 0..pops {
                    prop_assert_eq!(receiver.pop(&memory).unwrap(), inside.pop_front());
                }
            }
        }
    }
}
