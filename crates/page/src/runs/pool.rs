//! Large buffers, used again: memory fresh from the system costs as much to fault in and clear as to read into.

use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::AlignedBuffer;

/// Bytes of buffers that wait to be used again, at most.
const BYTES_MAX: usize = 32 << 20;
/// Capacities are multiples of this, so that buffers fit more than one length.
const STEP_BYTES: usize = 64 << 10;

/// Buffers that nobody uses at present. Shared by a lane and those who still read what it has brought.
#[derive(Default)]
pub struct BufferPool {
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    buffers: Vec<AlignedBuffer>,
    bytes: usize,
}

impl BufferPool {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A buffer of `length` bytes, a multiple of 512. What is in it is anything.
    pub fn take(&self, length: usize) -> AlignedBuffer {
        let mut buffer =
            self.fitting(length).unwrap_or_else(|| AlignedBuffer::new(length.next_multiple_of(STEP_BYTES)));
        buffer.set_length(length);
        buffer
    }

    /// The smallest buffer that is large enough, and not far too large.
    fn fitting(&self, length: usize) -> Option<AlignedBuffer> {
        let mut free = self.free.lock();
        let fits = |buffer: &AlignedBuffer| (length..=2 * length + STEP_BYTES).contains(&buffer.capacity());
        let fitting = free.buffers.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let (index, _) = fitting.min_by_key(|(_, buffer)| buffer.capacity())?;
        let buffer = free.buffers.swap_remove(index);
        assert!(free.bytes >= buffer.capacity(), "the pool counts {} bytes, and has more", free.bytes);
        free.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Takes a buffer back.
    pub fn give_back(&self, buffer: AlignedBuffer) {
        let mut free = self.free.lock();
        if free.bytes + buffer.capacity() <= BYTES_MAX {
            free.bytes += buffer.capacity();
            free.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_if_they_fit() {
        let pool = BufferPool::default();
        let buffer = pool.take(100 << 10);
        assert_eq!((buffer.len(), buffer.capacity()), (100 << 10, 128 << 10));
        let start = buffer.as_ptr();
        pool.give_back(buffer);
        let larger = pool.take(200 << 10);
        assert_ne!(larger.as_ptr(), start, "it is too small");
        let again = pool.take(120 << 10);
        assert_eq!((again.as_ptr(), again.len()), (start, 120 << 10));
        pool.give_back(again);
        assert_eq!(pool.take(512).len(), 512);
        assert_eq!(pool.free.lock().buffers.len(), 1, "it is far too large for so little");
    }

    #[test]
    fn what_waits_is_bounded() {
        let pool = BufferPool::default();
        let buffers: Vec<_> = (0..40).map(|_| pool.take(1 << 20)).collect();
        buffers.into_iter().for_each(|buffer| pool.give_back(buffer));
        let free = pool.free.lock();
        assert_eq!((free.bytes, free.buffers.len()), (BYTES_MAX, 32));
    }
}
