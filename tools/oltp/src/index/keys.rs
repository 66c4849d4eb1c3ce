//! Keys by number: distinct, and in random order.

use std::fmt::Debug;

/// A key as rivals take it, and as bytes.
pub trait Key: Ord + Copy + Send + Sync + Debug + 'static {
    const BYTES: usize;
    type Bytes: AsRef<[u8]> + Copy;

    /// The key of a number.
    fn of(number: u64) -> Self;

    /// The same as bytes that compare as it does.
    fn bytes(self) -> Self::Bytes;

    /// The key of such bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl Key for u64 {
    const BYTES: usize = 8;
    type Bytes = [u8; 8];

    #[inline]
    fn of(number: u64) -> Self {
        mix(number)
    }

    #[inline]
    fn bytes(self) -> [u8; 8] {
        self.to_be_bytes()
    }

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        bytes.try_into().map_or(0, u64::from_be_bytes)
    }
}

/// Half of it is the same for all keys, as the table and the first columns of a composite key are.
impl Key for [u8; 32] {
    const BYTES: usize = 32;
    type Bytes = Self;

    #[inline]
    fn of(number: u64) -> Self {
        let mut key = *b"table 17, east, ________________";
        key[16..24].copy_from_slice(&mix(number).to_be_bytes());
        key[24..].copy_from_slice(&mix(!number).to_be_bytes());
        key
    }

    #[inline]
    fn bytes(self) -> Self {
        self
    }

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        bytes.try_into().unwrap_or([0; 32])
    }
}

/// A bijection that scatters (the finaliser of MurmurHash3).
#[inline]
pub fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// A cheap source of random numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5eed))
    }

    /// A number below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.0)) * u128::from(bound)) >> 64) as u64
    }
}
