//! How to serve.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a message at most unless told otherwise.
pub const MESSAGE_BYTES_DEFAULT: usize = 256 << 20;
/// And at most at all.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The certificate and key of the server, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a server listens on and allows.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub listen: SocketAddr,
    /// Where the socket for clients on the same machine lies; `None`: there is none.
    pub socket_directory: Option<PathBuf>,
    /// Metrics and health over HTTP.
    pub admin: Option<SocketAddr>,
    pub tls: Option<TlsFiles>,
    /// Refuse connections without TLS.
    pub tls_required: bool,
    pub max_connections: usize,
    /// How long a statement may run unless its connection sets another limit; zero is no limit.
    pub statement_timeout: Duration,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// Clients that have not logged in yet, at the same time; `None`: as many as may be logged in, and at least 64, so
    /// that all of them may come at once.
    pub half_open_max: Option<usize>,
    /// How long the answer to a wrong password waits.
    pub password_delay: Duration,
    /// Places that are kept for superusers, of `max_connections`.
    pub reserved_connections: usize,
    /// What the database is called, besides `postgres`; `None`: as its file, without what follows the last point.
    pub database_name: Option<String>,
    /// Where statements may read and write files of this machine; `None`: nowhere.
    pub file_directory: Option<PathBuf>,
    /// Bytes that statements may take together; `None`: what caches, loads and newer rows leave of what the machine,
    /// or the process's group, has.
    pub memory_bytes: Option<usize>,
    /// Bytes of a message at most, after logging in.
    pub message_bytes_max: usize,
    /// Settings that every session begins with, without their prefix: name and value.
    pub settings: Vec<(String, String)>,
    /// How long running statements may take to finish when the server stops.
    pub grace: Duration,
    /// Threads that talk to clients.
    pub network_threads: usize,
    /// Threads that run queries; `None`: one per core.
    pub query_threads: Option<usize>,
}

impl ServerOptions {
    /// How many clients may be about to log in.
    pub fn half_open_max(&self) -> usize {
        const AT_LEAST: usize = 64;
        self.half_open_max.unwrap_or(self.max_connections.max(AT_LEAST))
    }

    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            socket_directory: None,
            admin: None,
            tls: None,
            tls_required: false,
            max_connections: 100,
            statement_timeout: Duration::ZERO,
            login_timeout: Duration::from_secs(10),
            half_open_max: None,
            password_delay: Duration::from_secs(1),
            reserved_connections: 2,
            database_name: None,
            file_directory: None,
            memory_bytes: None,
            message_bytes_max: MESSAGE_BYTES_DEFAULT,
            settings: Vec::new(),
            grace: Duration::from_secs(10),
            network_threads: 2,
            query_threads: None,
        }
    }
}
