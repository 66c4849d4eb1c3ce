//! Kinds of steps, and how often each comes.

use saki_base::Random;

/// What a step is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    Changes,
    Transactions,
    Reads,
    Maintenance,
    Catalogue,
    Rest,
}

macro_rules! kinds {
    ($($sort:ident: $($kind:ident $name:literal $weight:literal),*;)*) => {
        /// Kinds of steps.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($($kind,)*)*
        }

        impl Kind {
            /// Each, as a command line names it, and how often it comes; 0: only where a command line asks for it.
            pub const ALL: &[(Self, &str, u64, Sort)] = &[$($((Self::$kind, $name, $weight, Sort::$sort),)*)*];
        }
    };
}

kinds! {
    Changes: Insert "insert" 10, Upsert "upsert" 5, Update "update" 10, UpdateMany "update-many" 6,
        Delete "delete" 6, DeleteMany "delete-many" 3, Copy "copy" 5, InsertSelect "insert-select" 4;
    Transactions: Transaction "transaction" 24, Migrate "migrate" 3, Transfer "transfer" 10,
        ForUpdate "for-update" 0, SkipLocked "skip-locked" 0, LockTable "lock-table" 0;
    Reads: Read "read" 22, RepeatableRead "repeatable-read" 8, Balances "balances" 6, View "view" 0,
        Temporary "temporary" 0;
    Maintenance: Checkpoint "checkpoint" 7, Release "release" 6, Analyze "analyze" 2, Vacuum "vacuum" 1,
        Reindex "reindex" 0;
    Catalogue: Truncate "truncate" 2, Columns "columns" 4, Rename "rename" 3, Constraints "constraints" 6,
        CreateAs "create-as" 4, Picture "picture" 2, CreateIndex "create-index" 3, DropIndex "drop-index" 3,
        AddColumn "add-column" 3, DropColumn "drop-column" 3, SharedConstraint "shared-constraint" 2,
        ColumnType "column-type" 0, Concurrently "concurrently" 0, Sequence "sequence" 0;
    Rest: Cancel "cancel" 6, Settings "settings" 2, Pause "pause" 4;
}

impl Kind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, ..)| *known == name).map(|(kind, ..)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, ..)| name)
    }
}

/// How often each kind of step comes in one seed's script. Some seeds have none of a kind, or much of it: what happens
/// only where something else does not is found so.
///
/// After Groce et al., Swarm testing (2012).
pub struct Mixture(Vec<(Kind, u64)>);

impl Mixture {
    /// `is_small`: of a few kinds at most.
    pub fn draw(random: &mut Random, is_small: bool) -> Self {
        let is_even = random.chance(0.2);
        let sorts: [u64; 6] = std::array::from_fn(|_| if is_even { 1 } else { [0, 1, 1, 4][random.below(4) as usize] });
        let come = Kind::ALL.iter().filter(|(_, _, weight, _)| *weight > 0);
        let weighed = come.map(|(kind, _, weight, sort)| {
            let times = if is_even { 1 } else { [0, 1, 1, 3][random.below(4) as usize] };
            (*kind, weight * times * sorts[*sort as usize])
        });
        let mut all: Vec<(Kind, u64)> = weighed.collect();
        // Some have a few kinds and nothing else.
        if is_small || random.chance(0.3) {
            let mut kept: Vec<usize> = (0..all.len()).collect();
            random.shuffle(&mut kept);
            kept.truncate(random.range(if is_small { 1..4 } else { 2..6 }) as usize);
            all.iter_mut().enumerate().for_each(|(at, (_, weight))| *weight *= u64::from(kept.contains(&at)));
        }
        // Whatever else there is, rows come to be.
        let total: u64 = all.iter().map(|(_, weight)| weight).sum();
        all[0].1 = all[0].1.max(1 + total / 10);
        Self(all)
    }

    pub fn of(weighed: &[(Kind, u64)]) -> Self {
        Self(weighed.to_vec())
    }

    pub fn any(&self, random: &mut Random) -> Kind {
        let total: u64 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = random.below(total);
        for (kind, weight) in &self.0 {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        unreachable!("the weights add up")
    }
}
