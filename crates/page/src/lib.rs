//! Page formats as views over bytes, and the page cache.

pub mod store;
pub use store::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};
