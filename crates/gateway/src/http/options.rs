//! Options of the HTTP endpoint, and their defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::store::Rate;

/// Options of the HTTP endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The address to listen on. Port 0 chooses a free one.
    pub address: SocketAddr,
    /// Host names that clients may use, besides addresses and the names of loopback.
    pub hosts: Vec<String>,
    /// Origins of web pages that may connect, besides those of this machine while the endpoint
    /// listens on loopback only.
    pub origins: Vec<String>,
    /// Requires a token on loopback too. Off loopback, and with an issuer, it is always required.
    pub require_token: bool,
    /// Serves TLS.
    pub tls: Option<TlsIdentity>,
    /// Accepts access tokens of an authorization server.
    pub oauth: Option<OAuthOptions>,
    /// The limits.
    pub limits: HttpLimits,
}

/// The certificate and key of the endpoint, in PEM files.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    /// The certificate, followed by those of its authorities.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The endpoint as an OAuth protected resource (RFC 9728).
#[derive(Clone, Debug)]
pub struct OAuthOptions {
    /// The issuer whose access tokens are accepted.
    pub issuer: Url,
    /// The identifier of this resource, which the tokens must name as their audience: the URL of
    /// the endpoint as clients see it.
    pub resource: Url,
    /// The scopes that every token must have.
    pub scopes: Vec<String>,
    /// The keys of the issuer; `None` to read their URL from the issuer's metadata.
    pub jwks: Option<Url>,
    /// The profile of clients with an access token; `None` for the gateway's default.
    pub profile: Option<String>,
}

/// Limits of the HTTP endpoint (SEC-4). Those per client count an anonymous client on loopback as
/// one with all others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The open connections.
    pub connections: usize,
    /// The open connections of one address, except on loopback.
    pub connections_per_address: usize,
    /// The time for the head of a request, which is also that of an idle connection.
    pub head_timeout: Duration,
    /// The bytes of the head of a request.
    pub head_bytes: usize,
    /// The bytes of the body of a request.
    pub body_bytes: usize,
    /// The bytes of all bodies that are being read.
    pub total_body_bytes: usize,
    /// The time for the body of a request.
    pub body_timeout: Duration,
    /// The time without progress after which a client that does not read is disconnected.
    pub write_timeout: Duration,
    /// The concurrent requests of one client.
    pub requests_per_client: usize,
    /// The rate of requests of one client.
    pub rate: Option<Rate>,
    /// The sessions of one client.
    pub sessions_per_client: usize,
    /// The time after which an unused session ends.
    pub session_idle: Duration,
    /// The time for calls to end when the gateway shuts down.
    pub drain: Duration,
}

impl HttpOptions {
    /// The defaults for an address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            hosts: Vec::new(),
            origins: Vec::new(),
            require_token: false,
            tls: None,
            oauth: None,
            limits: HttpLimits::for_address(address),
        }
    }

    /// Returns true if every client needs a token.
    pub fn needs_token(&self) -> bool {
        self.require_token || self.oauth.is_some() || !self.address.ip().is_loopback()
    }
}

impl HttpLimits {
    /// The defaults for an address. Only clients elsewhere have a rate by default.
    pub fn for_address(address: SocketAddr) -> Self {
        let elsewhere = Rate {
            per_second: 100.0,
            burst: 500.0,
        };
        Self {
            connections: 2048,
            connections_per_address: 128,
            head_timeout: Duration::from_secs(30),
            head_bytes: 64 * 1024,
            body_bytes: 16 * 1024 * 1024,
            total_body_bytes: 256 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            requests_per_client: 1024,
            rate: (!address.ip().is_loopback()).then_some(elsewhere),
            sessions_per_client: 1024,
            session_idle: Duration::from_mins(30),
            drain: Duration::from_secs(10),
        }
    }
}
