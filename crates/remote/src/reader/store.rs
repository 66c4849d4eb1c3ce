//! A store whose pages another node has.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, PageAddress, PageSize};
use saki_fabric::{FabricError, PortOptions, Transport};
use saki_io::Wait;
use saki_page::{PageLane, PageStore, StoreError};

use super::lane::RemoteLane;
use super::owner::{Owner, State};
use super::shared::Shared;
use crate::error::RemoteError;

/// Makes the transport of one more port.
pub type Connect = Arc<dyn Fn() -> Result<Box<dyn Transport>, FabricError> + Send + Sync>;

/// How another node's pages are read.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Where the owner's threads listen, one or more; lanes take turns.
    pub addresses: Vec<String>,
    pub connect: Connect,
    /// What ports are opened with: this node, the cluster's key, the clock.
    pub port: PortOptions,
    /// A read that has not ended by then fails.
    pub deadline: Duration,
    /// Pages that a lane may have asked for, at most; the owner may allow fewer.
    pub requests_most: u32,
}

impl RemoteOptions {
    /// The usual times and bounds.
    pub fn new(addresses: Vec<String>, connect: Connect, port: PortOptions) -> Self {
        Self { addresses, connect, port, deadline: Duration::from_secs(5), requests_most: 512 }
    }
}

/// Another node's pages. Each lane has a port and a link of its own.
pub struct RemoteStore {
    options: RemoteOptions,
    page_size: PageSize,
    shared: Arc<Shared>,
}

impl RemoteStore {
    /// Asks the owner what it serves.
    ///
    /// # Errors
    /// If it cannot be reached or does not answer within the deadline, refuses, or serves pages of a size that no
    /// database has.
    pub fn open(options: RemoteOptions) -> Result<Arc<Self>, RemoteError> {
        let address = options.addresses.first().expect("an owner has an address");
        let transport = (options.connect)().map_err(RemoteError::Fabric)?;
        let mut owner = Owner::new(transport, options.port.clone(), address);
        let clock = Arc::clone(&options.port.clock);
        let started = clock.now();
        let mut happened = Vec::new();
        let page_bytes = loop {
            owner.poll(Wait::AtMost(Duration::from_millis(10)), &mut happened);
            happened.clear();
            match owner.state() {
                State::Open(welcome) => break welcome.page_bytes,
                State::Refused { why, .. } => {
                    return Err(RemoteError::Refused { owner: owner.name(), why: why.clone() });
                }
                State::Apart if clock.now() > started + options.deadline => {
                    let (after, reason) = (options.deadline, owner.trouble());
                    return Err(RemoteError::Silent { owner: owner.name(), after, reason });
                }
                State::Apart => {}
            }
        };
        let page_size = PageSize::new(page_bytes).map_err(|_| RemoteError::Refused {
            owner: owner.name(),
            why: format!("it has pages of {page_bytes} bytes, and no database of this release has"),
        })?;
        let store = Self::with_page_size(options, page_size);
        *store.shared.name.lock() = owner.name();
        Ok(store)
    }

    /// Without asking: the page size is known. An owner that serves another is an error of each read.
    pub fn with_page_size(options: RemoteOptions, page_size: PageSize) -> Arc<Self> {
        let name = format!("the node at {}", options.addresses.join(", "));
        Arc::new(Self { options, page_size, shared: Arc::new(Shared::new(name)) })
    }
}

impl PageStore for RemoteStore {
    fn page_size(&self) -> PageSize {
        self.page_size
    }

    fn open_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        let transport = (self.options.connect)();
        let transport = transport
            .map_err(|error| StoreError { device: self.shared.name.lock().clone(), message: error.to_string() })?;
        let address = &self.options.addresses[self.shared.next_lane() % self.options.addresses.len()];
        let options = PortOptions { arena: Some(Arc::clone(arena)), ..self.options.port.clone() };
        let owner = Owner::new(transport, options, address);
        let RemoteOptions { deadline, requests_most, .. } = self.options;
        let clock = Arc::clone(&self.options.port.clock);
        Ok(Box::new(RemoteLane::new(owner, clock, self.page_size, &self.shared, deadline, requests_most)))
    }

    fn describe(&self, _address: PageAddress) -> String {
        self.shared.name.lock().clone()
    }

    /// A page came otherwise than its parent promises: damaged on its way, read while the owner had taken its frame
    /// back, or from a damaged copy there. It is read once more, from its home.
    fn distrust_copy(&self, address: PageAddress) {
        self.shared.doubts.add(address);
    }
}
