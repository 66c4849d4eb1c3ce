//! A server with an empty database, for one test.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use saki_node::{Server, ServerOptions, Users};
use saki_sql::{CreateOptions, Database, OpenOptions};
use tempfile::TempDir;
use tokio_postgres::{Client, Config, NoTls};

const DATABASE: &str = "test.saki";

pub fn open_options() -> OpenOptions {
    OpenOptions { cache_bytes: 8 << 20, reactors: Some(2), ..OpenOptions::default() }
}

pub struct TestServer {
    server: Server,
    pub users: Users,
    database: Weak<Database>,
    /// Goes with the server.
    directory: TempDir,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with(|_, _| ())
    }

    /// `change` sees the options, and the directory of the database.
    pub fn with(change: impl FnOnce(&mut ServerOptions, &std::path::Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = CreateOptions { open: open_options(), ..CreateOptions::default() };
        let database = Database::create(directory.path().join(DATABASE), options).unwrap();
        Self::serve(database, directory, change)
    }

    /// A server over what another one has left.
    pub fn over(directory: TempDir) -> Self {
        let database = open_again(&directory.path().join(DATABASE));
        Self::serve(database, directory, |_, _| ())
    }

    /// Over a database that there is.
    pub fn serve(
        database: Arc<Database>,
        directory: TempDir,
        change: impl FnOnce(&mut ServerOptions, &std::path::Path),
    ) -> Self {
        let users = Users::of(&database).unwrap();
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options, directory.path());
        let weak = Arc::downgrade(&database);
        let server = Server::start(database, options).unwrap();
        Self { server, users, database: weak, directory }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn admin(&self) -> SocketAddr {
        self.server.admin_address().unwrap()
    }

    /// Keeps everybody from publishing until what this returns is sent to.
    pub fn hold_turn(&self) -> std::sync::mpsc::Sender<()> {
        let database = self.database.upgrade().unwrap();
        let ((begun, has_begun), (end, ending)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            let held = database.store().write(|_| {
                begun.send(()).unwrap();
                // Or dropped.
                let _ = ending.recv();
                Ok(())
            });
            held.unwrap();
        });
        has_begun.recv().unwrap();
        end
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.address().port()).user("ada").dbname("test");
        config
    }

    /// Lets a user in by a password, and from then on nobody without one.
    pub async fn add_user(&self, name: &str, password: &str) {
        self.users.set(name, password).unwrap();
    }

    pub async fn client(&self) -> Client {
        connect(&self.config()).await.unwrap()
    }

    /// Stops as a signal would, from a thread that may wait, and checks what is left when it is opened again. The
    /// directory stays.
    pub async fn stop(self, grace: Duration) -> TempDir {
        let Self { server, users, directory, .. } = self;
        drop(users);
        let stopping = move || {
            server.stop(grace);
            let database = open_again(&directory.path().join(DATABASE));
            let faults = database.check(&mut |_| {}).unwrap().faults;
            assert!(faults.is_empty(), "{faults:?}");
            directory
        };
        tokio::task::spawn_blocking(stopping).await.unwrap()
    }
}

/// Opens a database whose server has ended; the last of its threads may have to let go of it first.
fn open_again(path: &std::path::Path) -> Arc<Database> {
    let began = Instant::now();
    loop {
        match Database::open(path, open_options()) {
            Ok(database) => return database,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(10), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE of what must fail.
pub fn code<T>(result: Result<T, tokio_postgres::Error>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}

/// A query that takes very long and few resources.
pub const ENDLESS: &str = "SELECT sum(a) FROM generate_series(1, 3000000) a CROSS JOIN generate_series(1, 3000000) b";
