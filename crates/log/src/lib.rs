//! Parallel write-ahead logs.

#![forbid(unsafe_code)]

mod error;
mod format;
mod logs;
mod options;
mod report;

pub use error::{Damage, LogError};
pub use logs::{Logs, Reservation};
pub use options::{Options, Range};
pub use report::{LogEnd, LogStatistics, Progress, RecoveryReport};
