//! Byte streams to servers (TRN-2): proxies, certificate authorities and client certificates, from
//! the environment and the server's entry.
//!
//! The protocol on the stream belongs to the HTTP and WebSocket clients, which start where
//! [`Dialer::dial`] ends.

mod error;
mod halves;
mod no_proxy;
mod proxy;
mod socks;
mod stream;
mod tcp;
mod tls;
mod tunnel;
pub(crate) mod url_headers;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};

pub use error::DialError;
pub use halves::{ReadHalf, WriteHalf};
use proxy::{Proxy, ProxyKind, ProxySettings};
pub use stream::Stream;
use tls::{Purpose, TlsConfigs};

/// Time limit for connecting, from name resolution to the TLS handshake.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether it uses TLS.
    pub tls: bool,
    /// Its host name or address; IPv6 without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Target {
    /// Returns the target of an `http`, `https`, `ws` or `wss` URL.
    ///
    /// ```
    /// use trunkline_transport::net::Target;
    ///
    /// let target = Target::of(&"wss://[::1]/mcp".parse()?)?;
    /// assert_eq!((target.host.as_str(), target.port), ("::1", 443));
    /// assert!(target.tls && target.is_loopback());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(url: &Url) -> Result<Self, DialError> {
        let tls = match url.scheme() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            other => {
                return Err(DialError::Url(format!(
                    "{other}: is not a kind of URL that can be connected to"
                )));
            }
        };
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(DialError::Url("the URL names no host".to_owned())),
        };
        let port = url
            .port_or_known_default()
            .unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host, port })
    }

    /// Whether it is on this host.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or_else(
            |_| tcp::is_localhost(&self.host),
            |address| address.to_canonical().is_loopback(),
        )
    }
}

/// `host:port`, with brackets around IPv6.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&authority(&self.host, self.port))
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Certificate files of one server's entry, in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// Certificate authorities to trust in addition to the system's.
    pub ca: Option<PathBuf>,
    /// The client certificate with its chain.
    pub cert: Option<PathBuf>,
    /// The private key; by default read from the certificate file.
    pub key: Option<PathBuf>,
}

/// The HTTP versions to offer in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// Only HTTP/1.1.
    Http1,
    /// HTTP/2 and HTTP/1.1.
    Http1Or2,
}

/// An established stream.
#[derive(Debug)]
pub struct Dialed {
    /// The stream.
    pub stream: Stream,
    /// Whether HTTP/2 was negotiated.
    pub http2: bool,
    /// Set when the peer is a proxy that takes requests in absolute form.
    pub forward: Option<Forward>,
}

/// A proxy that forwards plain-HTTP requests in absolute form.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The `Proxy-Authorization` header of each request.
    pub authorization: Option<http::HeaderValue>,
}

/// Connects to servers through the proxies and with the certificates of the environment. Cheap to
/// clone; files are loaded once.
///
/// Servers on this host are never reached through a proxy, whatever `NO_PROXY` says: the proxy's
/// `localhost` is another one.
#[derive(Clone)]
pub struct Dialer {
    inner: Arc<Inner>,
    address_filter: Option<AddressFilter>,
}

/// Decides which resolved addresses may be dialled.
pub type AddressFilter = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

struct Inner {
    proxies: ProxySettings,
    tls: TlsConfigs,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Dialer {
    /// Creates a dialer for the environment of this process.
    pub fn from_env() -> Self {
        Self::with_vars(|name| std::env::var(name).ok())
    }

    /// Creates a dialer for other variables, read once now.
    pub fn with_vars(vars: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let vars = |name: &str| vars(name).filter(|value| !value.trim().is_empty());
        let inner = Inner {
            proxies: ProxySettings::from_vars(&vars),
            tls: TlsConfigs::from_vars(&vars),
        };
        Self {
            inner: Arc::new(inner),
            address_filter: None,
        }
    }

    /// Returns a dialer that connects only to addresses that `filter` accepts. It sees every
    /// address right before the connection is made, so a name cannot change in between. A proxy
    /// itself is exempt; names that a proxy resolves are not known here, only literal addresses.
    #[must_use]
    pub fn with_address_filter(
        &self,
        filter: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            address_filter: Some(Arc::new(filter)),
        }
    }

    /// Resolves the addresses of a host as [`Dialer::dial`] does.
    pub async fn resolve(&self, target: &Target) -> Result<Vec<IpAddr>, DialError> {
        let addresses = with_timeout(target, tcp::lookup(&target.host, target.port)).await?;
        Ok(addresses.into_iter().map(|address| address.ip()).collect())
    }

    /// Returns the address of the proxy that leads to `target`, without credentials; `None` if it
    /// is reached directly. A proxy resolves the names of servers itself.
    pub fn proxy_for(&self, target: &Target) -> Result<Option<String>, DialError> {
        let proxy = self.inner.proxies.proxy_for(target)?;
        Ok(proxy.map(ToString::to_string))
    }

