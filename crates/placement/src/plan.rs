//! Which worker runs on which core and writes which log, and where the memory of each lies.
//!
//! Workers take the cores of the nodes in turn, so that few workers already use every node's memory and caches, and a
//! core gets a second worker only when all have one. A node's workers are then dealt to its logs in runs of neighbours:
//!
//! ```text
//!             2 nodes of 4 cores, 8 workers, 4 logs
//!  node 0 │ cores  0 1 2 3     node 1 │ cores  4 5 6 7
//!         │ workers 0 2 4 6           │ workers 1 3 5 7
//!         │ logs    0 0 1 1           │ logs    2 2 3 3
//! ```
//!
//! As long as there are as many logs as nodes, the workers of a log are on one node, and its buffers and counters never
//! leave it.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::ids::{CoreId, NodeId};
use super::memory::{Binding, Mapping};
use super::topology::Topology;

/// Workers for each of which a log is made by default: the publication this follows gives every processor of ten cores
/// a log file of its own. More workers on one log queue up at its end; more logs than that are more files to flush for
/// the same bytes, and every commit waits until all logs have passed it.
pub const WORKERS_PER_LOG: usize = 10;

/// Whose memory it is, which says where it has to lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Region {
    /// One worker's: rows and their versions, work areas of transactions, log buffers. Others may read it, but only
    /// this worker takes from it. On its own node.
    Thread { node: NodeId },
    /// Shared by the workers of one group: what is known of their log, and pieces from which thread memory grows. On
    /// their node.
    Socket { node: NodeId },
    /// Without a place: indexes, the catalog. Spread over the nodes, so that all of them bear the load of what
    /// everybody reads.
    Global,
}

/// Where one worker runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerPlace {
    pub core: CoreId,
    /// The node of `core`.
    pub node: NodeId,
    /// The log that this worker writes, from 0.
    pub log: usize,
}

/// The workers that share a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreGroup {
    pub log: usize,
    /// Where what they share lies: the node of them all, or of the first one if there are fewer logs than nodes.
    pub node: NodeId,
    /// Numbers of workers, ascending; at least one.
    pub workers: Vec<usize>,
}

/// A plan of workers, logs and memory for one [`Topology`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    workers: Vec<WorkerPlace>,
    groups: Vec<CoreGroup>,
    /// Nodes to bind memory to: none if there is only one with memory, since then all of it is there anyway.
    bindable: Vec<NodeId>,
    global: Binding,
}

impl Placement {
    /// Places `workers` workers (at least one) and `logs` logs, as many as are useful: at least one, at most one per
    /// worker. `None` is [`default_logs`](Self::default_logs) for [`WORKERS_PER_LOG`].
    pub fn plan(topology: &Topology, workers: usize, logs: Option<usize>) -> Self {
        let workers = workers.max(1);
        let crews = crews(topology, workers);
        let logs = logs.unwrap_or_else(|| logs_of(&crews, WORKERS_PER_LOG)).clamp(1, workers);
        let mut places = vec![None; workers];
        for (crew, logs) in crews.iter().zip(share_logs(&crews, logs)) {
            for (index, (worker, core)) in crew.workers.iter().enumerate() {
                let log = logs.start + index * logs.len() / crew.workers.len();
                places[*worker] = Some(WorkerPlace { core: *core, node: crew.node, log });
            }
        }
        let workers: Vec<WorkerPlace> = places.into_iter().map(|place| place.expect("is in a crew")).collect();
        let groups = (0..logs).map(|log| CoreGroup::of(log, &workers)).collect();
        let mut bindable: Vec<NodeId> =
            topology.nodes().iter().filter(|node| node.has_memory).map(|node| node.id).collect();
        if bindable.len() == 1 {
            bindable.clear();
        }
        // Memory without cores (an expander, a device's) is slower than all others: what everybody reads does not
        // belong there.
        let spread: Vec<NodeId> = crews.iter().map(|crew| crew.node).filter(|node| bindable.contains(node)).collect();
        let global = match spread[..] {
            [] => Binding::FirstTouch,
            [only] => Binding::Node(only),
            _ => Binding::Interleaved(Arc::from(spread)),
        };
        Self { workers, groups, bindable, global }
    }

    /// How many logs `workers` workers should have: on every node that has some of them one for each `workers_per_log`,
    /// begun ones included; so at least one per node.
    pub fn default_logs(topology: &Topology, workers: usize, workers_per_log: usize) -> usize {
        logs_of(&crews(topology, workers.max(1)), workers_per_log)
    }

