//! Where clients come from: a TCP port, and a socket in a directory for those on the same machine.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::failure::{Failure, Result};
use crate::stream::{Ends, Stream};

/// All that a server accepts clients on.
pub struct Listener {
    network: TcpListener,
    local: Option<Local>,
}

/// A socket in the file system; it goes with the server.
struct Local {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens on an address, and in a directory under the name that PostgreSQL's clients look for: `.s.PGSQL.` and the
    /// port. To be called within a runtime.
    ///
    /// # Errors
    /// If the address or the name is taken, or not to be had.
    pub fn new(address: SocketAddr, directory: Option<&Path>) -> Result<Self> {
        let network = bind(address)?;
        let port = network.local_addr()?.port();
        let local = directory.map(|directory| Local::new(directory.join(format!(".s.PGSQL.{port}")))).transpose()?;
        Ok(Self { network, local })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.network.local_addr()
    }

    /// The next client. Cancelling this loses none.
    ///
    /// # Errors
    /// Those of the system: most often a lack of file descriptors.
    pub async fn accept(&self) -> io::Result<Socket> {
        tokio::select! {
            accepted = self.network.accept() => Ok(Socket::Network(accepted?.0.into_std()?)),
            accepted = accept_local(self.local.as_ref()) => Ok(Socket::Local(accepted?)),
        }
    }
}

/// A client's socket that no thread waits for yet.
pub enum Socket {
    Network(std::net::TcpStream),
    Local(UnixStream),
}

impl Socket {
    /// The connection, from now on this thread's.
    ///
    /// # Errors
    /// If the client has gone.
    pub fn open(self) -> io::Result<(Stream, Ends)> {
        match self {
            Self::Network(socket) => {
                let (peer, own) = (socket.peer_addr()?, socket.local_addr()?);
                // Replies are gathered by the connection; the system need not.
                socket.set_nodelay(true)?;
                Ok((Box::new(TcpStream::from_std(socket)?), Ends::Network { peer, own }))
            }
            Self::Local(socket) => Ok((Box::new(tokio::net::UnixStream::from_std(socket)?), Ends::Local)),
        }
    }
}

/// A listener on an address.
///
/// # Errors
/// If it is taken, or not to be had.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .and_then(TcpListener::from_std);
    listener.map_err(|error| Failure::fatal("08006", format!("cannot listen on {address}: {error}")))
}

async fn accept_local(local: Option<&Local>) -> io::Result<UnixStream> {
    match local {
        Some(local) => local.listener.accept().await?.0.into_std(),
        None => std::future::pending().await,
    }
}

impl Local {
    fn new(path: PathBuf) -> Result<Self> {
        let told = |error: io::Error| Failure::fatal("08006", format!("cannot listen on {}: {error}", path.display()));
        // What a server that was killed has left refuses connections.
        match UnixStream::connect(&path) {
            Ok(_) => {
                let message = format!("cannot listen on {}: another server does", path.display());
                return Err(Failure::fatal("08006", message).hint("stop it, or choose another port or directory"));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(&path).map_err(told)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(told)?;
        // As with a port: who may come in is decided by passwords.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).map_err(told)?;
        Ok(Self { listener, path })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_taken_from_the_dead_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let local = Local::new(path.clone()).unwrap();
        let refused = Local::new(path.clone()).err().unwrap();
        assert!(refused.message.ends_with("another server does"), "{}", refused.message);
        drop(local);
        assert!(!path.exists());
    }
}
