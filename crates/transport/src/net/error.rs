//! Errors of connecting to a server.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// An error of connecting to a server. Never contains a proxy password.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    /// The URL cannot be connected to.
    #[error("{0}")]
    Url(String),
    /// The host name could not be resolved.
    #[error("the address of {host} could not be found: {error}")]
    Lookup {
        /// The host name.
        host: String,
        /// The resolver's error.
        error: String,
    },
    /// The name resolves only to addresses that may not be dialled.
    #[error("{server} resolves to {address}, which may not be connected to from here")]
    AddressRefused {
        /// The server, with its port.
        server: String,
        /// The first address.
        address: IpAddr,
    },
    /// The connection was refused.
    #[error("{server} refused the connection")]
    Refused {
        /// The server, with its port.
        server: String,
    },
    /// The connection failed.
    #[error("{server} could not be reached: {error}")]
    Connect {
        /// The server, with its port.
        server: String,
        /// The system's error.
        error: String,
    },
    /// Connecting timed out.
    #[error("{server} could not be reached within {} s", .limit.as_secs())]
    TimedOut {
        /// The server, with its port.
        server: String,
        /// The time limit.
        limit: Duration,
    },
    /// An environment variable names an unusable proxy.
    #[error("{variable} {error}")]
    ProxySetting {
        /// The variable.
        variable: &'static str,
        /// The problem.
        error: String,
    },
    /// The connection to the proxy failed.
    #[error("proxy {proxy}: {error}")]
    Proxy {
        /// The proxy, without credentials.
        proxy: String,
        /// The error.
        error: Box<DialError>,
    },
    /// The proxy requires credentials or rejects them.
    #[error("proxy {proxy} asks for a user name and password")]
    ProxyCredentials {
        /// The proxy, without credentials.
        proxy: String,
    },
    /// The proxy refused the tunnel.
    #[error("proxy {proxy} refused to connect to {server}: {answer}")]
    ProxyRefused {
        /// The proxy, without credentials.
        proxy: String,
        /// The server, with its port.
        server: String,
        /// Its status line.
        answer: String,
    },
    /// The proxy's response is not valid.
    #[error("proxy {proxy} did not open a tunnel to {server}: {error}")]
    ProxyBroken {
        /// The proxy, without credentials.
        proxy: String,
        /// The server, with its port.
        server: String,
        /// The error.
        error: String,
    },
    /// The certificate is not signed by a trusted authority.
    #[error("the certificate of {host} is not trusted: no known authority has signed it")]
    NotTrusted {
        /// The server.
        host: String,
    },
    /// The certificate has expired.
    #[error("the certificate of {host} has expired")]
    Expired {
        /// The server.
        host: String,
    },
    /// The certificate is not valid yet.
    #[error("the certificate of {host} is not valid yet")]
    NotYetValid {
        /// The server.
        host: String,
    },
    /// The certificate is for another name.
    #[error("the certificate of {host} is for another name{}", list_names(.names))]
    WrongName {
        /// The server.
        host: String,
        /// Its names; untrusted text.
        names: Vec<String>,
    },
    /// The certificate is invalid for another reason.
    #[error("the certificate of {host} is not acceptable: {error}")]
    Certificate {
        /// The server.
        host: String,
        /// The error.
        error: String,
    },
    /// The server requires a client certificate.
    #[error("{host} asks for a client certificate")]
    ClientCertificateWanted {
        /// The server.
        host: String,
    },
    /// The server rejected the client certificate.
    #[error("{host} did not accept our client certificate: {error}")]
    ClientCertificateRefused {
        /// The server.
        host: String,
        /// The server's alert.
        error: String,
    },
    /// The server does not use TLS.
    #[error("{host} does not speak TLS on this port")]
    NotTls {
        /// The server.
        host: String,
    },
    /// The TLS handshake failed for another reason.
    #[error("the TLS handshake with {host} failed: {error}")]
    Tls {
        /// The server.
        host: String,
        /// The error.
        error: String,
    },
    /// A certificate or key file is unusable.
    #[error("{} ({role}) {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The setting that names it.
        role: &'static str,
        /// The problem.
        error: String,
    },
    /// There are no trusted certificate authorities.
    #[error("this machine has no certificate authorities to trust")]
    NoAuthorities,
    /// Reading the certificate and key files timed out.
    #[error("the files of certificates and keys could not be read within {} s", .0.as_secs())]
    FilesTimedOut(Duration),
}

impl DialError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotTrusted { .. } | Self::NoAuthorities => Some(
                "name a PEM file with its authority in NODE_EXTRA_CA_CERTS or as `tls.ca` of the \
                 server",
            ),
            Self::WrongName { .. } => {
                Some("use a URL with one of the names that the certificate is for")
            }
            Self::Expired { .. } | Self::NotYetValid { .. } => {
                Some("renew the server's certificate, or set this machine's clock")
            }
            Self::ClientCertificateWanted { .. } | Self::ClientCertificateRefused { .. } => Some(
                "name our certificate and key as `tls.cert` and `tls.key` of the server, or in \
                 CLAUDE_CODE_CLIENT_CERT and CLAUDE_CODE_CLIENT_KEY",
            ),
            Self::NotTls { .. } => Some("use http: or ws: in place of https: or wss:"),
            Self::ProxyCredentials { .. } => {
                Some("put them into the proxy's URL: http://user:password@proxy:port")
            }
            Self::ProxyRefused { .. } | Self::ProxyBroken { .. } => {
                Some("name hosts to be reached without the proxy in NO_PROXY")
            }
            Self::Proxy { error, .. } => error.hint(),
            _ => None,
        }
    }
}

fn list_names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => format!(" ({name})"),
        [first, .., last] if names.len() > 3 => {
            format!(" ({first}, …, {last})")
        }
        names => format!(" ({})", names.join(", ")),
    }
}
