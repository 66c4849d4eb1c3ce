//! Pages: their formats as views over bytes, and the cache that threads share.
//!
//! # Words
//! - **page**: the unit of I/O and of caching. Published pages never change, so nothing here
//!   latches a page, invalidates one or writes one back.
//! - **page reference**: address and checksum, as a parent stores them. A page is verified against its
//!   parent's promise once, when it is read; the cache remembers the promise it verified.
//! - **frame**: memory for one page. **Port**: one thread's way to pages. **Guard**: a page while it is looked at.
//! - **run**: neighbouring pages that are wanted whole, such as a column of a segment; they bypass the cache.
//!
//! # Invariants
//! - A page is read by one port at a time, however many ask for it ([`PagePort`]).
//! - A frame is refilled only when nobody can still look at it (`epoch`).
//! - Every request that was not refused is answered by exactly one [`Arrival`].
//!
//! # Failure model
//! A page whose bytes are not what was promised, or that the device cannot read, is a
//! [`PageError`] that names page and device; it is never cached, so a later request reads it again.
//!
//! This crate declares what it needs of storage ([`PageStore`], [`RunStore`]); `volume` provides it, and `remote` for
//! what another node has. Replacement
//! policies are compared on traces in [`replacement`].

#![deny(unsafe_op_in_unsafe_fn)]
#![deny(unsafe_code)]

mod arrival;
#[allow(unsafe_code)]
pub mod cache;
mod epoch;
pub mod format;
mod loading;
pub mod port;
pub mod replacement;
mod runs;
pub mod store;

pub use arrival::{Arrival, PageError};
pub use cache::{CacheReader, FRAMES_MIN, PageCache, PageGuard};
pub use format::{
    Edit, FormatError, InnerBuilder, InnerPage, LeafBuilder, LeafPage, LeafValue, OverflowDataPage,
    OverflowIndexBuilder, OverflowIndexPage, OverflowLayout, OverflowRef, PageExpectation, PageKind,
    inline_value_bytes_max, key_bytes_max, shortest_separator, write_overflow_data,
};
pub use port::{PagePort, Request};
pub use runs::{BufferPool, PagedRuns, RunLane, RunRead, RunStore};
pub use store::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};
