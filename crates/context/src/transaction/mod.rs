//! Transactions of a session, over many statements or for one.
//!
//! | level | what a statement reads | a row that another has just changed |
//! |---|---|---|
//! | READ COMMITTED | the newest snapshot when the statement began | the statement is run again on a newer snapshot |
//! | REPEATABLE READ | the snapshot of the first statement | 40001 |
//! | SERIALIZABLE | that, and what was read must not have changed at COMMIT | 40001 |
//!
//! A row that another transaction is changing is waited for, and from some attempt on held while the statement begins
//! anew (`contention`); the one that would close a circle of waiting transactions gets 40P01. A statement outside of
//! BEGIN and COMMIT is a transaction by itself, and runs again whenever another got in its way. Statements that a
//! client sends together are one transaction, until [`SessionTransactions::end_message`].
//!
//! COMMIT makes changes visible at once, and is answered when they are durable along with everything that they are
//! based on (`saki_mvcc`: speculative commit). All else that clients are told, counts of changed rows between BEGIN and
//! COMMIT too, waits for what it rests on as well (`durable`).
//!
//! ```text
//!   idle ── a statement ─────► Scope::Statement ── its end ───────────────► idle
//!        ── a message ───────► Scope::Message ──── its end ───────────────► idle
//!        ── BEGIN ───────────► Scope::Block ────── COMMIT, ROLLBACK ──────► idle
//!                                 │ ▲
//!                        an error ▼ │ ROLLBACK TO
//!                              failed
//! ```
//!
//! A transaction that changes the catalog has one of its own until its end (`SessionDraft`): its
//! statements see that, others what is published.
//!
//! Checks of foreign keys may wait for the end of the transaction (`deferred`): whoever commits one makes them first,
//! as a statement of it.
//!
//! Tables are locked until the end of the transaction (`locking`; the modes and the queue are `saki_store::locks`).
//! In each scope the transaction has [`Begun`](open::Begun) from its first statement that reads or changes rows on.

mod advisory;
mod change;
mod contention;
mod control;
mod deferred;
mod durable;
mod level;
mod locking;
mod message;
mod open;
mod shared;
mod state;
mod tables;

pub use change::{Change, ChangeEnv, Conflict, Refusal, Telling, Waiting};
pub use contention::Contention;
pub use deferred::{Checked, DeferredCheck, Deferring, bytes_of};
pub use locking::Locked;
pub use shared::SessionTransactions;
pub use state::{TransactionStatus, Transactions};
pub use tables::is_unchanged;
