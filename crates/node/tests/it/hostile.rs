//! Sockets that say what no driver would.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::server::TestServer;

/// A client without a driver.
pub struct Raw(Mutex<TcpStream>);

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

impl Raw {
    pub async fn connect(server: &TestServer) -> Self {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        let body = b"\0\x03\0\0user\0ada\0\0";
        socket.write_all(&u32::try_from(body.len() + 4).unwrap().to_be_bytes()).await.unwrap();
        socket.write_all(body).await.unwrap();
        let raw = Self(Mutex::new(socket));
        raw.until(b'Z').await;
        raw
    }

    async fn send(&self, bytes: &[u8]) {
        self.0.lock().await.write_all(bytes).await.unwrap();
    }

    /// Types of messages up to one of type `last`, or to the end.
    async fn until(&self, last: u8) -> String {
        let mut socket = self.0.lock().await;
        let mut kinds = String::new();
        while let Ok(kind) = socket.read_u8().await {
            let length = socket.read_u32().await.unwrap() as usize;
            let mut body = vec![0; length - 4];
            socket.read_exact(&mut body).await.unwrap();
            kinds.push(char::from(kind));
            if kind == last {
                break;
            }
        }
        kinds
    }

    /// What statements that are executed one after another are answered, before Sync is sent after them.
    pub async fn pipeline(&self, statements: &[&str]) -> String {
        let mut bytes = Vec::new();
        for sql in statements {
            bytes.extend(message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat()));
            bytes.extend(message(b'B', b"\0\0\0\0\0\0\0\0"));
            bytes.extend(message(b'E', b"\0\0\0\0\0"));
        }
        bytes.extend(message(b'S', b""));
        self.send(&bytes).await;
        self.until(b'Z').await
    }

    /// What a portal that is executed three times, with a limit, is answered.
    pub async fn portal(&self, sql: &str, limit: u32) -> String {
        let execute = message(b'E', &[b"p\0", &limit.to_be_bytes()[..]].concat());
        let parse = message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
        let bind = message(b'B', b"p\0\0\0\0\0\0\0\0");
        self.send(&[parse, bind, execute.clone(), execute.clone(), execute, message(b'S', b"")].concat()).await;
        self.until(b'Z').await
    }
}

#[tokio::test]
async fn nonsense_ends_the_connection_and_nothing_else() {
    let server = TestServer::start();
    for bytes in [
        message(b'?', b""),
        message(b'B', b"p\0s\0\xff\xff"),
        message(b'P', b"no end"),
        message(b'Q', b"\xff\xfe\0"),
        message(b'D', b"X\0"),
        b"Q\0\0\0\0".to_vec(),
        b"Q\xff\xff\xff\xff".to_vec(),
        b"d\x7f\xff\xff\xff".to_vec(),
    ] {
        let raw = Raw::connect(&server).await;
        raw.send(&bytes).await;
        assert_eq!(raw.until(0).await, "E", "{bytes:?}");
    }
    assert!(server.client().await.simple_query("SELECT 1").await.is_ok());
}

#[tokio::test]
async fn before_logging_in_little_is_heard() {
    let server = TestServer::start();
    for bytes in [&b"\0\0\0\x03"[..], b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\0\x02\0\0"] {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut answer)).await;
        assert!(read.is_ok() && answer.first() == Some(&b'E'), "{bytes:?}: {answer:?}");
    }
    // Requests for encryption are refused, and not for ever.
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    for _ in 0..3 {
        socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.unwrap();
    }
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"NNNE"), "{answer:?}");
}

#[tokio::test]
async fn after_an_error_nothing_is_heard_until_sync() {
    let server = TestServer::start();
    let raw = Raw::connect(&server).await;
    let parse = |sql: &str| message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    let bind = message(b'B', b"\0\0\0\0\0\0\0\0");
    raw.send(&[parse("nonsense"), bind.clone(), parse("SELECT 1"), message(b'S', b"")].concat()).await;
    assert_eq!(raw.until(b'Z').await, "EZ");
    let describe = message(b'D', b"P\0");
    let execute = message(b'E', b"\0\0\0\0\0");
    raw.send(&[parse("SELECT 1"), bind, describe, execute, message(b'S', b"")].concat()).await;
    assert_eq!(raw.until(b'Z').await, "12TDCZ");
}
