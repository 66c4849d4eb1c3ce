use proptest::prelude::*;

use super::*;
use crate::Node;

fn cores(placement: &Placement) -> Vec<u32> {
    placement.workers().iter().map(|worker| worker.core.0).collect()
}

fn logs(placement: &Placement) -> Vec<usize> {
    placement.workers().iter().map(|worker| worker.log).collect()
}

#[test]
fn on_two_processors_of_ten_cores_each_has_its_log() {
    let placement = Placement::plan(&Topology::uniform(2, 10), 20, None);
    assert_eq!(placement.logs(), 2);
    for (log, group) in placement.groups().iter().enumerate() {
        assert_eq!((group.log, group.node, group.workers.len()), (log, NodeId(log as u32), 10));
        assert_eq!(placement.binding(group.memory()), Binding::Node(group.node));
    }
    let nodes = Arc::from([NodeId(0), NodeId(1)]);
    assert_eq!(placement.binding(Region::Global), Binding::Interleaved(nodes));
}

#[test]
fn workers_take_nodes_in_turn() {
    let placement = Placement::plan(&Topology::uniform(2, 4), 8, Some(4));
    assert_eq!(cores(&placement), [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!(logs(&placement), [0, 2, 0, 2, 1, 3, 1, 3]);
}

#[test]
fn two_workers_of_one_socket_may_have_a_log_each() {
    let plan = |logs| Placement::plan(&Topology::uniform(1, 2), 2, logs);
    assert_eq!(logs(&plan(None)), [0, 0]);
    assert_eq!(logs(&plan(Some(0))), [0, 0]);
    assert_eq!(logs(&plan(Some(1))), [0, 0]);
    assert_eq!(logs(&plan(Some(2))), [0, 1]);
    assert_eq!(logs(&plan(Some(99))), [0, 1]);
}

#[test]
fn many_workers_get_more_logs() {
    let default_logs = |workers, per_log| Placement::default_logs(&Topology::uniform(2, 10), workers, per_log);
    assert_eq!(default_logs(1, 10), 1);
    assert_eq!(default_logs(2, 10), 2);
    assert_eq!(default_logs(20, 10), 2);
    assert_eq!(default_logs(22, 10), 4);
    assert_eq!(default_logs(20, 4), 6);
    assert_eq!(default_logs(20, 0), 20);
    assert_eq!(Placement::plan(&Topology::uniform(2, 10), 40, None).logs(), 4);
}

#[test]
fn fewer_logs_than_nodes_are_shared_by_neighbours() {
    let placement = Placement::plan(&Topology::uniform(4, 1), 4, Some(2));
    assert_eq!(logs(&placement), [0, 0, 1, 1]);
    assert_eq!(placement.groups()[1], CoreGroup { log: 1, node: NodeId(2), workers: vec![2, 3] });
}

#[test]
fn workers_beyond_the_cores_start_over() {
    assert_eq!(cores(&Placement::plan(&Topology::uniform(2, 2), 6, None)), [0, 2, 1, 3, 0, 2]);
    assert_eq!(cores(&Placement::plan(&Topology::uniform(1, 1), 3, None)), [0, 0, 0]);
    assert_eq!(cores(&Placement::plan(&Topology::uniform(1, 1), 0, None)), [0]);
}

#[test]
fn one_socket_binds_nothing() {
    let placement = Placement::plan(&Topology::uniform(1, 8), 8, Some(3));
    let workers = placement.workers().iter().map(WorkerPlace::memory);
    let regions = workers.chain(placement.groups().iter().map(CoreGroup::memory)).chain([Region::Global]);
    assert!(regions.into_iter().all(|region| placement.binding(region) == Binding::FirstTouch));
}

#[test]
fn memory_is_bound_only_where_there_is_some() {
    let node = |id, cores: std::ops::Range<u32>, has_memory| Node {
        id: NodeId(id),
        cores: cores.map(CoreId).collect(),
        has_memory,
    };
    let plan = |nodes: Vec<Node>| Placement::plan(&Topology::of(nodes), 4, None);
    let bare = plan(vec![node(0, 0..2, true), node(1, 2..4, false), node(2, 4..4, true)]);
    assert_eq!(bare.binding(Region::Thread { node: NodeId(0) }), Binding::Node(NodeId(0)));
    assert_eq!(bare.binding(Region::Thread { node: NodeId(1) }), Binding::FirstTouch);
    // Node 2 has no cores, node 1 no memory.
    assert_eq!(bare.binding(Region::Global), Binding::Node(NodeId(0)));
    let elsewhere = plan(vec![node(0, 0..2, false), node(1, 2..4, false), node(2, 4..4, true)]);
    assert_eq!(elsewhere.binding(Region::Global), Binding::FirstTouch);
}

#[test]
fn a_plan_reads_well() {
    let placement = Placement::plan(&Topology::uniform(2, 4), 2, None);
    let lines = "worker 0: node 0 core 0, log 0\nworker 1: node 1 core 4, log 1\n\
                 global memory: interleaved over nodes 0-1";
    assert_eq!(placement.to_string(), lines);
}

/// Up to five nodes of different sizes, their cores' and their own numbers with holes.
fn topologies() -> impl Strategy<Value = Topology> {
    let sizes = proptest::collection::vec((0..9_u32, any::<bool>()), 1..6);
    sizes.prop_filter("has cores", |nodes| nodes.iter().any(|(cores, _)| *cores > 0)).prop_map(|nodes| {
        let cores = |node: u32, count| (node * 20..node * 20 + count).map(CoreId).collect();
        let nodes = nodes.into_iter().zip((0..).step_by(3));
        Topology::of(nodes.map(|((count, memory), id)| Node {
            id: NodeId(id),
            cores: cores(id, count),
            has_memory: memory,
        }))
    })
}

fn count<T>(items: &[T], wanted: impl Fn(&T) -> bool) -> usize {
    items.iter().filter(|item| wanted(item)).count()
}

proptest! {
    #[test]
    fn every_worker_has_a_core_of_its_node_and_cores_are_shared_as_little_as_possible(
        topology in topologies(), workers in 1..80_usize, logs in proptest::option::of(0..100_usize),
    ) {
        let placement = Placement::plan(&topology, workers, logs);
        prop_assert_eq!(placement.workers().len(), workers);
        for worker in placement.workers() {
            prop_assert_eq!(topology.node_of(worker.core), Some(worker.node));
        }
        let loads = topology.cores().map(|core| count(placement.workers(), |worker| worker.core == core));
        let (least, most) = loads.fold((usize::MAX, 0), |(least, most), load| (least.min(load), most.max(load)));
        prop_assert!(most - least <= 1, "{} to {} workers on a core", least, most);
    }

    #[test]
    fn nodes_of_one_size_have_the_same_number_of_workers(
        nodes in 1..6_u32, cores in 1..9_u32, workers in 1..80_usize, logs in proptest::option::of(0..100_usize),
    ) {
        let placement = Placement::plan(&Topology::uniform(nodes, cores), workers, logs);
        let loads = (0..nodes).map(|node| count(placement.workers(), |worker| worker.node == NodeId(node)));
        let (least, most) = loads.fold((usize::MAX, 0), |(least, most), load| (least.min(load), most.max(load)));
        prop_assert!(most - least <= 1, "{} to {} workers on a node", least, most);
    }

    #[test]
    fn every_log_has_workers_of_one_node_if_there_are_enough_logs(
        topology in topologies(), workers in 1..80_usize, logs in proptest::option::of(0..100_usize),
    ) {
        let placement = Placement::plan(&topology, workers, logs);
        let is_used = |node: NodeId| placement.workers().iter().any(|worker| worker.node == node);
        let used = topology.sockets().filter(|node| is_used(node.id)).count();
        let logs = logs.unwrap_or_else(|| Placement::default_logs(&topology, workers, WORKERS_PER_LOG));
        prop_assert_eq!(placement.logs(), logs.clamp(1, workers));
        let mut seen = vec![false; workers];
        for (log, group) in placement.groups().iter().enumerate() {
            prop_assert_eq!(group.log, log);
            prop_assert!(!group.workers.is_empty());
            for worker in &group.workers {
                prop_assert!(!std::mem::replace(&mut seen[*worker], true), "worker {} is in two groups", worker);
                prop_assert_eq!(placement.workers()[*worker].log, log);
                prop_assert!(placement.logs() < used || placement.workers()[*worker].node == group.node);
            }
        }
        prop_assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn logs_of_one_node_have_the_same_number_of_workers(
        cores in 1..20_u32, workers in 1..80_usize, logs in 1..80_usize,
    ) {
        let placement = Placement::plan(&Topology::uniform(1, cores), workers, Some(logs));
        let sizes = placement.groups().iter().map(|group| group.workers.len());
        let (least, most) = sizes.fold((usize::MAX, 0), |(least, most), size| (least.min(size), most.max(size)));
        prop_assert!(most - least <= 1, "{} to {} workers on a log", least, most);
    }

    #[test]
    fn memory_is_bound_only_to_nodes_that_have_some(topology in topologies(), workers in 1..80_usize) {
        let placement = Placement::plan(&topology, workers, None);
        let has_memory = |id: NodeId| topology.nodes().iter().any(|node| node.id == id && node.has_memory);
        let single = topology.nodes().iter().filter(|node| node.has_memory).count() <= 1;
        let regions = placement.workers().iter().map(WorkerPlace::memory).chain([Region::Global]);
        for region in regions {
            match placement.binding(region) {
                Binding::FirstTouch => {}
                Binding::Node(node) => prop_assert!(!single && has_memory(node)),
                Binding::Interleaved(nodes) => prop_assert!(!single && nodes.iter().all(|node| has_memory(*node))),
            }
        }
    }
}
