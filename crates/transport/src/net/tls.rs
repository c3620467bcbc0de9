//! TLS: certificate authorities, client certificates and handshake errors.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::{Alpn, DialError, Stream, TlsFiles};

/// Size limits for a certificate or key file, and for all files of a directory (SEC-4).
const MAX_FILE_BYTES: u64 = 16 << 20;
const MAX_DIR_BYTES: usize = 64 << 20;

/// Time limit for reading the files.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The purpose of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Server(Alpn),
    /// A proxy gets neither our certificate nor HTTP/2.
    Proxy,
}

/// A configuration, loaded once.
type ConfigCell = Arc<OnceCell<Arc<ClientConfig>>>;

/// TLS configurations, loaded on demand.
pub(super) struct TlsConfigs {
    settings: Settings,
    /// The authorities of the system and of `NODE_EXTRA_CA_CERTS`.
    roots: OnceCell<Arc<RootCertStore>>,
    /// One cell per set of files, so that no server waits for the files of another.
    configs: Mutex<HashMap<(TlsFiles, Purpose), ConfigCell>>,
}

#[derive(Clone)]
struct Settings {
    cert_file: Option<PathBuf>,
    cert_dirs: Vec<PathBuf>,
    extra: Option<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

impl TlsConfigs {
    pub(super) fn from_vars(vars: &dyn Fn(&str) -> Option<String>) -> Self {
        let path = |name| vars(name).map(PathBuf::from);
        let dirs = vars("SSL_CERT_DIR").unwrap_or_default();
        let dirs = std::env::split_paths(&dirs).filter(|dir| !dir.as_os_str().is_empty());
        Self {
            settings: Settings {
                cert_file: path("SSL_CERT_FILE"),
                cert_dirs: dirs.collect(),
                extra: path("NODE_EXTRA_CA_CERTS"),
                client_cert: path("CLAUDE_CODE_CLIENT_CERT"),
                client_key: path("CLAUDE_CODE_CLIENT_KEY"),
            },
            roots: OnceCell::new(),
            configs: Mutex::default(),
        }
    }

    /// Returns the configuration for `files`, always the same one, so that sessions are resumed.
    pub(super) async fn config(
        &self,
        files: &TlsFiles,
        purpose: Purpose,
    ) -> Result<Arc<ClientConfig>, DialError> {
        let key = (files.clone(), purpose);
        let cell = {
            let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(configs.entry(key).or_default())
        };
        let config = cell.get_or_try_init(|| async {
            let settings = self.settings.clone();
            let roots = self.roots.get_or_try_init(|| async {
                let settings = settings.clone();
                load_blocking(move || settings.roots()).await.map(Arc::new)
            });
            let roots = Arc::clone(roots.await?);
            let files = files.clone();
            let made = load_blocking(move || settings.config(roots, &files, purpose)).await;
            made.map(Arc::new)
        });
        config.await.map(Arc::clone)
    }
}

async fn load_blocking<T: Send + 'static>(
    load: impl FnOnce() -> Result<T, DialError> + Send + 'static,
) -> Result<T, DialError> {
    let loading = tokio::task::spawn_blocking(load);
    match tokio::time::timeout(LOAD_TIMEOUT, loading).await {
        Ok(loaded) => loaded.unwrap_or(Err(DialError::NoAuthorities)),
        Err(_) => Err(DialError::FilesTimedOut(LOAD_TIMEOUT)),
    }
}

