//! The index benchmark by itself.

use clap::Parser;

/// The allocator of the other benchmarks: rivals take each node from it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: saki_report::Common,
    #[command(flatten)]
    options: saki_oltp::index::Options,
}

fn main() -> Result<(), String> {
    let Arguments { common, options } = Arguments::parse();
    saki_oltp::index::run(&common, &options)?.finish(&common)
}
