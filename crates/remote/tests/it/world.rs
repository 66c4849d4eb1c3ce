//! An owner and readers over one transport: in threads, or in one thread and virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use saki_base::{Arena, ArenaFrame, Clock, PageAddress, PageSize};
use saki_fabric::{
    ClusterKey, Port, PortOptions, Regions, SeededEntropy, Shm, Sim, SimNetwork, SimRates, Tcp, Transport,
};
use saki_io::Wait;
use saki_page::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};
use saki_remote::{PageService, RemoteOptions, RemoteStore, ServiceOptions};

/// What is between the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Tcp,
    Shm,
    /// Simulated, with rings and one-sided reads.
    SimDirect,
    /// Simulated, with a wire only.
    SimWire,
}

pub const WAYS: [Way; 4] = [Way::Tcp, Way::Shm, Way::SimDirect, Way::SimWire];

/// The owner's number.
pub const OWNER: u64 = 7;

type Shared = Arc<Mutex<Option<PageService>>>;

pub struct World {
    pub way: Way,
    pub network: Option<SimNetwork>,
    pub options: ServiceOptions,
    directory: tempfile::TempDir,
    address: String,
    service: Shared,
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
    names: Arc<AtomicU64>,
}

pub fn key() -> ClusterKey {
    ClusterKey::new(&[9; 32]).expect("long enough")
}

impl World {
    /// Nobody serves yet.
    pub fn new(way: Way) -> Self {
        let rates = SimRates { direct: way == Way::SimDirect, ..SimRates::default() };
        let network = matches!(way, Way::SimDirect | Way::SimWire).then(|| SimNetwork::new(1, rates));
        let directory = tempfile::tempdir().expect("a directory");
        let address = match way {
            Way::Tcp => "127.0.0.1:0".into(),
            Way::Shm => directory.path().join("owner").to_str().expect("a name").into(),
            _ => "owner".into(),
        };
        Self {
            way,
            network,
            options: ServiceOptions { memory_bytes: 256 << 10, ..ServiceOptions::default() },
            directory,
            address,
            service: Arc::default(),
            thread: None,
            ended: Arc::default(),
            names: Arc::default(),
        }
    }

    /// With an owner that serves.
    pub fn serving(way: Way, store: &Arc<dyn PageStore>) -> Self {
        let mut world = Self::new(way);
        world.serve(store);
        world
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn port_options(&self, node: u64) -> PortOptions {
        let mut options = PortOptions::new(node, key());
        if let Some(network) = &self.network {
            options.clock = Arc::clone(network.clock()) as Arc<dyn Clock>;
            let seed = node << 32 | self.names.fetch_add(1, Ordering::Relaxed);
            options.entropy = Arc::new(SeededEntropy::new(seed));
            options.regions = Regions::new(Arc::clone(&options.entropy));
        }
        options
    }

    pub fn transport(&self, name: &str) -> Box<dyn Transport> {
        match (&self.network, self.way) {
            (Some(network), _) => Box::new(Sim::new(network, name)),
            (None, Way::Tcp) => Box::new(Tcp::new().expect("a port")),
            _ => Box::new(Shm::new().expect("a port")),
        }
    }

    /// Begins to serve a store, where it was served before if it was.
    pub fn serve(&mut self, store: &Arc<dyn PageStore>) {
        let options = self.port_options(OWNER);
        let mut service =
            PageService::new(store, self.transport("owner"), options, self.options.clone()).expect("opened");
        self.address = service.listen(&self.address).expect("listens");
        *self.service.lock() = Some(service);
        if self.network.is_none() && self.thread.is_none() {
            let (service, ended) = (Arc::clone(&self.service), Arc::clone(&self.ended));
            self.thread = Some(std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let mut service = service.lock();
                    turn(&mut service, Wait::AtMost(Duration::from_millis(1)));
                    MutexGuard::unlock_fair(service);
                }
            }));
        }
    }

    /// The owner dies.
    pub fn kill(&self) {
        *self.service.lock() = None;
    }

    /// Looks at the owner.
    pub fn owner<R>(&self, look: impl FnOnce(&PageService) -> R) -> R {
        look(self.service.lock().as_ref().expect("it serves"))
    }

    /// Lets the owner work while it does not by itself.
    pub fn turn(&self) {
        if self.network.is_some() {
            turn(&mut self.service.lock(), Wait::AtMost(Duration::from_millis(1)));
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn remote_options(&self) -> RemoteOptions {
        let (network, is_tcp, names) = (self.network.clone(), self.way == Way::Tcp, Arc::clone(&self.names));
        let connect = move || -> Result<Box<dyn Transport>, _> {
            Ok(match &network {
                Some(network) => {
                    let name = format!("reader {}", names.fetch_add(1, Ordering::Relaxed));
                    Box::new(Sim::new(network, &name))
                }
                None if is_tcp => Box::new(Tcp::new()?),
                None => Box::new(Shm::new()?),
            })
        };
        RemoteOptions::new(vec![self.address.clone()], Arc::new(connect), self.port_options(2))
    }

    /// The owner's pages, from another node.
    pub fn remote(&self, page_size: PageSize) -> Arc<dyn PageStore> {
        self.remote_with(page_size, |_| {})
    }

    pub fn remote_with(&self, page_size: PageSize, change: impl FnOnce(&mut RemoteOptions)) -> Arc<dyn PageStore> {
        let mut options = self.remote_options();
        change(&mut options);
        let store = RemoteStore::with_page_size(options, page_size);
        match self.network {
            None => store,
            Some(_) => Arc::new(Turning { store, service: Arc::clone(&self.service) }),
        }
    }

    /// A port of a node that speaks for itself.
    pub fn port(&self, name: &str, node: u64) -> Port {
        Port::new(self.transport(name), self.port_options(node))
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a name").into()
    }
}

fn turn(service: &mut Option<PageService>, wait: Wait) {
    match service {
        Some(service) => service.poll(wait),
        None => std::thread::sleep(Duration::from_millis(1)),
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the owner panicked");
        }
    }
}

/// A remote store whose owner works while its lanes are polled: both are in one thread.
struct Turning {
    store: Arc<RemoteStore>,
    service: Shared,
}

impl PageStore for Turning {
    fn page_size(&self) -> PageSize {
        self.store.page_size()
    }

    fn open_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        Ok(Box::new(TurningLane { lane: self.store.open_lane(arena)?, service: Arc::clone(&self.service) }))
    }

    fn describe(&self, address: PageAddress) -> String {
        self.store.describe(address)
    }

    fn distrust_copy(&self, address: PageAddress) {
        self.store.distrust_copy(address);
    }
}

struct TurningLane {
    lane: Box<dyn PageLane>,
    service: Shared,
}

impl PageLane for TurningLane {
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        self.lane.try_read(share, address, memory, token)
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        if let Some(service) = &mut *self.service.lock() {
            service.poll(Wait::No);
        }
        self.lane.poll(wait.map(|wait| wait.min(Duration::from_micros(500))), finished)
    }

    fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        self.lane.waker()
    }
}