impl Settings {
    fn roots(&self) -> Result<RootCertStore, DialError> {
        let mut roots = RootCertStore::empty();
        if self.cert_file.is_none() && self.cert_dirs.is_empty() {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        if let Some(file) = &self.cert_file {
            trust_file(&mut roots, file, "SSL_CERT_FILE")?;
        }
        for dir in &self.cert_dirs {
            trust_dir(&mut roots, dir);
        }
        if let Some(file) = &self.extra {
            trust_file(&mut roots, file, "NODE_EXTRA_CA_CERTS")?;
        }
        Ok(roots)
    }

    fn config(
        &self,
        mut roots: Arc<RootCertStore>,
        files: &TlsFiles,
        purpose: Purpose,
    ) -> Result<ClientConfig, DialError> {
        if let Some(file) = &files.ca {
            trust_file(Arc::make_mut(&mut roots), file, "tls.ca")?;
        }
        if roots.is_empty() {
            return Err(DialError::NoAuthorities);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| DialError::Tls {
                host: "any server".to_owned(),
                error: error.to_string(),
            })?
            .with_root_certificates(roots);
        let identity = match purpose {
            Purpose::Server(_) => self.identity(files),
            Purpose::Proxy => None,
        };
        let mut config = match identity {
            Some(identity) => {
                let chain = certificates(identity.cert, identity.cert_role)?;
                let key = private_key(identity.key, identity.key_role)?;
                let made = builder.with_client_auth_cert(chain, key);
                made.map_err(|error| DialError::File {
                    path: identity.cert.to_owned(),
                    role: identity.cert_role,
                    error: format!("cannot be used with its key: {error}"),
                })?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = match purpose {
            Purpose::Server(Alpn::Http1) => vec![b"http/1.1".to_vec()],
            Purpose::Server(Alpn::Http1Or2) => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Purpose::Proxy => Vec::new(),
        };
        config.resumption = Resumption::in_memory_sessions(64);
        Ok(config)
    }

    /// The client certificate of the server's entry, or else of the environment.
    fn identity<'a>(&'a self, files: &'a TlsFiles) -> Option<Identity<'a>> {
        let from_entry = files.cert.as_deref().map(|cert| Identity {
            cert,
            cert_role: "tls.cert",
            key: files.key.as_deref().unwrap_or(cert),
            key_role: "tls.key",
        });
        from_entry.or_else(|| {
            let cert = self.client_cert.as_deref()?;
            Some(Identity {
                cert,
                cert_role: "CLAUDE_CODE_CLIENT_CERT",
                key: self.client_key.as_deref().unwrap_or(cert),
                key_role: "CLAUDE_CODE_CLIENT_KEY",
            })
        })
    }
}

/// A client certificate and the settings that name its files.
struct Identity<'a> {
    cert: &'a Path,
    cert_role: &'static str,
    key: &'a Path,
    key_role: &'static str,
}

/// Reads a regular file of bounded size: a pipe could block, and a device has no end.
fn read(path: &Path, role: &'static str) -> Result<Vec<u8>, DialError> {
    let failed = |error: io::Error| file_error(path, role, format!("cannot be read: {error}"));
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Opening a pipe must not wait for a writer.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(file_error(path, role, "is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let mut file = file.take(MAX_FILE_BYTES + 1);
    file.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let error = format!("is larger than {} MB", MAX_FILE_BYTES >> 20);
        return Err(file_error(path, role, error));
    }
    Ok(bytes)
}

/// Trusts the authorities in the files of a directory; unreadable files are ignored.
fn trust_dir(roots: &mut RootCertStore, dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut left = MAX_DIR_BYTES;
    for entry in entries.flatten() {
        let Ok(text) = read(&entry.path(), "SSL_CERT_DIR") else {
            continue;
        };
        let Some(rest) = left.checked_sub(text.len()) else {
            return;
        };
        left = rest;
        let found = CertificateDer::pem_slice_iter(&text).flatten();
        roots.add_parsable_certificates(found);
    }
}

fn file_error(path: &Path, role: &'static str, error: String) -> DialError {
    DialError::File {
        path: path.to_owned(),
        role,
        error,
    }
}

fn certificates(
    path: &Path,
    role: &'static str,
) -> Result<Vec<CertificateDer<'static>>, DialError> {
    let text = read(path, role)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(file_error(path, role, "holds no certificate".to_owned())),
        Err(error) => Err(file_error(
            path,
            role,
            format!("is not a PEM file: {error}"),
        )),
    }
}

/// Trusts the authorities in a file. Certificates of unknown kinds are ignored.
fn trust_file(roots: &mut RootCertStore, path: &Path, role: &'static str) -> Result<(), DialError> {
    let (added, ignored) = roots.add_parsable_certificates(certificates(path, role)?);
    if added == 0 && ignored > 0 {
        let error = "holds no certificate that can be used".to_owned();
        return Err(file_error(path, role, error));
    }
    Ok(())
}

fn private_key(path: &Path, role: &'static str) -> Result<PrivateKeyDer<'static>, DialError> {
    let text = read(path, role)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let encrypted = text.windows(9).any(|word| word == b"ENCRYPTED");
        let error = match error {
            _ if encrypted => "is encrypted, which is not supported".to_owned(),
            pem::Error::NoItemsFound => "holds no private key".to_owned(),
            other => format!("is not a PEM file: {other}"),
        };
        file_error(path, role, error)
    })
}

