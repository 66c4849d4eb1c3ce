//! Which NUMA nodes the machine has, and which of their cores are this process's.
//!
//! Read from sysfs, below `/sys/devices/system`:
//!
//! ```text
//! node/node0/cpulist                       0-9,20-29       the cores of a node; empty where there is only memory
//! node/node1/cpulist                       10-19,30-39
//! node/has_memory                          0-1             nodes that have memory
//! cpu/online                               0-39            cores that are switched on
//! cpu/cpu20/topology/thread_siblings_list  0,20            hardware threads of one physical core
//! ```
//!
//! Numbers may have holes: a node or core that was taken out leaves its number unused. What the files say is crossed
//! with the cores allowed to the process (`taskset`, a container's cpuset). Without `node/` (a kernel without NUMA, a
//! sandbox that hides it) there is one node of all allowed cores; so there is, with a warning, if the files contradict
//! themselves, since a wrong placement is only slow but a database that does not start is down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ids::{CoreId, NodeId, ranges};
use super::{affinity, memory};

/// Where sysfs describes cores and nodes.
const SYSTEM: &str = "/sys/devices/system";

/// Numbers in a list of sysfs are below this; a larger one is garbage. Linux has at most 8192 cores and 1024 nodes.
const NUMBERS_MAX: u32 = 8192;

/// The NUMA nodes of a machine, as far as this process may use them. At least one node has cores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
}

/// One node of a [`Topology`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub id: NodeId,
    /// Those allowed, in the order in which workers should take them: the first hardware thread of every physical core
    /// before the second of any, ascending among equals. Empty for a node with memory only, or of which no core is
    /// allowed.
    pub cores: Vec<CoreId>,
    /// Whether memory may be asked for on it.
    pub has_memory: bool,
}

impl Topology {
    /// The machine's, as the calling thread may use it. To be asked before threads are pinned: a pinned one sees its
    /// own core only. Never fails; see the module about what is made of a system that says nothing, or nonsense.
    pub fn detect() -> Self {
        if cfg!(miri) {
            // It has no such system calls.
            return Self::uniform(1, 2);
        }
        let allowed = affinity::allowed_cores().unwrap_or_else(|error| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            tracing::warn!("the cores allowed to this process are not known ({error}): taken to be the first {cores}");
            (0..cores as u32).map(CoreId).collect()
        });
        let mut topology = Self::read(Path::new(SYSTEM), &allowed);
        // A container may be kept from nodes of which it sees the cores; where the system does not tell, it does not
        // bind either.
        if let Ok(reachable) = memory::allowed_nodes() {
            topology.nodes.iter_mut().for_each(|node| node.has_memory &= reachable.contains(&node.id));
        }
        topology
    }

    /// What the files below `system` say, of the cores in `allowed`.
    ///
    /// # Panics
    /// If no core is allowed.
    pub fn read(system: &Path, allowed: &[CoreId]) -> Self {
        let allowed: BTreeSet<CoreId> = allowed.iter().copied().collect();
        assert!(!allowed.is_empty(), "a process runs on some core");
        let nodes = read_nodes(system, &allowed).unwrap_or_else(|error| {
            match error {
                Unusable::Absent => tracing::debug!("{} tells of no NUMA nodes: taken to be one", system.display()),
                error => tracing::warn!("NUMA nodes are not known ({error}): taken to be one"),
            }
            vec![Node { id: NodeId(0), cores: allowed.into_iter().collect(), has_memory: true }]
        });
        Self::of(nodes)
    }

    /// A made-up machine, to plan for without having it. Memory must not be mapped by such a plan: its nodes need not
    /// exist.
    ///
    /// # Panics
    /// If there are no nodes or no cores.
    pub fn uniform(nodes: u32, cores_per_node: u32) -> Self {
        assert!(nodes > 0 && cores_per_node > 0, "at least one core");
        let cores = |node| (node * cores_per_node..(node + 1) * cores_per_node).map(CoreId).collect();
        Self::of((0..nodes).map(|node| Node { id: NodeId(node), cores: cores(node), has_memory: true }))
    }

    /// `nodes` must be ascending and some must have cores.
    pub(super) fn of(nodes: impl IntoIterator<Item = Node>) -> Self {
        let nodes: Vec<Node> = nodes.into_iter().collect();
        debug_assert!(nodes.is_sorted_by_key(|node| node.id) && nodes.iter().any(|node| !node.cores.is_empty()));
        Self { nodes }
    }

    /// All nodes, ascending.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Nodes on which something can run.
    pub fn sockets(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.cores.is_empty())
    }

    /// All cores, node by node.
    pub fn cores(&self) -> impl Iterator<Item = CoreId> {
        self.nodes.iter().flat_map(|node| node.cores.iter().copied())
    }

    /// The node that `core` belongs to.
    pub fn node_of(&self, core: CoreId) -> Option<NodeId> {
        self.nodes.iter().find(|node| node.cores.contains(&core)).map(|node| node.id)
    }
}

