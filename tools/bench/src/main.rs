//! `saki-bench`: every performance claim as a command.
//!
//! Each benchmark is seeded, checks its own answers (a wrong answer is no
//! speed: the exit status is not zero), records its configuration and the
//! device's name, and puts ratios beside absolutes. `--small` makes each a
//! quick run, so that none of them rots.

#![forbid(unsafe_code)]

mod cache;
mod data;
mod delta;
mod io;
mod join;
mod load;
mod merge;
mod ooo;
mod operators;
mod others;
mod planning;
mod plot;
mod tpch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use saki_report::{Common, Report};

use self::others::{fabric, oltp, tiering};

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
    /// The paper's three-table join over selectivities, in order and out of order
    Ooo(ooo::Options),
    /// Bulk load: time, memory, size
    Load(load::Options),
    /// One load in this process, for `load`
    #[command(hide = true)]
    LoadOne(load::OneOptions),
    /// Changed rows into a table's trees, indexes and segments; what queries notice of it
    Merge(merge::Options),
    /// The 22 queries of TPC-H with changed rows in the delta, beside the same without
    Delta(delta::Options),
    /// Planning a query anew, and by a plan that was kept
    Planning(planning::Options),
    /// Statements about few rows, compiled and by plans
    Compiled(planning::compiled::Options),
    /// Walks from one row to all of a table: where a statement takes much longer for a few rows more
    Cliffs(planning::cliffs::Options),
    /// The 22 queries of TPC-H, cold or hot, against DuckDB
    Tpch(tpch::Options),
    /// The three-table join over selectivities, against DuckDB and PostgreSQL
    Join(join::Options),
    /// Native operators against DataFusion's, over the 22 queries of TPC-H
    Operators(operators::Options),
    /// The paper's nine queries of TPC-H on a slow and a fast device: policies side by side, over the fast one's share
    Tiering(tiering::Options),
    /// Hit ratios of page replacement policies on traces
    Cache(cache::Options),
    /// Messages and reads between two processes: operations and latency, by connections and sizes
    Fabric(saki_nodes::Options),
    /// The process that lends, for `fabric`
    #[command(hide = true)]
    FabricPeer(saki_nodes::PeerOptions),
    /// Pages of another process beside those of one's own: by transport, size, connections and threads
    Remote(saki_nodes::remote::Options),
    /// The process that has the pages, for `remote`
    #[command(hide = true)]
    RemoteOwner(saki_nodes::remote::OwnerOptions),
    #[command(flatten)]
    Oltp(saki_oltp::Benchmark),
}

fn main() -> ExitCode {
    let Arguments { common, benchmark } = Arguments::parse();
    let outcome = match benchmark {
        Benchmark::Io(options) => io::run(&common, &options),
        Benchmark::Ooo(options) => ooo::run(&common, &options),
        Benchmark::Load(options) => load::run(&common, &options),
        Benchmark::LoadOne(options) => return exit(load::run_one(&options)),
        Benchmark::Merge(options) => merge::run(&common, &options),
        Benchmark::Delta(options) => delta::run(&common, &options),
        Benchmark::Planning(options) => planning::run(&common, &options),
        Benchmark::Compiled(options) => planning::compiled::run(&common, &options),
        Benchmark::Cliffs(options) => planning::cliffs::run(&common, &options),
        Benchmark::Tpch(options) => tpch::run(&common, &options),
        Benchmark::Join(options) => join::run(&common, &options),
        Benchmark::Operators(options) => operators::run(&common, &options),
        Benchmark::Tiering(options) => tiering::run(&common, &options),
        Benchmark::Cache(options) => cache::run(&common, &options),
        Benchmark::Fabric(options) => fabric::run(&common, &options),
        Benchmark::FabricPeer(options) => return exit(saki_nodes::serve(&options)),
        Benchmark::Remote(options) => fabric::run_remote(&common, &options),
        Benchmark::RemoteOwner(options) => return exit(saki_nodes::remote::serve(&options)),
        Benchmark::Oltp(benchmark) => oltp::run(&common, &benchmark),
    };
    exit(outcome.and_then(|report: Report| report.finish(&common)))
}

fn exit(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saki-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
