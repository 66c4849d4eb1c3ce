//! The write side, measured: transaction workloads over the engine in memory and its logs.
//!
//! | benchmark | what it runs | after |
//! |---|---|---|
//! | `neworder` | the loop of New-Order over three tables; hot rows, speculation on and off | the measurement of MPDB |
//! | `tpcc` | all nine tables, all five transactions in the standard mix | TPC-C revision 5.11 |
//! | `ycsb` | point reads, updates, scans and inserts, uniform and skewed | the Yahoo! Cloud Serving Benchmark |
//! | `index` | the ordered index beside those of others | |
//! | `recovery` | logs of some size, replayed | |
//! | `validation` | a read beside the commit of a large serializable transaction | |
//!
//! Every one is seeded, checks what it left behind against what its clients were told, and comes in a small form that
//! takes seconds without optimisation.

#![forbid(unsafe_code)]

mod chart;
mod codec;
mod driver;
mod engine;
pub mod index;
pub mod neworder;
mod outcome;
mod progress;
pub mod recovery;
pub mod tpcc;
pub mod validation;
pub mod ycsb;
mod zipf;

use clap::Subcommand;
use saki_report::Common;

pub use chart::ChartData;
pub use outcome::Outcome;

/// What to measure.
#[derive(Subcommand, Clone, Debug)]
pub enum Benchmark {
    /// New-Order over workers and logs: scaling, latency, speculation
    Neworder(neworder::Options),
    /// TPC-C: the full mix, checked by its consistency conditions
    Tpcc(tpcc::Options),
    /// Point reads, updates, inserts and scans, uniform and skewed
    Ycsb(ycsb::Options),
    /// Ordered indexes side by side: reads, inserts, scans
    Index(index::Options),
    /// Replaying logs
    Recovery(recovery::Options),
    /// How long readers wait beside the commit of a serializable transaction that has read much
    Validation(validation::Options),
}

/// Runs a benchmark.
///
/// # Errors
/// Whatever kept it from being run; answers that are wrong are faults of the report.
pub fn run(common: &Common, benchmark: &Benchmark) -> Result<Outcome, String> {
    match benchmark {
        Benchmark::Neworder(options) => neworder::run(common, options),
        Benchmark::Tpcc(options) => tpcc::run(common, options),
        Benchmark::Ycsb(options) => ycsb::run(common, options),
        Benchmark::Index(options) => {
            index::run(common, options).map(|report| Outcome { charts: index::charts(&report), report })
        }
        Benchmark::Recovery(options) => recovery::run(common, options),
        Benchmark::Validation(options) => validation::run(common, options),
    }
}
