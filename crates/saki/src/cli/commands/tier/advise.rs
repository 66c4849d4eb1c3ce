//! `saki tier advise`: for another database, which relations a query should find on the fast device.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::reads::{Reads, of_plan};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{Align, Grid};
use crate::cli::{progress, size};

/// Say which tables and indexes of a PostgreSQL database a query should find on its fast device
///
/// The plan is what EXPLAIN (FORMAT JSON) prints. The sizes are lines of name and bytes with a header, as
/// COPY (SELECT relname, pg_relation_size(oid) FROM pg_class) TO STDOUT (FORMAT csv, HEADER) prints them.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The plan of the query
    #[arg(long, value_name = "FILE")]
    explain: PathBuf,

    /// Names and sizes of relations
    #[arg(long, value_name = "FILE")]
    sizes: PathBuf,

    /// Room on the fast device
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    room: u64,

    /// Pages that the slow device finds in a second; three striped disks if not given
    #[arg(long, value_name = "N", default_value_t = 350.0)]
    slow_reads: f64,

    /// Bytes a second that it reads one behind another
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "450MB")]
    slow_bandwidth: u64,

    /// The same of the fast device
    #[arg(long, value_name = "N", default_value_t = 90_000.0)]
    fast_reads: f64,

    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GB")]
    fast_bandwidth: u64,
}

/// Bytes of a page of PostgreSQL.
const PAGE_BYTES: f64 = 8192.0;

/// What a device does.
#[derive(Clone, Copy, Debug)]
struct Speed {
    reads_per_second: f64,
    bytes_per_second: f64,
}

impl Speed {
    /// Seconds that reads of a relation of so many bytes take. A page that is found twice is in memory.
    fn seconds(self, reads: Reads, bytes: f64) -> f64 {
        let pages = (bytes / PAGE_BYTES).max(1.0);
        let found = pages * (1.0 - (-reads.lookups / pages).exp());
        reads.scans * bytes / self.bytes_per_second + found / self.reads_per_second
    }
}

/// A relation, and what moving it does.
#[derive(Clone, PartialEq, Debug)]
struct Advice {
    relation: String,
    bytes: u64,
    slow: f64,
    fast: f64,
    moving: f64,
    verdict: &'static str,
}

impl Advice {
    /// Seconds that the query ends earlier.
    fn gain(&self) -> f64 {
        self.slow - self.fast - self.moving
    }
}

pub fn run(args: &Args) -> Outcome {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| Failure::at(path, &error));
    let reads = of_plan(&read(&args.explain)?).map_err(|error| Failure::at(&args.explain, &error))?;
    let sizes = sizes(&read(&args.sizes)?).map_err(|error| Failure::at(&args.sizes, &error))?;
    let slow = Speed { reads_per_second: args.slow_reads, bytes_per_second: args.slow_bandwidth as f64 };
    let fast = Speed { reads_per_second: args.fast_reads, bytes_per_second: args.fast_bandwidth as f64 };
    let advice = advise(&reads, &sizes, [slow, fast], args.room).map_err(|error| Failure::at(&args.sizes, &error))?;
    let columns = [
        ("relation", Align::Left),
        ("size", Align::Right),
        ("slow", Align::Right),
        ("fast", Align::Right),
        ("moving", Align::Right),
        ("advice", Align::Left),
    ];
    let mut grid = Grid::new(columns);
    for it in &advice {
        let [slow, fast, moving] = [it.slow, it.fast, it.moving].map(progress::seconds);
        grid.row([it.relation.clone(), size::display(it.bytes), slow, fast, moving, it.verdict.to_owned()]);
    }
    grid.write(&mut io::stdout().lock())?;
    Ok(())
}

/// Names and bytes, a line each, behind a header.
fn sizes(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let of_line = |line: &str| {
        let (name, bytes) = line.rsplit_once(',')?;
        Some((name.trim_matches('"').to_owned(), bytes.trim().parse().ok()?))
    };
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines.map(|line| of_line(line).ok_or_else(|| format!("{line:?} is not a name and a number of bytes"))).collect()
}

/// What pays, best first by gain for its bytes, as far as there is room.
fn advise(
    reads: &BTreeMap<String, Reads>,
    sizes: &BTreeMap<String, u64>,
    [slow, fast]: [Speed; 2],
    room: u64,
) -> Result<Vec<Advice>, String> {
    let mut all = Vec::with_capacity(reads.len());
    for (relation, reads) in reads {
        let bytes = *sizes.get(relation).ok_or_else(|| format!("has no size of {relation}, which the plan reads"))?;
        let size = bytes as f64;
        // It is read and written at once.
        let moving = size / slow.bytes_per_second.min(fast.bytes_per_second);
        let (slow, fast) = (slow.seconds(*reads, size), fast.seconds(*reads, size));
        all.push(Advice { relation: relation.clone(), bytes, slow, fast, moving, verdict: "stay" });
    }
    let worth = |advice: &Advice| advice.gain() / advice.bytes.max(1) as f64;
    all.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let mut left = room;
    for advice in all.iter_mut().filter(|advice| advice.gain() > 0.0) {
        advice.verdict = match left.checked_sub(advice.bytes) {
            Some(rest) => {
                left = rest;
                "move"
            }
            None => "stay: no room",
        };
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: Speed = Speed { reads_per_second: 350.0, bytes_per_second: 450e6 };
    const FLASH: Speed = Speed { reads_per_second: 90_000.0, bytes_per_second: 1e9 };

    fn advised(reads: &[(&str, f64, f64)], room: u64) -> Vec<(String, &'static str)> {
        let sizes = [("small", 1_u64 << 20), ("large", 1 << 30)].map(|(name, bytes)| (name.to_owned(), bytes));
        let reads =
            reads.iter().map(|(name, scans, lookups)| ((*name).to_owned(), Reads { scans: *scans, lookups: *lookups }));
        let advice = advise(&reads.collect(), &sizes.into_iter().collect(), [DISKS, FLASH], room).unwrap();
        advice.into_iter().map(|it| (it.relation, it.verdict)).collect()
    }

    #[test]
    fn what_is_looked_up_moves_and_what_is_scanned_once_stays() {
        let room = 2 << 30;
        assert_eq!(advised(&[("large", 1.0, 0.0)], room), [("large".to_owned(), "stay")]);
        assert_eq!(advised(&[("large", 3.0, 0.0)], room), [("large".to_owned(), "move")], "three times");
        assert_eq!(advised(&[("large", 0.0, 100.0)], room), [("large".to_owned(), "stay")], "a hundred pages");
        assert_eq!(advised(&[("large", 0.0, 1e6)], room), [("large".to_owned(), "move")]);
        let both = [("small", 0.0, 1e6), ("large", 0.0, 1e6)];
        assert_eq!(advised(&both, room), [("small".to_owned(), "move"), ("large".to_owned(), "move")]);
        let (small, large) = (("small".to_owned(), "move"), ("large".to_owned(), "stay: no room"));
        assert_eq!(advised(&both, 1 << 20), [small, large]);
    }

    #[test]
    fn sizes_are_lines_of_names_and_numbers() {
        let read = sizes("relname,pg_relation_size\norders,8192\n\"odd, name\",5\n").unwrap();
        assert_eq!(read, [("odd, name".to_owned(), 5), ("orders".to_owned(), 8192)].into_iter().collect());
        assert!(sizes("a,b\nno number\n").unwrap_err().contains("no number"));
        let reads = [("other".to_owned(), Reads::default())].into_iter().collect();
        assert!(advise(&reads, &read, [DISKS, FLASH], 0).unwrap_err().contains("no size of other"));
    }
}
