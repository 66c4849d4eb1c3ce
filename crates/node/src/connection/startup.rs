//! From an accepted socket to a connection that has logged in: encryption, parameters, password.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::login::authenticate;
use super::wire::{self, Reader, Writer};
use super::{Connection, Shared, Stage};
use crate::failure::{Failure, Result, Severity};
use crate::listener::Socket;
use crate::message::backend;
use crate::message::frontend::Opening;
use crate::registry::{Client, Door};
use crate::stream::{Ends, Stream};
use saki_sql::{Parameters, Role, Session};

/// Requests for encryption that are heard at most; one of each kind makes sense.
const NEGOTIATIONS_MAX: usize = 2;

/// Serves one socket to its end.
pub async fn open(socket: Socket, shared: Arc<Shared>, stage: watch::Receiver<Stage>, door: Door) {
    let Ok((stream, ends)) = socket.open() else { return };
    let limit = shared.options.login_timeout;
    match tokio::time::timeout(limit, log_in(stream, ends, &shared, stage, &door)).await {
        Ok(Some(connection)) => {
            drop(door);
            let metrics = Arc::clone(&shared.metrics);
            metrics.connections.inc();
            connection.serve().await;
            metrics.connections.dec();
        }
        Ok(None) => {}
        Err(_) => {
            shared.metrics.refused.inc();
            tracing::debug!("a client took too long to log in");
        }
    }
}

/// `None`: the client only wanted another's statement to stop, has gone, or was refused and told so.
async fn log_in(
    mut socket: Stream,
    ends: Ends,
    shared: &Arc<Shared>,
    stage: watch::Receiver<Stage>,
    door: &Door,
) -> Option<Connection> {
    let opened = negotiate(&mut socket, ends, shared).await;
    let (packet, secure) = match opened {
        Ok((None, _)) => return None,
        Ok((Some(packet), secure)) => (packet, secure),
        Err(failure) => {
            let (_, writer) = wire::split(socket, BytesMut::new(), &shared.metrics);
            return refuse(writer, shared, &failure).await;
        }
    };
    let (mut reader, mut writer) = wire::split(socket, BytesMut::new(), &shared.metrics);
    let made = admit(&packet, (ends, secure), shared, door, &mut reader, &mut writer).await;
    let (place, startup, role) = match made {
        Ok(made) => made,
        Err(failure) => return refuse(writer, shared, &failure).await,
    };
    let session = Session::new(&shared.database);
    session.confine_files(shared.file_access(), &shared.closed_files());
    if let Err(error) = begin(&session, &startup, &role, shared) {
        let failure = Failure { severity: Severity::Fatal, ..error.into() };
        return refuse(writer, shared, &failure).await;
    }
    greet(&mut writer.buffer, session.parameters(), place.process, &place.secret);
    let (user, database) = (role.name.clone(), startup.database);
    let client = Client { user, database, ends, connected: saki_base::wall_micros() };
    session.state_facts(|facts| {
        facts.database.clone_from(&client.database);
        facts.backend_pid = place.process.into();
        let named = |(address, port): (std::net::IpAddr, u16)| (address.to_string(), port);
        facts.server = ends.own().map(named);
        facts.client = ends.peer().map(named);
        facts.started_micros = client.connected;
    });
    let session = Arc::new(session);
    place.activity.log_in(client, &session);
    let told = session.parameters().state();
    place.activity.rename(told.setting("application_name").unwrap_or_default());
    let connection = Connection {
        shared: Arc::clone(shared),
        place,
        session,
        reader,
        writer,
        told,
        statements: Default::default(),
        portals: Default::default(),
        savepoints: Vec::new(),
        shapes: Default::default(),
        text: None,
        skipping: false,
        pipelining: false,
        stage,
    };
    connection.log_connection();
    Some(connection)
}

/// Sets what the server, the role and the client say that the session begins with.
fn begin(session: &Session, startup: &Startup, role: &Role, shared: &Shared) -> saki_sql::Result<()> {
    let (options, parameters) = (&shared.options, session.parameters());
    for (name, value) in &options.settings {
        parameters.begin_with(&format!("saki.{name}"), value)?;
    }
    parameters.log_in(role);
    parameters.state_value("max_connections", &options.max_connections.to_string());
    parameters.state_value("statement_timeout", &options.statement_timeout.as_millis().to_string());
    for (name, value) in &role.settings {
        // Nobody is kept out by what was once said of the role.
        if let Err(error) = parameters.begin_with_allowed(name, value) {
            tracing::warn!(
                role = role.name,
                parameter = name,
                message = error.message,
                "a setting of a role is refused"
            );
        }
    }
    startup.settings.iter().try_for_each(|(name, value)| parameters.begin_with(name, value))
}

async fn refuse(mut writer: Writer, shared: &Shared, failure: &Failure) -> Option<Connection> {
    shared.metrics.refused.inc();
    shared.metrics.error(failure.code);
    tracing::debug!(code = failure.code, message = failure.message, "a client was refused");
    backend::failure(&mut writer.buffer, failure);
    writer.close().await;
    None
}

