//! How a table may be used: PostgreSQL's eight modes, and which of them two transactions may not hold at once.

use std::fmt;

/// A mode of locking a table, the weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum LockMode {
    /// Queries.
    AccessShare,
    /// `SELECT … FOR UPDATE`.
    RowShare,
    /// INSERT, UPDATE, DELETE.
    RowExclusive,
    /// VACUUM, ANALYZE.
    ShareUpdateExclusive,
    /// CREATE INDEX.
    Share,
    /// ADD FOREIGN KEY, loads that go straight to the base.
    ShareRowExclusive,
    Exclusive,
    /// DROP, TRUNCATE, most forms of ALTER TABLE.
    AccessExclusive,
}

/// How long a lock is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Not at all: NOWAIT.
    Now,
    Wait,
    /// For a while: whoever asks so leaves its place in line then, and asks again later.
    GivingWay,
}

use LockMode as M;

/// Modes that each mode does not go with, as the table of conflicting lock modes in PostgreSQL's documentation has it
/// (section 13.3.1).
const CONFLICTS: [&[LockMode]; 8] = [
    &[M::AccessExclusive],
    &[M::Exclusive, M::AccessExclusive],
    &[M::Share, M::ShareRowExclusive, M::Exclusive, M::AccessExclusive],
    &[M::ShareUpdateExclusive, M::Share, M::ShareRowExclusive, M::Exclusive, M::AccessExclusive],
    &[M::RowExclusive, M::ShareUpdateExclusive, M::ShareRowExclusive, M::Exclusive, M::AccessExclusive],
    &[M::RowExclusive, M::ShareUpdateExclusive, M::Share, M::ShareRowExclusive, M::Exclusive, M::AccessExclusive],
    &[
        M::RowShare,
        M::RowExclusive,
        M::ShareUpdateExclusive,
        M::Share,
        M::ShareRowExclusive,
        M::Exclusive,
        M::AccessExclusive,
    ],
    &LockMode::ALL,
];

impl LockMode {
    /// All modes, the weakest first.
    pub const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// Whether two transactions may not hold these on one table at the same time.
    pub fn conflicts_with(self, other: Self) -> bool {
        CONFLICTS[self as usize].contains(&other)
    }

    /// Whether it goes with itself and with all modes like it: those that queries and changes of rows take.
    pub fn is_weak(self) -> bool {
        self <= Self::RowExclusive
    }

    /// Whether a weak mode conflicts with it.
    pub(super) fn is_strong(self) -> bool {
        self >= Self::Share
    }

    /// As `pg_locks` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessShare => "AccessShareLock",
            Self::RowShare => "RowShareLock",
            Self::RowExclusive => "RowExclusiveLock",
            Self::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Self::Share => "ShareLock",
            Self::ShareRowExclusive => "ShareRowExclusiveLock",
            Self::Exclusive => "ExclusiveLock",
            Self::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

impl fmt::Display for LockMode {
    /// As `LOCK TABLE` spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AccessShare => "ACCESS SHARE",
            Self::RowShare => "ROW SHARE",
            Self::RowExclusive => "ROW EXCLUSIVE",
            Self::ShareUpdateExclusive => "SHARE UPDATE EXCLUSIVE",
            Self::Share => "SHARE",
            Self::ShareRowExclusive => "SHARE ROW EXCLUSIVE",
            Self::Exclusive => "EXCLUSIVE",
            Self::AccessExclusive => "ACCESS EXCLUSIVE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of PostgreSQL's table, `X` where two modes conflict, in the order of the modes.
    const POSTGRES: [&str; 8] =
        [".......X", "......XX", "....XXXX", "...XXXXX", "..XX.XXX", "..XXXXXX", ".XXXXXXX", "XXXXXXXX"];

    #[test]
    fn modes_conflict_as_in_postgres() {
        for (mode, row) in LockMode::ALL.into_iter().zip(POSTGRES) {
            let found: String =
                LockMode::ALL.iter().map(|other| if mode.conflicts_with(*other) { 'X' } else { '.' }).collect();
            assert_eq!(found, row, "{mode}");
        }
    }

    #[test]
    fn conflicts_go_both_ways_and_the_fast_path_knows_its_modes() {
        for one in LockMode::ALL {
            for other in LockMode::ALL {
                assert_eq!(one.conflicts_with(other), other.conflicts_with(one), "{one} and {other}");
                assert!(!(one.is_weak() && other.is_weak() && one.conflicts_with(other)), "{one} and {other}");
                let meets_weak = one.is_weak() && one.conflicts_with(other);
                assert!(!meets_weak || other.is_strong(), "{one} does not see {other}");
            }
        }
    }
}
