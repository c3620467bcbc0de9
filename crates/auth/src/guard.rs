//! The addresses that may be dialled and the URLs that may be used (AUTH-11).
//!
//! Metadata comes from servers, and its URLs could point anywhere: into the private network behind
//! us, at the metadata service of a cloud, or at a program that opens URLs. Each URL is checked
//! before use, and each address right before it is dialled.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::error::{AuthError, AuthErrorKind};

/// The part of the network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The internet.
    Public,
    /// A private network.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, multicast, reserved and documentation addresses. Never dialled: link-local
    /// addresses include the metadata services of clouds.
    Special,
}

impl Reach {
    /// The reach of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// The reach of a server with these addresses: the widest of them, so that adding a private
    /// address to a public name gains nothing.
    pub fn of_server(addresses: &[IpAddr]) -> Self {
        let reaches = || addresses.iter().map(|address| Self::of(*address));
        [Self::Public, Self::Private, Self::Loopback, Self::Special]
            .into_iter()
            .find(|reach| reaches().any(|found| found == *reach))
            .unwrap_or(Self::Public)
    }

    /// Whether an MCP server with this reach may send us to `address`.
    pub fn may_dial(self, address: IpAddr) -> bool {
        self.may_lead_to(Self::of(address))
    }

    /// Whether an MCP server with this reach may send us to one with another reach.
    pub(crate) fn may_lead_to(self, other: Self) -> bool {
        match other {
            Self::Public => true,
            Self::Private => matches!(self, Self::Private | Self::Loopback),
            Self::Loopback => self == Self::Loopback,
            Self::Special => false,
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Reach::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) | (198, 18..=19, _) => {
            Reach::Private
        }
        (0 | 224..=255, ..) | (169, 254, _) | (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) => {
            Reach::Special
        }
        _ => Reach::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Reach {
    /// The metadata service of AWS, inside the private range.
    const AWS_METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        of_v4(Ipv4Addr::new(a, b, c, d))
    };
    if address == Ipv6Addr::LOCALHOST {
        return Reach::Loopback;
    }
    match address.segments() {
        _ if address == AWS_METADATA => Reach::Special,
        // NAT64, 6to4 and IPv4-compatible addresses lead to IPv4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Reach::Private,
        // Link-local, multicast, Teredo and documentation.
        [first, ..] if first & 0xffc0 == 0xfe80 || first & 0xff00 == 0xff00 => Reach::Special,
        [0x2001, 0 | 0xdb8, ..] => Reach::Special,
        // Only 2000::/3 is assigned.
        [first, ..] if first & 0xe000 == 0x2000 => Reach::Public,
        _ => Reach::Special,
    }
}

/// Whether the host of a URL is this machine by its spelling: `localhost` or a loopback address.
pub(crate) fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => Reach::of(address.into()) == Reach::Loopback,
        Some(Host::Ipv6(address)) => Reach::of(address.into()) == Reach::Loopback,
        None => false,
    }
}

