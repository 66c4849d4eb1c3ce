//! A row and its versions: the layout in memory, and who may see which version.
//!
//! ```text
//! Row                                              first version (in the row's block)
//! +------+------+------------+-----------+-----+--+-------+------+--------+----------+------+
//! | head | work | key length | reindexed | key |  | begin | next | length | capacity | body |
//! | 8    | 4    | 2          | 1         | …   |  | 8     | 8    | 4      | 4        | …    |
//! +--|---+------+------------+-----------+-----+--+-------+---|--+--------+----------+------+
//!    └──► newest version ──next──► older ──next──► … ──next───► oldest           null ◄┘
//! ```
//!
//! The first version lies behind its row, so that a row that was written once costs one walk through memory. *head*
//! leads to the newest version; null means that the row is dead and about to leave its indexes. A body is a row of the
//! row format without the key's columns; a delete is a version without a body.
//!
//! # Begin
//! A version *begins* at the commit timestamp of its writer. Until that is known it is *pending* and names the writer:
//!
//! ```text
//!   committed   0 │ timestamp (63 bits)              NEVER: a timestamp that no snapshot reaches
//!   pending     1 │ participant (15) │ sequence (48)   who, and which of its transactions
//! ```
//!
//! Installing a pending version at the head takes one compare-and-swap and is the right to write the row: nobody waits
//! for it, whoever comes second is told of a conflict, so there is no deadlock. Readers pass pending versions by, with
//! one exception: a writer that took its timestamp at or before the reader's snapshot, and is about to stamp its
//! versions, is waited for; it does nothing else in between, in particular no I/O.
//!
//! # Who frees what when
//! A version superseded at `t` is seen by snapshots before `t` only, and no walk goes beyond the first version that its
//! snapshot sees; so it is freed once the watermark has reached `t`, and the pointer to it stays where it is, never
//! followed again.
//!
//! `version` is a version by itself, `row` the chain that hangs on a row, `replay` rows during recovery.

mod holder;
mod replay;
mod row;
mod version;

#[cfg(all(test, saki_loom))]
mod loom_tests;

pub use holder::Holder;
pub use row::{Newest, Refused, Row, TooOld};
pub use version::{Begin, NEVER, PARTICIPANTS_MAX, Status, Version, Writer};
