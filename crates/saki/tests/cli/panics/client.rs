//! As much of PostgreSQL's protocol as it takes to send a text and hear what came of it.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection of a user that is trusted.
pub struct Client(TcpStream);

impl Client {
    /// # Errors
    /// If nobody is there, or it ends before it is ready.
    pub fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        // Longer than anything takes: whoever is not answered has found a mistake.
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut client = Self(stream);
        let parameters = b"\0\x03\0\0user\0saki\0\0";
        client.0.write_all(&(parameters.len() as u32 + 4).to_be_bytes())?;
        client.0.write_all(parameters)?;
        client.hear()?.map_err(|code| Error::other(format!("refused: {code}")))?;
        Ok(client)
    }

    /// What came of a text of statements: how many rows, or the code of an error.
    ///
    /// # Errors
    /// If the server has gone.
    pub fn ask(&mut self, text: &str) -> Result<std::result::Result<u64, String>> {
        let mut message = vec![b'Q'];
        message.extend((text.len() as u32 + 5).to_be_bytes());
        message.extend(text.as_bytes());
        message.push(0);
        self.0.write_all(&message)?;
        self.hear()
    }

    /// All messages until the server is ready again.
    fn hear(&mut self) -> Result<std::result::Result<u64, String>> {
        let mut outcome = Ok(0);
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).map_err(patience)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).map_err(patience)?;
            match head[0] {
                b'Z' => return Ok(outcome),
                b'D' => outcome = outcome.map(|rows| rows + 1),
                b'E' => outcome = Err(code_of(&body)),
                _ => {}
            }
        }
    }
}

/// A server that neither answers nor ends is no end of the connection.
fn patience(error: Error) -> Error {
    assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "a server does not answer");
    error
}

/// The SQLSTATE among the fields of an error.
fn code_of(body: &[u8]) -> String {
    let field = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C"));
    String::from_utf8_lossy(field.unwrap_or_default()).into_owned()
}