    /// The workers' places, by their numbers.
    pub fn workers(&self) -> &[WorkerPlace] {
        &self.workers
    }

    /// The groups, by the numbers of their logs.
    pub fn groups(&self) -> &[CoreGroup] {
        &self.groups
    }

    /// How many logs there are.
    pub fn logs(&self) -> usize {
        self.groups.len()
    }

    /// How memory of `region` is to be mapped. Always [`Binding::FirstTouch`], which asks nothing of the system, where
    /// only one node has memory, and for a node that has none: the system then takes the nearest.
    pub fn binding(&self, region: Region) -> Binding {
        match region {
            Region::Thread { node } | Region::Socket { node } if self.bindable.contains(&node) => Binding::Node(node),
            Region::Thread { .. } | Region::Socket { .. } => Binding::FirstTouch,
            Region::Global => self.global.clone(),
        }
    }

    /// Maps memory of `region`: [`Mapping::with`] its [`binding`](Self::binding).
    ///
    /// # Errors
    /// Those of [`Mapping::with`].
    pub fn map(&self, region: Region, bytes: usize) -> io::Result<Mapping> {
        Mapping::with(bytes, &self.binding(region))
    }
}

/// ```text
/// worker 0: node 0 core 0, log 0
/// worker 1: node 1 core 4, log 1
/// global memory: interleaved over nodes 0-1
/// ```
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, worker) in self.workers.iter().enumerate() {
            writeln!(f, "worker {number}: {} {}, log {}", worker.node, worker.core, worker.log)?;
        }
        write!(f, "global memory: {}", self.global)
    }
}

impl WorkerPlace {
    /// The memory of this worker alone.
    pub fn memory(&self) -> Region {
        Region::Thread { node: self.node }
    }
}

impl CoreGroup {
    fn of(log: usize, workers: &[WorkerPlace]) -> Self {
        let members: Vec<usize> = (0..workers.len()).filter(|worker| workers[*worker].log == log).collect();
        let first = members.first().expect("there are no more logs than workers");
        Self { log, node: workers[*first].node, workers: members }
    }

    /// The memory that the workers of this group share.
    pub fn memory(&self) -> Region {
        Region::Socket { node: self.node }
    }
}

/// The workers on one node; at least one.
struct Crew {
    node: NodeId,
    /// Numbers and cores.
    workers: Vec<(usize, CoreId)>,
}

/// Deals `workers` workers, at least one, to the cores.
fn crews(topology: &Topology, workers: usize) -> Vec<Crew> {
    let widest = topology.sockets().map(|node| node.cores.len()).max().expect("a topology has cores");
    let turn = |turn: usize| topology.sockets().filter_map(move |node| Some((node.id, *node.cores.get(turn)?)));
    let seats: Vec<(NodeId, CoreId)> = (0..widest).flat_map(turn).collect();
    let mut crews: Vec<Crew> = topology.sockets().map(|node| Crew { node: node.id, workers: Vec::new() }).collect();
    for (worker, (node, core)) in seats.into_iter().cycle().take(workers).enumerate() {
        let crew = crews.iter_mut().find(|crew| crew.node == node).expect("seats are on these nodes");
        crew.workers.push((worker, core));
    }
    crews.retain(|crew| !crew.workers.is_empty());
    crews
}

fn logs_of(crews: &[Crew], workers_per_log: usize) -> usize {
    crews.iter().map(|crew| crew.workers.len().div_ceil(workers_per_log.max(1))).sum()
}

/// Which of `logs` logs each crew writes: its own if there are enough, each next one to the crew with most workers per
/// log, else one shared with its neighbours. There are at most as many logs as workers.
fn share_logs(crews: &[Crew], logs: usize) -> Vec<std::ops::Range<usize>> {
    if logs < crews.len() {
        return (0..crews.len()).map(|crew| crew * logs / crews.len()).map(|log| log..log + 1).collect();
    }
    let mut counts = vec![1; crews.len()];
    for _ in crews.len()..logs {
        // a / b < c / d as a × d < c × b. The first of equals wins, so that the result does not depend on anything
        // else.
        let ratio = |one: usize, other: usize| crews[one].workers.len() * counts[other];
        let most =
            (0..crews.len()).reduce(|most, next| if ratio(most, next) < ratio(next, most) { next } else { most });
        counts[most.expect("there are crews")] += 1;
    }
    let mut next = 0;
    let ranges = counts.into_iter().map(|count| {
        next += count;
        next - count..next
    });
    ranges.collect()
}

#[cfg(test)]
mod tests;
