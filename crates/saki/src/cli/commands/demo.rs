//! `saki demo`: the whole story in one command and two minutes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki::experiment::{Answer, DeviceLimit, Join, JoinRun, Mode, device_limit, run as run_join};
use saki::plot::{Axis, Chart, Series};
use saki::tpch::{SCALE_MAX, SCALE_MIN, TABLES};
use saki::{CreateOptions, Database, OpenOptions};

use super::{calibrate, load};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{Align, Grid};
use crate::cli::{open, progress, size};

/// See out-of-order execution at work: makes a small TPC-H database and joins its tables both ways
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the database and the plot go: a directory that is empty, or from an earlier demo
    #[arg(long, value_name = "DIR", default_value = "saki-demo")]
    dir: PathBuf,

    /// TPC-H scale factor
    #[arg(long, value_name = "N", default_value_t = 0.5, allow_negative_numbers = true)]
    sf: f64,
}

/// Shares of all customers.
const SELECTIVITIES: [f64; 5] = [0.0001, 0.0003, 0.001, 0.003, 0.01];
/// An in-order run is cut then, and scaled.
const CUT: Duration = Duration::from_secs(4);
/// Short runs are repeated and the median taken.
const REPEATS: usize = 3;
const SEED: u64 = 1;

/// A device of the demo.
struct Storage {
    name: &'static str,
    model: Option<&'static str>,
    what: &'static str,
    /// Reads per second, one at a time, that the model promises.
    single_iops: Option<f64>,
}

const STORAGES: [Storage; 2] = [
    Storage {
        name: "local device",
        model: None,
        what: "the disk that the directory is on, direct I/O",
        single_iops: None,
    },
    Storage {
        name: "modeled cloud volume",
        model: Some("modeled:cloud-volume"),
        what: "the same disk slowed down to 1 ms a read, 100 k reads/s: a model, not a real volume",
        single_iops: Some(1000.0),
    },
];

/// Both ways at one selectivity.
struct Measured {
    selectivity: f64,
    in_order: JoinRun,
    out_of_order: JoinRun,
}

impl Measured {
    fn in_order_seconds(&self) -> f64 {
        self.in_order.seconds(self.out_of_order.reading.pages_read)
    }
}

pub async fn run(args: &Args) -> Outcome {
    if !(SCALE_MIN..=SCALE_MAX).contains(&args.sf) {
        return Err(Failure::new(format!(
            "--sf {}: the scale factor must be from {SCALE_MIN} to {SCALE_MAX}",
            args.sf
        )));
    }
    let started = Instant::now();
    let path = args.dir.join("tpch.saki");
    prepare(&args.dir, &path, args.sf).await?;

    say!("\nThe join, with customers chosen by an indexed range of account balances:\n");
    say!("  SELECT COUNT(*), SUM(l_quantity)");
    say!("  FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey");
    say!("  WHERE c_acctbal BETWEEN x AND y\n");
    say!("Every run is cold: the cache is dropped and reads bypass the system's. In order is the classical");
    say!("engine, one page at a time; out of order is the same plan with many pages in flight.\n");
    let mut charted = Vec::new();
    let mut answers = Answers::default();
    for storage in &STORAGES {
        let (limits, measured) = measure(&path, storage, &mut answers).await?;
        print(storage, &limits, &measured)?;
        charted.push((storage, measured));
    }
    say!("{}", answers.verdict()?);
    let page_size = open::open(&path, quiet())?.page_size().bytes();
    let [svg, png] = chart(&charted, args.sf, page_size as u64).save(args.dir.join("demo"))?;
    say!("Plot: {} and {}", svg.display(), png.display());
    say!("Took {}.\n", progress::seconds(started.elapsed().as_secs_f64()));
    invite(&path);
    Ok(())
}

fn quiet() -> OpenOptions {
    OpenOptions { read_only: true, cache_bytes: 1 << 20, ..OpenOptions::default() }
}

