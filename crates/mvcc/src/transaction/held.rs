//! What a moment is of.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::chain::Writer;
use crate::epoch::Participant;
use crate::runner::Shared;

pub(super) struct Held {
    pub shared: Arc<Shared>,
    /// Announces the snapshot for as long as this lives; it runs no transaction.
    pub participant: Participant,
    pub timestamp: u64,
    /// How versions are marked that are seen although they are pending; the participant's own mark, which is at no
    /// version, for none.
    pub writer: Writer,
    /// The latest timestamp that readers have shown, of those that were not durable then; a transaction's moments have
    /// it together.
    pub latest: Arc<AtomicU64>,
}
