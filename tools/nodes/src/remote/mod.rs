//! The benchmark `remote`: pages of another process beside those of one's own, by transport and size, and runs of a
//! megabyte; connections by the owner's threads; and the owner's reactor beside the two ways that block a thread for
//! each read.

mod measure;
mod owner;
mod runs;
mod stores;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use saki_base::{PageRef, PageSize};
use saki_io::Backend;
use saki_page::{PageStore, RunStore};
use saki_remote::{RemoteOptions, RemoteStore};
use saki_report::{Common, Report, figure};
use serde_json::json;

use self::measure::{Case, Measured, measure};
pub use self::owner::{OwnerOptions, serve};
use self::runs::{RUN_BYTES, Runs};
use self::stores::Reading;
use crate::process::{Process, listen_at};
use crate::run::Outcome;
use crate::world::{port_options, transport};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to go over: tcp, shm, verbs
    #[arg(long, value_delimiter = ',', default_values_t = ["tcp".to_owned(), "shm".to_owned()])]
    pub transports: Vec<String>,
    /// Bytes of a page
    #[arg(long, value_delimiter = ',', default_values_t = [4096, 16_384, 65_536])]
    pub sizes: Vec<u32>,
    /// In flight at once
    #[arg(long, default_value_t = 256)]
    pub depth: usize,
    /// Connections, where they are varied
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    pub connections: Vec<usize>,
    /// Threads of the owner, where they are varied
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Blocking threads for each connection, of the static way
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16, 64])]
    pub pool: Vec<usize>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// How often each is measured, in turns; the medians count
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// MiB of pages on the device
    #[arg(long, default_value_t = 1024)]
    pub megabytes: u64,
    /// MiB of pages in memory
    #[arg(long, default_value_t = 64)]
    pub megabytes_in_memory: u64,
}

/// One run.
struct Bench<'o> {
    common: &'o Common,
    options: Options,
    report: Report,
    lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Where pages are read, and how.
#[derive(Clone, Copy)]
struct Place<'p> {
    file: &'p Path,
    page_size: PageSize,
    pages: &'p [PageRef],
    transport: &'p str,
    reading: Reading,
    threads: usize,
}

/// Measures.
///
/// # Errors
/// Whatever kept it from being measured; pages that are wrong are faults of the report.
pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut options = options.clone();
    if common.small {
        options.seconds = 0.05;
        options.rounds = 1;
        options.megabytes = 16;
        options.megabytes_in_memory = 4;
        options.sizes.truncate(2);
        options.pool.truncate(1);
        options.connections.truncate(2);
        options.threads.truncate(1);
    }
    let mut bench = Bench { common, options, report: Report::new("remote", common), lines: Vec::new() };
    bench.configure();
    std::fs::create_dir_all(&common.data).map_err(|error| format!("{}: {error}", common.data.display()))?;
    for bytes in bench.options.sizes.clone() {
        let page_size = PageSize::new(bytes).map_err(|error| error.to_string())?;
        bench.size(page_size)?;
    }
    bench.summarise_worst();
    Ok(Outcome { report: bench.report, lines: bench.lines })
}

