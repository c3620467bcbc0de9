//! A certificate authority for one test.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tempfile::TempDir;

/// An authority and a directory for its files.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    folder: TempDir,
}

/// A certificate and its key.
pub(crate) struct Signed {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Ca {
    /// Creates an authority.
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        Self::named(&format!(
            "authority {}",
            MADE.fetch_add(1, Ordering::Relaxed)
        ))
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
            folder: TempDir::new().unwrap(),
        }
    }

    /// Writes a file into the directory.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The file with its certificate.
    pub(crate) fn trust(&self) -> PathBuf {
        self.file("ca.pem", &self.pem)
    }

    pub(crate) fn sign(&self, names: &[&str], years: (i32, i32)) -> Signed {
        let names = names.iter().map(ToString::to_string);
        let mut params = CertificateParams::new(names.collect::<Vec<_>>()).unwrap();
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed {
            cert,
            key: key.serialize_pem(),
        }
    }

    /// A server with the given certificate.
    pub(crate) fn server(&self) -> ServerConfig {
        server_as(&self.sign(&["127.0.0.1", "::1", "server.test"], (2020, 2100)))
    }

    /// A server that requires client certificates of this authority.
    pub(crate) fn strict_server(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let signed = self.sign(&["127.0.0.1", "server.test"], (2020, 2100));
        server(&signed, Some(roots), versions)
    }
}

/// A server with the given certificate.
pub(crate) fn server_as(signed: &Signed) -> ServerConfig {
    server(signed, None, rustls::ALL_VERSIONS)
}

fn server(
    signed: &Signed,
    clients: Option<RootCertStore>,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let builder = match clients {
        Some(roots) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let cert = CertificateDer::from_pem_slice(signed.cert.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
    builder.with_single_cert(vec![cert], key).unwrap()
}
