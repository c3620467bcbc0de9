//! Checks of `Host` and `Origin` against DNS rebinding and foreign web pages (GW-2).
//!
//! A page that rebinds its name to this machine sends its own name as `Host`, so an address or a
//! name of loopback is proof enough that no other page's name led here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue};
use url::{Host, Url};

/// The hosts and origins that may be named.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    loopback: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// The reason that a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// There is no `Host`, or more than one, or it is malformed.
    BadHost,
    /// The `Host` is not ours.
    Host,
    /// The `Origin` is not allowed.
    Origin,
}

impl Guard {
    /// `loopback` is whether the endpoint listens on loopback only.
    pub(super) fn new(loopback: bool, hosts: &[String], origins: &[String]) -> Self {
        let origin = |origin: &String| match Url::parse(origin) {
            Ok(url) => url.origin().ascii_serialization(),
            Err(_) => origin.to_ascii_lowercase(),
        };
        Self {
            loopback,
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: origins.iter().map(origin).collect(),
        }
    }

    /// Checks the headers of a request. Returns the origin to be named in the response, if any.
    pub(super) fn check<'h>(
        &self,
        headers: &'h HeaderMap,
    ) -> Result<Option<&'h HeaderValue>, Foreign> {
        let host = single(headers, &HOST).ok_or(Foreign::BadHost)?;
        let host = host.to_str().ok().and_then(parse_authority);
        let (host, _) = host.ok_or(Foreign::BadHost)?;
        if !self.allows_host(&host) {
            return Err(Foreign::Host);
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(None);
        }
        let origin = single(headers, &ORIGIN).ok_or(Foreign::Origin)?;
        let allowed = origin
            .to_str()
            .is_ok_and(|origin| self.allows_origin(origin));
        allowed.then_some(Some(origin)).ok_or(Foreign::Origin)
    }

    fn allows_host(&self, host: &Host<String>) -> bool {
        let address = match host {
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                return is_localhost(name) || self.hosts.iter().any(|host| host == name);
            }
            Host::Ipv4(address) => IpAddr::V4(*address),
            Host::Ipv6(address) => IpAddr::V6(*address),
        };
        !self.loopback || is_loopback(address) || self.hosts.contains(&address.to_string())
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let Ok(url) = Url::parse(origin) else {
            return false;
        };
        // Another spelling of the same origin, or more than an origin, is not what a browser sends.
        let serialized = url.origin().ascii_serialization();
        if !url.origin().is_tuple() || serialized != origin.to_ascii_lowercase() {
            return false;
        }
        let local = || match url.host() {
            Some(Host::Domain(name)) => is_localhost(name),
            Some(Host::Ipv4(address)) => is_loopback(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => is_loopback(IpAddr::V6(address)),
            None => false,
        };
        self.origins.contains(&serialized)
            || (self.loopback && matches!(url.scheme(), "http" | "https") && local())
    }
}

/// Returns the header, if there is exactly one.
pub(super) fn single<'h>(
    headers: &'h HeaderMap,
    name: &http::HeaderName,
) -> Option<&'h HeaderValue> {
    let mut all = headers.get_all(name).iter();
    all.next().filter(|_| all.next().is_none())
}

/// Parses `host` or `host:port`.
fn parse_authority(authority: &str) -> Option<(Host<String>, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            (host, Some(digits.then(|| port.parse().ok()).flatten()?))
        }
        _ => (authority, None),
    };
    // Anything else would be a user, a path or a second host.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let valid = !host.is_empty() && host.bytes().all(plain);
    let host = valid.then(|| Host::parse(&host.to_ascii_lowercase()).ok())??;
    Some((host, port))
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address == Ipv4Addr::UNSPECIFIED,
        IpAddr::V6(address) => {
            let mapped = address.to_ipv4_mapped();
            address == Ipv6Addr::LOCALHOST || mapped.is_some_and(|mapped| mapped.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, host: &[&str], origin: &[&str]) -> Result<bool, Foreign> {
        let mut headers = HeaderMap::new();
        for (name, values) in [(HOST, host), (ORIGIN, origin)] {
            for value in values {
                headers.append(&name, HeaderValue::from_str(value).unwrap());
            }
        }
        guard.check(&headers).map(|origin| origin.is_some())
    }

    #[test]
    fn on_loopback_only_its_own_names_and_the_allowed_ones_are_hosts() {
        let guard = Guard::new(true, &["Gate.Example".to_owned()], &[]);
        for host in [
            "localhost",
            "localhost:80",
            "LOCALHOST:8080",
            "127.0.0.1:9",
            "127.9.9.9",
            "[::1]:8080",
            "[::1]",
            "gate.example:1",
            "mcp.localhost",
            "localhost.",
        ] {
            assert_eq!(check(&guard, &[host], &[]), Ok(false), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "192.168.1.5:80",
            "xlocalhost",
            "[::2]",
        ] {
            assert_eq!(check(&guard, &[host], &[]), Err(Foreign::Host), "{host}");
        }
        for host in [
            &[][..],
            &[""],
            &["localhost", "localhost"],
            &["localhost", "evil.example"],
            &["localhost:"],
            &["localhost:99999"],
            &["localhost:80:80"],
            &["evil.example@localhost"],
            &["localhost/evil"],
            &["localhost evil"],
            &["[::1"],
        ] {
            assert_eq!(check(&guard, host, &[]), Err(Foreign::BadHost), "{host:?}");
        }
    }

    #[test]
    fn elsewhere_addresses_and_allowed_names_are_hosts() {
        let guard = Guard::new(false, &["gate.example".to_owned()], &[]);
        for host in [
            "10.0.0.1:80",
            "gate.example",
            "localhost",
            "[2001:db8::1]:443",
        ] {
            assert_eq!(check(&guard, &[host], &[]), Ok(false), "{host}");
        }
        assert_eq!(check(&guard, &["evil.example"], &[]), Err(Foreign::Host));
    }

    #[test]
    fn only_pages_of_this_machine_and_allowed_origins_may_connect() {
        let allowed = ["https://app.example".to_owned()];
        let guard = Guard::new(true, &[], &allowed);
        let public = Guard::new(false, &[], &allowed);
        let check = |guard, origin| check(guard, &["localhost"], &[origin]);
        for origin in [
            "http://localhost",
            "http://localhost:3000",
            "https://127.0.0.1:8443",
            "http://[::1]:5173",
        ] {
            assert_eq!(check(&guard, origin), Ok(true), "{origin}");
            assert_eq!(check(&public, origin), Err(Foreign::Origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://app.example",
            "https://app.example:8443",
            "https://app.example/path",
            "https://evil@app.example",
            "file://",
            "http://10.0.0.1",
            "ftp://localhost",
        ] {
            assert_eq!(check(&guard, origin), Err(Foreign::Origin), "{origin}");
        }
        assert_eq!(check(&public, "https://app.example"), Ok(true));
        let twice = super::tests::check(
            &guard,
            &["localhost"],
            &["http://localhost", "http://evil.example"],
        );
        assert_eq!(twice, Err(Foreign::Origin));
    }
}
