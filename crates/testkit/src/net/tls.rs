//! A certificate authority for tests, and what it signs.

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use crate::Scratch;

/// A certificate authority made for one test.
#[derive(Debug)]
pub struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl TestCa {
    /// Creates an authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "testkit CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a CA certificate").pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate as `ca.pem` in a scratch directory.
    pub fn write(&self, scratch: &Scratch) -> PathBuf {
        scratch.write("ca.pem", &self.pem)
    }

    /// A server certificate for `localhost` and the loopback addresses.
    pub fn server(&self) -> Identity {
        self.server_for(&["localhost", "127.0.0.1", "::1"])
    }

    /// A server certificate for these names and addresses.
    pub fn server_for(&self, names: &[&str]) -> Identity {
        self.sign(
            names,
            "testkit server",
            ExtendedKeyUsagePurpose::ServerAuth,
            false,
        )
    }

    /// An expired server certificate for loopback.
    pub fn expired_server(&self) -> Identity {
        let names = ["localhost", "127.0.0.1", "::1"];
        self.sign(
            &names,
            "testkit server",
            ExtendedKeyUsagePurpose::ServerAuth,
            true,
        )
    }

    /// A client certificate with this common name.
    pub fn client(&self, name: &str) -> Identity {
        self.sign(&[], name, ExtendedKeyUsagePurpose::ClientAuth, false)
    }

    fn sign(
        &self,
        names: &[&str],
        common: &str,
        purpose: ExtendedKeyUsagePurpose,
        expired: bool,
    ) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![purpose];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().expect("a DNS name")),
            })
            .collect();
        if expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("a signed certificate");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

impl Identity {
    /// Both as `<name>.pem` and `<name>.key` in a scratch directory.
    pub fn write(&self, scratch: &Scratch, name: &str) -> (PathBuf, PathBuf) {
        (
            scratch.write(format!("{name}.pem"), &self.certificate),
            scratch.write(format!("{name}.key"), &self.key),
        )
    }

    pub(crate) fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate =
            CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        (vec![certificate], key)
    }
}

/// TLS options of a server.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    identity: Identity,
    client_ca: Option<String>,
    alpn: Vec<Vec<u8>>,
}

impl TlsOptions {
    /// Uses a certificate for loopback from this authority, without client certificates.
    pub fn new(ca: &TestCa) -> Self {
        Self::with(ca.server())
    }

    /// Uses this certificate.
    pub fn with(identity: Identity) -> Self {
        Self {
            identity,
            client_ca: None,
            alpn: Vec::new(),
        }
    }

    /// Requires a client certificate from this authority.
    pub fn require_client(mut self, ca: &TestCa) -> Self {
        self.client_ca = Some(ca.pem.clone());
        self
    }

    /// Offers these ALPN protocols, best first; by default none.
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        self.alpn = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        self
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the default versions");
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a client verifier"))
            }
        };
        let (certificates, key) = self.identity.parts();
        let mut config = builder
            .with_single_cert(certificates, key)
            .expect("a certificate that fits its key");
        config.alpn_protocols.clone_from(&self.alpn);
        Arc::new(config)
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(crate) fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a CA certificate"))
        .expect("a usable CA certificate");
    roots
}