impl Bench<'_> {
    fn configure(&mut self) {
        let options = &self.options;
        println!(
            "{:8}{:18}{:>8}{:>7}{:>9}{:>14}{:>12}{:>12}",
            "", "owner reads by", "bytes", "lanes", "threads", "per second", "p50 us", "p99 us"
        );
        self.report.configure("seconds", options.seconds);
        self.report.configure("rounds", options.rounds);
        self.report.configure("depth", options.depth);
        self.report.configure("megabytes", options.megabytes);
        self.report.configure("megabytes_in_memory", options.megabytes_in_memory);
        self.report.note("every page is verified (xxh3-64) where it is read; both processes share the machine's cores");
        self.report.note("ratios are of medians of rounds in which local and remote reads take turns");
    }

    fn size(&mut self, page_size: PageSize) -> Result<(), String> {
        let bytes = page_size.bytes() as u64;
        let file = self.common.data.join(format!("remote-{bytes}"));
        let pages = stores::create(&file, page_size, (self.options.megabytes << 20) / bytes)?;
        let memory = stores::in_memory(page_size, (self.options.megabytes_in_memory << 20) / bytes);
        let local = stores::volume(&file, Backend::Auto)?;
        let runs = Runs::of(page_size, &pages);
        let (local_pages, local_runs): (Arc<dyn PageStore>, Arc<dyn RunStore>) = (local.clone(), local);
        for transport in self.options.transports.clone() {
            let disk = Place {
                file: &file,
                page_size,
                pages: &pages,
                transport: &transport,
                reading: Reading::Reactor,
                threads: 1,
            };
            self.beside_local(&local_pages, disk)?;
            self.scans_beside_local(&*local_runs, &runs, disk)?;
            let in_memory = Place { pages: &memory, reading: Reading::Memory, ..disk };
            let pages = self.alone(in_memory, 1)?;
            self.report.summarise(format!("{transport}_pages_{bytes}"), pages);
            self.varied(disk)?;
        }
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn case(&self, lanes: usize, round: usize) -> Case {
        let time = Duration::from_secs_f64(self.options.seconds);
        Case { lanes, depth: self.options.depth, time, seed: self.common.seed + round as u64 }
    }

    /// Pages on the device: local and remote reads in turns, and their ratio.
    fn beside_local(&mut self, local: &Arc<dyn PageStore>, place: Place<'_>) -> Result<(), String> {
        let (_owner, remote) = open(place)?;
        // Once before it counts: governors find the device's depth.
        measure(local, place.pages, &self.case(1, 0))?;
        measure(&remote, place.pages, &self.case(1, 0))?;
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..self.options.rounds {
            let case = self.case(1, round);
            for (rates, store) in rates.iter_mut().zip([local, &remote]) {
                rates.push(measure(store, place.pages, &case)?);
            }
        }
        let [local, remote] = rates.map(median_of);
        let bytes = place.page_size.bytes();
        self.row("local", place, 1, &local);
        self.row(place.transport, place, 1, &remote);
        self.report.summarise(format!("{}_ratio_{bytes}", place.transport), remote.per_second / local.per_second);
        Ok(())
    }

    /// Scans of runs on the device: local and remote ones in turns, and their ratio.
    fn scans_beside_local(&mut self, local: &dyn RunStore, runs: &Runs, place: Place<'_>) -> Result<(), String> {
        let (_owner, remote) = open(place)?;
        let remote = runs::by_pages(&remote);
        let stores = [local, &*remote];
        for store in stores {
            runs.scan(store, &self.case(1, 0))?;
        }
        let mut scans = [Vec::new(), Vec::new()];
        for round in 0..self.options.rounds {
            for (scans, store) in scans.iter_mut().zip(stores) {
                scans.push(runs.scan(store, &self.case(1, round))?);
            }
        }
        let [local, remote] = scans.map(median_of);
        self.scan_row("local", place, &local);
        self.scan_row(place.transport, place, &remote);
        let name = format!("{}_runs_ratio_{}", place.transport, place.page_size.bytes());
        self.report.summarise(name, remote.per_second / local.per_second);
        Ok(())
    }

    fn scan_row(&mut self, way: &str, place: Place<'_>, measured: &Measured) {
        let (bytes, rate) = (place.page_size.bytes(), measured.per_second * RUN_BYTES as f64 / 1e6);
        println!("{way:8}{:18}{bytes:>8}{:>7}{:>9}{:>14} MB", "runs of 1 MiB", 1, place.threads, figure(rate));
        let Measured { wrong, reads: runs, .. } = *measured;
        self.report.check(wrong == 0 && runs > 0, || format!("{wrong} of {runs} runs, {way}, are wrong"));
        self.report.row(json!({ "way": way, "runs": true, "bytes": bytes, "megabytes_per_second": rate }));
    }

    /// Pages of one owner, as often as there are rounds: the median.
    fn alone(&mut self, place: Place<'_>, lanes: usize) -> Result<f64, String> {
        let (_owner, remote) = open(place)?;
        let rounds = 0..self.options.rounds;
        let measured: Result<Vec<_>, _> =
            rounds.map(|round| measure(&remote, place.pages, &self.case(lanes, round))).collect();
        let measured = median_of(measured?);
        self.row(place.transport, place, lanes, &measured);
        Ok(measured.per_second)
    }

    /// Connections by threads of the owner; and the ways that block a thread for each read.
    fn varied(&mut self, place: Place<'_>) -> Result<(), String> {
        let (mut default, mut best) = (0.0, 0.0_f64);
        for threads in self.options.threads.clone() {
            for lanes in self.options.connections.clone() {
                let rate = self.alone(Place { threads, ..place }, lanes)?;
                if (threads, lanes) == (1, 1) {
                    default = rate;
                }
                best = best.max(rate);
            }
        }
        let mut blocking = 0.0_f64;
        for lanes in self.options.connections.clone() {
            let pools = self.options.pool.iter().map(|threads| Reading::Pool(threads * lanes));
            for reading in pools.chain([Reading::ThreadPerRead]).collect::<Vec<_>>() {
                blocking = blocking.max(self.alone(Place { reading, ..place }, lanes)?);
            }
        }
        let name = format!("{}_{}", place.transport, place.page_size.bytes());
        self.report.summarise(format!("default_over_best_{name}"), best.max(default) / default);
        self.report.summarise(format!("reactor_over_blocking_{name}"), default / blocking);
        Ok(())
    }

    /// The worst of all transports and sizes.
    fn summarise_worst(&mut self) {
        let ratios = self.report.summary.iter().filter(|(name, _)| name.starts_with("default_over_best_"));
        let worst = ratios.map(|(_, ratio)| *ratio).fold(0.0, f64::max);
        self.report.summarise("default_over_best", worst);
    }

    fn row(&mut self, way: &str, place: Place<'_>, lanes: usize, measured: &Measured) {
        let (bytes, threads) = (place.page_size.bytes(), place.threads);
        let reading = match place.reading {
            Reading::Reactor => "reactor".into(),
            Reading::Pool(threads) => format!("pool of {threads}"),
            Reading::ThreadPerRead => "thread per read".into(),
            Reading::Memory => "memory".into(),
        };
        println!(
            "{way:8}{reading:18}{bytes:>8}{lanes:>7}{threads:>9}{:>14}{:>12}{:>12}",
            figure(measured.per_second),
            figure(measured.median),
            figure(measured.p99)
        );
        self.report
            .check(measured.wrong == 0, || format!("{} pages of {bytes} bytes, {way}, are wrong", measured.wrong));
        self.report.check(measured.reads > 0, || format!("no page of {bytes} bytes came, {way}, {reading}"));
        self.report.row(json!({
            "way": way, "reading": reading, "bytes": bytes, "lanes": lanes, "threads": threads,
            "per_second": measured.per_second, "p50_us": measured.median, "p99_us": measured.p99,
            "megabytes_per_second": measured.per_second * bytes as f64 / 1e6, "reads": measured.reads,
        }));
        if lanes == 1 && threads == 1 && matches!(place.reading, Reading::Reactor | Reading::Memory) {
            let line = if place.reading == Reading::Memory { format!("{way}, memory") } else { way.to_owned() };
            let point = (bytes as f64, measured.per_second);
            match self.lines.iter_mut().find(|(found, _)| *found == line) {
                Some((_, points)) => match points.iter_mut().find(|(at, _)| *at == point.0) {
                    Some(before) => *before = point,
                    None => points.push(point),
                },
                None => self.lines.push((line, vec![point])),
            }
        }
    }
}

