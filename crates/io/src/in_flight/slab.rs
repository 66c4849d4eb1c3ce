//! Operations in flight, found by a small number that the kernel hands back.
//! Slots are reused, so that a steady load allocates nothing.

/// A growing table of slots with a free list.
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Stores `value` and returns its index, unique until `remove`.
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                let before = self.slots[index as usize].replace(value);
                assert!(before.is_none(), "slot {index} is taken, and on the list of free ones");
                index
            }
            None => {
                self.slots.push(Some(value));
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 operations are in flight")
            }
        }
    }

    pub fn entry(&mut self, index: u32) -> &mut T {
        self.slots[index as usize].as_mut().expect("the slot is taken until its operation completes")
    }

    pub fn remove(&mut self, index: u32) -> T {
        let value = self.slots[index as usize].take().expect("an operation completes once");
        self.free.push(index);
        value
    }

    pub fn len(&self) -> usize {
        debug_assert!(self.free.len() <= self.slots.len(), "more slots are free than there are");
        self.slots.len() - self.free.len()
    }
}
