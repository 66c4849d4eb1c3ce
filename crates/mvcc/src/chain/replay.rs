//! Rows during recovery.

use std::io;
use std::ptr::{self, NonNull};

use super::row::Row;
use super::version::{TOMBSTONE, Version, Writer};
use crate::memory::arena::Arena;
use crate::sync::Ordering;

/// A row during recovery, when it has one version and one thread at a time.
#[derive(Clone, Copy)]
pub struct Replayed<'a> {
    pub begin: u64,
    pub body: Option<&'a [u8]>,
}

impl Row {
    /// The version that recovery has got for the row so far.
    pub fn replayed(&self) -> Option<Replayed<'_>> {
        let version = self.head()?;
        Some(Replayed { begin: version.begin.load(Ordering::Relaxed), body: version.body() })
    }

    /// A row with one version of that timestamp.
    pub fn allocate_replayed(
        arena: &mut Arena,
        timestamp: u64,
        key: &[u8],
        body: Option<&[u8]>,
    ) -> io::Result<NonNull<Self>> {
        Self::allocate(arena, Writer(timestamp), key, body)
    }

    /// Gives the row a newer version in place of the one it has.
    ///
    /// # Safety
    /// Nobody else looks at the row, and `body` lies outside of it.
    pub unsafe fn replay(&self, arena: &mut Arena, timestamp: u64, body: Option<&[u8]>) -> io::Result<()> {
        let head = self.head.load(Ordering::Relaxed);
        let length = body.map_or(0, <[u8]>::len);
        // SAFETY: the row has a version, nobody else looks at it, and the new body fits its room.
        unsafe {
            if length <= (*head).room() {
                (*head).length = body.map_or(TOMBSTONE, |body| body.len() as u32);
                let body = body.unwrap_or_default();
                ptr::copy_nonoverlapping(body.as_ptr(), head.add(1).cast(), body.len());
                (*head).begin.store(timestamp, Ordering::Relaxed);
                return Ok(());
            }
        }
        let version = Version::allocate(arena, Writer(timestamp), body)?;
        self.head.store(version.as_ptr(), Ordering::Relaxed);
        // SAFETY: the version was the row's only one, and is unlinked.
        unsafe { Self::free_version(arena, head) };
        Ok(())
    }

    /// Makes the row's version a newer one by writing `middle` over its body from byte `at` on.
    ///
    /// # Safety
    /// Nobody else looks at the row, and `middle` lies outside of it.
    ///
    /// # Panics
    /// If the body does not reach so far.
    pub unsafe fn replay_in_place(&self, timestamp: u64, at: usize, middle: &[u8]) {
        let head = self.head.load(Ordering::Relaxed);
        // SAFETY: the row has a version, and nobody else looks at it; `middle` fits as asserted.
        unsafe {
            let length = (*head).length as usize;
            assert!(!(*head).is_tombstone() && at <= length && middle.len() <= length - at);
            ptr::copy_nonoverlapping(middle.as_ptr(), head.add(1).cast::<u8>().add(at), middle.len());
            (*head).begin.store(timestamp, Ordering::Relaxed);
        }
    }

    /// Frees the row and its version.
    ///
    /// # Safety
    /// The row is in no index, and nobody looks at it.
    pub unsafe fn free_replayed(&self, arena: &mut Arena) {
        let row = NonNull::from(self);
        // SAFETY: by the caller's promise.
        unsafe {
            Self::free_version(arena, self.head.load(Ordering::Relaxed));
            arena.free(row.cast(), self.block_bytes());
        }
    }

    /// # Safety
    /// The version is linked to nothing, and nobody looks at it.
    unsafe fn free_version(arena: &mut Arena, version: *mut Version) {
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(version) = NonNull::new(version)
                && !version.as_ref().is_inline()
            {
                arena.free(version.cast(), version.as_ref().block_bytes());
            }
        }
    }
}
