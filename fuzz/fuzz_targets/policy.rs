//! Policy on URLs: a denied URL is denied in every spelling, and a pattern denies at least what it
//! allows.
//!
//! The input is a pattern, a newline and a URL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_config::{Glob, fuzzing::blocks};
use url::{Position, Url};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (pattern, written) = text.split_once('\n').unwrap_or((&text, &text));

    let allowed = !blocks(Some(pattern), None, written);
    let denied = blocks(None, Some(pattern), written);
    assert!(
        !allowed || denied,
        "{pattern:?} allows what it does not deny"
    );
    assert!(blocks(Some(pattern), Some(pattern), written));
    assert_eq!(
        Glob::new(pattern).matches(written),
        slow_match(pattern, written)
    );

    let Ok(url) = Url::parse(written.trim()) else {
        return;
    };
    // Servers need a host; policy is not asked about other URLs.
    if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
        return;
    }
    // Rules have no variables.
    let is_literal = !written.contains('*') && !written.contains("${");
    for spelling in spellings(&url, written) {
        assert!(
            !is_literal || blocks(None, Some(written), &spelling),
            "{written:?} is denied and {spelling:?} is not"
        );
        assert!(
            blocks(None, Some(url.as_str()), &spelling),
            "{:?} is denied and {spelling:?} is not",
            url.as_str()
        );
    }
});

/// Other spellings of the same server.
fn spellings(url: &Url, written: &str) -> Vec<String> {
    let plain = url.as_str();
    let mut all = vec![written.to_owned(), plain.to_owned(), format!(" {plain} ")];
    let (scheme, rest) = plain.split_once(':').unwrap_or((plain, ""));
    all.push(format!("{}:{rest}", scheme.to_ascii_uppercase()));
    if url.fragment().is_none() {
        all.push(format!("{plain}#part"));
    }
    let host = url.host_str().unwrap_or_default();
    let before = &url[..Position::BeforeHost];
    let after = &url[Position::AfterHost..];
    all.push(format!("{before}{}{after}", host.to_ascii_uppercase()));
    if url.domain().is_some_and(|domain| !domain.ends_with('.')) {
        all.push(format!("{before}{host}.{after}"));
        let encoded: String = host.bytes().map(|byte| format!("%{byte:02x}")).collect();
        all.push(format!("{before}{encoded}{after}"));
    }
    if url.port().is_none() {
        let port = url.port_or_known_default().unwrap_or_default();
        let rest = &url[Position::AfterPort..];
        all.push(format!("{}:{port}{rest}", &url[..Position::AfterHost]));
    }
    // Letters of the path may be encoded, and detours taken.
    let (before, path) = (
        &url[..Position::BeforePath],
        &url[Position::BeforePath..Position::AfterPath],
    );
    let after = &url[Position::AfterPath..];
    let encode = |c: char| match c {
        'a'..='z' => format!("%{:02X}", u32::from(c)),
        other => other.to_string(),
    };
    // The digits of a percent-encoding must not be encoded again.
    if !path.contains('%') {
        let encoded: String = path.chars().map(encode).collect();
        all.push(format!("{before}{encoded}{after}"));
    }
    if let Some(rest) = path.strip_prefix('/') {
        all.push(format!("{before}/x/%2e%2E/{rest}{after}"));
        all.push(format!("{before}/./{rest}{after}"));
    }
    // A denied server is also denied behind a proxy.
    let proxied = url::form_urlencoded::byte_serialize(plain.as_bytes()).collect::<String>();
    all.push(format!("https://proxy.example/mcp?mcp_url={proxied}"));
    all
}

/// Matches a glob naively.
fn slow_match(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // The prefixes of the text that the pattern so far matches.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for c in pattern.chars() {
        let mut next = vec![false; text.len() + 1];
        for at in 0..=text.len() {
            if c == '*' {
                next[at] = reached[..=at].contains(&true);
            } else if at > 0 {
                next[at] = reached[at - 1] && text[at - 1] == c;
            }
        }
        reached = next;
    }
    reached[text.len()]
}
