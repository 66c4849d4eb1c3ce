//! What a join's build side will tell the scan of its probe side.
//!
//! While a plan is made, a join gives the scan of its probe side a [`DynamicKeys`] for each key column that comes from
//! that scan unchanged. When the build side is complete, the join publishes its key values there, and only then asks
//! its probe side for rows; so a scan that waits for its keys never waits for what depends on it.

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

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;
    use saki_vector::Batch;
    use saki_vector::join::{JoinBuild, JoinTable};

    use super::*;
    use crate::fixture::block_on;

    fn filter(keys: &[i64]) -> KeyFilter {
        let mut build = JoinBuild::new(&[DataType::Int64], &[]);
        let column = saki_vector::Column::new(Arc::new(arrow_array::Int64Array::from(keys.to_vec())));
        build.push(&[column], &Batch::new(Vec::new(), keys.len())).unwrap();
        JoinTable::build(vec![build], false, 1).unwrap().key_filter(0).unwrap()
    }

    #[test]
    fn who_waits_for_keys_gets_those_that_were_published_first() {
        let keys = Arc::new(DynamicKeys::new("a = b"));
        assert!(keys.get().is_none());
        let waiting = Arc::clone(&keys);
        let found = block_on(async {
            let waits = tokio::spawn(async move { waiting.ready().await.and_then(|keys| keys.values(10)) });
            tokio::task::yield_now().await;
            keys.publish(Some(filter(&[3, 1])));
            keys.publish(Some(filter(&[9])));
            waits.await.unwrap()
        });
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, [1, 3]);
        assert!(keys.get().is_some());
    }

    #[test]
    fn keys_without_a_filter_are_complete_all_the_same() {
        let keys = DynamicKeys::new("a = b");
        keys.publish(None);
        assert!(block_on(keys.ready()).is_none());
    }

    #[test]
    fn keys_of_another_run_are_not_known_yet() {
        let keys = DynamicKeys::new("a = b");
        keys.publish(Some(filter(&[1])));
        let renewed = keys.renewed();
        assert_eq!(renewed.condition(), "a = b");
        assert!(renewed.get().is_none());
    }
}
