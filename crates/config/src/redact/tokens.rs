//! Tokens of well-known services, found by their prefixes.

use std::ops::Range;

/// Prefixes of well-known tokens, and the minimum number of characters that follow.
const PREFIXES: [(&str, usize); 33] = [
    ("AIza", 30),
    ("AKIA", 12),
    ("ASIA", 12),
    ("SG.", 20),
    ("dop_v1_", 16),
    ("figd_", 16),
    ("ghp_", 8),
    ("gho_", 8),
    ("ghr_", 8),
    ("ghs_", 8),
    ("ghu_", 8),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("gsk_", 16),
    ("hf_", 16),
    ("hvs.", 16),
    ("lin_api_", 16),
    ("npm_", 20),
    ("ntn_", 16),
    ("pypi-", 16),
    ("rk_live_", 8),
    ("rk_test_", 8),
    ("shpat_", 8),
    ("sk-ant-", 8),
    ("sk-proj-", 8),
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("tvly-", 12),
    ("whsec_", 8),
    ("xapp-", 8),
    ("xoxe.", 8),
    ("ya29.", 8),
];

/// Tokens of well-known services, and JSON web tokens.
pub(super) fn find_tokens(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut word = TokenRun::default();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let inside = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
        if inside || !b"ASdfghlnprstwxye-".contains(byte) {
            at += 1;
            continue;
        }
        if at >= word.end {
            word = TokenRun::at(bytes, at);
        }
        let rest = &text[at..];
        let known = PREFIXES.iter().any(|(prefix, follows)| {
            let more = at + prefix.len();
            rest.starts_with(prefix) && word.end >= more + follows && word.is_tokenish(more)
        });
        let slack = rest.starts_with("xox")
            && rest.as_bytes().get(4) == Some(&b'-')
            && word.is_tokenish(at + 5);
        let jwt = rest.starts_with("eyJ") && word.last_dots[0] > at && word.end >= at + 24;
        let range = match private_key_end(rest) {
            Some(end) => at..at + end,
            None if known || slack || jwt => at..word.end,
            None => {
                at += 1;
                continue;
            }
        };
        at = range.end;
        found.push(range);
    }
}

/// A run of token characters. It is scanned once; the positions of the last characters of each kind
/// describe any suffix of it.
#[derive(Default)]
struct TokenRun {
    end: usize,
    /// The ends of the last digit, capital and small letter.
    digits: usize,
    capitals: usize,
    smalls: usize,
    /// The ends of the last two dots.
    last_dots: [usize; 2],
}

impl TokenRun {
    /// Scans the run from an offset.
    fn at(text: &[u8], at: usize) -> Self {
        let mut word = Self {
            end: at,
            ..Self::default()
        };
        for byte in &text[at..] {
            let end = word.end + 1;
            match byte {
                b'0'..=b'9' => word.digits = end,
                b'A'..=b'Z' => word.capitals = end,
                b'a'..=b'z' => word.smalls = end,
                b'.' => word.last_dots = [word.last_dots[1], end],
                b'-' | b'_' | b'~' => {}
                _ => break,
            }
            word.end = end;
        }
        word
    }

    /// Like `is_tokenish`, for the suffix from an offset.
    fn is_tokenish(&self, from: usize) -> bool {
        let capital = self.capitals > from + 1 && self.smalls > from;
        self.end >= from + 8 && (self.digits > from || capital)
    }
}

/// The length of the PEM private key at the start of a text.
fn private_key_end(text: &str) -> Option<usize> {
    let header = text.strip_prefix("-----BEGIN ")?;
    let label = &header[..header.find("-----")?];
    if !label.ends_with("PRIVATE KEY") {
        return None;
    }
    let end = format!("-----END {label}-----");
    Some(text.find(&end).map_or(text.len(), |at| at + end.len()))
}