/// Answers requests for encryption until the startup packet comes, which is returned, with whether the connection is
/// secure. No packet: nothing is left to do.
async fn negotiate(socket: &mut Stream, ends: Ends, shared: &Shared) -> Result<(Option<BytesMut>, bool)> {
    // Nobody listens in between.
    let mut secure = matches!(ends, Ends::Local);
    for _ in 0..=NEGOTIATIONS_MAX {
        let Some(packet) = wire::packet(socket).await? else { return Ok((None, secure)) };
        match Opening::read(&packet)? {
            Opening::Startup { .. } => return Ok((Some(packet), secure)),
            Opening::Cancel { process, secret } => {
                shared.registry.cancel(process, secret);
                return Ok((None, secure));
            }
            Opening::Ssl if !secure && shared.tls.is_some() => {
                socket.write_all(b"S").await?;
                if let Some(acceptor) = &shared.tls {
                    let (plain, _) = tokio::io::duplex(1);
                    let plain = std::mem::replace(socket, Box::new(plain));
                    *socket = Box::new(acceptor.accept(plain).await?);
                    secure = true;
                }
            }
            Opening::Ssl | Opening::Gss => socket.write_all(b"N").await?,
        }
    }
    Err(Failure::fatal("08P01", "too many requests for encryption"))
}

/// Lets a client in, or says why not: its place, what it has said, and the role that it is.
async fn admit(
    packet: &[u8],
    (ends, secure): (Ends, bool),
    shared: &Shared,
    door: &Door,
    reader: &mut Reader,
    writer: &mut Writer,
) -> Result<(crate::registry::Place, Startup, Arc<Role>)> {
    let Opening::Startup { minor, parameters } = Opening::read(packet)? else {
        return Err(Failure::fatal("08P01", "not a startup packet"));
    };
    if shared.options.tls_required && !secure {
        return Err(Failure::fatal("28000", "connections must be encrypted").hint("connect with sslmode=require"));
    }
    let startup = Startup::read(&parameters)?;
    let unknown: Vec<&str> =
        parameters.iter().map(|(name, _)| *name).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !unknown.is_empty() {
        backend::negotiate_version(&mut writer.buffer, &unknown);
    }
    let certificate = shared.certificate.as_deref().filter(|_| secure && !matches!(ends, Ends::Local));
    let authenticated = authenticate(&startup.user, ends, certificate, shared, (reader, writer)).await;
    if authenticated.as_ref().is_err_and(|failure| failure.code == "28P01") {
        // Whoever guesses waits before the door, in a place that nobody else needs.
        door.fail();
        tokio::time::sleep(shared.options.password_delay).await;
    }
    let role = authenticated?;
    let (max, reserved) = (shared.options.max_connections, shared.options.reserved_connections);
    let place = shared.registry.enter(max, reserved, role.superuser)?;
    shared.registry.refuse_beyond(&role)?;
    shared.expect_database(&startup.database, &startup.user)?;
    Ok((place, startup, role))
}

impl Shared {
    /// Refuses the name of a database that is not this one's. There is one, which `postgres` stands for as well: tools
    /// ask for it when they only want the server. Clients that are told of none ask for their user's.
    fn expect_database(&self, name: &str, user: &str) -> Result<()> {
        if name == self.database_name || name == "postgres" || name == user {
            return Ok(());
        }
        Err(Failure::fatal("3D000", format!("database {name:?} does not exist"))
            .hint(format!("the database of this server is called {:?}", self.database_name)))
    }
}

/// What a startup packet says.
struct Startup {
    user: String,
    /// The user's name if it says nothing of one.
    database: String,
    settings: Vec<(String, String)>,
}

impl Startup {
    fn read(parameters: &[(&str, &str)]) -> Result<Self> {
        let (mut user, mut database, mut settings) = ("", "", Vec::new());
        for (name, value) in parameters {
            match *name {
                "user" => user = value,
                "database" => database = value,
                "replication" if matches!(*value, "false" | "off" | "no" | "0") => {}
                "replication" => return Err(Failure::fatal("0A000", "replication connections are not supported")),
                "options" => settings.extend(options(value)?),
                name if name.starts_with("_pq_.") => {}
                name => settings.push((name.to_owned(), (*value).to_owned())),
            }
        }
        if user.is_empty() {
            return Err(Failure::fatal("28000", "no user name in the startup packet"));
        }
        let database = if database.is_empty() { user } else { database };
        Ok(Self { user: user.to_owned(), database: database.to_owned(), settings })
    }
}

/// Settings of `-c name=value --name=value`, in which a backslash keeps a blank.
fn options(text: &str) -> Result<Vec<(String, String)>> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(chars.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let words = words.iter().map(String::as_str).filter(|word| !word.is_empty() && *word != "-c");
    words
        .map(|word| {
            let word = word.strip_prefix("-c").or_else(|| word.strip_prefix("--")).unwrap_or(word);
            let (name, value) = word.split_once('=').ok_or_else(|| {
                Failure::fatal("42601", format!("invalid command-line argument for server process: {word}"))
            })?;
            Ok((name.replace('-', "_"), value.to_owned()))
        })
        .collect()
}

/// What a client is told when it is in.
fn greet(out: &mut BytesMut, parameters: &Parameters, process: i32, secret: &[u8]) {
    backend::authentication_ok(out);
    for (name, value) in parameters.reported() {
        backend::parameter_status(out, name, &value);
    }
    backend::backend_key(out, process, secret);
    backend::ready(out, b'I');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let found = options("-c geqo=off --statement-timeout=5min -csearch_path=a\\ b").unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("geqo", "off"), ("statement_timeout", "5min"), ("search_path", "a b")]);
        assert!(options("nonsense").is_err());
    }
}