/// The owner's process, and its pages from here.
fn open(place: Place<'_>) -> Result<(Process, Arc<dyn PageStore>), String> {
    let listen = listen_at(place.transport, "remote");
    let (file, threads) = (place.file.to_string_lossy().into_owned(), place.threads.to_string());
    let (bytes, pages) = (place.page_size.bytes().to_string(), place.pages.len().to_string());
    let reading = match place.reading {
        Reading::Reactor => "reactor".into(),
        Reading::Pool(threads) => format!("pool:{threads}"),
        Reading::ThreadPerRead => "thread-per-read".into(),
        Reading::Memory => "memory".into(),
    };
    let mut arguments = vec!["remote-owner", "--transport", place.transport, "--listen", &listen];
    arguments.extend(["--reading", &reading, "--file", &file, "--threads", &threads]);
    arguments.extend(["--page-bytes", &bytes, "--pages", &pages]);
    let owner = Process::start(&arguments)?;
    let addresses = owner.address.split(',').map(str::to_owned).collect();
    let name = place.transport.to_owned();
    let connect = Arc::new(move || {
        transport(&name).map_err(|reason| saki_fabric::FabricError::System { what: "a port is opened".into(), reason })
    });
    let options = RemoteOptions::new(addresses, connect, port_options(2)?);
    let remote = RemoteStore::open(options).map_err(|error| error.to_string())?;
    Ok((owner, remote))
}

/// Of rates the one in the middle; pages that are wrong in any are.
fn median_of(mut measured: Vec<Measured>) -> Measured {
    measured.sort_unstable_by(|one, other| one.per_second.total_cmp(&other.per_second));
    let wrong = measured.iter().map(|one| one.wrong).sum();
    measured.get(measured.len() / 2).map_or(Measured::default(), |middle| Measured { wrong, ..*middle })
}
