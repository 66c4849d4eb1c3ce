//! How many distinct values there are, estimated from their hashes: HyperLogLog (Flajolet and others, 2007), with
//! linear counting where few registers are taken.

const REGISTER_BITS: u32 = 12;

/// Counts distinct hashes with a standard error of about 1.6 %.
pub struct DistinctCounter {
    registers: Vec<u8>,
}

impl Default for DistinctCounter {
    fn default() -> Self {
        Self { registers: vec![0; 1 << REGISTER_BITS] }
    }
}

impl DistinctCounter {
    /// Adds a value by its hash, all of whose 64 bits must be good.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let register = (hash >> (64 - REGISTER_BITS)) as usize;
        let rank = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() as u8 + 1;
        let known = &mut self.registers[register];
        if rank > *known {
            *known = rank;
        }
    }

    pub fn estimate(&self) -> f64 {
        let m = self.registers.len() as f64;
        let sum: f64 = self.registers.iter().map(|rank| (-f64::from(*rank)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count() as f64;
        if estimate <= 2.5 * m && empty > 0.0 { m * (m / empty).ln() } else { estimate }
    }
}

#[cfg(test)]
mod tests {
    use saki_base::random::hash_integer;

    use super::*;

    #[test]
    fn estimates_are_close() {
        for count in [1_u64, 100, 5_000, 130_000] {
            let mut counter = DistinctCounter::default();
            for value in 0..count * 3 {
                counter.add(hash_integer(value % count));
            }
            let error = counter.estimate() / count as f64 - 1.0;
            assert!(error.abs() < 0.06, "{count}: {}", counter.estimate());
        }
    }
}
