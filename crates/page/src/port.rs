//! One thread's way to pages: the shared cache above, a private lane below.
//! (Implementation in progress; the signatures are what others use.)

use std::sync::Arc;
use std::time::Duration;

use saki_base::PageRef;

use crate::cache::{CacheReader, PageCache, PageGuard};
use crate::store::{IoShare, PageStore, PageWaker};

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// In the cache now: `CacheReader::find` gives it.
    Cached,
    /// On its way; an [`Arrival`] with the token follows.
    Queued,
    /// On its way already, for somebody else; an [`Arrival`] follows all the same.
    Shared,
    /// Not now: the governor or the cache allows no further request. Ask again after an arrival.
    Busy,
}

/// A requested page has come, or failed to.
#[derive(Debug)]
pub struct Arrival {
    pub token: u64,
    pub page: PageRef,
    pub result: Result<(), PageError>,
}

/// A page could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The bytes are not those the parent promises.
    Corrupt { page: PageRef, device: String, found: u64 },
    /// The device failed.
    Unreadable { page: PageRef, reason: String },
}
