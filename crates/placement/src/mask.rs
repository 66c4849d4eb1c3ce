//! Sets of small numbers as the system calls of scheduling and memory policies take them.

use std::ffi::c_ulong;

/// The numbers below `WORDS` × the bits of a word.
pub(crate) struct Mask<const WORDS: usize>([c_ulong; WORDS]);

impl<const WORDS: usize> Mask<WORDS> {
    pub(crate) const BITS: usize = WORDS * c_ulong::BITS as usize;
    pub(crate) const BYTES: usize = WORDS * size_of::<c_ulong>();

    pub(crate) fn empty() -> Self {
        Self([0; WORDS])
    }

    /// `None` if a number is too large.
    pub(crate) fn of(numbers: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut mask = Self::empty();
        for number in numbers {
            let word = mask.0.get_mut((number / c_ulong::BITS) as usize)?;
            *word |= 1 << (number % c_ulong::BITS);
        }
        Some(mask)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let is_in = |number: &u32| self.0[(number / c_ulong::BITS) as usize] >> (number % c_ulong::BITS) & 1 == 1;
        (0..Self::BITS as u32).filter(is_in)
    }

    pub(crate) fn as_ptr(&self) -> *const c_ulong {
        self.0.as_ptr()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_ulong {
        self.0.as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_holds_what_was_put_in() {
        let numbers = [0, 1, 63, 64, 127];
        let mask = Mask::<2>::of(numbers).expect("all fit");
        assert_eq!(mask.numbers().collect::<Vec<_>>(), numbers);
        assert!(Mask::<2>::of([128]).is_none());
        assert_eq!(Mask::<2>::empty().numbers().count(), 0);
    }
}
