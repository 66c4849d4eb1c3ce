//! Where a table's pages are to be read.

use serde::{Deserialize, Serialize};

/// What was asked for with `SET (tier = …)`, about copies on fast devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableTier {
    /// As the policy has it.
    #[default]
    Auto,
    /// All that there is room for is copied, before anything that the policy chooses.
    Fast,
    /// Nothing is copied.
    Slow,
}
