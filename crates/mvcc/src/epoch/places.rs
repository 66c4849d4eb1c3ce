//! Which numbers of participants are taken. Low ones come first, so that those in use lie together and looking through
//! them is short.

/// Bits of numbers, set while they are taken.
pub struct Places {
    taken: Box<[u64]>,
    count: usize,
    /// Taken numbers are below this.
    end: usize,
}

impl Places {
    pub fn new(count: usize) -> Self {
        Self { taken: vec![0; count.div_ceil(64)].into_boxed_slice(), count, end: 0 }
    }

    /// Takes the lowest free number.
    pub fn take(&mut self) -> Option<u32> {
        let word = self.taken.iter().position(|bits| *bits != u64::MAX)?;
        let number = 64 * word + self.taken[word].trailing_ones() as usize;
        if number >= self.count {
            return None;
        }
        self.taken[word] |= 1 << (number % 64);
        self.end = self.end.max(number + 1);
        Some(number as u32)
    }

    pub fn give_back(&mut self, number: u32) {
        self.taken[number as usize / 64] &= !(1 << (number % 64));
        while self.end > 0 && !self.is_taken(self.end - 1) {
            self.end -= 1;
        }
    }

    fn is_taken(&self, number: usize) -> bool {
        self.taken[number / 64] >> (number % 64) & 1 == 1
    }

    /// Behind the highest taken number.
    pub fn end(&self) -> usize {
        self.end
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    #[test]
    fn low_numbers_come_first_and_all_come_once() {
        let mut places = Places::new(70);
        let all: Vec<_> = std::iter::from_fn(|| places.take()).collect();
        assert_eq!(all, (0..70).collect::<Vec<_>>());
        assert_eq!(places.end(), 70);
        for number in [69, 3, 68, 65] {
            places.give_back(number);
        }
        assert_eq!(places.end(), 68);
        assert_eq!(std::iter::from_fn(|| places.take()).collect::<Vec<_>>(), [3, 65, 68, 69]);
        (0..70).for_each(|number| places.give_back(number));
        assert_eq!((places.end(), places.take()), (0, Some(0)));
    }
}
