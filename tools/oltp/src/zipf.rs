//! Skewed choice: after J. Gray, P. Sundaresan, S. Englert, K. Baclawski and P. J. Weinberger, "Quickly generating
//! billion-record synthetic databases", SIGMOD 1994, as the Yahoo! Cloud Serving Benchmark does it.

use saki_base::Random;

/// The skew of the Yahoo! benchmark.
pub const THETA: f64 = 0.99;

/// A number below `bound`, nearly every one equally likely: the error is below `bound / 2^64`, and there is no
/// division.
#[inline]
pub fn below(random: &mut Random, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Ranks from 0, rank k about as often as 1 / (k + 1)^theta.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    /// Below this, a draw times `zeta` is rank 1 at most.
    second: f64,
}

impl Zipf {
    /// Ranks below `count`; takes time in proportion to it.
    ///
    /// # Panics
    /// If `count` is 0 or `theta` not between 0 and 1.
    pub fn new(count: u64, theta: f64) -> Self {
        assert!(count > 0 && theta > 0.0 && theta < 1.0, "{count} ranks with theta {theta}");
        // Small terms first, so that none is lost in the sum.
        let zeta = |count: u64| (1..=count).rev().map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let all = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - theta)) / (1.0 - zeta(2.min(count)) / all);
        Self { count, zeta: all, alpha: 1.0 / (1.0 - theta), eta, second: 1.0 + 0.5_f64.powf(theta) }
    }

    /// The next rank.
    #[inline]
    pub fn next(&self, random: &mut Random) -> u64 {
        let draw = random.unit();
        let scaled = draw * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * draw - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
}

/// Scatters ranks over the numbers below `count`, so that what is popular does not lie together: the 64-bit hash of
/// Fowler, Noll and Vo. Several ranks may fall on one number.
#[inline]
pub fn scatter(rank: u64, count: u64) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = rank.to_le_bytes().iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    hash % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const COUNT: u64 = 1_000;
        const DRAWS: u64 = 400_000;
        let zipf = Zipf::new(COUNT, THETA);
        let mut random = Random::new(5);
        let mut seen = vec![0_u64; COUNT as usize];
        (0..DRAWS).for_each(|_| seen[zipf.next(&mut random) as usize] += 1);
        let zeta: f64 = (1..=COUNT).map(|rank| (rank as f64).powf(-THETA)).sum();
        for rank in [0, 1] {
            let expected = DRAWS as f64 / (rank as f64 + 1.0).powf(THETA) / zeta;
            assert!((seen[rank] as f64 / expected - 1.0).abs() < 0.05, "rank {rank}: {} of {expected}", seen[rank]);
        }
        // The method is an approximation between the first two ranks and the tail: shares of whole ranges are right.
        for range in [2..10, 10..100, 100..1000_usize] {
            let expected: f64 = range.clone().map(|rank| (rank as f64 + 1.0).powf(-THETA) / zeta).sum();
            let found = seen[range.clone()].iter().sum::<u64>() as f64 / DRAWS as f64;
            assert!((found / expected - 1.0).abs() < 0.1, "{range:?}: {found} of {expected}");
        }
    }

    #[test]
    fn one_and_two_ranks_are_possible() {
        let mut random = Random::new(6);
        assert!((0..100).all(|_| Zipf::new(1, THETA).next(&mut random) == 0));
        let two = Zipf::new(2, THETA);
        let ranks: Vec<u64> = (0..1_000).map(|_| two.next(&mut random)).collect();
        assert!(ranks.contains(&0) && ranks.contains(&1) && ranks.iter().all(|rank| *rank < 2));
    }

    #[test]
    fn scattered_ranks_stay_in_range_and_apart() {
        let mut numbers: Vec<u64> = (0..1_000).map(|rank| scatter(rank, 1_000_000)).collect();
        assert!(numbers.iter().all(|number| *number < 1_000_000));
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() > 990, "{}", numbers.len());
    }

    #[test]
    fn a_bound_holds_and_all_below_it_come() {
        let mut random = Random::new(7);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[below(&mut random, 10) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1_150).contains(count)), "{seen:?}");
    }
}
