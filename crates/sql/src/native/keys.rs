//! What a join's build side will tell the scan of its probe side.
//!
//! While a plan is made, a join gives the scan of its probe side a [`DynamicKeys`] for each key column that comes from that scan
//! unchanged. When the build side is complete, the join publishes its key values there, and only then asks its probe side
//! for rows; so a scan that waits for its slots never waits for what depends on it.

use std::fmt;
use std::sync::Arc;

use saki_vector::KeyFilter;
use tokio::sync::SetOnce;

/// The key values of a build side: none yet, then what is known of them, for good.
pub struct DynamicKeys {
    /// The condition, for EXPLAIN: `o_orderkey = l_orderkey`.
    condition: String,
    /// `None` inside: complete, but of a type that has no filter.
    filter: SetOnce<Option<Arc<KeyFilter>>>,
}

impl DynamicKeys {
    pub fn new(condition: impl Into<String>) -> Self {
        Self { condition: condition.into(), filter: SetOnce::new() }
    }

    /// For the same join, run again.
    pub fn renewed(&self) -> Self {
        Self::new(self.condition.clone())
    }

    pub fn condition(&self) -> &str {
        &self.condition
    }

    /// Makes the filter known. Only the first call has an effect.
    pub fn publish(&self, filter: Option<KeyFilter>) {
        // Every partition of a join may say so.
        let _ = self.filter.set(filter.map(Arc::new));
    }

    /// The filter, if it is known by now and there is one.
    pub fn get(&self) -> Option<&Arc<KeyFilter>> {
        self.filter.get()?.as_ref()
    }

    /// Waits until the build side is complete. `None`: all rows may have a partner.
    pub async fn ready(&self) -> Option<&Arc<KeyFilter>> {
        self.filter.wait().await.as_ref()
    }
}

impl fmt::Debug for DynamicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicKeys").field("condition", &self.condition).finish_non_exhaustive()
    }
}
