use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;
use tracing::span;

use super::*;

/// A made-up sysfs.
struct System(TempDir);

impl System {
    fn new(files: &[(&str, &str)]) -> Self {
        let system = Self(tempfile::tempdir().expect("a directory"));
        files.iter().for_each(|(path, text)| system.write(path, text));
        system
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn topology(&self, allowed: impl IntoIterator<Item = u32>) -> Topology {
        Topology::read(self.0.path(), &allowed.into_iter().map(CoreId).collect::<Vec<_>>())
    }

    fn shows(&self, allowed: impl IntoIterator<Item = u32>) -> String {
        self.topology(allowed).to_string()
    }
}

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn event(&self, event: &tracing::Event<'_>) {
        self.0.fetch_add(usize::from(*event.metadata().level() == tracing::Level::WARN), Ordering::Relaxed);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn warnings_of(body: impl FnOnce()) -> usize {
    let warnings = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Warnings(Arc::clone(&warnings)), body);
    warnings.load(Ordering::Relaxed)
}

fn two_sockets() -> System {
    System::new(&[
        ("node/node0/cpulist", "0-9\n"),
        ("node/node1/cpulist", "10-19\n"),
        ("node/has_memory", "0-1\n"),
        ("node/possible", "0-7\n"),
        ("cpu/online", "0-19\n"),
    ])
}

#[test]
fn two_sockets_are_two_nodes() {
    let topology = two_sockets().topology(0..20);
    assert_eq!(topology.to_string(), "2 sockets: node 0 cores 0-9, node 1 cores 10-19");
    assert_eq!(topology, Topology::uniform(2, 10));
    assert_eq!(topology.node_of(CoreId(10)), Some(NodeId(1)));
    assert_eq!(topology.node_of(CoreId(20)), None);
}

#[test]
fn cores_not_allowed_are_not_there() {
    let system = two_sockets();
    assert_eq!(system.shows([1, 2, 3, 12, 14, 99]), "2 sockets: node 0 cores 1-3, node 1 cores 12,14");
    assert_eq!(system.shows([12]), "1 socket: node 0 without cores, node 1 core 12");
}

#[test]
fn cores_offline_are_not_there() {
    let system = two_sockets();
    system.write("cpu/online", "0-3,5,12-19\n");
    assert_eq!(system.shows(0..20), "2 sockets: node 0 cores 0-3,5, node 1 cores 12-19");
}

#[test]
fn a_node_may_have_only_memory_or_only_cores() {
    let system = two_sockets();
    system.write("node/node2/cpulist", "\n");
    system.write("node/has_memory", "0,2\n");
    let shown = "2 sockets: node 0 cores 0-9, node 1 cores 10-19 without memory, node 2 without cores";
    assert_eq!(system.shows(0..20), shown);
    assert_eq!(system.topology(0..20).sockets().count(), 2);
}

#[test]
fn numbers_may_have_holes() {
    let system = System::new(&[
        ("node/node8/cpulist", "40-41,60"),
        ("node/node2/cpulist", "4,6"),
        ("node/node10/cpulist", "100"),
        ("node/power/control", "auto"),
        ("node/nodes", "no node"),
        ("cpu/online", "4,6,40-41,60,100"),
    ]);
    assert_eq!(system.shows(0..200), "3 sockets: node 2 cores 4,6, node 8 cores 40-41,60, node 10 core 100");
}

#[test]
fn second_hardware_threads_come_last() {
    let system = System::new(&[("node/node0/cpulist", "0-7"), ("cpu/online", "0-7")]);
    for core in 0..8 {
        let siblings = format!("{}-{}", core & !1, core | 1);
        system.write(&format!("cpu/cpu{core}/topology/thread_siblings_list"), siblings);
    }
    let order =
        |allowed: &[u32]| system.topology(allowed.iter().copied()).cores().map(|core| core.0).collect::<Vec<_>>();
    assert_eq!(order(&[0, 1, 2, 3, 4, 5, 6, 7]), [0, 2, 4, 6, 1, 3, 5, 7]);
    // What counts is the first thread that may be used.
    assert_eq!(order(&[1, 2, 3, 5]), [1, 2, 5, 3]);
    assert_eq!(system.shows(0..8), "1 socket: node 0 cores 0-7");
}

#[test]
fn without_a_directory_of_nodes_there_is_one() {
    let system = System::new(&[("cpu/online", "0-3")]);
    assert_eq!(system.shows([0, 2, 3]), "1 socket: node 0 cores 0,2-3");
    assert_eq!(Topology::read(Path::new("/nonexistent"), &[CoreId(0)]).to_string(), "1 socket: node 0 core 0");
    let without_nodes = System::new(&[("node/possible", "0")]);
    assert_eq!(without_nodes.shows([0, 1]), "1 socket: node 0 cores 0-1");
    let warnings = warnings_of(|| {
        system.topology([0]);
        two_sockets().topology(0..20);
    });
    assert_eq!(warnings, 0, "neither is worth one");
}

#[test]
fn contradictions_make_one_node_and_a_warning() {
    let one = "1 socket: node 0 cores 0-19";
    let contradictions = [
        ("node/node1/cpulist", "9-19"),
        ("node/node1/cpulist", "10-18"),
        ("node/node1/cpulist", ""),
        ("node/node1/cpulist", "10-nineteen"),
        ("node/node1/cpulist", "19-10"),
        ("node/node1/cpulist", "10-19,"),
        ("node/node1/cpulist", "10-4294967295"),
        ("node/node1/cpulist", "10-99999999999"),
        ("node/has_memory", "all of them"),
        ("cpu/online", "\0\u{fffd}"),
        ("cpu/online", "20-39"),
    ];
    for (path, text) in contradictions {
        let system = two_sockets();
        system.write(path, text);
        let warnings = warnings_of(|| assert_eq!(system.shows(0..20), one, "{path}: {text:?}"));
        assert_eq!(warnings, 1, "{path}: {text:?}");
    }
    let system = two_sockets();
    system.write("cpu/online", [0xff, 0xfe, 0]);
    assert_eq!(system.shows(0..20), one);
    let system = two_sockets();
    fs::remove_file(system.0.path().join("cpu/online")).expect("a file");
    fs::create_dir(system.0.path().join("cpu/online")).expect("a directory");
    assert_eq!(system.shows(0..20), one);
}

#[test]
fn this_machine_has_the_cores_allowed() {
    let mut cores: Vec<CoreId> = Topology::detect().cores().collect();
    cores.sort_unstable();
    assert_eq!(cores, affinity::allowed_cores().expect("may be asked"));
}

proptest! {
    #[test]
    fn what_is_shown_is_read_back(numbers in proptest::collection::btree_set(0..NUMBERS_MAX, 0..40)) {
        prop_assert_eq!(parse_list(&ranges(numbers.iter().copied())), Some(numbers));
    }

    #[test]
    fn no_files_make_a_topology_without_the_allowed_cores(
        first in "[0-9,-]{0,8}", second in "[0-9,-]{0,8}", online in "[0-9,-]{0,8}",
        allowed in proptest::collection::btree_set(0..12_u32, 1..6),
    ) {
        let files = [("node/node0/cpulist", &*first), ("node/node3/cpulist", &*second), ("cpu/online", &*online)];
        let system = System::new(&files);
        let topology = system.topology(allowed.iter().copied());
        prop_assert!(topology.sockets().count() > 0);
        prop_assert!(topology.cores().all(|core| allowed.contains(&core.0)));
    }
}
