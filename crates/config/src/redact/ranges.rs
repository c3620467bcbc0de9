//! The ranges of a text that hold secrets, by the position of the text in an entry.

use std::ops::Range;

use super::patterns::{each_secret, find_members, merged, replace_ranges};
use super::references::without_references;
use crate::secret::HIDDEN;

/// Authentication schemes that may precede a secret.
const SCHEMES: [&str; 5] = ["bearer ", "dpop ", "basic ", "token ", "apikey "];

/// Headers that never hold a secret.
pub(super) const OPEN_HEADERS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "origin",
    "user-agent",
];

/// Masks the user information, the query values and the fragment of a URL. References stay.
///
/// ```
/// use trunkline_config::redact::redact_url;
///
/// assert_eq!(redact_url("https://me:pw@host/mcp?key=abc"), "https://***@host/mcp?key=***");
/// assert_eq!(redact_url("https://host/?k=${KEY:-abc}"), "https://host/?k=${KEY:-***}");
/// ```
pub fn redact_url(text: &str) -> String {
    let mut replace = |_: &str| HIDDEN.to_owned();
    replace_ranges(text, &merged(url_ranges(text)), &mut replace).into_owned()
}

/// The value without its references and its authentication scheme.
pub(super) fn value_ranges(text: &str) -> Vec<Range<usize>> {
    let start = scheme_end(text);
    if start == text.len() {
        return Vec::new();
    }
    let whole = start..text.len();
    without_references(text, &[whole])
}

/// The secrets in free text, such as a command line, found by their shape.
pub(super) fn command_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = each_secret(text);
    ranges.retain(|range| !text[range.clone()].starts_with(['`', '(']));
    without_references(text, &ranges)
}

/// The secrets in a command that prints headers as JSON: the values of all headers, too.
pub(super) fn helper_ranges(text: &str) -> Vec<Range<usize>> {
    let is_open = |name: &str| OPEN_HEADERS.contains(&name.to_lowercase().as_str());
    let is_header = |name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !name.is_empty() && name.len() <= 100 && name.chars().all(is_part) && !is_open(name)
    };
    let mut ranges = command_ranges(text);
    let mut headers = Vec::new();
    find_members(text, is_header, &mut headers);
    headers.retain(|range| !text[range.clone()].starts_with(['`', '(']));
    let after_scheme = headers.into_iter().map(|range| {
        let start = range.start + scheme_end(&text[range.clone()]);
        start..range.end
    });
    let headers: Vec<_> = after_scheme.collect();
    ranges.extend(without_references(text, &headers));
    ranges
}

/// The secrets of a URL: user information, query values and the fragment.
pub(super) fn url_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let end = text.find('#').unwrap_or(text.len());
    ranges.push((end + 1).min(text.len())..text.len());
    let before = text[..end].find('?').unwrap_or(end);
    // URL parsers accept any run of slashes and backslashes here, even none.
    if let Some((scheme, rest)) = text[..before].split_once(':')
        && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    {
        let authority = rest.trim_start_matches(['/', '\\']);
        let start = before - authority.len();
        let authority = &authority[..authority.find(['/', '\\']).unwrap_or(authority.len())];
        if let Some(at) = authority.rfind('@') {
            ranges.push(start..start + at);
        }
    }
    let mut start = (before + 1).min(end);
    for pair in text[start..end].split('&') {
        let name = pair.find('=').map_or(0, |at| at + 1);
        ranges.push(start + name..start + pair.len());
        start += pair.len() + 1;
    }
    ranges.extend(each_secret(text));
    without_references(text, &ranges)
}

/// The length of a leading authentication scheme, such as `Bearer `.
pub(super) fn scheme_end(text: &str) -> usize {
    let is_scheme = |scheme: &&&str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    SCHEMES.iter().find(is_scheme).map_or(0, |it| it.len())
}
