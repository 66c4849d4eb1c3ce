//! The page cache.
use std::sync::Arc;
pub struct PageCache {}
pub struct CacheReader {}
pub struct PageGuard<'r> { _p: &'r () }
