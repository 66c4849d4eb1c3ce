//! Sequences of page visits, made from a seed or read from a file.
//!
//! The made ones visit trees as the engine does: a lookup goes from the root
//! over inner pages to a leaf, a scan touches every leaf once, in order.

use std::path::Path;

use saki_base::{PageAddress, Random};

/// Keys of an inner page.
const FAN_OUT: u64 = 200;

/// A named sequence of visits.
pub struct Trace {
    pub name: String,
    pub visits: Vec<PageAddress>,
}

impl Trace {
    /// The traces that the benchmark runs by itself, of about `length` visits over trees of `leaves` leaves.
    pub fn made(seed: u64, leaves: u64, length: usize) -> Vec<Self> {
        let mut random = Random::new(seed);
        vec![
            lookups(&mut random.fork(), leaves, length),
            lookups_beside_scans(&mut random.fork(), leaves, length),
            query_mix(&mut random.fork(), leaves, length),
        ]
    }

    /// A recorded trace: one page address a line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let visits: Result<Vec<_>, _> = text.lines().map(|line| line.trim().parse().map(PageAddress)).collect();
        let visits = visits.map_err(|error| format!("{}: not one page address a line: {error}", path.display()))?;
        Ok(Self { name: path.display().to_string(), visits })
    }

    /// Different pages visited: what a cache without a bound would hold.
    pub fn distinct(&self) -> usize {
        self.visits.iter().collect::<std::collections::HashSet<_>>().len()
    }

    /// Names the content, so that two reports can be seen to speak of one trace.
    pub fn hash(&self) -> String {
        let bytes: Vec<u8> = self.visits.iter().flat_map(|visit| visit.0.to_le_bytes()).collect();
        format!("{:016x}", saki_base::checksum(&bytes))
    }
}

/// A tree in a trace: its leaves begin at `base`, inner pages lie behind them.
#[derive(Clone, Copy)]
struct Tree {
    base: u64,
    leaves: u64,
}

impl Tree {
    fn descend(self, leaf: u64, visits: &mut Vec<PageAddress>) {
        let mut path = [leaf; 8];
        let (mut depth, mut base, mut level, mut position) = (1, self.base, self.leaves, leaf);
        path[0] = base + leaf;
        while level > 1 {
            base += level;
            level = level.div_ceil(FAN_OUT);
            position /= FAN_OUT;
            path[depth] = base + position;
            depth += 1;
        }
        visits.extend(path[..depth].iter().rev().map(|page| PageAddress(*page)));
    }
}

/// Numbers below a bound, few of them often: the k-th most frequent with
/// weight 1 / k^0.99, as in the YCSB benchmark, and scattered by a hash.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(count: u64) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=count)
            .map(|rank| {
                sum += (rank as f64).powf(-0.99);
                sum
            })
            .collect();
        Self { cumulative }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let count = self.cumulative.len() as u64;
        let target = random.unit() * self.cumulative[self.cumulative.len() - 1];
        let rank = self.cumulative.partition_point(|sum| *sum <= target) as u64;
        // Odd multipliers permute numbers modulo a power of two; the walk stays below the bound.
        let mask = count.next_power_of_two() - 1;
        let mut scattered = rank;
        loop {
            scattered = scattered.wrapping_mul(0x9E37_79B1).wrapping_add(0x7F4A_7C15) & mask;
            if scattered < count {
                return scattered;
            }
        }
    }
}

/// Point lookups over one index, some keys hotter than others.
fn lookups(random: &mut Random, leaves: u64, length: usize) -> Trace {
    let (tree, zipf) = (Tree { base: 0, leaves }, Zipf::new(leaves));
    let mut visits = Vec::with_capacity(length + 8);
    while visits.len() < length {
        tree.descend(zipf.draw(random), &mut visits);
    }
    Trace { name: "lookups".into(), visits }
}

/// The same lookups, while a scan of a table as large as the index goes round, one leaf for two lookups.
fn lookups_beside_scans(random: &mut Random, leaves: u64, length: usize) -> Trace {
    let (tree, zipf) = (Tree { base: 0, leaves }, Zipf::new(leaves));
    let scanned = Tree { base: 1 << 40, leaves };
    let mut visits = Vec::with_capacity(length + 16);
    let mut leaf = 0;
    while visits.len() < length {
        tree.descend(zipf.draw(random), &mut visits);
        tree.descend(zipf.draw(random), &mut visits);
        visits.push(PageAddress(scanned.base + leaf));
        leaf = (leaf + 1) % scanned.leaves;
    }
    Trace { name: "lookups-beside-scans".into(), visits }
}

/// Analytical queries one after the other, over tables in TPC-H's proportions: each scans the great
/// table in part and the small ones whole, or joins them by lookups that follow one another closely.
fn query_mix(random: &mut Random, leaves: u64, length: usize) -> Trace {
    let share = |percent: u64| (leaves * percent / 100).max(1);
    let tables = [share(70), share(16), share(8), share(3), share(2), share(1)];
    let trees: Vec<Tree> = (1_u64..).zip(tables).map(|(number, leaves)| Tree { base: number << 40, leaves }).collect();
    let mut visits = Vec::with_capacity(length + 8);
    while visits.len() < length {
        let tree = trees[random.below(trees.len() as u64) as usize];
        match random.below(3) {
            0 => {
                let from = random.below(tree.leaves);
                let to = (from + tree.leaves / 7 + 1).min(tree.leaves);
                visits.extend((from..to).map(|leaf| PageAddress(tree.base + leaf)));
            }
            1 => {
                // Outer rows come in the inner table's order, more or less: neighbours share leaves.
                let mut leaf = random.below(tree.leaves);
                for _ in 0..leaves / 20 {
                    tree.descend(leaf, &mut visits);
                    leaf = (leaf + random.below(3)) % tree.leaves;
                }
            }
            _ => {
                for _ in 0..leaves / 40 {
                    tree.descend(random.below(tree.leaves), &mut visits);
                }
            }
        }
    }
    visits.truncate(length);
    Trace { name: "query-mix".into(), visits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_goes_from_the_root_to_its_leaf() {
        let mut visits = Vec::new();
        Tree { base: 1000, leaves: 300 }.descend(299, &mut visits);
        assert_eq!(visits, [1302, 1301, 1299].map(PageAddress));
    }

    #[test]
    fn zipf_draws_every_number_and_some_often() {
        let (zipf, mut random) = (Zipf::new(100), Random::new(3));
        let mut counts = [0; 100];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        assert!(counts.iter().all(|count| *count > 50));
        assert!(counts.iter().max().unwrap() > &15_000);
    }

    #[test]
    fn a_seed_gives_the_same_trace_again() {
        let hashes = |seed| Trace::made(seed, 500, 5_000).iter().map(Trace::hash).collect::<Vec<_>>();
        assert_eq!(hashes(1), hashes(1));
        assert_ne!(hashes(1), hashes(2));
    }
}
