//! What chunks have earned by being read, and how it passes from those that a merge frees to those that it writes.

use hashbrown::HashMap;
use saki_base::Part;

/// What is known of a chunk by its reads.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Earned {
    /// Seconds that a copy would have saved, those long ago counting less.
    pub heat: f64,
    /// The same, all counting alike.
    pub total: f64,
    /// The total when a static placement was last asked for.
    pub traced: f64,
}

impl Earned {
    fn times(self, share: f64) -> Self {
        Self { heat: self.heat * share, total: self.total * share, traced: self.traced * share }
    }

    fn add(&mut self, other: Self) {
        self.heat += other.heat;
        self.total += other.total;
        self.traced += other.traced;
    }

    /// Gives so much of itself away.
    fn give(&mut self, share: f64) -> Self {
        let given = self.times(share);
        *self = self.times(1.0 - share);
        given
    }
}

/// What chunks gave whose pages went, by part, until it is taken by those that have new ones.
#[derive(Default)]
pub struct Estate {
    left: HashMap<Part, Earned>,
    /// Pages that have come, by part; halves and thirds where parts share a chunk.
    gained: HashMap<Part, f64>,
}

impl Estate {
    /// A chunk with pages of `parts` has lost `lost` of the pages that it had.
    pub fn lose(&mut self, earned: &mut Earned, parts: &[Part], pages_before: u32, lost: u32) {
        if parts.is_empty() || pages_before == 0 {
            return;
        }
        let given = earned.give(f64::from(lost.min(pages_before)) / f64::from(pages_before));
        let each = given.times(1.0 / parts.len() as f64);
        parts.iter().for_each(|part| self.left.entry(*part).or_default().add(each));
    }

    /// A chunk has `gained` pages more.
    pub fn gain(&mut self, parts: &[Part], gained: u32) {
        let each = f64::from(gained) / parts.len().max(1) as f64;
        parts.iter().for_each(|part| *self.gained.entry(*part).or_default() += each);
    }

    /// What such a chunk takes, once all have said what they lost and gained.
    pub fn share(&self, parts: &[Part], gained: u32) -> Earned {
        let each = f64::from(gained) / parts.len().max(1) as f64;
        let mut taken = Earned::default();
        for part in parts {
            let (Some(left), Some(all)) = (self.left.get(part), self.gained.get(part)) else { continue };
            taken.add(left.times(each / all));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use saki_base::{PartKind, TreeId};

    use super::*;

    #[test]
    fn what_goes_passes_to_what_comes_of_the_same_part() {
        let part = |tree| Part::new(TreeId(tree), PartKind::Leaves);
        let mut old = Earned { heat: 8.0, total: 16.0, traced: 4.0 };
        let mut estate = Estate::default();
        // Half of a chunk that two parts share goes.
        estate.lose(&mut old, &[part(1), part(2)], 100, 50);
        assert_eq!(old, Earned { heat: 4.0, total: 8.0, traced: 2.0 });
        estate.gain(&[part(1)], 30);
        estate.gain(&[part(1)], 10);
        let first = estate.share(&[part(1)], 30);
        assert_eq!(first, Earned { heat: 1.5, total: 3.0, traced: 0.75 });
        assert_eq!(estate.share(&[part(1)], 10).heat, 0.5);
        assert_eq!(estate.share(&[part(3)], 10), Earned::default(), "nothing of it went");
    }
}
