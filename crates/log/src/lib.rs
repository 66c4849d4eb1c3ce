//! Parallel write-ahead logs.

#![forbid(unsafe_code)]

mod error;
mod format;
mod frame;
mod horizon;
mod logs;
mod options;
mod record;
mod recovery;
mod report;
mod segment;
mod shared;
#[cfg(all(test, not(saki_loom)))]
mod simulation;
mod slots;
mod start;
mod stream;
mod sync;
mod waiters;
mod writer;

pub use error::{Damage, LogError};
pub use logs::{Logs, Reservation};
pub use options::{Options, Range};
pub use report::{LogEnd, LogStatistics, Progress, RecoveryReport};
pub use waiters::Callback;
