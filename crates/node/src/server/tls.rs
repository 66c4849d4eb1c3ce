//! TLS for connections that ask for it.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::failure::{Failure, Result};
use crate::options::TlsFiles;

/// Reads certificate and key.
///
/// # Errors
/// If a file cannot be read, holds no PEM, or the two do not belong together.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let failed = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        Failure::fatal("F0000", format!("{}: {error}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|error| failed(&files.certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| failed(&files.certificate, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
