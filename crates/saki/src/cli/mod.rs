//! The command line: what can be asked, and how an answer or a failure leaves.
//!
//! Each command is a module with its arguments and a `run`. Answers go to
//! standard output; progress, warnings and failures to standard error. The
//! exit code is 0 if everything asked was done, 1 if not, 2 if the question was wrong.

#[macro_use]
mod say;

mod commands;
mod failure;
mod moment;
mod open;
mod output;
mod progress;
mod runtime;
mod size;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::backup::{clone, restore};
use commands::{backup, calibrate, check, create, demo, device, load, recover, serve, sql, tier, user};
use runtime::runtime;

/// A SQL database for storage that is larger than memory and far away.
#[derive(Parser)]
#[command(name = "saki", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  saki demo                                   see it work, in two minutes
  saki load tpch --db tpch.saki --sf 1        make a database with TPC-H data
  saki sql --db tpch.saki                     query it
  saki sql --db tpch.saki -c 'SELECT count(*) FROM lineitem' --format csv
  saki check tpch.saki                        verify every page, and the logs

`saki help <command>` tells more about a command.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Create(create::Args),
    Load(load::Args),
    Sql(sql::Args),
    Check(check::Args),
    Recover(recover::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Clone(clone::Args),
    Calibrate(calibrate::Args),
    Device(device::Args),
    Tier(tier::Args),
    Serve(Box<serve::Args>),
    User(user::Args),
}

pub fn run() -> ExitCode {
    let command = Cli::parse().command;
    log();
    let outcome = match command {
        Command::Create(args) => create::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Clone(args) => clone::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Device(args) => device::run(&args),
        Command::Tier(args) => tier::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::User(args) => user::run(&args),
        Command::Load(args) => runtime().and_then(|runtime| runtime.block_on(load::run(&args))),
        Command::Demo(args) => runtime().and_then(|runtime| runtime.block_on(demo::run(&args))),
        Command::Sql(args) => runtime().and_then(|runtime| {
            let outcome = sql::run(&args, &runtime);
            // What was cancelled is not waited for: an unpublished change leaves no trace.
            runtime.shutdown_background();
            outcome
        }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_told() {
                eprintln!("saki: {failure}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Warnings of the engine (no io_uring here, no direct I/O there) go to standard error, and what sessions have logged
/// (`log_statement` and its like); `RUST_LOG` asks for more, or less.
fn log() {
    use tracing_subscriber::EnvFilter;
    let usual = || EnvFilter::new("saki=warn,saki_io=warn,saki_log=info,error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| usual());
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .try_init();
}
