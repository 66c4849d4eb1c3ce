//! Who holds a row.

use std::fmt;

use super::version::Writer;

/// A transaction as others meet it: one that holds rows by its pending versions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holder {
    pub(crate) writer: Writer,
    /// Which database of this process it is of.
    pub(crate) instance: u32,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {} of runner {}", self.writer.sequence(), self.writer.participant())
    }
}
