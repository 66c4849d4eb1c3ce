//! The example `placement` on the machine of the tests, whatever its nodes are: every worker's memory is where the plan
//! wants it.

#[allow(dead_code)]
#[path = "../examples/placement.rs"]
mod example;

use example::{Options, prove};
use saki_mvcc::placement::{MAPPING_BYTES, Mapping, Topology};

/// What was printed, or the error with it.
fn proved(options: &Options) -> Result<String, String> {
    let mut out = Vec::new();
    let result = prove(options, &mut out);
    let text = String::from_utf8(out).expect("text");
    match result {
        // A sandbox on a large machine: nothing is where it should be, and the database runs all the same.
        Err(error) if is_refusing() => {
            eprintln!("not shown, since the system refuses to bind memory: {error}");
            Ok(text)
        }
        result => result.map(|()| text.clone()).map_err(|error| format!("{error}\n{text}")),
    }
}

/// Whether the machine has several nodes but memory cannot be bound to them.
fn is_refusing() -> bool {
    let topology = Topology::detect();
    let node = topology.nodes().iter().find(|node| node.has_memory).map(|node| node.id);
    topology.nodes().len() > 1 && !Mapping::new_on(MAPPING_BYTES, node).expect("memory").is_bound()
}

#[test]
fn memory_is_where_the_plan_wants_it() {
    let text = proved(&Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(text.starts_with(&Topology::detect().to_string()), "{text}");
    assert!(text.contains("worker 0: global"), "{text}");
}

#[test]
fn workers_may_be_more_than_cores() {
    let workers = 2 * Topology::detect().cores().count() + 1;
    let text = proved(&Options { workers: Some(workers), logs: Some(3), nodes: None })
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(text.contains(&format!("worker {}: thread, written by 0", workers - 1)), "{text}");
}

#[test]
fn another_machine_than_the_expected_one_is_told() {
    let sockets = Topology::detect().sockets().count();
    let options = Options { nodes: Some(sockets + 1), ..Options::default() };
    let error = prove(&options, &mut Vec::new()).expect_err("a machine of more nodes").to_string();
    assert!(error.contains("nodes with cores expected"), "{error}");
}
