//! Why a server could not be reached.

use std::path::PathBuf;
use std::time::Duration;

/// Why a server could not be reached. Never holds a proxy's password.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    /// The URL cannot be connected to.
    #[error("{0}")]
    Url(String),
    /// The name is not known.
    #[error("the address of {host} could not be found: {error}")]
    Lookup {
        /// The name.
        host: String,
        /// What the resolver said.
        error: String,
    },
    /// Nobody listens there.
    #[error("{server} refused the connection")]
    Refused {
        /// The server, with its port.
        server: String,
    },
    /// No connection came about.
    #[error("{server} could not be reached: {error}")]
    Connect {
        /// The server, with its port.
        server: String,
        /// What the system said.
        error: String,
    },
    /// It took too long.
    #[error("{server} could not be reached within {} s", .limit.as_secs())]
    TimedOut {
        /// The server, with its port.
        server: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A variable names a proxy that cannot be used.
    #[error("{variable} {error}")]
    ProxySetting {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it.
        error: String,
    },
    /// The proxy itself could not be reached.
    #[error("proxy {proxy}: {error}")]
    Proxy {
        /// The proxy, without credentials.
        proxy: String,
        /// Why.
        error: Box<DialError>,
    },
    /// The proxy wants to know who we are, or does not believe it.
    #[error("proxy {proxy} asks for a user name and password")]
    ProxyCredentials {
        /// The proxy, without credentials.
        proxy: String,
    },
    /// The proxy would not let us through.
    #[error("proxy {proxy} refused to connect to {server}: {answer}")]
    ProxyRefused {
        /// The proxy, without credentials.
        proxy: String,
        /// The server, with its port.
        server: String,
        /// The status it answered with.
        answer: String,
    },
    /// The proxy does not answer as one.
    #[error("proxy {proxy} did not open a tunnel to {server}: {error}")]
    ProxyBroken {
        /// The proxy, without credentials.
        proxy: String,
        /// The server, with its port.
        server: String,
        /// What happened.
        error: String,
    },
    /// No authority we know vouches for the server.
    #[error("the certificate of {host} is not trusted: no known authority has signed it")]
    NotTrusted {
        /// The server.
        host: String,
    },
    /// The server's certificate is out of date.
    #[error("the certificate of {host} has expired")]
    Expired {
        /// The server.
        host: String,
    },
    /// The server's certificate is for later.
    #[error("the certificate of {host} is not valid yet")]
    NotYetValid {
        /// The server.
        host: String,
    },
    /// The server's certificate is somebody else's.
    #[error("the certificate of {host} is for another name{}", among(.names))]
    WrongName {
        /// The server.
        host: String,
        /// The names it is for; untrusted text.
        names: Vec<String>,
    },
    /// The server's certificate cannot be accepted for another reason.
    #[error("the certificate of {host} is not acceptable: {error}")]
    Certificate {
        /// The server.
        host: String,
        /// Why.
        error: String,
    },
    /// The server wants a certificate of ours.
    #[error("{host} asks for a client certificate")]
    ClientCertificateWanted {
        /// The server.
        host: String,
    },
    /// The server does not accept our certificate.
    #[error("{host} did not accept our client certificate: {error}")]
    ClientCertificateRefused {
        /// The server.
        host: String,
        /// What it said.
        error: String,
    },
    /// What answers does not speak TLS.
    #[error("{host} does not speak TLS on this port")]
    NotTls {
        /// The server.
        host: String,
    },
    /// The handshake failed in another way.
    #[error("the TLS handshake with {host} failed: {error}")]
    Tls {
        /// The server.
        host: String,
        /// What happened.
        error: String,
    },
    /// A file with certificates or a key cannot be used.
    #[error("{} ({role}) {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Which setting names it.
        role: &'static str,
        /// What is wrong with it.
        error: String,
    },
    /// There is no authority to trust.
    #[error("this machine has no certificate authorities to trust")]
    NoAuthorities,
    /// The files of certificates and keys could not be read in time.
    #[error("the files of certificates and keys could not be read within {} s", .0.as_secs())]
    FilesTimedOut(Duration),
}

impl DialError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotTrusted { .. } | Self::NoAuthorities => Some(
                "name a PEM file with its authority in NODE_EXTRA_CA_CERTS or as `tls.ca` of the server",
            ),
            Self::WrongName { .. } => {
                Some("use a URL with one of the names that the certificate is for")
            }
            Self::Expired { .. } | Self::NotYetValid { .. } => {
                Some("renew the server's certificate, or set this machine's clock")
            }
            Self::ClientCertificateWanted { .. } | Self::ClientCertificateRefused { .. } => Some(
                "name our certificate and key as `tls.cert` and `tls.key` of the server, or in CLAUDE_CODE_CLIENT_CERT and CLAUDE_CODE_CLIENT_KEY",
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

fn among(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => format!(" ({name})"),
        [first, .., last] if names.len() > 3 => {
            format!(" ({first}, …, {last})")
        }
        names => format!(" ({})", names.join(", ")),
    }
}
