//! Bytes of a lent arena on their way to a peer.

use std::sync::Arc;

use saki_base::Arena;

/// A part of a lent arena. The arena's owner may write there meanwhile: the bytes are only ever copied, by the kernel,
/// by a device or by [`Lent::copy_to`], and whoever gets them tells by a checksum whether they are whole.
#[derive(Clone)]
pub struct Lent {
    arena: Arc<Arena>,
    offset: usize,
    length: usize,
}

impl Lent {
    /// `None` if it would not lie within the arena.
    pub fn new(arena: &Arc<Arena>, offset: u64, length: usize) -> Option<Self> {
        let (_, bytes) = arena.region();
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        (end <= bytes).then(|| Self { arena: Arc::clone(arena), offset, length })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Where the bytes begin.
    pub fn pointer(&self) -> *const u8 {
        self.arena.region().0.wrapping_add(self.offset)
    }

    /// Copies the bytes from `from` on; `into` may not be longer than what is there.
    pub fn copy_to(&self, from: usize, into: &mut [u8]) {
        assert!(from <= self.length && into.len() <= self.length - from, "more is copied than is lent");
        // SAFETY: within the arena's mapping, which `arena` keeps, by `new` and the assertion. No reference is made to
        // the source, which another thread may be writing: then the copy is torn, and found to be by its checksum.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer().add(from), into.as_mut_ptr(), into.len()) };
    }
}

/// A piece of what is to be sent.
pub enum Piece<'p> {
    Owned(&'p [u8]),
    /// From this many bytes on.
    Lent(&'p Lent, usize),
}
