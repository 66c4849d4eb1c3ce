//! Which of a transaction's writes made a version.

use std::ptr::NonNull;

use hashbrown::HashMap;

use super::write::Write;
use crate::chain::Version;

/// So few writes are looked through.
const FEW: usize = 32;

/// Where in its list a transaction finds the write that made a version: in a map, once there are many.
#[derive(Default)]
pub(crate) struct Positions {
    by_version: HashMap<NonNull<Version>, usize>,
    /// Writes in the map: the first so many.
    through: usize,
}

impl Positions {
    /// The position of the write that made `version`; `None` if it is not of this transaction.
    pub fn find(&mut self, writes: &[Write], version: NonNull<Version>) -> Option<usize> {
        if writes.len() <= FEW {
            return writes.iter().rposition(|write| write.version == version);
        }
        self.by_version.extend((self.through..).zip(&writes[self.through..]).map(|(at, write)| (write.version, at)));
        self.through = writes.len();
        self.by_version.get(&version).copied()
    }

    /// The last write, at `position`, was taken back.
    pub fn forget(&mut self, position: usize, write: &Write) {
        if position < self.through {
            self.by_version.remove(&write.version);
            self.through = position;
        }
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    /// Writes are made and taken back, and the memory of one that was taken back becomes the version of another.
    #[test]
    fn a_version_is_found_where_it_is_now() {
        let version = |number: usize| NonNull::without_provenance((8 * number).try_into().expect("not null"));
        let write = |number| Write {
            row: NonNull::dangling(),
            version: version(number),
            before: None,
            base: None,
            table: 0,
            entries: None,
        };
        let mut random = saki_base::Random::new(2);
        let (mut positions, mut writes, mut numbers) = (Positions::default(), Vec::new(), Vec::new());
        let mut longest = 0;
        for step in 0..3_000 {
            // Long and short lists in turns.
            if writes.is_empty() || random.chance(if step / 300 % 2 == 0 { 0.7 } else { 0.3 }) {
                let number = (1..).find(|number| !numbers.contains(number)).expect("a number");
                numbers.push(number);
                writes.push(write(number));
            } else {
                numbers.pop();
                let taken: Write = writes.pop().expect("it is not empty");
                positions.forget(writes.len(), &taken);
                assert_eq!(positions.find(&writes, taken.version), None);
            }
            longest = longest.max(writes.len());
            if random.chance(0.5) {
                for (at, number) in numbers.iter().enumerate() {
                    assert_eq!(positions.find(&writes, version(*number)), Some(at), "step {step}");
                }
            }
        }
        assert!(longest > 2 * FEW, "{longest}");
    }
}
