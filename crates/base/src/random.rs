//! Randomness as a parameter: a small seeded generator, the same on every
//! machine and in every version, so that a failure is repeated from its seed.
//! Not for secrets.

use std::ops::Range;

/// xoshiro256++, seeded through SplitMix64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        Self { state: [(); 4].map(|()| split_mix(&mut seed)) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, every one equally likely.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        // The high half of the product is the result; products whose low half is
        // below 2^64 mod bound are drawn again, as they would favour some results.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number of the range.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.checked_sub(range.start).expect("the range ends after its start"))
    }

    /// A number from 0 up to but not including 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with the given probability. Draws nothing for 0, so that what is switched off leaves the sequence alone.
    pub fn chance(&mut self, probability: f64) -> bool {
        debug_assert!((0.0..=1.0).contains(&probability), "a probability of {probability}");
        probability > 0.0 && self.unit() < probability
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next_u64().to_le_bytes()[..piece.len()]);
        }
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A generator of its own for a part of the work, so that what one part draws
    /// does not change what the others do.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

/// By what SplitMix64 counts on: 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: turns similar seeds into unlike states.
fn split_mix(seed: &mut u64) -> u64 {
    let bits = hash_integer(*seed);
    *seed = seed.wrapping_add(GOLDEN);
    bits
}

/// Scatters an integer over 64 bits, all of them good: what SplitMix64 draws from it. A bijection.
#[inline]
pub fn hash_integer(value: u64) -> u64 {
    let mut bits = value.wrapping_add(GOLDEN);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the authors' reference implementations.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut seed = 0;
        assert_eq!(split_mix(&mut seed), 0xe220_a839_7b1d_cdaf);
        assert_eq!(split_mix(&mut seed), 0x6e78_9e6a_a1b9_65f4);
        let mut random = Random { state: [1, 2, 3, 4] };
        let numbers = [(); 4].map(|()| random.next_u64());
        assert_eq!(numbers, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn bounds_hold_and_all_numbers_come() {
        let mut random = Random::new(1);
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[random.below(7) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert!((0..1_000).all(|_| (5..8).contains(&random.range(5..8))));
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.unit())));
        assert!(!random.chance(0.0) && random.chance(1.0));
    }

    #[test]
    fn a_seed_gives_the_same_again() {
        let (mut left, mut right) = (Random::new(9), Random::new(9));
        let (mut a, mut b) = ([0; 13], [0; 13]);
        left.fill(&mut a);
        right.fill(&mut b);
        assert_eq!(a, b);
        let mut items: Vec<u32> = (0..100).collect();
        left.fork().shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..100));
    }
}