/// Makes and fills the database, unless an earlier demo of the same scale left it.
async fn prepare(directory: &Path, path: &Path, scale: f64) -> Outcome {
    std::fs::create_dir_all(directory).map_err(|error| Failure::at(directory, &error))?;
    if path.exists() {
        return reuse(directory, path, scale);
    }
    let entries = std::fs::read_dir(directory).map_err(|error| Failure::at(directory, &error))?;
    if entries.count() > 0 {
        return Err(Failure::new(format!(
            "{}: is not empty; choose another directory with --dir",
            directory.display()
        )));
    }
    say!("Loading TPC-H at scale factor {scale} into {}", path.display());
    let outcome = fill(path, scale).await;
    if outcome.is_err() {
        // Half a demo would be in the way of the next.
        let _ = std::fs::remove_file(path);
    }
    outcome
}

fn reuse(directory: &Path, path: &Path, scale: f64) -> Outcome {
    let database = open::open(path, quiet())?;
    let generation = database.generation();
    let complete = TABLES.iter().all(|table| {
        let rows = generation.catalog.get(table.name).map_or(0, |found| found.root.entries);
        rows > 0 && (table.name == "lineitem" || rows == table.rows(scale))
    });
    if !complete {
        return Err(Failure::new(format!(
            "{}: is not the demo's database at scale factor {scale}; remove {} or choose another --dir",
            path.display(),
            directory.display()
        )));
    }
    say!("Using {} from an earlier demo", path.display());
    Ok(())
}

async fn fill(path: &Path, scale: f64) -> Outcome {
    let database = open::create(path, CreateOptions::default().page_size, OpenOptions::default())?;
    for table in &TABLES {
        load::load_table(&database, table, scale, true).await?;
    }
    calibrate::measure_database(&database, path)?;
    let stored = database.volume().stats().used_bytes;
    say!(
        "{} on the device, with pages of {}",
        size::display(stored),
        size::display(database.page_size().bytes() as u64)
    );
    Ok(())
}

/// All selectivities on one device, and what the device can do.
async fn measure(path: &Path, storage: &Storage, answers: &mut Answers) -> Outcome<([DeviceLimit; 2], Vec<Measured>)> {
    let options = OpenOptions { read_only: true, model: storage.model.map(str::to_owned), ..OpenOptions::default() };
    let database = open::open(path, options)?;
    let line = progress::line(format!("{}: random reads without the engine", storage.name));
    let before = limit_of(path, storage, &database).await?;
    let mut measured = Vec::new();
    for selectivity in SELECTIVITIES {
        let join = Join::new(selectivity, SEED);
        let percent = percent(selectivity);
        line.set_message(format!("{}: {percent} of customers, out of order", storage.name));
        let out_of_order = median(&database, &join, Mode::OutOfOrder, None).await?;
        line.set_message(format!("{}: {percent} of customers, in order", storage.name));
        let in_order = median(&database, &join, Mode::InOrder, Some(CUT)).await?;
        for run in [&out_of_order, &in_order] {
            answers.add(selectivity, run)?;
        }
        measured.push(Measured { selectivity, in_order, out_of_order });
    }
    line.set_message(format!("{}: random reads without the engine, again", storage.name));
    let limits = [before, limit_of(path, storage, &database).await?];
    line.finish_and_clear();
    Ok((limits, measured))
}

async fn limit_of(path: &Path, storage: &Storage, database: &Database) -> Outcome<DeviceLimit> {
    const EACH: Duration = Duration::from_millis(300);
    let (path, model, bytes) = (path.to_owned(), storage.model, database.page_size().bytes());
    let measured = tokio::task::spawn_blocking(move || device_limit(&path, model, bytes, EACH)).await;
    Ok(measured.map_err(|error| Failure::new(error.to_string()))??)
}

