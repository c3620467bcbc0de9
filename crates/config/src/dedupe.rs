//! Finds entries that are the same server under two names (CFG-8).

use std::collections::HashMap;

use serde_json::json;
use url::Url;

use crate::entry::ServerEntry;
use crate::scopes::Scope;

/// The query parameter of a proxy URL that carries the vendor's URL.
const VENDOR_URL: &str = "mcp_url";

/// The maximum number of chained proxies.
const MAX_PROXIES: usize = 3;

/// The number of URLs that a URL carries.
pub(crate) fn proxied(url: &Url) -> usize {
    let carried = url.query_pairs().filter(|(name, _)| is_vendor(name));
    carried.count()
}

/// Proxies differ in whether case counts.
fn is_vendor(name: &str) -> bool {
    name.eq_ignore_ascii_case(VENDOR_URL)
}

/// The vendor's URL, if this is the URL of a proxy.
pub(crate) fn unwrap_proxy(url: &Url) -> Option<String> {
    let mut pairs = url.query_pairs();
    let (_, vendor) = pairs.find(|(name, _)| is_vendor(name))?;
    (!vendor.is_empty()).then(|| vendor.into_owned())
}

/// Identifies an entry by content: two with the same signature are one server. `None` if it cannot
/// be determined.
///
/// ```
/// use trunkline_config::{ServerEntry, signature};
///
/// let entry = ServerEntry::stdio("s", "npx", ["-y", "server"]);
/// assert_eq!(signature(&entry).unwrap(), r#"stdio:["npx","-y","server"]"#);
/// ```
pub fn signature(entry: &ServerEntry) -> Option<String> {
    match entry.resolved_argv() {
        Some(argv) => Some(format!("stdio:{}", json!(argv))),
        None => entry.transport.url().map(|url| url_signature(url.expose())),
    }
}

fn url_signature(text: &str) -> String {
    let mut text = text.trim().to_owned();
    // A proxy behind a proxy is unwrapped too, up to a limit.
    for _ in 0..MAX_PROXIES {
        let vendor = Url::parse(&text).ok().and_then(|url| unwrap_proxy(&url));
        match vendor {
            Some(vendor) => text = vendor,
            None => break,
        }
    }
    match Url::parse(&text) {
        Ok(url) => format!("url:{url}"),
        Err(_) => format!("url:{text}"),
    }
}

/// Maps each entry that is a duplicate to the entry that is kept. `running` are the entries that
/// would otherwise run, in the order of loading: an entry that does not run suppresses nothing.
///
/// A manual entry beats a plugin's and a connector; a plugin's beats a connector; of two plugins
/// the first wins.
pub(crate) fn duplicates(running: &[&ServerEntry]) -> HashMap<usize, usize> {
    let mut manual: HashMap<String, usize> = HashMap::new();
    let mut plugins: HashMap<String, usize> = HashMap::new();
    if running.iter().all(|entry| entry.scope.is_manual()) {
        return HashMap::new();
    }
    let signatures: Vec<_> = running.iter().map(|entry| signature(entry)).collect();
    for (index, (entry, signature)) in running.iter().zip(&signatures).enumerate() {
        if let (true, Some(signature)) = (entry.scope.is_manual(), signature) {
            manual.entry(signature.clone()).or_insert(index);
        }
    }
    let mut losers = HashMap::new();
    // Plugins first, because connectors give way to them.
    for scope in [Scope::Plugin, Scope::ClaudeAi] {
        for (index, (entry, signature)) in running.iter().zip(&signatures).enumerate() {
            let Some(signature) = signature.as_ref().filter(|_| entry.scope == scope) else {
                continue;
            };
            match manual.get(signature).or(plugins.get(signature)) {
                Some(twin) => _ = losers.insert(index, *twin),
                None if scope == Scope::Plugin => _ = plugins.insert(signature.clone(), index),
                None => {}
            }
        }
    }
    losers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{ServerUrl, TransportEntry};
    use proptest::prelude::*;

    fn remote(name: &str, scope: Scope, url: &str) -> ServerEntry {
        let transport = TransportEntry::ClaudeAiProxy {
            url: ServerUrl::new(url),
            id: None,
            proxy: None,
        };
        ServerEntry {
            scope,
            ..ServerEntry::new(name, transport)
        }
    }

    #[test]
    fn proxies_are_unwrapped() {
        for (one, other, same) in [
            (
                "https://vendor.example/mcp",
                "https://proxy/x?mcp_url=https%3A%2F%2Fvendor.example%2Fmcp",
                true,
            ),
            (
                "https://vendor.example/mcp",
                "https://VENDOR.example:443/mcp",
                true,
            ),
            (
                "https://vendor.example/mcp",
                "https://vendor.example/other",
                false,
            ),
            (
                "https://vendor.example/mcp",
                "https://proxy/?mcp_url=",
                false,
            ),
            ("nonsense", "nonsense", true),
        ] {
            let signatures = [one, other].map(|url| signature(&remote("s", Scope::User, url)));
            assert_eq!(signatures[0] == signatures[1], same, "{one} {other}");
        }
    }

    /// Entries in their order, and the expected duplicates.
    type Case<'a> = (&'a [ServerEntry], &'a [(usize, usize)]);

    #[test]
    fn who_gives_way() {
        let entry = |scope, url| remote("s", scope, url);
        let a = "https://a/";
        let cases: [Case; 8] = [
            (
                &[entry(Scope::ClaudeAi, a), entry(Scope::Plugin, a)],
                &[(0, 1)],
            ),
            (&[entry(Scope::ClaudeAi, a), entry(Scope::ClaudeAi, a)], &[]),
            (&[entry(Scope::User, a), entry(Scope::Local, a)], &[]),
            (&[entry(Scope::User, a), entry(Scope::Plugin, a)], &[(1, 0)]),
            (&[entry(Scope::Plugin, a), entry(Scope::User, a)], &[(0, 1)]),
            (
                &[entry(Scope::Plugin, a), entry(Scope::Plugin, a)],
                &[(1, 0)],
            ),
            (
                &[entry(Scope::ClaudeAi, a), entry(Scope::Project, a)],
                &[(0, 1)],
            ),
            (
                &[entry(Scope::Plugin, a), entry(Scope::User, "https://b/")],
                &[],
            ),
        ];
        for (entries, expected) in cases {
            let entries: Vec<_> = entries.iter().collect();
            let expected: HashMap<_, _> = expected.iter().copied().collect();
            assert_eq!(duplicates(&entries), expected);
        }
    }

    proptest! {
        /// Equal signatures are an equivalence because they are equal texts. The same content must
        /// always have the same signature, and different commands never.
        #[test]
        fn signatures_tell_commands_apart(one in prop::collection::vec(".*", 1..4), other in prop::collection::vec(".*", 1..4)) {
            let of = |argv: &[String]| signature(&ServerEntry::stdio("s", &argv[0], &argv[1..]));
            prop_assert_eq!(of(&one), of(&one.clone()));
            prop_assert_eq!(of(&one) == of(&other), one == other);
        }

        #[test]
        fn unwrapping_a_url_a_second_time_changes_nothing(path in "[a-z/?=&%:]{0,20}", wrapped in any::<bool>()) {
            let inner = format!("https://h/{path}");
            let url = if wrapped {
                let encoded: String = url::form_urlencoded::byte_serialize(inner.as_bytes()).collect();
                format!("https://proxy/?mcp_url={encoded}")
            } else {
                inner
            };
            let once = url_signature(&url);
            let again = url_signature(once.strip_prefix("url:").unwrap());
            prop_assert_eq!(once, again);
        }
    }
}
