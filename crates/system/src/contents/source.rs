//! What rows are made from.

use super::super::objects::Objects;
use super::super::system::SystemCatalog;

/// The newest snapshot's objects, and the session that asks.
pub struct Source<'s> {
    pub system: &'s SystemCatalog,
    pub objects: &'s Objects,
}
