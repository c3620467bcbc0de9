//! Finds credentials in URLs and in logins that look like them.

use std::ops::Range;

use super::classify::is_words;
use super::patterns::is_tokenish;

/// Query parameters that are secrets in a URL but not elsewhere.
const QUERY_NAMES: [&str; 6] = [
    "key",
    "sig",
    "signature",
    "code",
    "x-amz-signature",
    "appid",
];

/// `https://user:password@host?key=value`.
pub(super) fn find_urls(text: &str, found: &mut Vec<Range<usize>>) {
    let ends = |c: char| c.is_whitespace() || "\"'<>\\`".contains(c);
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let start = from + at;
        let rest = &text[start..];
        let url = &rest[..rest.find(ends).unwrap_or(rest.len())];
        from = start + url.len();
        // A URL may contain another.
        for (at, slashes) in url.match_indices("://") {
            let rest = &url[at + slashes.len()..];
            let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
            if let Some(end) = authority.rfind('@') {
                let start = from - rest.len();
                found.push(start..start + end);
            }
        }
        if let Some(query) = url.find('?') {
            find_query(text, start + query + 1..from, found);
        }
        if HOOKS.iter().any(|hook| url.contains(hook)) {
            let path = &url[..url.find(['?', '#']).unwrap_or(url.len())];
            let mut at = start;
            for part in path.split('/') {
                if is_tokenish(part) && !is_words(part) && !part.contains('.') {
                    found.push(at..at + part.len());
                }
                at += part.len() + 1;
            }
        }
    }
}

/// URLs that contain one of these carry their key in the path.
const HOOKS: [&str; 5] = [
    "hook",
    "://api.telegram.org/",
    "://mcp.zapier.com/",
    "://mcp.pipedream.net/",
    "://server.smithery.ai/",
];

/// The password in `user:password@tcp(host)/database` (Go), in
/// `jdbc:oracle:thin:user/password@host` and in `123456789:token` of a bot.
pub(super) fn find_logins(text: &str, found: &mut Vec<Range<usize>>) {
    let ends = |c: char| c.is_whitespace() || "\"'<>`".contains(c);
    let mut done = 0;
    for (at, _) in text.match_indices('@') {
        let is_go = ["tcp(", "unix(", "udp("]
            .iter()
            .any(|net| text[at + 1..].starts_with(net));
        if is_go {
            let word = &text[done..at];
            let word = &word[word.rfind(ends).map_or(0, |end| end + 1)..];
            if let Some(colon) = word.find(':') {
                found.push(at - word.len() + colon + 1..at);
            }
            done = at + 1;
        }
    }
    let mut done = 0;
    for (at, _) in text.match_indices("jdbc:oracle:") {
        if at < done {
            continue;
        }
        let word = &text[at..];
        let word = &word[..word.find(ends).unwrap_or(word.len())];
        done = at + word.len();
        let Some(end) = word.find('@') else { continue };
        if let Some(slash) = word[..end].find('/') {
            found.push(at + slash + 1..at + end);
        }
    }
    for (colon, _) in text.match_indices(':') {
        let digits = text[..colon].bytes().rev().take_while(u8::is_ascii_digit);
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let (id, token) = (digits.count(), text[colon + 1..].bytes());
        if id >= 6 {
            let length = token.take_while(is_part).count();
            if length >= 30 && is_tokenish(&text[colon + 1..colon + 1 + length]) {
                found.push(colon + 1..colon + 1 + length);
            }
        }
    }
}

/// `key=value` in a query, and in the query of a nested URL.
fn find_query(text: &str, query: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut start = query.start;
    let mut done = start;
    for pair in text[query.clone()].split(['&', '#', '?']) {
        if start >= done
            && let Some((name, _)) = pair.split_once('=')
            && name.len() < 20
            && QUERY_NAMES.contains(&name.to_ascii_lowercase().as_str())
        {
            let value = start + name.len() + 1;
            let length = text[value..query.end].find(['&', '#']);
            done = length.map_or(query.end, |length| value + length);
            found.push(value..done);
        }
        start += pair.len() + 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::redact::redact_text;

    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(redact_text(text), *expected, "{text}");
        }
    }

    #[test]
    fn credentials_in_urls_are_masked() {
        check(&[
            ("https://me:pw@host/x@y", "https://***@host/x@y"),
            (
                "postgres://u:p@h:5/db, http://h/x",
                "postgres://***@h:5/db, http://h/x",
            ),
            ("see https://host/a@b", "see https://host/a@b"),
            (
                "GET https://h/?key=abc&q=d&sig=e#f",
                "GET https://h/?key=***&q=d&sig=***#f",
            ),
            ("key=abc", "key=abc"),
            (
                "https://hooks.slack.com/services/T00/B00/x9Kq2LmP7vN4aaaaaaaaaaaa",
                "https://hooks.slack.com/services/T00/B00/***",
            ),
            (
                "https://discord.com/api/webhooks/123456789012/x9Kq2LmP7vN4_-x9Kq2LmP7vN4 x",
                "https://discord.com/api/webhooks/***/*** x",
            ),
            (
                "https://mcp.zapier.com/api/mcp/s/x9Kq2LmP7vN4/mcp",
                "https://mcp.zapier.com/api/mcp/s/***/mcp",
            ),
            (
                "https://api.example/webhooks/v2/list-all",
                "https://api.example/webhooks/v2/list-all",
            ),
            (
                "https://github.com/o/r/tree/9f2c1e7a4b?x=1",
                "https://github.com/o/r/tree/9f2c1e7a4b?x=1",
            ),
        ]);
    }
}