/// Performs the TLS handshake with `host`; also returns whether HTTP/2 was negotiated.
pub(super) async fn handshake(
    config: Arc<ClientConfig>,
    host: &str,
    stream: Stream,
) -> Result<(Stream, bool), DialError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| DialError::Tls {
        host: host.to_owned(),
        error: "no certificate can be for such a name".to_owned(),
    })?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    let stream = connected.map_err(|error| explain(host, &error))?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((Stream::tls(stream), http2))
}

fn explain(host: &str, error: &io::Error) -> DialError {
    let host = host.to_owned();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(tls) = inner else {
        let error = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            _ => error.to_string(),
        };
        return DialError::Tls { host, error };
    };
    match tls {
        rustls::Error::InvalidCertificate(error) => explain_certificate(host, error),
        rustls::Error::AlertReceived(alert) => explain_alert(host, *alert),
        rustls::Error::InvalidMessage(_) => DialError::NotTls { host },
        other => DialError::Tls {
            host,
            error: other.to_string(),
        },
    }
}

fn explain_certificate(host: String, error: &CertificateError) -> DialError {
    match error {
        // Two authorities of the same name with different keys cause a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            DialError::NotTrusted { host }
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            DialError::Expired { host }
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            DialError::NotYetValid { host }
        }
        CertificateError::NotValidForName => DialError::WrongName {
            host,
            names: Vec::new(),
        },
        CertificateError::NotValidForNameContext { presented, .. } => DialError::WrongName {
            host,
            names: presented.iter().map(|name| plain_name(name)).collect(),
        },
        // The default of `openssl req -x509`.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => DialError::Certificate {
            host,
            error: "it is an authority's, which a server cannot show as its own; \
                    make one with basicConstraints=CA:FALSE"
                .to_owned(),
        },
        other => DialError::Certificate {
            host,
            error: other.to_string(),
        },
    }
}

/// Returns the name in a text such as `DnsName("a.test")`.
fn plain_name(presented: &str) -> String {
    let mut parts = presented.split('"');
    let quoted = parts.nth(1).filter(|_| presented.ends_with("\")"));
    quoted.unwrap_or(presented).to_owned()
}

fn explain_alert(host: String, alert: AlertDescription) -> DialError {
    match alert {
        AlertDescription::CertificateRequired => DialError::ClientCertificateWanted { host },
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => DialError::ClientCertificateRefused {
            host,
            error: format!("{alert:?}"),
        },
        other => DialError::Tls {
            host,
            error: format!("the server answered with the alert {other:?}"),
        },
    }
}

/// Replaces an error about our client certificate with a clearer one.
pub(super) fn clarify_alert(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(rustls::Error::AlertReceived(alert)) = inner else {
        return error;
    };
    match explain_alert("the server".to_owned(), *alert) {
        about_us @ (DialError::ClientCertificateWanted { .. }
        | DialError::ClientCertificateRefused { .. }) => io::Error::new(error.kind(), about_us),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_certificates_are_shown_plainly() {
        for (presented, name) in [
            ("DnsName(\"a.test\")", "a.test"),
            ("IpAddress(127.0.0.1)", "IpAddress(127.0.0.1)"),
            ("a.test", "a.test"),
        ] {
            assert_eq!(plain_name(presented), name);
        }
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let pipe = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        let huge = std::fs::File::create(at("huge")).unwrap();
        huge.set_len(MAX_FILE_BYTES + 1).unwrap();
        for (path, expected) in [
            (at("pipe"), "is not a regular file"),
            (at("huge"), "is larger than 16 MB"),
            (dir.path().to_owned(), "is not a regular file"),
            (PathBuf::from("/dev/zero"), "is not a regular file"),
            (at("none"), "cannot be read"),
        ] {
            let error = read(&path, "tls.ca").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::write(at("file"), "text").unwrap();
        assert_eq!(read(&at("file"), "tls.ca").unwrap(), b"text");
    }

    #[tokio::test]
    async fn a_pipe_among_the_files_of_one_server_does_not_block_another() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("0123abcd.0");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let dirs = dir.path().to_str().unwrap().to_owned();
        let tls =
            TlsConfigs::from_vars(&move |name| (name == "SSL_CERT_DIR").then(|| dirs.clone()));
        let files = TlsFiles {
            ca: Some(pipe),
            ..TlsFiles::default()
        };
        let error = tls.config(&files, Purpose::Proxy).await.unwrap_err();
        assert!(
            error.to_string().contains("is not a regular file"),
            "{error}"
        );
        let other = tls.config(&TlsFiles::default(), Purpose::Proxy).await;
        assert!(matches!(other, Err(DialError::NoAuthorities)), "{other:?}");
    }
}
