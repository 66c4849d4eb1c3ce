//! The server: its threads, the sockets it listens on, and its end.

mod admin;
mod network;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use saki_base::stack::STACK_BYTES;
use saki_sql::{Backends, Database, Users};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::auth::scram::random;
use crate::connection::{self, Shared, Stage};
use crate::failure::{Failure, Result};
use crate::listener::{self, Listener};
use crate::metrics::Metrics;
use crate::options::{MESSAGE_BYTES_MAX, ServerOptions};
use crate::registry::{self, Doors, Registry};
use network::Network;

/// How long to wait after an error of the listener: it is most often a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections may take to say goodbye, once their statements are stopped.
const GOODBYE: Duration = Duration::from_secs(2);

/// A server that runs, on threads of its own. Dropping it ends it at once.
pub struct Server {
    network: Option<Network>,
    queries: Option<Runtime>,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    stage: watch::Sender<Stage>,
    ended: oneshot::Receiver<()>,
}

impl Server {
    /// Listens, and serves from now on.
    ///
    /// # Errors
    /// If an address is taken, a certificate cannot be read, or threads cannot be started.
    pub fn start(database: Arc<Database>, mut options: ServerOptions) -> Result<Self> {
        database.start_engine().map_err(|error| Failure::of_statement(error, ""))?;
        options.message_bytes_max = options.message_bytes_max.min(MESSAGE_BYTES_MAX);
        if options.tls_required && options.tls.is_none() {
            return Err(Failure::fatal("F0000", "TLS is required, but there is no certificate")
                .hint("give --tls-cert and --tls-key"));
        }
        let memory = options.memory_bytes.unwrap_or_else(|| database.options.statement_bytes());
        database.memory.set_limit(memory);
        // Users of an earlier version's file become roles.
        Users::of(&database)?;
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let (tls, certificate) = tls.map_or((None, None), |(acceptor, digest)| (Some(acceptor), digest));
        let network = Network::start(options.network_threads)?;
        let queries = query_runtime(options.query_threads)?;
        let entered = network.first().enter();
        let listener = Listener::new(options.listen, options.socket_directory.as_deref())?;
        let admin_listener = options.admin.map(listener::bind).transpose()?;
        let address = listener.address()?;
        let admin_address = admin_listener.as_ref().map(|listener| listener.local_addr()).transpose()?;
        drop(entered);
        let (stage, stages) = watch::channel(Stage::Serving);
        let registry = Arc::new(Registry::default());
        database.system_views().serve(Arc::clone(&registry) as Arc<dyn Backends>);
        for view in registry::views(&registry) {
            database.system_views().register(view);
        }
        let database_name = options.database_name.clone().unwrap_or_else(|| name_of(&database));
        let shared = Arc::new(Shared {
            database,
            database_name,
            options,
            registry,
            metrics: Arc::new(Metrics::default()),
            tls,
            certificate,
            queries: queries.handle().clone(),
            secret: random(32)?,
        });
        if let Some(listener) = admin_listener {
            let mut stages = stages.clone();
            let stop = async move {
                let _ = stages.wait_for(|stage| *stage > Stage::Serving).await;
            };
            network.first().spawn(admin::serve(listener, Arc::clone(&shared.metrics), stop));
        }
        let (end, ended) = oneshot::channel();
        let threads = network.handles();
        network.first().spawn(async move {
            accept(listener, &threads, shared, stages).await;
            let _ = end.send(());
        });
        tracing::info!(%address, "listening");
        Ok(Self { network: Some(network), queries: Some(queries), address, admin: admin_address, stage, ended })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Ends: nothing new begins, statements that run may finish within `grace` and are stopped then.
    pub fn stop(mut self, grace: Duration) {
        let Some(network) = self.network.take() else { return };
        let _ = self.stage.send(Stage::Draining);
        network.first().block_on(async {
            if tokio::time::timeout(grace, &mut self.ended).await.is_err() {
                let _ = self.stage.send(Stage::Ending);
                let _ = tokio::time::timeout(GOODBYE, &mut self.ended).await;
            }
        });
        drop(network);
        if let Some(queries) = self.queries.take() {
            // A change that is being published is not cut off.
            queries.shutdown_timeout(GOODBYE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.network.take());
        if let Some(queries) = self.queries.take() {
            queries.shutdown_background();
        }
    }
}

/// What clients call a database: as its file, without what follows the last point.
fn name_of(database: &Database) -> String {
    database.path.file_stem().map_or_else(|| "postgres".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn query_runtime(threads: Option<usize>) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.max(1));
    }
    Ok(builder.enable_all().thread_name("saki-query").thread_stack_size(STACK_BYTES).build()?)
}

/// Accepts until the server stops, then waits for the connections to end.
async fn accept(listener: Listener, threads: &[Handle], shared: Arc<Shared>, stage: watch::Receiver<Stage>) {
    let doors = Doors::new(shared.options.half_open_max());
    let mut connections = JoinSet::new();
    let mut turns = threads.iter().cycle();
    let mut stopped = stage.clone();
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stage| *stage > Stage::Serving) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(socket) => {
                let Some(thread) = turns.next() else { continue };
                let (door, is_full) = doors.enter();
                let number = door.number();
                let opened = connection::open(socket, Arc::clone(&shared), stage.clone(), door);
                doors.serve(number, connections.spawn_on(opened, thread));
                if is_full {
                    shared.metrics.refused.inc();
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Nobody logs in any more.
    doors.close();
    while connections.join_next().await.is_some() {}
}
