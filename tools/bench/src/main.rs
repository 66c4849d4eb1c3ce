//! `saki-bench`: every performance claim as a command.
//!
//! Each benchmark is seeded, checks its own answers (a wrong answer is no
//! speed: the exit status is not zero), records its configuration and the
//! device's name, and puts ratios beside absolutes. `--small` makes each a
//! quick run, so that none of them rots.

#![forbid(unsafe_code)]

mod cache;
mod fio;
mod io;
mod process;
mod report;
mod samples;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use report::{Common, Report};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "saki-bench", version, about)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Random reads: depth by size, lanes side by side
    Io(io::Options),
    /// Hit ratios of page replacement policies on traces
    Cache(cache::Options),
}

fn main() -> ExitCode {
    let Arguments { common, benchmark } = Arguments::parse();
    let outcome = match benchmark {
        Benchmark::Io(options) => io::run(&common, &options),
        Benchmark::Cache(options) => cache::run(&common, &options),
    };
    match outcome.and_then(|report: Report| report.finish(&common)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saki-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
