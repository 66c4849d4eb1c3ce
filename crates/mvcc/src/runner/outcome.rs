//! What is asked of a transaction, and what is told of its outcome.

/// What a transaction is shielded from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// All reads from one moment, and no lost updates.
    Snapshot,
    /// As if alone.
    #[default]
    Serializable,
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The end of the process and of power.
    #[default]
    Sync,
    /// Nothing, until the log has been written in its own time, a fraction of a second later. Never half a transaction.
    Relaxed,
}

/// What has to be durable before anybody is told how a transaction ended, or what it has seen: its own commit, and
/// the commits that it has met. Every outcome has one, good or bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a receipt is no acknowledgement: wait until it is durable"]
pub struct Receipt {
    /// Its commit timestamp; `None` if it wrote nothing, or has not committed.
    pub timestamp: Option<u64>,
    /// Clients may be told once the durable horizon has reached this.
    pub through: u64,
}
