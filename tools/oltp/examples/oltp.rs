//! The benchmarks alone: `cargo run --release -p saki-oltp --example oltp -- neworder --small`.

use std::process::ExitCode;

use clap::Parser;
use saki_oltp::{Benchmark, run};
use saki_report::Common;

/// The programs' allocator, for those whose structures take memory from it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    benchmark: Benchmark,
}

fn main() -> ExitCode {
    let Arguments { common, benchmark } = Arguments::parse();
    match run(&common, &benchmark).and_then(|outcome| outcome.report.finish(&common)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oltp: {error}");
            ExitCode::FAILURE
        }
    }
}
