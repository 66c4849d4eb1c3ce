//! The in-memory engine: rows as chains of versions, ordered indexes, transactions that commit speculatively, workers
//! that run them. Durable by the logs of `saki-log`. Usable by itself, embedded in a program, and as the delta of
//! tables that have a base elsewhere.
//!
//! ```text
//!   Runner (one thread)            shared, read by all                          written when
//!   ┌───────────────────┐
//!   │ Transaction       │──key──►  Index  (B+-tree, optimistic latches)         keys come and go
//!   │  reads, writes    │            │ address
//!   │                   │            ▼
//!   │ Arena: new rows,  │──────►   Row ─head─► Version ─next─► Version …        a row is written
//!   │        versions   │
//!   │ Reclaimer: old    │          Epochs: clock, a line for each participant   commit: one fetch_add
//!   │        versions   │            ▲
//!   └────────┬──────────┘            │ watermark: what nobody can see any more
//!            │ record                │
//!            ▼                       │
//!          Logs, one per core group ─┴─► durable horizon ─► acknowledgement
//! ```
//!
//! ```
//! use saki_base::{Column, DataType, ValueRef};
//! use saki_mvcc::{Database, Isolation, Options, TableDefinition};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! let database = Database::open(directory.path(), Options::default(), &|_| {})?;
//! let column = |name: &str, data_type| Column { name: name.into(), data_type, nullable: false };
//! let table = database.create_table(TableDefinition {
//!     name: "accounts".into(),
//!     columns: vec![column("id", DataType::Int8), column("balance", DataType::Int8)],
//!     primary_key: vec![0],
//!     indexes: vec![],
//!     ..Default::default()
//! })?;
//!
//! let mut runner = database.runner()?;
//! let balance_at = table.row_layout().fixed_offset(0).expect("a fixed column");
//! runner.run(Isolation::Serializable, |transaction| {
//!     let (mut key, mut body) = (Vec::new(), Vec::new());
//!     table.encode(&[ValueRef::Int8(1), ValueRef::Int8(100)], &mut key, &mut body)?;
//!     let id = transaction.insert(&table, &key, &body)?;
//!     transaction.modify(&table, id, |body| body[balance_at] += 1)
//! })?; // returns when it is durable; runs again if another transaction gets in the way
//! # Ok::<(), saki_mvcc::Error>(())
//! ```
//!
//! # Words
//! - **row**: a key and its chain of versions. **version**: a body, or a delete, and when it *begins*. **pending**: not
//!   committed yet.
//! - **timestamp**: the place of a commit in the one order of all commits. **snapshot**: the timestamp that a
//!   transaction reads at.
//! - **speculative**: visible to all, and not yet durable. **acknowledged**: the client has been told, so it must be
//!   durable.
//! - **receipt**: what must be durable before anybody is told of an outcome. Every outcome has one, also reading,
//!   also errors.
//! - **watermark**: no snapshot is earlier. **participant**: whoever may look at shared memory. **pin**: for how long
//!   it does.
//! - **holder**: a transaction as others meet it, by its pending versions. **moment**: a snapshot for any threads.
//!   **reader**: one of them.
//! - **runner**: runs transactions one after the other, with memory of its own. **worker**: a pinned thread with a
//!   runner.
//!
//! # Parts
//! `transaction` is what users do; `chain` what a row is and who sees what of it; `index` where rows are; `epoch` who
//! may still look, `reclaim` what may be freed, `sweep` by whom else, `arena` where it goes; `record` and `recovery`
//! what is left in the log and made of it again; `catalog` which tables there are; `release` how rows leave that are in
//! the base, `waiting` who waits for whom; `procedure` workers, crate `saki_placement` their cores and memory.
//!
//! # Invariants
//! - A version does not change once it is stamped, but for the pointer behind it, when what lay there was seen by
//!   nobody.
//! - At most one version of a row is pending by others than a reader, and it is the newest: writers never wait for each
//!   other.
//! - A commit writes one word that all share, the clock. A read writes none: its own line of `epoch`, its own read set,
//!   nothing else. (Index nodes, rows and versions are only loaded; latches of nodes are compared, not taken.)
//! - Every timestamp leaves one record in one log, a void one if its transaction failed, so that a gap is proof of a
//!   loss.
//! - Memory is bounded by what snapshots can see: for each row one version for each snapshot, and the newest.
//!
//! # Failure model
//! An acknowledged commit survives the end of the process and of power. One that was not acknowledged is there in whole
//! or not at all. Recovery stops at the first timestamp that is missing; if something after it is known to have been
//! durable, the database is not opened (`saki-log` says which log, extent and byte). A full disk refuses commits and
//! lets reads go on; a failed log ends acknowledgements for good. Procedures may panic: theirs is the transaction that
//! is aborted. A panic of the engine's own while rows are stamped, installed or taken back, or a node of an index
//! changes, ends the process (`saki_base::Critical`): others would wait for ever, or see half. Bodies that are no rows
//! give errors when they are read. What a failed log has lost is still seen, but the receipts of who sees it never
//! become durable. The logs are the only copy: they grow until someone keeps the rows elsewhere and cuts them
//! ([`Database::begin_cut`]); rows of tables over a base may then leave memory ([`Database::release`]).
//!
//! # Where the proofs are
//! Random histories against a serial model, and a checker that looks for the anomalies that Adya defines, in `tests`;
//! crashes of a simulated disk and of real processes there as well. `loom` checks `epoch`, the latches of `index` and
//! the protocol of `chain` (`RUSTFLAGS="--cfg saki_loom" cargo test -p saki-mvcc --lib --release loom`).

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
mod chain;
mod database;
#[allow(unsafe_code)]
pub mod epoch;
mod error;
#[allow(unsafe_code)]
pub mod index;
#[allow(unsafe_code)]
mod memory;
pub mod record;
#[allow(unsafe_code)]
mod recovery;
#[allow(unsafe_code)]
mod runner;
mod sync;
#[allow(unsafe_code)]
mod table;
#[allow(unsafe_code)]
mod transaction;

pub use saki_placement as placement;

pub use chain::Holder;
pub use database::{
    Call, Database, NewLogs, Options, Procedure, Wait, Workers, check_logs, end_logs_at, open_log_devices,
    open_log_devices_to_read, write_log_extent,
};
pub use error::{Contended, Error};
pub use index::KEY_BYTES_MAX;
#[doc(hidden)]
pub use runner::Sabotage;
pub use runner::{Durability, Isolation, Receipt, Released, Runner};
pub use saki_log::{
    Extent as LogExtent, LogError, LogRecord, LogStatistics, Options as LogOptions, Progress, Range, RecoveryReport,
    Tail as LogTail,
};
pub use table::{BODY_BYTES_MAX, Catalog, IndexDefinition, IndexId, Newer, Table, TableDefinition};
pub use transaction::{Direction, Found, KeyRange, Moment, Reader, RowId, Savepoint, Seen, Transaction};