/// Why the figures of a device are not to be relied on, if they are not. A disk that others use at the same time
/// is slow one read at a time and hardly slower in parallel: that makes speed-ups look greater than they are.
fn doubt(storage: &Storage, [before, after]: &[DeviceLimit; 2]) -> Option<String> {
    const STEADY: f64 = 1.5;
    let single = before.single_iops.min(after.single_iops);
    if let Some(promised) = storage.single_iops.filter(|promised| single * 1.25 < *promised) {
        return Some(format!(
            "the disk below is slower than the model: {}/s one at a time instead of {}/s",
            progress::short(single),
            progress::short(promised)
        ));
    }
    let changed = |a: f64, b: f64| a.max(b) > STEADY * a.min(b);
    let unsteady = changed(before.single_iops, after.single_iops) || changed(before.best_iops, after.best_iops);
    unsteady.then(|| {
        format!(
            "the device was not steady: from {}/s one at a time and {}/s at best to {}/s and {}/s afterwards",
            progress::short(before.single_iops),
            progress::short(before.best_iops),
            progress::short(after.single_iops),
            progress::short(after.best_iops)
        )
    })
}

/// The run of median time; runs over a second are not repeated.
async fn median(database: &Arc<Database>, join: &Join, mode: Mode, cut: Option<Duration>) -> Outcome<JoinRun> {
    let mut runs = Vec::new();
    for _ in 0..REPEATS {
        runs.push(run_join(database, join, mode, cut).await?);
        if runs.last().is_some_and(|run| run.reading.seconds > 1.0) {
            break;
        }
    }
    runs.sort_by(|a, b| a.reading.seconds.total_cmp(&b.reading.seconds));
    Ok(runs.swap_remove(runs.len() / 2))
}

/// Every answer there was, by selectivity.
#[derive(Default)]
struct Answers {
    found: Vec<(f64, Mode, Answer)>,
    cut: usize,
}

impl Answers {
    fn add(&mut self, selectivity: f64, run: &JoinRun) -> Outcome {
        let Some(answer) = run.answer else {
            self.cut += 1;
            return Ok(());
        };
        if let Some((_, mode, other)) = self.found.iter().find(|(s, _, other)| *s == selectivity && *other != answer) {
            return Err(Failure::new(format!(
                "{} of customers: {} answers {answer:?}, {} {other:?}; please report this",
                percent(selectivity),
                run.mode.name(),
                mode.name()
            )));
        }
        self.found.push((selectivity, run.mode, answer));
        Ok(())
    }

    /// Says what was compared; fails if a selectivity was never answered in order.
    fn verdict(&self) -> Outcome<String> {
        let compared = |mode| SELECTIVITIES.iter().all(|s| self.found.iter().any(|(f, m, _)| f == s && *m == mode));
        let all = compared(Mode::InOrder) && compared(Mode::OutOfOrder);
        Ok(match (all, self.cut) {
            (true, 0) => "All runs of a selectivity gave the same answer.".into(),
            (true, cut) => format!(
                "All runs of a selectivity that were not cut gave the same answer, both ways \
                 ({cut} in-order runs were cut)."
            ),
            (false, cut) => format!("{cut} in-order runs were cut, so not every answer could be compared."),
        })
    }
}

