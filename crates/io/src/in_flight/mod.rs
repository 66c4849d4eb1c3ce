//! What lanes keep of operations that have not ended, and where others leave those that have.

mod inbox;
mod slab;

pub(crate) use inbox::Inbox;
pub(crate) use slab::Slab;
