//! The server: its threads, the sockets it listens on, and its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use saki_sql::Database;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::connection::{self, Shared, Stage};
use crate::failure::{Failure, Result};
use crate::listener::{self, Listener};
use crate::metrics::Metrics;
use crate::network::Network;
use crate::options::{MESSAGE_BYTES_MAX, ServerOptions};
use crate::registry::Registry;
use crate::scram::random;
use crate::tls;
use crate::{activity, admin};

/// Sockets beyond the limit of connections that may be open: clients that log in, are refused, or ask to cancel.
const SPARE_SOCKETS: usize = 64;
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
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
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
        for view in activity::views(&registry) {
            database.system_views().register(view);
        }
        let shared = Arc::new(Shared {
            database,
            options,
            registry,
            metrics: Arc::new(Metrics::default()),
            tls,
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

fn query_runtime(threads: Option<usize>) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.max(1));
    }
    Ok(builder.enable_all().thread_name("saki-query").build()?)
}

/// Accepts until the server stops, then waits for the connections to end.
async fn accept(listener: Listener, threads: &[Handle], shared: Arc<Shared>, stage: watch::Receiver<Stage>) {
    let most = shared.options.max_connections.saturating_add(SPARE_SOCKETS);
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
            Ok(socket) if connections.len() < most => {
                if let Some(thread) = turns.next() {
                    connections.spawn_on(connection::open(socket, Arc::clone(&shared), stage.clone()), thread);
                }
            }
            Ok(_) => {
                shared.metrics.refused.inc();
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
