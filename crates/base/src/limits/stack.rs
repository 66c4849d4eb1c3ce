//! Room on the stack for work that recurses as deep as its user wrote.
//!
//! How deep that may be is bounded where statements are read. Threads that run statements have [`STACK_BYTES`], of
//! which the system gives memory only to what is used; on a thread of somebody else's, [`with_room`] and [`WithRoom`]
//! make room where there is too little.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes of the stack of a thread that runs statements.
pub const STACK_BYTES: usize = 256 << 20;
/// Bytes that the deepest statement may need.
const ROOM_BYTES: usize = 160 << 20;

/// Runs `work` here if there is room for it, and else on a stack of its own.
pub fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM_BYTES, STACK_BYTES, work)
}

/// A future that has room whenever it runs.
pub struct WithRoom<F>(Pin<Box<F>>);

impl<F: Future> WithRoom<F> {
    pub fn new(work: F) -> Self {
        Self(Box::pin(work))
    }
}

impl<F: Future> Future for WithRoom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        with_room(|| self.0.as_mut().poll(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the stack that are in use at the end.
    fn recurse(depth: usize) -> usize {
        let frame = std::hint::black_box([0_u8; 4096]);
        if depth == 0 { 0 } else { recurse(depth - 1) + frame.len() }
    }

    #[test]
    fn small_threads_get_room_where_it_is_asked_for() {
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        let used = thread.spawn(|| with_room(|| recurse(10_000))).unwrap().join().unwrap();
        assert_eq!(used, 10_000 * 4096);
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        let polled = thread.spawn(|| {
            let mut work = std::pin::pin!(WithRoom::new(async { recurse(10_000) }));
            work.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
        });
        assert!(polled.unwrap().join().unwrap());
    }
}