/// `2 sockets: node 0 cores 0-9, node 1 cores 10-19`
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sockets = self.sockets().count();
        write!(f, "{sockets} socket{}: ", if sockets == 1 { "" } else { "s" })?;
        for (index, node) in self.nodes.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{node}")?;
        }
        Ok(())
    }
}

/// `node 0 cores 0-9`
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacking = if self.has_memory { "" } else { " without memory" };
        match self.cores.len() {
            0 => write!(f, "{} without cores{lacking}", self.id),
            1 => write!(f, "{} {}{lacking}", self.id, self.cores[0]),
            _ => write!(f, "{} cores {}{lacking}", self.id, ranges(self.cores.iter().map(|core| core.0))),
        }
    }
}

/// Why the files of sysfs give no topology.
enum Unusable {
    /// There is no directory of nodes.
    Absent,
    File {
        path: PathBuf,
        error: io::Error,
    },
    /// Not a list of numbers.
    List {
        path: PathBuf,
        text: String,
    },
    /// A core is in two nodes.
    Twice(CoreId),
    /// A core that runs this process is in no node.
    Homeless(CoreId),
    /// None of the cores allowed is online.
    NoCore,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "there is no directory of nodes"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::List { path, text } => write!(f, "{}: no list of numbers: {text:?}", path.display()),
            Self::Twice(core) => write!(f, "{core} is in two nodes"),
            Self::Homeless(core) => write!(f, "{core} is in no node"),
            Self::NoCore => write!(f, "no allowed core is online"),
        }
    }
}

fn read_nodes(system: &Path, allowed: &BTreeSet<CoreId>) -> Result<Vec<Node>, Unusable> {
    let online = match read_list(&system.join("cpu/online"))? {
        Some(online) => online.into_iter().map(CoreId).collect(),
        None => allowed.clone(),
    };
    let usable: BTreeSet<CoreId> = allowed.intersection(&online).copied().collect();
    if usable.is_empty() {
        return Err(Unusable::NoCore);
    }
    let with_memory = read_list(&system.join("node/has_memory"))?;
    let mut home: BTreeMap<CoreId, NodeId> = BTreeMap::new();
    let mut nodes = Vec::new();
    for id in node_ids(&system.join("node"))? {
        // A node that has been taken out since the directory was listed.
        let Some(listed) = read_list(&system.join(format!("node/node{}/cpulist", id.0)))? else { continue };
        let listed: BTreeSet<CoreId> = listed.into_iter().map(CoreId).collect();
        if let Some(core) = listed.iter().find(|core| home.insert(**core, id).is_some()) {
            return Err(Unusable::Twice(*core));
        }
        let mut cores: Vec<CoreId> = listed.intersection(&usable).copied().collect();
        cores.sort_by_cached_key(|core| (hardware_thread(system, *core, &usable), *core));
        let has_memory = with_memory.as_ref().is_none_or(|with_memory| with_memory.contains(&id.0));
        nodes.push(Node { id, cores, has_memory });
    }
    match usable.iter().find(|core| !home.contains_key(core)) {
        Some(_) if nodes.is_empty() => Err(Unusable::Absent),
        Some(homeless) => Err(Unusable::Homeless(*homeless)),
        None => Ok(nodes),
    }
}

/// The numbers of the directories `node0`, `node1`, …, ascending.
fn node_ids(directory: &Path) -> Result<BTreeSet<NodeId>, Unusable> {
    let unreadable = |error| Unusable::File { path: directory.to_owned(), error };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Absent),
        entries => entries.map_err(unreadable)?,
    };
    let mut ids = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(unreadable)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")).and_then(|number| number.parse().ok());
        ids.extend(number.map(NodeId));
    }
    Ok(ids)
}

/// How many usable hardware threads of the same physical core come before `core`. Only an order of preference hangs on
/// it, so that it is 0 wherever it is not known.
fn hardware_thread(system: &Path, core: CoreId, usable: &BTreeSet<CoreId>) -> usize {
    let siblings = system.join(format!("cpu/cpu{}/topology/thread_siblings_list", core.0));
    let Ok(Some(siblings)) = read_list(&siblings) else { return 0 };
    siblings.into_iter().map(CoreId).filter(|sibling| *sibling < core && usable.contains(sibling)).count()
}

/// The numbers in a file of sysfs; `None` if there is no such file.
fn read_list(path: &Path) -> Result<Option<BTreeSet<u32>>, Unusable> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Unusable::File { path: path.to_owned(), error }),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let list = parse_list(text.trim());
            list.map(Some)
                .ok_or_else(|| Unusable::List { path: path.to_owned(), text: text.chars().take(60).collect() })
        }
    }
}

/// `0-3,8,10-11`, or nothing for an empty set.
fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= NUMBERS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests;
