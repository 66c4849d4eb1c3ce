//! How many distinct values there are, estimated from their hashes: HyperLogLog (Flajolet and others, 2007), with linear
//! counting where few registers are taken.

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

/// Scatters an integer over 64 bits (the finaliser of SplitMix64).
#[inline]
pub fn hash_integer(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
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
