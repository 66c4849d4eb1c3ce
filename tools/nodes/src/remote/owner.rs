//! The process that has the pages.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use saki_base::PageSize;
use saki_remote::{PageServer, PageService, ServiceOptions};

use super::stores::{self, Reading};
use crate::peer::wait_for_end;
use crate::world::{port_options, transport};

#[derive(Args, Clone, Debug)]
pub struct OwnerOptions {
    /// tcp, shm or verbs
    #[arg(long)]
    pub transport: String,
    /// Where to listen: host:port, or the path of a socket; further threads take further ports, or paths
    #[arg(long)]
    pub listen: String,
    /// reactor, pool:THREADS, thread-per-read or memory
    #[arg(long)]
    pub reading: Reading,
    /// The volume
    #[arg(long)]
    pub file: PathBuf,
    /// Bytes of a page in memory
    #[arg(long, default_value_t = 4096)]
    pub page_bytes: u32,
    /// Pages in memory
    #[arg(long, default_value_t = 0)]
    pub pages: u64,
    /// Threads that serve
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Seconds to serve; without it, until the standard input ends
    #[arg(long)]
    pub seconds: Option<u64>,
}

/// Serves until it is told to end. Prints the addresses of its threads once they listen.
///
/// # Errors
/// If there are no pages, or it cannot listen.
pub fn serve(options: &OwnerOptions) -> Result<(), String> {
    let page_size = PageSize::new(options.page_bytes).map_err(|error| error.to_string())?;
    let store = stores::open(options.reading, &options.file, page_size, options.pages)?;
    let mut services = Vec::new();
    let mut addresses = Vec::new();
    for number in 0..options.threads.max(1) {
        let service =
            PageService::new(&store, transport(&options.transport)?, port_options(1)?, ServiceOptions::default());
        let mut service = service.map_err(|error| error.to_string())?;
        let listen = match (&*options.transport, number) {
            ("shm", 1..) => format!("{}.{number}", options.listen),
            _ => options.listen.clone(),
        };
        addresses.push(service.listen(&listen).map_err(|error| error.to_string())?);
        services.push(service);
    }
    let server = PageServer::start(services).map_err(|error| error.to_string())?;
    println!("{}", addresses.join(","));
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    wait_for_end(options.seconds);
    drop(server);
    Ok(())
}
