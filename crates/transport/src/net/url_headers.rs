//! Request headers that follow from a URL, for HTTP and WebSocket.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

/// The `Host` header: without the default port.
pub(crate) fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// The `Authorization` header for the user and password of a URL.
pub(crate) fn basic_auth(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    basic(
        &decoded(url.username()),
        &decoded(url.password().unwrap_or_default()),
    )
}

/// Basic authentication; the value is marked as sensitive.
pub(super) fn basic(user: &[u8], password: &[u8]) -> Option<HeaderValue> {
    let encoded = BASE64_STANDARD.encode([user, b":", password].concat());
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_in_the_url_become_basic_auth() {
        let of = |url: &str| basic_auth(&Url::parse(url).unwrap());
        assert_eq!(of("https://h/"), None);
        assert_eq!(of("https://me:p%40ss@h/").unwrap(), "Basic bWU6cEBzcw==");
        assert_eq!(of("https://me@h/").unwrap(), "Basic bWU6");
    }

    #[test]
    fn the_host_has_a_port_unless_it_is_the_default() {
        for (url, expected) in [
            ("ws://h:80/x", "h"),
            ("wss://h:80/x", "h:80"),
            ("http://[::1]:8080/", "[::1]:8080"),
        ] {
            let host = host(&Url::parse(url).unwrap());
            assert_eq!(host.as_deref(), Some(expected), "{url}");
        }
    }
}
