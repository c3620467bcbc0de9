//! The token of a remote Claude Code session (AUTH-10).
//!
//! The session's environment supplies it for Anthropic's own servers. It goes nowhere else,
//! whatever a configuration says.

use std::sync::Arc;

use trunkline::ServerEntry;
use trunkline::auth::{Credentials, FixedToken, Token};
use trunkline::config::TransportEntry;
use trunkline_config::env_vars;
use url::Url;

/// The domains that the token is for.
const DOMAINS: [&str; 2] = ["claude.ai", "anthropic.com"];

/// Finds the credentials of a server.
type Find = Box<dyn Fn(&ServerEntry) -> Option<Arc<dyn Credentials>> + Send + Sync>;

/// Returns what finds the credentials, if the environment has a token.
pub(crate) fn credentials() -> Option<Find> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let token = Token::bearer(&set(env_vars::CLAUDE_CODE_SESSION_ACCESS_TOKEN)?)?;
    let token: Arc<dyn Credentials> = Arc::new(FixedToken(token));
    let own = set(env_vars::TRUNKLINE_CLAUDEAI_URL).and_then(|url| url.parse().ok());
    let own = own.filter(|url: &Url| url.scheme() == "https" || is_loopback(url));
    Some(Box::new(move |entry| {
        is_for(entry, own.as_ref()).then(|| Arc::clone(&token))
    }))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Returns whether the token is for a server: one of Anthropic's over https, or one at the origin
/// that replaces claude.ai.
fn is_for(entry: &ServerEntry, own: Option<&Url>) -> bool {
    let TransportEntry::Http(http) = &entry.transport else {
        return false;
    };
    let mut headers = http.headers.keys();
    if headers.any(|name| name.eq_ignore_ascii_case("authorization")) {
        return false;
    }
    let Ok(url) = http.url.parse() else {
        return false;
    };
    if own.is_some_and(|own| own.origin() == url.origin()) {
        return true;
    }
    let is_in = |host: &str, domain: &&str| {
        host == *domain
            || host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    url.scheme() == "https"
        && url
            .host_str()
            .is_some_and(|host| DOMAINS.iter().any(|domain| is_in(host, domain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_only_to_anthropic() {
        let own: Url = "http://127.0.0.1:9/".parse().unwrap();
        for (url, expected) in [
            ("https://claude.ai/mcp", true),
            ("https://mcp-proxy.anthropic.com/v1/x", true),
            ("http://claude.ai/mcp", false),
            ("https://claude.ai.evil.example/", false),
            ("https://evilclaude.ai/", false),
            ("https://claude.ai@evil.example/", false),
            ("http://127.0.0.1:9/mcp", true),
            ("http://127.0.0.1:10/mcp", false),
            ("wss://claude.ai/", false),
        ] {
            let entry = ServerEntry::http("s", url);
            assert_eq!(is_for(&entry, Some(&own)), expected, "{url}");
        }
        let keyed = ServerEntry::http("s", "https://claude.ai/").header("Authorization", "x");
        assert!(!is_for(&keyed, None));
    }
}
