//! Who gets in: passwords, TLS, the limit of connections; and what is told about it all.

use std::sync::Arc;
use std::time::Duration;

use saki_node::TlsFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::server::{TestServer, code, connect};

#[tokio::test]
async fn passwords_are_asked_for_once_there_are_users() {
    let server = TestServer::start();
    server.client().await;
    server.users.set("ada", "right").unwrap();
    let mut config = server.config();
    assert!(connect(&config).await.is_err());
    assert_eq!(code(connect(config.password("wrong")).await), "28P01");
    assert!(connect(config.password("right")).await.is_ok());
    assert_eq!(code(connect(config.user("eve").password("right")).await), "28P01");
}

#[tokio::test]
async fn clients_on_the_same_machine_may_come_through_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::with(|options, _| options.socket_directory = Some(directory.path().into()));
    let mut config = server.config();
    let path = directory.path().join(format!(".s.PGSQL.{}", server.address().port()));
    let local = |config: &tokio_postgres::Config| {
        let mut local = tokio_postgres::Config::new();
        local.host_path(directory.path()).port(server.address().port()).user("ada").dbname("test");
        if let Some(password) = config.get_password() {
            local.password(password);
        }
        local
    };
    let client = connect(&local(&config)).await.unwrap();
    let row = client
        .query_one("SELECT client_address, client_port, inet_client_addr() FROM saki.sessions", &[])
        .await
        .unwrap();
    assert_eq!(
        (row.get::<_, Option<String>>(0), row.get::<_, i64>(1), row.get::<_, Option<String>>(2)),
        (None, -1, None)
    );
    server.users.set("ada", "right").unwrap();
    assert!(connect(&local(&config)).await.is_err());
    assert!(connect(&local(config.password("right"))).await.is_ok());
    drop(client);
    server.stop(Duration::ZERO).await;
    assert!(!path.exists(), "the socket outlives its server");
}

#[tokio::test]
async fn there_is_room_for_so_many() {
    let server = TestServer::with(|options, _| options.max_connections = 2);
    let (first, _second) = (server.client().await, server.client().await);
    assert_eq!(code(connect(&server.config()).await), "53300");
    drop(first);
    for _ in 0..100 {
        if connect(&server.config()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a place that was left stays taken");
}

#[tokio::test]
async fn a_client_that_vanishes_gives_its_place_back() {
    let server = TestServer::with(|options, _| options.max_connections = 1);
    let (client, connection) = server.config().connect(tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let query = tokio::spawn(async move { client.simple_query(crate::server::ENDLESS).await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    connection.abort();
    query.abort();
    for _ in 0..500 {
        if connect(&server.config()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("its query goes on");
}

/// A TLS connection by hand: SSLRequest, then the handshake.
async fn encrypted(server: &TestServer, roots: RootCertStore) -> TlsStream<TcpStream> {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'S');
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
}

#[tokio::test]
async fn connections_can_be_encrypted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let server = TestServer::with(|options, directory| {
        let files = TlsFiles { certificate: directory.join("cert.pem"), key: directory.join("key.pem") };
        std::fs::write(&files.certificate, &certificate).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        (options.tls, options.tls_required) = (Some(files), true);
    });
    assert_eq!(code(connect(&server.config()).await), "28000");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let stream = encrypted(&server, roots).await;
    let (client, connection) = server.config().connect_raw(stream, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.query_one("SELECT 1::int", &[]).await.unwrap().get::<_, i32>(0), 1);
}

#[tokio::test]
async fn metrics_count() {
    let server = TestServer::with(|options, _| options.admin = Some("127.0.0.1:0".parse().unwrap()));
    let client = server.client().await;
    client.simple_query("SELECT 1").await.unwrap();
    let _ = client.simple_query("nonsense").await;
    let mut socket = TcpStream::connect(server.admin()).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    for line in ["saki_connections 1", "saki_statements_total{kind=\"SELECT\"} 1", "saki_errors_total{class=\"42\"} 1"]
    {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
