//! Which parts have pages in a chunk.

use saki_base::Part;

/// The parts whose pages have been written into a chunk: one, if it is alone there. A part stays in the list when its
/// last page goes, as long as the chunk is there. None are known of chunks that were written before parts were noted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    first: Option<Part>,
    /// Chunks of many parts are few, so the rest takes no room in the others.
    rest: Box<[Part]>,
}

impl Parts {
    pub fn iter(&self) -> impl Iterator<Item = Part> {
        self.first.into_iter().chain(self.rest.iter().copied())
    }

    pub fn has(&self, part: Part) -> bool {
        self.iter().any(|known| known == part)
    }

    /// Whether it is the only one.
    pub fn is_only(&self, part: Part) -> bool {
        self.first == Some(part) && self.rest.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub fn are_several(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Adds a part; `false` if it was there.
    pub fn add(&mut self, part: Part) -> bool {
        if self.has(part) {
            return false;
        }
        match self.first {
            None => self.first = Some(part),
            Some(_) => self.rest = self.rest.iter().copied().chain([part]).collect(),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use saki_base::{PartKind, TreeId};

    use super::*;

    #[test]
    fn each_part_is_there_once() {
        let part = |tree| Part::new(TreeId(tree), PartKind::Leaves);
        let mut parts = Parts::default();
        assert!(parts.is_empty() && !parts.are_several());
        assert!(parts.add(part(1)) && !parts.add(part(1)));
        assert!(parts.is_only(part(1)) && !parts.is_only(part(2)) && !parts.are_several());
        assert!(parts.add(part(2)) && parts.add(part(3)) && !parts.add(part(2)));
        assert!(parts.are_several() && !parts.is_only(part(1)));
        assert_eq!(parts.iter().collect::<Vec<_>>(), [part(1), part(2), part(3)]);
    }
}
