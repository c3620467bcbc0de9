//! TLS with given certificates.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::error::HttpError;
use super::options::TlsIdentity;

/// Reads the files.
pub(super) fn acceptor(identity: &TlsIdentity) -> Result<TlsAcceptor, HttpError> {
    let failed =
        |path: &Path, error: &dyn Display| HttpError::Tls(format!("{}: {error}", path.display()));
    let path = &identity.certificates;
    let text = std::fs::read(path).map_err(|error| failed(path, &error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| failed(path, &error))?;
    if chain.is_empty() {
        return Err(failed(path, &"holds no certificate"));
    }
    let path = &identity.key;
    let text = std::fs::read(path).map_err(|error| failed(path, &error))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| failed(path, &"holds no key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|error| failed(path, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
