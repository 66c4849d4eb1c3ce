//! Who may use a table how: locks in PostgreSQL's modes, held by transactions until their end.
//!
//! ```text
//!   weak modes ─► LockOwner::try_weak: the owner's own list, one look at a counter
//!                    │ somebody holds or wants a strong mode
//!                    ▼
//!   all others ─► Locks::request ─► Queue of the table ─► granted, or a LockWait in line
//!                    │ strong: first counts itself, then gathers the weak locks of all owners
//!   rows ────────────┴─► Waits: who waits for whom, for tables and for rows; a circle is refused
//! ```
//!
//! # Why a weak lock may be taken without the table's queue
//! The modes of queries and changes of rows go with each other, so only a strong one has to know of them. An owner
//! enters a weak lock into its own list, with the list's mutex held, if the counter of strong locks is 0. Whoever wants
//! a strong one raises the counter, then locks each owner's list in turn and moves what it finds there to the table's
//! queue. For each list one of the two is first: if the owner was, its lock is found; if the other was, the owner sees
//! the counter, which was raised before, and goes to the queue. PostgreSQL's fast path is the same (`lock.c`).
//! Counters are shared by tables whose numbers are congruent: a false alarm is a detour, not a mistake.
//!
//! # Who may see what, and when
//! - A change of rows holds ROW EXCLUSIVE from before it looks at the newest definition of its table until after its
//!   commit is visible. So the definition it saw is the newest until then, and whoever then gets a mode that keeps
//!   changes out finds its rows.
//! - After a wait a name may mean another table, and the table may be another: whoever waited looks it up again.
//! - A query in a transaction block holds ACCESS SHARE until the end of the block. A query that is a transaction by
//!   itself holds nothing: the pages, the deltas and the definitions of its snapshot stay for as long as it has the
//!   snapshot, whatever becomes of the table meanwhile, and what it sees is what was there when it began.
//! - Merges and checkpoints lock nothing: what they do is no change of what a table is.
//!
//! # Advisory locks
//! They are taken for a transaction, and go with its other locks, or for a session, until it lets them go or ends. A
//! session may take one several times, and then has to let it go as often. They wait in the same graph as all others.
//!
//! # Waiting
//! First come, first served: who waits is not overtaken by later requests that conflict with it. An owner waits for one
//! thing at a time, a lock or the end of a transaction that holds a row; both are edges of one graph, which is searched
//! before each wait. The one that would close a circle is refused with 40P01, unless it helps to let it stand first in
//! line.
//!
//! Work that gives way ([`Policy::GivingWay`]) stands in line for a while only, and asks again later. Nobody is refused
//! for standing behind it, nor for what it waits for: if it is on a circle by what it holds, it is the one to find
//! that, when it asks the next time. So it counts what others do that give way, also between two of their attempts
//! ([`LockOwner::gives_way`]).

mod account;
mod advisory;
mod grant;
mod manager;
mod mode;
mod owner;
mod queue;
mod stop;
mod turns;
mod waits;

#[cfg(test)]
mod tests;

use saki_base::TableId;

pub use self::advisory::AdvisoryKey;
pub use self::manager::{LockRow, Locks, WaitEvent};
pub use self::mode::{LockMode, Policy};
pub use self::owner::{GivenWay, LockMark, LockOwner, LockWait, Requested, RowWait};
pub use self::stop::{Stop, StopOnDrop, Working, timed_out};
pub use self::turns::{Turn, Turns};

/// Numbers from here on are names' and not tables'.
const NAMES: u32 = 1 << 31;

/// What is locked to have a name to oneself. Two names may share it: then one waits for nothing.
pub fn of_name(name: &str) -> TableId {
    TableId(NAMES | saki_base::checksum(name.as_bytes()) as u32)
}

/// Whether a lock is one of a name.
pub fn is_name(locked: TableId) -> bool {
    locked.0 >= NAMES
}
