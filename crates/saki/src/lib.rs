//! Sakigake: a SQL database that rides ahead of its storage.
//!
//! Every mainstream engine follows an index the same way: ask for one page,
//! wait, look at it, ask for the next. Sakigake breaks a query into page visits,
//! keeps thousands of them in flight, and works on pages in whatever order
//! they arrive. On storage that is far away (a cloud volume, a disk array,
//! another machine) the same query then takes as long as the device needs for
//! its pages all at once, not one after another.
//!
//! This crate is the database for embedding, and the `saki` command. One
//! database is one file or block device; SQL is PostgreSQL's dialect; results are Arrow batches.
//!
//! ```
//! use saki::{CreateOptions, Database, Session};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("orders.saki");
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let database = Database::create(&path, CreateOptions::default())?;
//! let session = Session::new(&database);
//! session.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, total numeric(15,2))").await?;
//! session.execute("CREATE INDEX orders_customer ON orders (customer)").await?;
//! session.execute("INSERT INTO orders VALUES (1, 'ada', 12.50), (2, 'grace', 80.00), (3, 'ada', 7.25)").await?;
//!
//! let mut results = session.execute("SELECT id, total FROM orders WHERE customer = 'ada' ORDER BY id").await?;
//! let batches = results.remove(0).collect().await?;
//! assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
//! # Ok::<(), saki::SqlError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A statement that fails changes nothing. A result is a stream:
//! reading stops when it is dropped, and it needs a running Tokio runtime.
//!
//! Besides the database there is what it takes to measure it:
//!
//! - [`tpch`]: the TPC-H tables, their data at any scale, its 22 queries;
//! - [`experiment`]: the three-table join by which in-order and out-of-order execution are compared;
//! - [`plot`]: line charts of what was measured;
//! - [`backup`]: backups in a directory or an object store, and databases made from them;
//! - [`usage`]: processor time and memory of this process.

#![forbid(unsafe_code)]

pub mod experiment;
pub mod plot;
pub mod tpch;
pub mod usage;

/// Backups of a database that is open, and databases made from them; calls wait, so they belong on a thread that may.
pub mod backup {
    pub use saki_backup::{
        ArchiveOptions, Archived, BackupReport, CheckReport, Listed, Progress, PruneReport, RestoreReport, Summary,
        Wanted, archive, archives, backup, check, clone, complete, list, prune, refuse_archive, restore,
    };
    pub use saki_sql::Stop;
}

pub use saki_base::{PageSize, VolumeNumber};
pub use saki_io::Backend;
pub use saki_sql::{
    CheckFault, CheckProgress, CheckReport, CreateOptions, Database, DeviceClass, DeviceSpec, DeviceStatus, ErrorKind,
    LoadProgress, OpenOptions, PolicyKind, Position, Session, Settings, SqlError, StatementResult,
};