    /// Connects to `target` for HTTP requests. A proxy forwards plain HTTP ([`Dialed::forward`]);
    /// everything else goes through a tunnel.
    pub async fn dial(
        &self,
        target: &Target,
        files: &TlsFiles,
        alpn: Alpn,
    ) -> Result<Dialed, DialError> {
        self.check_literal(target)?;
        with_timeout(target, async {
            match self.inner.proxies.proxy_for(target)? {
                Some(proxy) if !target.tls && proxy.kind != ProxyKind::Socks => Ok(Dialed {
                    stream: self.connect_proxy(proxy).await?,
                    http2: false,
                    forward: Some(Forward {
                        authorization: proxy.authorization(),
                    }),
                }),
                proxy => self.connect(proxy, target, files, alpn).await,
            }
        })
        .await
    }

    /// Connects to `target` for other protocols: through a tunnel if there is a proxy, even without
    /// TLS.
    pub async fn dial_direct(
        &self,
        target: &Target,
        files: &TlsFiles,
    ) -> Result<Stream, DialError> {
        self.check_literal(target)?;
        with_timeout(target, async {
            let proxy = self.inner.proxies.proxy_for(target)?;
            let dialed = self.connect(proxy, target, files, Alpn::Http1).await?;
            Ok(dialed.stream)
        })
        .await
    }

    /// Checks an address in the URL itself, which a proxy would otherwise connect to.
    fn check_literal(&self, target: &Target) -> Result<(), DialError> {
        match (&self.address_filter, target.host.parse()) {
            (Some(filter), Ok(address)) if !filter(address) => Err(DialError::AddressRefused {
                server: target.to_string(),
                address,
            }),
            _ => Ok(()),
        }
    }

    async fn connect(
        &self,
        proxy: Option<&Proxy>,
        target: &Target,
        files: &TlsFiles,
        alpn: Alpn,
    ) -> Result<Dialed, DialError> {
        // Report broken certificate files before using the network.
        let config = if target.tls {
            Some(self.inner.tls.config(files, Purpose::Server(alpn)).await?)
        } else {
            None
        };
        let stream = match proxy {
            None => {
                let filter = self.address_filter.as_deref();
                Stream::plain(tcp::connect(&target.host, target.port, filter).await?)
            }
            Some(proxy) => {
                let mut stream = self.connect_proxy(proxy).await?;
                match proxy.kind {
                    ProxyKind::Socks => socks::open(&mut stream, proxy, target).await?,
                    ProxyKind::Http | ProxyKind::Https => {
                        tunnel::open(&mut stream, proxy, target).await?;
                    }
                }
                stream
            }
        };
        let (stream, http2) = match config {
            Some(config) => tls::handshake(config, &target.host, stream).await?,
            None => (stream, false),
        };
        Ok(Dialed {
            stream,
            http2,
            forward: None,
        })
    }

    async fn connect_proxy(&self, proxy: &Proxy) -> Result<Stream, DialError> {
        let reached = async {
            let stream = Stream::plain(tcp::connect(&proxy.host, proxy.port, None).await?);
            if proxy.kind != ProxyKind::Https {
                return Ok(stream);
            }
            let files = TlsFiles::default();
            let config = self.inner.tls.config(&files, Purpose::Proxy).await?;
            let (stream, _) = tls::handshake(config, &proxy.host, stream).await?;
            Ok(stream)
        };
        reached.await.map_err(|error: DialError| DialError::Proxy {
            proxy: proxy.to_string(),
            error: Box::new(error),
        })
    }
}

async fn with_timeout<T>(
    target: &Target,
    dial: impl Future<Output = Result<T, DialError>>,
) -> Result<T, DialError> {
    let dialed = tokio::time::timeout(DIAL_TIMEOUT, dial).await;
    dialed.unwrap_or_else(|_| {
        Err(DialError::TimedOut {
            server: target.to_string(),
            limit: DIAL_TIMEOUT,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_target() {
        let cases = [
            ("http://a.test/x", Ok("false a.test 80")),
            ("https://a.test", Ok("true a.test 443")),
            ("ws://a.test:81", Ok("false a.test 81")),
            ("wss://[2001:db8::1]/", Ok("true 2001:db8::1 443")),
            ("http://127.1/", Ok("false 127.0.0.1 80")),
            ("ftp://a.test", Err(())),
            ("mailto:a@b", Err(())),
        ];
        for (url, expected) in cases {
            let target = Target::of(&url.parse().unwrap()).map_err(|_| ());
            let shown = target.map(|t| format!("{} {} {}", t.tls, t.host, t.port));
            assert_eq!(shown, expected.map(str::to_owned), "{url}");
        }
    }

    #[test]
    fn loopback_names_and_addresses_are_recognised() {
        let cases = [
            ("localhost", true),
            ("LocalHost.", true),
            ("a.localhost", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("localhost.test", false),
            ("10.0.0.1", false),
            ("::2", false),
        ];
        for (host, expected) in cases {
            let target = Target {
                tls: false,
                host: host.to_owned(),
                port: 1,
            };
            assert_eq!(target.is_loopback(), expected, "{host}");
        }
    }
}
