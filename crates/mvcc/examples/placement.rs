//! Where workers would run on this machine, where their memory would lie, and whether it does.
//!
//! ```text
//! cargo run --release -p saki-mvcc --example placement [workers] [--logs n] [--nodes n]
//! ```
//!
//! Prints the topology and the plan, then starts the workers pinned as planned. Each maps memory of its own, of its
//! group and global memory and writes it. To tell a binding from the luck of having written first, worker 0 does the
//! same for all others from its own core. Then the kernel is asked where the pages are; each line has a verdict, and so
//! has the program: it fails if a page is not where the plan wants it, if the system refuses to bind memory, or if the
//! machine does not have as many nodes as `--nodes` says.
//!
//! How to have two nodes in a virtual machine stands in the introduction of `saki_mvcc::placement`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use saki_mvcc::placement::{
    Binding, MAPPING_BYTES, NodeId, Placement, Region, Topology, WorkerPlace, current_core, pin_current_thread,
};

/// Huge pages of each mapping and node: even where the system gives those, interleaving has something to spread.
const HUGE_PAGES_PER_NODE: usize = 4;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| prove(&options, &mut io::stdout())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("placement: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
pub struct Options {
    /// One per core if not given.
    pub workers: Option<usize>,
    pub logs: Option<usize>,
    /// Nodes with cores that the machine must have.
    pub nodes: Option<usize>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let (option, number) = match argument.as_str() {
                "--logs" => (&mut options.logs, arguments.next()),
                "--nodes" => (&mut options.nodes, arguments.next()),
                _ => (&mut options.workers, Some(argument.clone())),
            };
            let number = number.and_then(|number| number.parse().ok());
            *option = Some(number.ok_or_else(|| format!("{argument}: a number is wanted"))?);
        }
        Ok(options)
    }
}

/// Does all of the above; what was found goes to `out`.
pub fn prove(options: &Options, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let topology = Topology::detect();
    let workers = options.workers.unwrap_or_else(|| topology.cores().count());
    let placement = Placement::plan(&topology, workers, options.logs);
    let findings = findings(&topology, &placement)?;
    writeln!(out, "{topology}\n\n{placement}\n\n{:<34}{:<8}{:<34}pages", "memory", "found", "wanted")?;
    findings.iter().try_for_each(|finding| writeln!(out, "{finding}"))?;
    let sockets = topology.sockets().count();
    if let Some(nodes) = options.nodes.filter(|nodes| *nodes != sockets) {
        return Err(format!("{nodes} nodes with cores expected, {sockets} found").into());
    }
    match findings.iter().filter(|finding| finding.is_wrong()).count() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} mappings are not where the plan wants them", findings.len()).into()),
    }
}

/// All workers' findings, by their numbers, then those of worker 0 about what it wrote in place of the others.
fn findings(topology: &Topology, placement: &Placement) -> io::Result<Vec<Finding>> {
    std::thread::scope(|scope| {
        let run = |number: usize| move || Worker { topology, placement, number }.run();
        let threads: Vec<_> = (0..placement.workers().len()).map(|number| scope.spawn(run(number))).collect();
        let mut findings = Vec::new();
        for thread in threads {
            findings.extend(thread.join().expect("workers do not panic")?);
        }
        let stranger = scope.spawn(|| Worker { topology, placement, number: 0 }.write_for_others());
        findings.extend(stranger.join().expect("workers do not panic")?);
        Ok(findings)
    })
}

struct Worker<'a> {
    topology: &'a Topology,
    placement: &'a Placement,
    number: usize,
}

impl Worker<'_> {
    fn place(&self) -> WorkerPlace {
        self.placement.workers()[self.number]
    }

    fn pin(&self) -> io::Result<()> {
        let core = self.place().core;
        pin_current_thread(core)?;
        assert_eq!(current_core()?, core, "a pinned thread runs elsewhere");
        Ok(())
    }

    fn run(&self) -> io::Result<Vec<Finding>> {
        self.pin()?;
        let group = &self.placement.groups()[self.place().log];
        let name = |region| format!("worker {}: {region}", self.number);
        Ok(vec![
            self.write(name("thread"), self.place().memory())?,
            self.write(name("socket"), group.memory())?,
            self.write(name("global"), Region::Global)?,
        ])
    }

    fn write_for_others(&self) -> io::Result<Vec<Finding>> {
        self.pin()?;
        let others = self.placement.workers().iter().enumerate().skip(1);
        let name = |other| format!("worker {other}: thread, written by {}", self.number);
        others.map(|(other, place)| self.write(name(other), place.memory())).collect()
    }

    fn write(&self, what: String, region: Region) -> io::Result<Finding> {
        let binding = self.placement.binding(region);
        let mut mapping =
            self.placement.map(region, HUGE_PAGES_PER_NODE * MAPPING_BYTES * self.topology.nodes().len())?;
        mapping.touch();
        let pages = mapping.residence().ok();
        let has_memory = |node| self.topology.nodes().iter().any(|other| other.id == node && other.has_memory);
        let writer = Some(self.place().node).filter(|node| has_memory(*node));
        let is_single = self.topology.nodes().len() == 1;
        Ok(Finding { what, is_bound: mapping.is_bound(), binding, pages, writer, is_single })
    }
}

/// Where one mapping was found to be.
struct Finding {
    what: String,
    binding: Binding,
    is_bound: bool,
    /// By node; `None` if the system does not tell.
    pages: Option<BTreeMap<NodeId, usize>>,
    /// The node of the thread that wrote, if it has memory.
    writer: Option<NodeId>,
    is_single: bool,
}

impl Finding {
    /// Whether the system does not let its memory be bound.
    fn is_refused(&self) -> bool {
        self.binding != Binding::FirstTouch && !self.is_bound
    }

    fn is_wrong(&self) -> bool {
        if self.is_refused() {
            return true;
        }
        // On a single node, where else should it be.
        let Some(pages) = &self.pages else { return !self.is_single };
        let are_all_on = |node: &NodeId| pages.keys().eq([node]);
        match &self.binding {
            Binding::FirstTouch => !self.is_single && !self.writer.as_ref().is_none_or(are_all_on),
            Binding::Node(node) => !are_all_on(node),
            Binding::Interleaved(nodes) => {
                let total: usize = pages.values().sum();
                let least = total / nodes.len() / 2;
                !pages.keys().eq(nodes.iter()) || pages.values().any(|count| *count < least)
            }
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = |pages: &BTreeMap<NodeId, usize>| {
            pages.iter().map(|(node, count)| format!("{node}: {count}")).collect::<Vec<_>>().join(", ")
        };
        let pages = self.pages.as_ref().map_or_else(|| "the system does not tell".to_owned(), counts);
        let verdict = match (self.is_refused(), self.is_wrong()) {
            (true, _) => "refused",
            (false, true) => "WRONG",
            (false, false) => "ok",
        };
        write!(f, "{:<34}{verdict:<8}{:<34}{pages}", self.what, self.binding.to_string())
    }
}
