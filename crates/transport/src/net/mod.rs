//! How a byte stream to a server is had (TRN-2): proxies, authorities and our own certificate, as the environment and the
//! server's entry say.
//!
//! What is spoken on the stream is no business of this module: the HTTP client and the WebSocket client begin where
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

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};

pub use error::DialError;
pub use halves::{ReadHalf, WriteHalf};
use proxy::{Proxies, Proxy, ProxyKind};
pub use stream::Stream;
use tls::{Purpose, Tls};

/// How long reaching a server may take in all, from looking up its name to the end of the TLS handshake.
pub const DIAL_LIMIT: Duration = Duration::from_secs(30);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether TLS is spoken with it.
    pub tls: bool,
    /// Its name or address; an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Target {
    /// Where `url` points to; `http`, `https`, `ws` and `wss` are understood.
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

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or_else(
            |_| tcp::is_own_name(&self.host),
            |address| address.to_canonical().is_loopback(),
        )
    }
}

/// `host:port`, with brackets where they are needed.
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

/// The certificates of one server's entry: names of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// Authorities to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// Our certificate, with what links it to an authority.
    pub cert: Option<PathBuf>,
    /// Its private key; by default it is looked for in the certificate's file.
    pub key: Option<PathBuf>,
}

/// Which versions of HTTP are offered in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2, or else HTTP/1.1.
    Http1Or2,
}

/// A stream to a server, and how to speak on it.
#[derive(Debug)]
pub struct Dialed {
    /// The stream.
    pub stream: Stream,
    /// Whether HTTP/2 was agreed on.
    pub http2: bool,
    /// Set when the stream ends at a proxy that takes requests in absolute form.
    pub forward: Option<Forward>,
}

/// An HTTP proxy that takes plain-HTTP requests in absolute form on this very stream.
#[derive(Clone, Debug)]
pub struct Forward {
    /// What goes into the `Proxy-Authorization` header of each request.
    pub authorization: Option<http::HeaderValue>,
}

/// Reaches servers as the environment says: proxies, authorities, our certificate. Cheap to clone; what it loads it loads
/// once.
///
/// A server on this machine is never reached through a proxy, whatever `NO_PROXY` says: the proxy's `localhost` is not ours.
#[derive(Clone)]
pub struct Dialer(Arc<Inner>);

struct Inner {
    proxies: Proxies,
    tls: Tls,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Dialer {
    /// A dialer for the process's own environment.
    pub fn from_env() -> Self {
        Self::with_vars(|name| std::env::var(name).ok())
    }

    /// A dialer for an environment of the caller's making; `vars` is asked now and not again.
    pub fn with_vars(vars: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let vars = |name: &str| vars(name).filter(|value| !value.trim().is_empty());
        Self(Arc::new(Inner {
            proxies: Proxies::from_vars(&vars),
            tls: Tls::from_vars(&vars),
        }))
    }

    /// Reaches `target` for HTTP requests. Where a proxy is to be used, plain HTTP is left to it
    /// ([`Dialed::forward`]), and everything else goes through a tunnel.
    pub async fn dial(
        &self,
        target: &Target,
        files: &TlsFiles,
        alpn: Alpn,
    ) -> Result<Dialed, DialError> {
        within_limit(target, async {
            match self.0.proxies.choose(target)? {
                Some(proxy) if !target.tls && proxy.kind != ProxyKind::Socks => Ok(Dialed {
                    stream: self.reach_proxy(proxy).await?,
                    http2: false,
                    forward: Some(Forward {
                        authorization: proxy.authorization(),
                    }),
                }),
                proxy => self.reach(proxy, target, files, alpn).await,
            }
        })
        .await
    }

    /// Reaches `target` for anything but HTTP requests: a proxy is asked for a tunnel even without TLS.
    pub async fn dial_direct(
        &self,
        target: &Target,
        files: &TlsFiles,
    ) -> Result<Stream, DialError> {
        within_limit(target, async {
            let proxy = self.0.proxies.choose(target)?;
            let dialed = self.reach(proxy, target, files, Alpn::Http1).await?;
            Ok(dialed.stream)
        })
        .await
    }

    async fn reach(
        &self,
        proxy: Option<&Proxy>,
        target: &Target,
        files: &TlsFiles,
        alpn: Alpn,
    ) -> Result<Dialed, DialError> {
        // A broken certificate file is found before anything goes over the network.
        let config = if target.tls {
            Some(self.0.tls.config(files, Purpose::Server(alpn)).await?)
        } else {
            None
        };
        let stream = match proxy {
            None => Stream::plain(tcp::connect(&target.host, target.port).await?),
            Some(proxy) => {
                let mut stream = self.reach_proxy(proxy).await?;
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

    async fn reach_proxy(&self, proxy: &Proxy) -> Result<Stream, DialError> {
        let reached = async {
            let stream = Stream::plain(tcp::connect(&proxy.host, proxy.port).await?);
            if proxy.kind != ProxyKind::Https {
                return Ok(stream);
            }
            let files = TlsFiles::default();
            let config = self.0.tls.config(&files, Purpose::Proxy).await?;
            let (stream, _) = tls::handshake(config, &proxy.host, stream).await?;
            Ok(stream)
        };
        reached.await.map_err(|error: DialError| DialError::Proxy {
            proxy: proxy.to_string(),
            error: Box::new(error),
        })
    }
}

async fn within_limit<T>(
    target: &Target,
    dial: impl Future<Output = Result<T, DialError>>,
) -> Result<T, DialError> {
    let dialed = tokio::time::timeout(DIAL_LIMIT, dial).await;
    dialed.unwrap_or_else(|_| {
        Err(DialError::TimedOut {
            server: target.to_string(),
            limit: DIAL_LIMIT,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_its_server_is() {
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
    fn this_machine_is_known_by_all_its_names() {
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
