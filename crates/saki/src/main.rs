//! The `saki` command.

#![forbid(unsafe_code)]

mod cli;
mod processor;

/// Queries build many small vectors on several threads; the system's allocator is slower at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    if let Err(missing) = processor::check() {
        eprintln!("saki: {missing}");
        return std::process::ExitCode::FAILURE;
    }
    cli::run()
}
