//! `saki-nodes`: the benchmarks between nodes alone, in a program small enough for a virtual machine.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use saki_report::Common;

#[derive(Parser)]
#[command(name = "saki-nodes", version, about)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Messages and reads between two processes
    Fabric(saki_nodes::Options),
    /// The process that lends, for `fabric`
    FabricPeer(saki_nodes::PeerOptions),
    /// Pages of another process beside those of one's own
    Remote(saki_nodes::remote::Options),
    /// The process that has the pages, for `remote`
    RemoteOwner(saki_nodes::remote::OwnerOptions),
}

fn main() -> ExitCode {
    let Arguments { common, command } = Arguments::parse();
    let outcome = match command {
        Command::Fabric(options) => {
            saki_nodes::run(&common, &options).and_then(|outcome| outcome.report.finish(&common))
        }
        Command::FabricPeer(options) => saki_nodes::serve(&options),
        Command::Remote(options) => {
            saki_nodes::remote::run(&common, &options).and_then(|outcome| outcome.report.finish(&common))
        }
        Command::RemoteOwner(options) => saki_nodes::remote::serve(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saki-nodes: {error}");
            ExitCode::FAILURE
        }
    }
}
