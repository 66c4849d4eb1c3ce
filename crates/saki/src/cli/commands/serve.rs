//! `saki serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use saki::backup;
use saki_base::critical;
use saki_node::{Server, ServerOptions, TlsFiles};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::failure::{Failure, Outcome, told};
use crate::cli::open::{OpenArgs, create, open};
use crate::cli::runtime::runtime;
use crate::cli::size;

/// Serve a database to clients of PostgreSQL
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Until the database has users (`saki user add`), clients on this machine are trusted and others refused.
The first SIGTERM or SIGINT lets running statements finish, the second ends at once.")]
pub struct Args {
    /// The database; created if it does not exist
    #[arg(long, value_name = "DB")]
    db: PathBuf,

    /// Where clients connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    listen: SocketAddr,

    /// Where the socket for clients on this machine is put, for `psql -h DIR`; nowhere if not given
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,

    /// Where /metrics and /health are served; nowhere if not given
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

    /// The server's certificate and those above it, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Refuse connections that are not encrypted
    #[arg(long, requires = "tls_cert")]
    tls_required: bool,

    /// Clients at the same time
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_connections: usize,

    /// How long a statement may run, as in 30s; 0 is no limit; each client can change its own
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    statement_timeout: Duration,

    /// How long statements may take to finish when the server stops
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,

    /// Largest message of a client
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = size::parse)]
    max_message: u64,

    /// How long a client may take to log in
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    login_timeout: Duration,

    /// Of the clients at the same time, how many places are kept for superusers
    #[arg(long, value_name = "N", default_value_t = 2)]
    reserved_connections: usize,

    /// What clients call the database; the name of its file, without what follows the last point, if not given
    #[arg(long, value_name = "NAME")]
    database_name: Option<String>,

    /// Where COPY and CREATE EXTERNAL TABLE may read and write files of this machine; nowhere if not given
    #[arg(long, value_name = "DIR")]
    file_dir: Option<PathBuf>,

    /// Where what is committed is archived, so that `saki restore --until` can make the database of any moment; with
    /// backups of its own. Nowhere if not given
    #[arg(long, value_name = "DIRECTORY | s3://BUCKET/PREFIX")]
    archive: Option<String>,

    /// How much time may be lost with this machine: after so long what has been committed is in the archive
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, requires = "archive")]
    archive_interval: Duration,

    /// Memory that statements may take together; what caches, loads and newer rows leave of it if not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,

    /// Memory of a pipeline's rows in flight, from 1MB
    #[arg(long, value_name = "SIZE")]
    pipeline_memory: Option<String>,

    /// Threads that talk to clients
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    network_threads: u16,

    /// Threads that run queries; one per core if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    query_threads: Option<u16>,

    #[command(flatten)]
    open: OpenArgs,
}

pub fn run(args: &Args) -> Outcome {
    log_panics();
    let options = args.open.options(false);
    let database = match args.db.exists() {
        true => open(&args.db, options)?,
        false => create(&args.db, saki::CreateOptions::default().page_size, options)?,
    };
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    if let Some(directory) = args.file_dir.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(Failure::new(format!("{}: no such directory", directory.display())));
    }
    if let Some(target) = &args.archive {
        backup::refuse_archive(database.store(), target)?;
    }
    let server = Server::start(Arc::clone(&database), server_options(args)).map_err(told)?;
    let archiver = args.archive.as_ref().map(|target| Archiver::start(&database, target, args)).transpose()?;
    say!("serving {} at {}", args.db.display(), server.address());
    if let Some(directory) = &args.socket_dir {
        say!("clients on this machine: psql -h {} -p {}", directory.display(), server.address().port());
    }
    if let Some(admin) = server.admin_address() {
        say!("metrics at http://{admin}/metrics");
    }
    runtime.block_on(signals.next());
    say!("stopping; once more to stop at once");
    let grace = args.grace;
    let stopping = std::thread::spawn(move || {
        server.stop(grace);
        archiver.map(Archiver::stop)
    });
    let (done, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(stopping.join().is_ok()));
    runtime.block_on(async {
        tokio::select! {
            _ = ended => Ok(()),
            () = signals.next() => Err(Failure::new("stopped at once; what was not finished is undone")),
        }
    })
}

fn server_options(args: &Args) -> ServerOptions {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    ServerOptions {
        socket_directory: args.socket_dir.clone(),
        admin: args.admin,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        tls_required: args.tls_required,
        max_connections: args.max_connections,
        statement_timeout: args.statement_timeout,
        login_timeout: args.login_timeout,
        reserved_connections: args.reserved_connections,
        database_name: args.database_name.clone(),
        file_directory: args.file_dir.clone(),
        message_bytes_max: usize::try_from(args.max_message).unwrap_or(usize::MAX),
        memory_bytes: args.memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        settings: args.pipeline_memory.iter().map(|memory| ("memory".to_owned(), memory.clone())).collect(),
        network_threads: args.network_threads.into(),
        query_threads: args.query_threads.map(usize::from),
        ..ServerOptions::new(args.listen)
    }
}

/// Archives a database beside its server.
struct Archiver {
    thread: JoinHandle<()>,
    stop: backup::Stop,
}

impl Archiver {
    fn start(database: &Arc<saki::Database>, target: &str, args: &Args) -> Outcome<Self> {
        let (db, stop, target) = (Arc::clone(database.store()), backup::Stop::default(), target.to_owned());
        let options = backup::ArchiveOptions { interval: args.archive_interval, ..backup::ArchiveOptions::default() };
        let told = stop.clone();
        let body = move || match backup::archive(&db, &target, options, &told) {
            Ok(()) => {}
            Err(error) => tracing::error!("{target}: nothing is archived: {error}"),
        };
        let thread = critical::spawn(Builder::new().name("archiver".to_owned()), body);
        let thread = thread.map_err(|error| Failure::new(format!("no thread for the archive: {error}")))?;
        Ok(Self { thread, stop })
    }

    /// Ends when everything is archived.
    fn stop(self) {
        self.stop.tell();
        // A panic of it would have ended the process.
        let _ = self.thread.join();
    }
}

/// Panics go to the log, with where they come from: the statement is told that there was one, and others go on.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let backtrace = std::backtrace::Backtrace::force_capture();
        tracing::error!(thread, "{panic}\n{backtrace}");
    }));
}

/// What asks a server to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    saki_node::duration(text).ok_or_else(|| format!("{text:?} is not a time such as 500ms, 30s or 5min"))
}
