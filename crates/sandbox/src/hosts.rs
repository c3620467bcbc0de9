//! The hosts that a server may connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// The ports of a rule without one.
const WEB_PORTS: [u16; 2] = [80, 443];

/// A host, or with `*.` before it all hosts below a domain; `*` is any host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostRule {
    /// The host in lower case, without brackets.
    pub host: String,
    /// The port; `None` for 80 and 443.
    pub port: Option<u16>,
}

impl HostRule {
    /// Parses `host`, `host:port`, `*.domain:port`, `1.2.3.4:port` or `[::1]:port`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| Err(format!("\"network\": \"{text}\" {reason}"));
        let (host, port) = split_port(text);
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port),
            Some(_) => return wrong("has no port between 1 and 65535"),
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let bare = host.strip_prefix("*.").unwrap_or(&host);
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        };
        let is_name = bare.len() <= 253 && bare.split('.').all(is_label);
        if host != "*" && !is_name && host.parse::<IpAddr>().is_err() {
            return wrong("is not a host; write \"example.com:443\" or \"*.example.com\"");
        }
        Ok(Self { host, port })
    }

    /// Whether the rule allows this host and port.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let host = normal_host(host);
        let is_host = match self.host.strip_prefix('*') {
            Some("") => true,
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == self.host,
        };
        is_host
            && match self.port {
                Some(own) => own == port,
                None => WEB_PORTS.contains(&port),
            }
    }

    /// Whether a connection that the rule allows may go to an address. A name may not lead to this
    /// machine or to a cloud's metadata, and a pattern not into a private network: the rule must
    /// name those.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_named = self.host == "localhost" || self.host.parse::<IpAddr>().is_ok();
        if is_named {
            return true;
        }
        let is_pattern = self.host.starts_with('*');
        !(is_local(address) || is_pattern && is_private(address))
    }

    /// The hosts that both rules allow.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let port = match (self.port, other.port) {
            (Some(one), Some(two)) => (one == two).then_some(Some(one))?,
            (Some(one), None) | (None, Some(one)) => {
                WEB_PORTS.contains(&one).then_some(Some(one))?
            }
            (None, None) => None,
        };
        let is_below = |host: &str, pattern: &str| match pattern.strip_prefix('*') {
            Some("") => true,
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == pattern,
        };
        let host = if is_below(&self.host, &other.host) {
            &self.host
        } else if is_below(&other.host, &self.host) {
            &other.host
        } else {
            return None;
        };
        // A pattern does not allow every address, so it does not allow to name every address.
        let address = match &**host {
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            host => host.parse().ok(),
        };
        if let Some(address) = address
            && ![self, other]
                .iter()
                .all(|rule| rule.allows_address(address))
        {
            return None;
        }
        Some(Self {
            host: host.clone(),
            port,
        })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let is_v6 = self.host.parse::<Ipv6Addr>().is_ok();
        match (is_v6, self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (_, None) => f.write_str(&self.host),
        }
    }
}

fn normal_host(host: &str) -> String {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Splits `host:port`; an IPv6 address needs brackets to have a port.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => (text, None),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

/// Whether an address is this machine, or reached without a router.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.octets()[0] == 0
                || v4.is_multicast()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
        }
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private() || (a == 100 && (64..128).contains(&b))
        }
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_allows_its_host_and_ports_and_no_other() {
        for (rule, host, port, allowed) in [
            ("example.com", "example.com", 443, true),
            ("example.com", "EXAMPLE.com.", 80, true),
            ("example.com", "example.com", 22, false),
            ("example.com:22", "example.com", 22, true),
            ("example.com:22", "example.com", 443, false),
            ("example.com", "www.example.com", 443, false),
            ("example.com", "notexample.com", 443, false),
            ("*.example.com", "www.example.com", 443, true),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "notexample.com", 443, false),
            ("*:443", "anything.org", 443, true),
            ("*:443", "anything.org", 80, false),
            ("127.0.0.1:5432", "127.0.0.1", 5432, true),
            ("[::1]:80", "[::1]", 80, true),
        ] {
            let rule = HostRule::parse(rule).unwrap();
            assert_eq!(rule.matches(host, port), allowed, "{rule} {host} {port}");
            assert_eq!(HostRule::parse(&rule.to_string()).unwrap(), rule);
        }
    }

    #[test]
    fn nonsense_is_no_host() {
        for text in [
            "",
            "a b",
            "http://h",
            "h:0",
            "h:x",
            "h:70000",
            "a..b",
            "*a.com",
            "a.*.com",
            "[::1",
            "-\n",
            "user@host",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_never_leads_back_to_this_machine() {
        for (rule, address, allowed) in [
            ("example.com", "93.184.216.34", true),
            ("example.com", "127.0.0.1", false),
            ("example.com", "::1", false),
            ("example.com", "::ffff:127.0.0.1", false),
            ("example.com", "169.254.169.254", false),
            ("example.com", "0.0.0.0", false),
            ("intranet.corp", "10.0.0.1", true),
            ("*.corp", "10.0.0.1", false),
            ("*", "192.168.1.1", false),
            ("*", "fd00::1", false),
            ("*", "8.8.8.8", true),
            ("localhost:5432", "127.0.0.1", true),
            ("169.254.169.254:80", "169.254.169.254", true),
        ] {
            let rule = HostRule::parse(rule).unwrap();
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(rule.allows_address(address), allowed, "{rule} {address}");
        }
    }

    #[test]
    fn two_rules_allow_what_both_allow() {
        for (one, other, both) in [
            ("a.com", "a.com", Some("a.com")),
            ("a.com:443", "a.com", Some("a.com:443")),
            ("a.com:22", "a.com", None),
            ("a.com:22", "a.com:22", Some("a.com:22")),
            ("*.a.com", "x.a.com:443", Some("x.a.com:443")),
            ("*", "*.b.com", Some("*.b.com")),
            ("*.a.com", "*.b.com", None),
            ("a.com", "b.com", None),
        ] {
            let rule = |text| HostRule::parse(text).unwrap();
            let expected = both.map(rule);
            assert_eq!(rule(one).and(&rule(other)), expected, "{one} {other}");
            assert_eq!(rule(other).and(&rule(one)), expected, "{other} {one}");
        }
    }
}
