//! TLS for connections that ask for it.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use saki_sql::verifier::hash;

use crate::failure::{Failure, Result};
use crate::options::TlsFiles;

/// Object identifiers of signatures with SHA-256: RSA, ECDSA.
const SHA256_SIGNATURES: [&[u8]; 2] =
    [&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B], &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02]];

/// The digest by which clients know a channel with this certificate (RFC 5929, `tls-server-end-point`), if it is
/// signed with SHA-256: of others it would be another digest.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let contains = |id: &&[u8]| certificate.as_ref().windows(id.len()).any(|window| window == *id);
    SHA256_SIGNATURES.iter().any(contains).then(|| hash(certificate.as_ref()).to_vec())
}

/// Reads certificate and key; with it, by what its channels are known.
///
/// # Errors
/// If a file cannot be read, holds no PEM, or the two do not belong together.
pub fn acceptor(files: &TlsFiles) -> Result<(TlsAcceptor, Option<Vec<u8>>)> {
    let failed = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        Failure::fatal("F0000", format!("{}: {error}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|error| failed(&files.certificate, &error))?;
    let digest = certificates.first().and_then(end_point);
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| failed(&files.certificate, &error))?;
    Ok((TlsAcceptor::from(Arc::new(config)), digest))
}
