//! Which slots are taken. Low ones come first, so that those in use lie together and looking through them is short.

/// Bits of slots, set while they are taken.
pub struct Places {
    taken: Box<[u64]>,
    count: usize,
    /// Taken slots are below this.
    end: usize,
}

impl Places {
    pub fn new(count: usize) -> Self {
        Self { taken: vec![0; count.div_ceil(64)].into_boxed_slice(), count, end: 0 }
    }

    /// Takes the lowest free slot.
    pub fn take(&mut self) -> Option<u32> {
        let word = self.taken.iter().position(|bits| *bits != u64::MAX)?;
        let slot = 64 * word + self.taken[word].trailing_ones() as usize;
        if slot >= self.count {
            return None;
        }
        self.taken[word] |= 1 << (slot % 64);
        self.end = self.end.max(slot + 1);
        Some(slot as u32)
    }

    pub fn give_back(&mut self, slot: u32) {
        self.taken[slot as usize / 64] &= !(1 << (slot % 64));
        while self.end > 0 && !self.is_taken(self.end - 1) {
            self.end -= 1;
        }
    }

    fn is_taken(&self, slot: usize) -> bool {
        self.taken[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// Behind the highest taken slot.
    pub fn end(&self) -> usize {
        self.end
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    #[test]
    fn low_slots_come_first_and_all_come_once() {
        let mut places = Places::new(70);
        let all: Vec<_> = std::iter::from_fn(|| places.take()).collect();
        assert_eq!(all, (0..70).collect::<Vec<_>>());
        assert_eq!(places.end(), 70);
        for slot in [69, 3, 68, 65] {
            places.give_back(slot);
        }
        assert_eq!(places.end(), 68);
        assert_eq!(std::iter::from_fn(|| places.take()).collect::<Vec<_>>(), [3, 65, 68, 69]);
        (0..70).for_each(|slot| places.give_back(slot));
        assert_eq!((places.end(), places.take()), (0, Some(0)));
    }
}