fn print(storage: &Storage, limits: &[DeviceLimit; 2], measured: &[Measured]) -> Outcome {
    // The better of before and after: a share of the device is not to look good because the device had a bad moment.
    let limit = if limits[0].best_iops > limits[1].best_iops { &limits[0] } else { &limits[1] };
    say!("{} ({})", storage.name, storage.what);
    say!(
        "  best random reads: {}/s with {} in flight, {}/s one at a time",
        progress::short(limit.best_iops),
        limit.best_depth,
        progress::short(limit.single_iops)
    );
    let mut grid = Grid::new([
        ("customers", Align::Right),
        ("rows joined", Align::Right),
        ("in order", Align::Right),
        ("out of order", Align::Right),
        ("speed-up", Align::Right),
        ("in flight", Align::Right),
        ("pages read", Align::Right),
        ("pages/s", Align::Right),
        ("of the best", Align::Right),
    ]);
    let mut any_cut = false;
    for at in measured {
        let (reading, cut) = (&at.out_of_order.reading, at.in_order.answer.is_none());
        any_cut |= cut;
        grid.row([
            percent(at.selectivity),
            at.out_of_order.answer.map_or(0, |answer| answer.rows).to_string(),
            format!("{}{}", if cut { "~ " } else { "" }, progress::seconds(at.in_order_seconds())),
            progress::seconds(reading.seconds),
            format!("{} x", progress::short(at.in_order_seconds() / reading.seconds)),
            progress::short(reading.depth_mean),
            reading.pages_read.to_string(),
            progress::short(reading.pages_per_second()),
            format!("{:.0} %", 100.0 * reading.pages_per_second() / limit.best_iops),
        ]);
    }
    grid.write(&mut io::stdout().lock())?;
    if let Some(doubt) = doubt(storage, limits) {
        say!("  NOTE: {doubt}.");
        say!(
            "  Something else may be using the disk; repeat the demo when it is quiet before relying on these figures."
        );
    }
    if any_cut {
        say!("  ~ cut after {} and scaled by the pages read until then", progress::seconds(CUT.as_secs_f64()));
    }
    say!("");
    Ok(())
}

fn chart(charted: &[(&Storage, Vec<Measured>)], scale: f64, page_bytes: u64) -> Chart {
    let mut chart = Chart::new("Three-table join with cold caches: in order and out of order")
        .subtitle(format!(
            "TPC-H scale factor {scale}, pages of {}, customers chosen by an indexed range of c_acctbal",
            size::display(page_bytes)
        ))
        .x(Axis::log("customers selected (%)"))
        .y(Axis::log("seconds"))
        .note(format!(
            "The cloud volume is a model (1 ms, 100 k reads/s) over the local device. \
             In-order runs longer than {} s are scaled from their first {} s.",
            CUT.as_secs(),
            CUT.as_secs()
        ));
    for (color, (storage, measured)) in charted.iter().enumerate() {
        let points = |seconds: &dyn Fn(&Measured) -> f64| -> Vec<(f64, f64)> {
            measured.iter().map(|at| (at.selectivity * 100.0, seconds(at))).collect()
        };
        let in_order = points(&|at| at.in_order_seconds());
        let out_of_order = points(&|at| at.out_of_order.reading.seconds);
        chart = chart
            .series(Series::new(format!("{}, in order", storage.name), in_order).color(color).dashed())
            .series(Series::new(format!("{}, out of order", storage.name), out_of_order).color(color));
    }
    chart
}

/// How to go on.
fn invite(path: &Path) {
    let command = std::env::args().next().unwrap_or_else(|| "saki".into());
    let (path, join) = (path.display(), Join::new(0.001, SEED).sql());
    say!("Go on in the shell:\n");
    say!("  {command} sql --db {path}");
    say!("  {command} sql --db {path} --model modeled:cloud-volume\n");
    say!("and there, for example:\n");
    say!("  SET saki.index_join = always;");
    say!("  EXPLAIN ANALYZE {join};");
    say!("  SET saki.execution = in_order;   -- and the same again");
}

fn percent(share: f64) -> String {
    format!("{} %", progress::short(share * 100.0).trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_busy_is_said_to_be() {
        let limit = |single_iops, best_iops| DeviceLimit { best_iops, best_depth: 256, single_iops };
        let [local, cloud] = &STORAGES;
        assert_eq!(doubt(local, &[limit(20e3, 76e3), limit(18e3, 70e3)]), None);
        assert!(doubt(local, &[limit(20e3, 76e3), limit(450.0, 70e3)]).unwrap().contains("not steady"));
        assert!(doubt(local, &[limit(20e3, 76e3), limit(20e3, 30e3)]).unwrap().contains("not steady"));
        assert_eq!(doubt(cloud, &[limit(965.0, 70e3), limit(960.0, 68e3)]), None);
        assert!(doubt(cloud, &[limit(400.0, 74e3), limit(400.0, 74e3)]).unwrap().contains("slower than the model"));
    }
}
