//! What a database says of itself: tables, indexes, constraints and sequences, how their rows are laid out in trees,
//! what is known of their values, and the conditions on single columns that storage understands. It names no planner.
//!
//! ```text
//!   Catalog ──► Table ──► EntryLayout ──► EntryEncoder, EntryDecoder     rows ◄─► keys and rows of trees
//!                 │  └──► TableAccess ◄── ColumnTest ──► KeyBounds       conditions ─► ranges of keys
//!                 └─────► TableStatistics                                 how many rows a condition leaves
//! ```
//!
//! # Words
//! - *catalog*: all documents of one generation; a value: a statement works on the one it began with, a writer changes
//!   a copy.
//! - *access*: a tree of a table (primary or index), and which table column each of its columns is.
//! - *column test*: a condition of one column with constants: what storage can decide on encoded bytes.
//!
//! # Invariants
//! - A column is in the key or in the row of an entry, never in both; an index entry carries the primary key.
//! - Statistics only choose plans; no answer depends on them.
//!
//! # Failure model
//! A document that cannot be read is `Corrupt`, and names its key. Every error of the layers below becomes a
//! statement's error in one place, [`SqlError`]'s `From`s: what it is, and what to do about it.
#![forbid(unsafe_code)]

mod access;
mod catalog;
pub mod column_test;
pub mod columns;
pub mod convert;
pub mod entries;
mod error;
#[cfg(test)]
mod fixture;
pub mod guesses;
pub mod key_range;
mod map;
pub mod statistics;
mod stored;

pub use access::TableAccess;
pub use catalog::{
    Access, Acl, AclItem, CATALOG_TREE, Catalog, Changed, Check, ColumnDetail, DefaultAcl, Deferral, Demand, Demanded,
    Dependents, Difference, EntryLayout, EnumType, ForeignKey, Hidden, Identity, Index, IndexColumn, KeyId, LogState,
    Membership, ObjectId, ObjectKind, Place, Prepared, Privilege, Privileges, ROW_ID, ReferentialAction, RelationKind,
    Role, RoleId, SchemaEntry, Sequence, SequenceOwner, SequencePosition, Staged, Table, TableTier, VIEW_DEPTH_MAX,
    View, ViewColumn, bare, denied, nextval, qualified, same_layout, undefined_column,
};
pub use column_test::{ColumnTest, PlacedTest, Test};
pub use columns::ColumnReader;
pub use entries::{EntryDecoder, EntryEncoder};
#[cfg(feature = "planner")]
pub use error::InPlan;
pub use error::{ErrorKind, Objects, Position, Result, SqlError, data_error, undefined};
pub use key_range::KeyBounds;
pub use map::SharedMap;
pub use saki_exec::{STATES_MAX, enumeration};
pub use statistics::{Collector, ColumnStatistics, TableStatistics};
pub use stored::{PlacedColumn, StoredColumns};

/// The schema of names that state none.
pub const PUBLIC: &str = "public";
