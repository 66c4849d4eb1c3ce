//! The benchmark `fabric`: ways and sizes over connections, by transport.

use std::time::Duration;

use clap::Args;
use saki_base::Random;
use saki_report::{Common, Report, figure};
use serde_json::json;

use crate::measure::{Case, Requester, Way};
use crate::process::{Process, listen_at};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to go over: tcp, shm, verbs
    #[arg(long, value_delimiter = ',', default_values_t = ["tcp".to_owned(), "shm".to_owned()])]
    pub transports: Vec<String>,
    /// Connections at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    pub connections: Vec<usize>,
    /// Bytes of a page or message
    #[arg(long, value_delimiter = ',', default_values_t = [512, 4096, 16_384, 65_536])]
    pub sizes: Vec<usize>,
    /// In flight on each connection, divided by the connections (at least 1)
    #[arg(long, default_value_t = 128)]
    pub depth: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// MiB that are lent
    #[arg(long, default_value_t = 64)]
    pub megabytes: u32,
    /// A `fabric-peer` that listens on another host already; for one transport
    #[arg(long)]
    pub peer: Option<String>,
}

/// A report and what to draw of it: a chart of pages per second over sizes.
pub struct Outcome {
    pub report: Report,
    /// Names of the lines, and their points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Measures.
///
/// # Errors
/// Whatever kept it from being measured; pages that are wrong are faults of the report.
pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut report = Report::new("fabric", common);
    let mut lines = Vec::new();
    let seconds = if common.small { 0.05 } else { options.seconds };
    let megabytes = if common.small { 4 } else { options.megabytes };
    let connections = if common.small { vec![1, 4] } else { options.connections.clone() };
    // Half of the sizes.
    let step = if common.small { 2 } else { 1 };
    report.configure("seconds", seconds);
    report.configure("megabytes", megabytes);
    report.configure("depth", options.depth);
    report.note("pages are lent from memory, and every one is verified (xxh3-64) where it is read");
    println!(
        "{:8}{:8}{:>8}{:>6}{:>7}{:>14}{:>12}{:>12}",
        "", "way", "bytes", "links", "depth", "per second", "p50 us", "p99 us"
    );
    for transport in &options.transports {
        let peer = start(transport, megabytes, options.peer.as_deref())?;
        for &connections in &connections {
            for &bytes in options.sizes.iter().step_by(step) {
                let depth = (options.depth / connections).max(1);
                let mut requester = Requester::new(
                    transport,
                    &peer.address,
                    connections,
                    connections * depth,
                    bytes,
                    u64::from(megabytes) << 20,
                )?;
                let mut random = Random::new(common.seed);
                let mut cases = vec![(Way::Read, depth), (Way::Ask, depth), (Way::Echo, depth)];
                if connections == 1 {
                    cases.extend([(Way::Read, 1), (Way::Echo, 1)]);
                }
                for (way, depth) in cases {
                    let time = Duration::from_secs_f64(seconds);
                    let case = Case { way, connections, depth, bytes, time };
                    row(&mut report, &mut lines, transport, &case, &mut requester, &mut random)?;
                }
            }
        }
    }
    if options.transports.iter().any(|transport| transport == "verbs") {
        report.note(
            "soft-RoCE sends RDMA as UDP packets made by the processor: it favours TCP, and says nothing of \
                     what a device does",
        );
    }
    Ok(Outcome { report, lines })
}

fn row(
    report: &mut Report,
    lines: &mut Vec<(String, Vec<(f64, f64)>)>,
    transport: &str,
    case: &Case,
    requester: &mut Requester,
    random: &mut Random,
) -> Result<(), String> {
    let measured = requester.measure(case, random)?;
    let Case { way, connections, depth, bytes, .. } = *case;
    let name = match way {
        Way::Read => "read",
        Way::Ask => "ask",
        Way::Echo => "echo",
    };
    println!(
        "{transport:8}{name:8}{bytes:>8}{connections:>6}{depth:>7}{:>14}{:>12}{:>12}",
        figure(measured.per_second),
        figure(measured.median),
        figure(measured.p99)
    );
    report
        .check(measured.wrong == 0, || format!("{} pages of {bytes} bytes over {transport} are wrong", measured.wrong));
    report.check(measured.operations > 0, || format!("nothing came of {name} over {transport}"));
    report.row(json!({
        "transport": transport, "way": name, "bytes": bytes, "connections": connections, "depth": depth,
        "per_second": measured.per_second, "p50_us": measured.median, "p99_us": measured.p99,
        "megabytes_per_second": measured.per_second * bytes as f64 / 1e6, "operations": measured.operations,
    }));
    let best = |report: &mut Report, key: String, value: f64| {
        let before = report.summary.get(&key).copied().unwrap_or(0.0);
        report.summarise(key, value.max(before));
    };
    match (way, depth) {
        (Way::Read, 1) if connections == 1 => report.summarise(format!("{transport}_read_us_{bytes}"), measured.median),
        (Way::Echo, 1) if connections == 1 => report.summarise(format!("{transport}_echo_us_{bytes}"), measured.median),
        (Way::Read, _) => best(report, format!("{transport}_pages_{bytes}"), measured.per_second),
        (Way::Ask, _) => best(report, format!("{transport}_asked_pages_{bytes}"), measured.per_second),
        (Way::Echo, _) => best(report, format!("{transport}_echoes_{bytes}"), measured.per_second),
    }
    if depth > 1 && way != Way::Echo {
        let line = format!("{transport}, {name}, {connections} connections");
        match lines.iter_mut().find(|(found, _)| *found == line) {
            Some((_, points)) => points.push((bytes as f64, measured.per_second)),
            None => lines.push((line, vec![(bytes as f64, measured.per_second)])),
        }
    }
    Ok(())
}

/// The process that lends.
fn start(transport: &str, megabytes: u32, elsewhere: Option<&str>) -> Result<Process, String> {
    if let Some(address) = elsewhere {
        return Ok(Process::elsewhere(address));
    }
    let listen = listen_at(transport, "fabric");
    let megabytes = megabytes.to_string();
    Process::start(&["fabric-peer", "--transport", transport, "--listen", &listen, "--megabytes", &megabytes])
}
