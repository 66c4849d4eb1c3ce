//! Roles by their numbers.

use serde::{Deserialize, Serialize};

/// Oids below are PostgreSQL's own.
pub const FIRST_OID: u32 = 16384;
/// Oids that each id of the catalog has for itself.
pub const OIDS_PER_ID: u32 = 8;

/// A role by what stays its own when it is renamed: its oid in `pg_authid`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(pub u32);

impl RoleId {
    /// Stands for everybody in lists of what was granted; no role has it.
    pub const PUBLIC: Self = Self(0);
    /// The role that every database begins with. It may do everything, and is never dropped.
    pub const OWNER: Self = Self(10);
    pub const MONITOR: Self = Self(3373);
    pub const READ_ALL_SETTINGS: Self = Self(3374);
    pub const READ_ALL_STATS: Self = Self(3375);
    pub const STAT_SCAN_TABLES: Self = Self(3377);
    pub const SIGNAL_BACKEND: Self = Self(4200);
    pub const CHECKPOINT: Self = Self(4544);
    pub const READ_SERVER_FILES: Self = Self(4569);
    pub const WRITE_SERVER_FILES: Self = Self(4570);
    pub const EXECUTE_SERVER_PROGRAM: Self = Self(4571);
    pub const DATABASE_OWNER: Self = Self(6171);
    pub const READ_ALL_DATA: Self = Self(6181);
    pub const WRITE_ALL_DATA: Self = Self(6182);

    /// Whether the role is there in every database, and stays as it is.
    pub fn is_predefined(self) -> bool {
        self != Self::OWNER && self.0 < FIRST_OID
    }
}
