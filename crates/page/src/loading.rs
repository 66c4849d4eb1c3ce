//! Pages on their way: whoever asks second waits for the first one's read.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::PageAddress;

use crate::arrival::{Arrival, Mailbox};

const SHARDS: usize = 16;

/// Somebody who asked for a page that another port is reading.
pub(crate) struct Waiter {
    pub mailbox: Arc<Mailbox>,
    pub token: u64,
}

/// All reads under way, by page.
pub(crate) struct Loading {
    shards: [Mutex<HashMap<PageAddress, Vec<Waiter>>>; SHARDS],
}

/// What `begin` found.
pub(crate) enum Begin {
    /// Nobody reads it: the caller does, and ends with `finish`.
    Yours,
    /// Somebody reads it; the waiter will be told.
    Waiting,
    /// It has been admitted in the meantime.
    Cached,
}

impl Loading {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(HashMap::new())) }
    }

    fn shard(&self, address: PageAddress) -> &Mutex<HashMap<PageAddress, Vec<Waiter>>> {
        &self.shards[address.0 as usize % SHARDS]
    }

    /// Joins the read of `address` or claims it. `cached` is asked under the
    /// shard's lock, where no read of the page can end unseen.
    pub(crate) fn begin(
        &self,
        address: PageAddress,
        cached: impl FnOnce() -> bool,
        waiter: impl FnOnce() -> Waiter,
    ) -> Begin {
        let mut shard = self.shard(address).lock();
        if let Some(waiters) = shard.get_mut(&address) {
            waiters.push(waiter());
            return Begin::Waiting;
        }
        if cached() {
            return Begin::Cached;
        }
        // An empty Vec does not allocate: the common read has one waiter, its owner.
        shard.insert(address, Vec::new());
        Begin::Yours
    }

    /// Ends a read, after the page was admitted or the read failed: every waiter is told.
    pub(crate) fn finish(&self, address: PageAddress, arrival: impl Fn(u64) -> Arrival) {
        let waiters = self.shard(address).lock().remove(&address).expect("a read is finished once");
        for waiter in waiters {
            waiter.mailbox.deliver(arrival(waiter.token));
        }
    }
}
