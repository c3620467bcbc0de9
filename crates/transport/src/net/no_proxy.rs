//! `NO_PROXY`: hosts that are reached without the proxy.

use std::net::IpAddr;

use super::Target;

/// The parsed list.
#[derive(Debug, Default)]
pub(super) struct NoProxy(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    hosts: Hosts,
    /// `None` matches every port.
    port: Option<u16>,
}

#[derive(Debug)]
enum Hosts {
    All,
    /// The domain and its subdomains.
    Domain(String),
    /// Addresses with the same leading bits.
    Network {
        address: IpAddr,
        bits: u8,
    },
}

impl NoProxy {
    /// Parses a list separated by commas or white space.
    pub(super) fn parse(list: &str) -> Self {
        let entries = list.split(|c: char| c == ',' || c.is_whitespace());
        Self(entries.filter_map(Rule::parse).collect())
    }

    pub(super) fn contains(&self, target: &Target) -> bool {
        let host = target.host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|a| a.to_canonical());
        self.0.iter().any(|rule| {
            rule.port.is_none_or(|port| port == target.port) && rule.hosts.contain(&host, address)
        })
    }
}

impl Rule {
    fn parse(entry: &str) -> Option<Self> {
        if let Some(hosts) = Hosts::parse(entry) {
            return Some(Self { hosts, port: None });
        }
        let (hosts, port) = entry.rsplit_once(':')?;
        Some(Self {
            hosts: Hosts::parse(hosts)?,
            port: Some(port.parse().ok()?),
        })
    }
}

impl Hosts {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        let (plain, bits) = match text.rsplit_once('/') {
            Some((plain, bits)) => (plain, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let plain = plain
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(plain);
        if let Ok(address) = plain.parse::<IpAddr>() {
            let address = address.to_canonical();
            let all = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.unwrap_or(all);
            return (bits <= all).then_some(Self::Network { address, bits });
        }
        let domain = plain.strip_prefix('*').unwrap_or(plain);
        let domain = domain.trim_matches('.').to_ascii_lowercase();
        let named = bits.is_none() && !domain.is_empty() && !domain.contains(':');
        named.then_some(Self::Domain(domain))
    }

    fn contain(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Domain(domain), None) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            (Self::Network { address, bits }, Some(other)) => same_bits(*address, other, *bits),
            _ => false,
        }
    }
}

fn same_bits(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differing = one.to_bits() ^ other.to_bits();
            differing.leading_zeros() >= u32::from(bits)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differing = one.to_bits() ^ other.to_bits();
            differing.leading_zeros() >= u32::from(bits)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_interpreted_as_in_curl() {
        let cases = [
            ("", "a.test:80", false),
            ("*", "a.test:80", true),
            ("a.test", "a.test:80", true),
            ("a.test", "A.TEST.:80", true),
            ("a.test", "b.a.test:80", true),
            ("a.test", "ba.test:80", false),
            (".a.test", "a.test:80", true),
            (".a.test", "b.a.test:80", true),
            ("*.a.test", "b.a.test:80", true),
            ("b.test , a.test", "a.test:80", true),
            ("b.test a.test", "a.test:80", true),
            ("a.test:81", "a.test:80", false),
            ("a.test:80", "a.test:80", true),
            ("*:80", "a.test:80", true),
            ("10.0.0.1", "10.0.0.1:80", true),
            ("10.0.0.1", "10.0.0.11:80", false),
            ("10.0.0.0/8", "10.9.8.7:80", true),
            ("10.0.0.0/8", "11.0.0.1:80", false),
            ("0.0.0.0/0", "11.0.0.1:80", true),
            ("10.0.0.0/33", "10.0.0.0:80", false),
            ("10.0.0.0/8:81", "10.9.8.7:80", false),
            ("10.0.0.1:80", "10.0.0.1:80", true),
            ("0.0.0.1", "10.0.0.1:80", false),
            ("2001:db8::/32", "[2001:db8:1::9]:80", true),
            ("2001:db8::/32", "[2001:db9::]:80", false),
            ("[2001:db8::1]", "[2001:db8::1]:80", true),
            ("[2001:db8::1]:81", "[2001:db8::1]:80", false),
            ("[2001:db8::1]:80", "[2001:db8::1]:80", true),
            ("::ffff:10.0.0.1", "10.0.0.1:80", true),
            ("::/0", "10.0.0.1:80", false),
            (".", "a.test:80", false),
            ("a.test:x", "a.test:80", false),
        ];
        for (list, target, expected) in cases {
            let (host, port) = target.rsplit_once(':').unwrap();
            let target = Target {
                tls: false,
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port.parse().unwrap(),
            };
            assert_eq!(
                NoProxy::parse(list).contains(&target),
                expected,
                "{list:?} {target}"
            );
        }
    }
}
