//! The choice of proxy for a server.

use std::fmt;

use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::no_proxy::NoProxy;
use super::url_headers::basic;
use super::{DialError, Target, authority};

/// The proxies of the environment. An unusable setting is an error only for servers that need it.
pub(super) struct ProxySettings {
    plain: Option<Result<Proxy, DialError>>,
    tls: Option<Result<Proxy, DialError>>,
    no_proxy: NoProxy,
}

/// A proxy. Its `Display` output has no credentials.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) kind: ProxyKind,
    pub(super) host: String,
    pub(super) port: u16,
    /// User name and password.
    pub(super) credentials: Option<(String, String)>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    Http,
    Https,
    /// SOCKS 5. The proxy resolves names, so `socks5` means `socks5h`.
    Socks,
}

impl ProxySettings {
    /// Lower-case variables take precedence, as in curl and Node.
    pub(super) fn from_vars(vars: &dyn Fn(&str) -> Option<String>) -> Self {
        let setting = |names: &[&'static str]| {
            let mut values = names.iter().map(|name| (*name, vars(name)));
            values.find_map(|(name, value)| Some(Proxy::parse(name, &value?)))
        };
        // In a CGI program, `HTTP_PROXY` is the `Proxy` header of a request.
        let plain: &[_] = match vars("REQUEST_METHOD") {
            Some(_) => &["http_proxy"],
            None => &["http_proxy", "HTTP_PROXY"],
        };
        let all = setting(&["all_proxy", "ALL_PROXY"]);
        let no_proxy = vars("no_proxy").or_else(|| vars("NO_PROXY"));
        Self {
            plain: setting(plain).or_else(|| all.clone()),
            tls: setting(&["https_proxy", "HTTPS_PROXY"]).or(all),
            no_proxy: NoProxy::parse(&no_proxy.unwrap_or_default()),
        }
    }

    /// The proxy for `target`.
    pub(super) fn proxy_for(&self, target: &Target) -> Result<Option<&Proxy>, DialError> {
        let setting = if target.tls { &self.tls } else { &self.plain };
        match setting {
            Some(_) if target.is_loopback() || self.no_proxy.contains(target) => Ok(None),
            Some(Ok(proxy)) => Ok(Some(proxy)),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(None),
        }
    }
}

impl Proxy {
    /// Errors do not show the value: it may contain a password.
    fn parse(variable: &'static str, value: &str) -> Result<Self, DialError> {
        let setting_error = |error: String| DialError::ProxySetting { variable, error };
        let value = value.trim();
        let url = if value.contains("://") {
            Url::parse(value)
        } else {
            Url::parse(&format!("http://{value}"))
        };
        let url =
            url.map_err(|error| setting_error(format!("is not the URL of a proxy: {error}")))?;
        let (kind, default_port) = match url.scheme() {
            "http" => (ProxyKind::Http, 80),
            "https" => (ProxyKind::Https, 443),
            "socks5" | "socks5h" => (ProxyKind::Socks, 1080),
            other => {
                return Err(setting_error(format!(
                    "names a kind of proxy that is not supported: {other}:"
                )));
            }
        };
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(setting_error("names no host".to_owned())),
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decoded(user), decoded(password.unwrap_or_default()))),
        };
        Ok(Self {
            kind,
            host,
            port: url.port().unwrap_or(default_port),
            credentials,
        })
    }

    /// The `Proxy-Authorization` header.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.credentials.as_ref()?;
        basic(user.as_bytes(), password.as_bytes())
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&authority(&self.host, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy chosen for a URL with these variables.
    fn chosen(vars: &str, url: &str) -> String {
        let vars: Vec<_> = vars
            .split_whitespace()
            .filter_map(|var| var.split_once('='))
            .collect();
        let vars = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxies = ProxySettings::from_vars(&vars);
        let target = Target::of(&url.parse().unwrap()).unwrap();
        match proxies.proxy_for(&target) {
            Ok(Some(proxy)) => format!("{:?} {proxy}", proxy.kind),
            Ok(None) => "direct".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_environment_chooses_the_proxy() {
        let wrong_kind = "ALL_PROXY names a kind of proxy that is not supported: socks4:";
        let wrong_url = "ALL_PROXY is not the URL of a proxy: invalid port number";
        let cases = [
            ("", "https://a.test", "direct"),
            ("HTTPS_PROXY=http://p:1", "https://a.test", "Http p:1"),
            ("HTTPS_PROXY=http://p:1", "wss://a.test", "Http p:1"),
            ("HTTPS_PROXY=http://p:1", "http://a.test", "direct"),
            ("HTTP_PROXY=p:1", "http://a.test", "Http p:1"),
            ("HTTP_PROXY=p:1", "ws://a.test", "Http p:1"),
            ("http_proxy=p:1 HTTP_PROXY=q:1", "http://a.test", "Http p:1"),
            (
                "HTTP_PROXY=q:1 REQUEST_METHOD=GET",
                "http://a.test",
                "direct",
            ),
            (
                "http_proxy=p:1 REQUEST_METHOD=GET",
                "http://a.test",
                "Http p:1",
            ),
            ("ALL_PROXY=https://p", "http://a.test", "Https p:443"),
            (
                "ALL_PROXY=socks5://[::9]",
                "https://a.test",
                "Socks [::9]:1080",
            ),
            (
                "HTTPS_PROXY=p:1 NO_PROXY=a.test",
                "https://a.test",
                "direct",
            ),
            ("ALL_PROXY=p:1", "http://localhost:8080", "direct"),
            ("ALL_PROXY=p:1", "http://[::1]:8080", "direct"),
            ("ALL_PROXY=socks4://u:hush@p", "http://a.test", wrong_kind),
            (
                "ALL_PROXY=http://u:hush@p:99999",
                "http://a.test",
                wrong_url,
            ),
            (
                "ALL_PROXY=http://u:hush@p:99999",
                "http://127.0.0.1",
                "direct",
            ),
        ];
        for (vars, url, expected) in cases {
            assert_eq!(chosen(vars, url), expected, "{vars} {url}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_displayed() {
        let proxy = Proxy::parse("ALL_PROXY", "http://me:p%40ss@proxy.test:3128").unwrap();
        let value = proxy.authorization().unwrap();
        assert_eq!(value, "Basic bWU6cEBzcw==");
        assert_eq!(format!("{value:?} {proxy}"), "Sensitive proxy.test:3128");
    }
}