/// Checks a URL that a server named, before a request to it: https, or http on this machine if the
/// server is on this machine too.
pub(crate) fn check_url(url: &Url, server: Reach) -> Result<(), AuthError> {
    let refuse = |reason: &str| {
        let shown = shown(url);
        let text = format!("{shown} may not be used: {reason}");
        Err(AuthError::new(AuthErrorKind::Refused, text))
    };
    match url.scheme() {
        "https" => {}
        "http" if is_loopback_url(url) => {}
        "http" => return refuse("it is not an https URL"),
        _ => return refuse("it is neither an https nor an http URL"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it contains a user name or a password");
    }
    let literal = match url.host() {
        None => return refuse("it has no host"),
        Some(Host::Domain(_)) if is_loopback_url(url) => Some(Ipv4Addr::LOCALHOST.into()),
        Some(Host::Domain(_)) => None,
        Some(Host::Ipv4(address)) => Some(IpAddr::from(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::from(address)),
    };
    if literal.is_some_and(|address| !server.may_dial(address)) {
        return refuse("the server is not on that network");
    }
    Ok(())
}

/// The longest URL that a server may name, in bytes. It is stored with the tokens, beside those of
/// other servers.
pub(crate) const MAX_URL: usize = 2048;

/// The longest URL for a browser: scopes make it long, and some systems pass no longer arguments.
const MAX_BROWSER_URL: usize = 32 * 1024;

/// Parses and checks a URL that a server named.
pub(crate) fn parse_url(text: &str, what: &str, server: Reach) -> Result<Url, AuthError> {
    check_length(text, what)?;
    let url = Url::parse(text).map_err(|error| {
        let text = crate::error::foreign(text);
        let text = format!("the {what} {text:?} is not a URL: {error}");
        AuthError::new(AuthErrorKind::Metadata, text)
    })?;
    // Encoding makes it longer.
    check_length(url.as_str(), what)?;
    check_url(&url, server).map_err(|error| error.context(what))?;
    Ok(url)
}

/// Checks that tokens for a server with this reach do not travel through the internet in the clear.
pub(crate) fn check_confidential(server: &Url, reach: Reach) -> Result<(), AuthError> {
    if server.scheme() == "https" || matches!(reach, Reach::Private | Reach::Loopback) {
        return Ok(());
    }
    let shown = shown(server);
    let text = format!("{shown} is not an https URL: a token would be sent in the clear");
    Err(AuthError::new(AuthErrorKind::Refused, text))
}

/// Checks the length of a URL or identifier that a server named, and that it is visible text: the
/// URL parser strips control characters, but the text is compared and stored as it is.
pub(crate) fn check_length(text: &str, what: &str) -> Result<(), AuthError> {
    let refuse = |reason: &str| {
        let text = format!("the {what} is not usable: {reason}");
        Err(AuthError::new(AuthErrorKind::Metadata, text))
    };
    if text.len() > MAX_URL {
        return refuse("it is too long");
    }
    if text.contains(|c: char| c.is_control() || (c.is_whitespace() && c != ' ')) {
        return refuse("it contains control characters or unusual spaces");
    }
    Ok(())
}

/// A URL for a message: without user, password, query and fragment.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    crate::error::foreign(url.as_str())
}

/// A URL that is safe to hand to a browser: https, or http on this machine, and nothing in it that
/// a shell or an option parser would interpret, except `&`.
///
/// ```
/// use trunkline_auth::BrowserUrl;
///
/// let url = BrowserUrl::new(&"https://as.example/authorize?a=$(id)&b='x'".parse()?)?;
/// assert_eq!(url.as_str(), "https://as.example/authorize?a=%24%28id%29&b=%27x%27");
/// assert!(BrowserUrl::new(&"file:///etc/passwd".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserUrl(String);

impl BrowserUrl {
    /// Checks and encodes a URL.
    pub fn new(url: &Url) -> Result<Self, AuthError> {
        // A browser reaches this machine whatever the server; the user sees the address.
        check_url(url, Reach::Loopback)?;
        let mut text = String::new();
        for c in url.as_str().chars() {
            if c.is_ascii_alphanumeric() || "-._~:/?#[]@&+,=%".contains(c) {
                text.push(c);
            } else {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "%{byte:02X}");
                }
            }
        }
        if text.len() > MAX_BROWSER_URL {
            let text = format!("the URL for the browser is longer than {MAX_BROWSER_URL} bytes");
            return Err(AuthError::new(AuthErrorKind::Refused, text));
        }
        Ok(Self(text))
    }

    pub(crate) fn to_url(&self) -> Result<Url, AuthError> {
        parse_url(&self.0, "URL for the browser", Reach::Loopback)
    }

    /// The URL as text. It contains the state of a sign-in, but no secret that redeems it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BrowserUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BrowserUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_reach() {
        use Reach::{Loopback, Private, Public, Special};
        let cases = [
            ("1.1.1.1", Public),
            ("172.32.0.1", Public),
            ("10.1.2.3", Private),
            ("172.16.0.1", Private),
            ("192.168.1.1", Private),
            ("100.100.100.100", Private),
            ("127.8.8.8", Loopback),
            ("0.0.0.0", Special),
            ("169.254.169.254", Special),
            ("192.0.2.1", Special),
            ("224.0.0.1", Special),
            ("255.255.255.255", Special),
            ("::1", Loopback),
            ("::", Special),
            ("::ffff:10.0.0.1", Private),
            ("::ffff:169.254.169.254", Special),
            ("::127.0.0.1", Loopback),
            ("64:ff9b::a00:1", Private),
            ("2002:7f00:1::", Loopback),
            ("2606:4700::1111", Public),
            ("fd12::1", Private),
            ("fd00:ec2::254", Special),
            ("fe80::1", Special),
            ("ff02::1", Special),
            ("2001:db8::1", Special),
            ("2001::1", Special),
            ("4000::1", Special),
        ];
        for (address, expected) in cases {
            assert_eq!(Reach::of(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_server_leads_only_to_networks_it_can_see() {
        use Reach::{Loopback, Private, Public};
        let cases = [
            (Public, "1.1.1.1", true),
            (Public, "10.0.0.1", false),
            (Public, "127.0.0.1", false),
            (Private, "10.0.0.1", true),
            (Private, "127.0.0.1", false),
            (Private, "169.254.169.254", false),
            (Loopback, "127.0.0.1", true),
            (Loopback, "10.0.0.1", true),
            (Loopback, "169.254.169.254", false),
        ];
        for (server, address, expected) in cases {
            let may = server.may_dial(address.parse().unwrap());
            assert_eq!(may, expected, "{server:?} {address}");
        }
        let mixed = ["10.0.0.1".parse().unwrap(), "1.1.1.1".parse().unwrap()];
        assert_eq!(Reach::of_server(&mixed), Public);
        assert_eq!(Reach::of_server(&mixed[..1]), Private);
        assert_eq!(Reach::of_server(&[]), Public);
    }

    #[test]
    fn urls_are_checked() {
        use Reach::{Loopback, Private, Public};
        let cases = [
            ("https://as.example/x", Public, true),
            ("http://as.example/x", Public, false),
            ("http://as.example/x", Loopback, false),
            ("http://10.0.0.1/", Private, false),
            ("https://10.0.0.1/", Private, true),
            ("https://10.0.0.1/", Public, false),
            ("https://[::ffff:a00:1]/", Public, false),
            ("https://2130706433/", Public, false),
            ("http://localhost:1/", Loopback, true),
            ("http://127.0.0.1:1/", Loopback, true),
            ("https://localhost/", Public, false),
            ("http://a.localhost/", Public, false),
            ("https://169.254.169.254/latest", Loopback, false),
            ("https://user@as.example/", Public, false),
            ("javascript:alert(1)", Loopback, false),
            ("file:///etc/passwd", Loopback, false),
            ("data:text/html,x", Loopback, false),
        ];
        for (url, server, expected) in cases {
            let allowed = check_url(&Url::parse(url).unwrap(), server).is_ok();
            assert_eq!(allowed, expected, "{url} {server:?}");
        }
    }

    #[test]
    fn no_token_travels_through_the_internet_in_the_clear() {
        for (url, reach, expected) in [
            ("https://a.example/", Reach::Public, true),
            ("http://a.example/", Reach::Public, false),
            ("http://a.example/", Reach::Special, false),
            ("http://intranet.example/", Reach::Private, true),
            ("http://localhost:1/", Reach::Loopback, true),
        ] {
            let checked = check_confidential(&Url::parse(url).unwrap(), reach);
            assert_eq!(checked.is_ok(), expected, "{url} {reach:?}");
        }
    }

    #[test]
    fn urls_of_servers_are_bounded_visible_text() {
        let parse = |text: &str| parse_url(text, "endpoint", Reach::Public);
        let of_length = |length| format!("https://a.example/{:x<1$}", "", length - 18);
        assert!(parse(&of_length(MAX_URL)).is_ok());
        let encoded = format!("https://a.example/{}", "é".repeat(MAX_URL / 3));
        for bad in [
            of_length(MAX_URL + 1).as_str(),
            &encoded,
            "https://a.exa\tmple/",
            "https://a.example/\n",
            "https://a.example/\u{2028}",
        ] {
            assert_eq!(parse(bad).unwrap_err().kind(), AuthErrorKind::Metadata);
        }
    }

    #[test]
    fn a_browser_gets_only_harmless_urls() {
        let cases = [
            (
                "https://a.example/x?y=1&z=%20#f",
                Some("https://a.example/x?y=1&z=%20#f"),
            ),
            (
                "https://a.example/`id`;$(x)|y>\\z\"'",
                Some("https://a.example/%60id%60%3B%24%28x%29%7Cy%3E/z%22%27"),
            ),
            ("http://localhost:8080/a", Some("http://localhost:8080/a")),
            ("http://a.example/", None),
            ("javascript:alert(1)", None),
            ("file:///bin/sh", None),
            ("ssh://-oProxyCommand=x/", None),
        ];
        for (url, expected) in cases {
            let made = BrowserUrl::new(&Url::parse(url).unwrap()).ok();
            assert_eq!(made.as_ref().map(BrowserUrl::as_str), expected, "{url}");
        }
        let long = format!("https://a.example/{}", "é".repeat(MAX_BROWSER_URL / 6));
        assert!(BrowserUrl::new(&Url::parse(&long).unwrap()).is_err());
        // Nothing that starts with a dash is a URL.
        assert!(Url::parse("-oProxyCommand=x").is_err());
    }
}
