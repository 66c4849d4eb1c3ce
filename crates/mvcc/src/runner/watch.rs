//! Commits, as they are watched by a transaction that is about to validate much: which rows they write.
//!
//! Every commit that ticks while there is a watch notes the addresses of its rows there, after its timestamp and before
//! its stamps. Whether there is one it learns from the line of the clock, which it has just written. So of all commits
//! later than [`Watch::since`], those that have ended have noted their rows, and nobody pays while nobody watches.

use std::sync::Arc;

use super::shared::Shared;
use super::watches::{Note, Noted};

/// A watch that goes on until it is dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    noted: Noted,
    since: u64,
}

impl Watch {
    /// Begins to watch. For a caller that has no timestamp.
    pub fn begin(shared: &Arc<Shared>) -> Self {
        let noted = shared.watches.add();
        shared.epochs.watch();
        // Those that may not have known of the watch have ended after this.
        let since = shared.epochs.wait_for_commits();
        Self { shared: Arc::clone(shared), noted, since }
    }

    /// All commits through this timestamp have ended; later ones note their rows.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// What has been noted since this was called before.
    pub fn take(&self) -> Vec<Note> {
        std::mem::take(&mut *self.noted.lock())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.epochs.unwatch();
        self.shared.watches.remove(&self.noted);
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use saki_io::{Device, SimDevice, SimOptions};

    use super::*;
    use crate::{Catalog, Database, Options};

    /// Or every commit would go on noting its rows for nobody.
    #[test]
    fn nothing_is_left_of_a_watch() {
        let device = SimDevice::new(SimOptions { seed: 1, length_bytes: 0, ..SimOptions::default() });
        let devices = vec![device as Arc<dyn Device>];
        let database = Database::open_on(Catalog::in_memory(7, 1), devices, Options::default(), &|_| {}).unwrap();
        let shared = database.shared();
        let watch = Watch::begin(shared);
        assert!(shared.epochs.is_watched());
        let noted = Arc::clone(&watch.noted);
        drop(watch);
        assert!(!shared.epochs.is_watched());
        assert_eq!(Arc::strong_count(&noted), 1, "it is still noted for");
    }
}
