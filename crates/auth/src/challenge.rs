//! The `WWW-Authenticate` header of a refusal, and the reaction to it.

use serde::{Deserialize, Serialize};

use crate::flow::DPOP_ALGORITHM;
use crate::scopes::usable;

/// The challenge of a server that refused a request (RFC 6750, RFC 9728).
///
/// ```
/// use trunkline_auth::Challenge;
///
/// let challenge = Challenge::parse(r#"Bearer error="insufficient_scope", scope="a b""#).unwrap();
/// assert_eq!(challenge.scopes, ["a", "b"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Challenge {
    /// The URL of the protected-resource metadata; untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The error code, such as `invalid_token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The description of the error; untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_description: Option<String>,
    /// Whether the server accepts tokens that are bound to a P-256 key (DPoP, RFC 9449).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepts_dpop: bool,
}

/// The most challenges and parameters of one header.
const MAX_ITEMS: usize = 64;

/// The longest URL and the longest text of a challenge, which is stored (AUTH-7).
const MAX_URL: usize = 4096;
const MAX_TEXT: usize = 1024;

impl Challenge {
    /// Parses the `Bearer` or `DPoP` challenge of a header, which may hold several challenges. Of
    /// several ones, the one with metadata counts.
    pub fn parse(header: &str) -> Option<Self> {
        let is_dpop = |scheme: &str| scheme.eq_ignore_ascii_case("dpop");
        let mut accepts_dpop = false;
        let mut found: Vec<Self> = challenges(header)
            .into_iter()
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer") || is_dpop(scheme))
            .map(|(scheme, parameters)| {
                accepts_dpop |= is_dpop(scheme) && accepts_our_algorithm(&parameters);
                Self::from_parameters(parameters)
            })
            .collect();
        for challenge in &mut found {
            challenge.accepts_dpop = accepts_dpop;
        }
        let best = found
            .iter()
            .position(|challenge| challenge.resource_metadata.is_some())
            .unwrap_or(0);
        (!found.is_empty()).then(|| found.swap_remove(best))
    }

    fn from_parameters(parameters: Vec<(&str, String)>) -> Self {
        let mut challenge = Self::default();
        for (name, value) in parameters {
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" if value.len() <= MAX_URL => {
                    challenge.resource_metadata = Some(value);
                }
                "scope" => challenge.scopes = usable(value.split_whitespace()),
                "error" => challenge.error = Some(bounded(value)),
                "error_description" => challenge.error_description = Some(bounded(value)),
                _ => {}
            }
        }
        challenge
    }
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// Whether the `algs` of a DPoP challenge, if it has them, include that of our keys.
fn accepts_our_algorithm(parameters: &[(&str, String)]) -> bool {
    let mut algorithms = parameters
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("algs"));
    algorithms.next().is_none_or(|(_, algorithms)| {
        let mut algorithms = algorithms.split_whitespace();
        algorithms.any(|algorithm| algorithm == DPOP_ALGORITHM)
    })
}

/// Splits a header into challenges (RFC 9110, section 11.6.1). Unparsable parts are skipped.
fn challenges(header: &str) -> Vec<(&str, Vec<(&str, String)>)> {
    let mut found: Vec<(&str, Vec<(&str, String)>)> = Vec::new();
    let mut rest = header;
    for _ in 0..MAX_ITEMS {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        if rest.is_empty() {
            break;
        }
        let (word, after) = split_token(rest);
        if word.is_empty() {
            // Not a token: skip to the next item.
            rest = rest.find(',').map_or("", |comma| &rest[comma..]);
            continue;
        }
        let value = after.trim_start();
        match value
            .strip_prefix('=')
            .map(|value| parse_value(value.trim_start()))
        {
            Some(Some((value, after))) if !found.is_empty() => {
                if let Some((_, parameters)) = found.last_mut() {
                    parameters.push((word, value));
                }
                rest = after;
            }
            // The credentials of a scheme such as Negotiate, or garbage.
            Some(_) => rest = rest.find(',').map_or("", |comma| &rest[comma..]),
            None => {
                found.push((word, Vec::new()));
                rest = after;
            }
        }
    }
    found
}

fn split_token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// A quoted string or, leniently, everything up to a comma or space; `None` without a value.
fn parse_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        let is_padding = value.bytes().all(|byte| byte == b'=');
        return (!is_padding).then(|| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    // An unterminated string ends with the header.
    Some((value, ""))
}

/// The reaction to a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Get a new token: by refresh if possible, otherwise by a sign-in.
    Renew,
    /// Sign in again with these scopes in addition (AUTH-6).
    StepUp(Vec<String>),
    /// The server denies access; another token does not help.
    Forbidden,
}

/// Decides the reaction to a status of 401 or 403.
pub(crate) fn react(status: u16, challenge: Option<&Challenge>) -> Reaction {
    let error = challenge.and_then(|challenge| challenge.error.as_deref());
    match (status, error, challenge) {
        (_, Some("insufficient_scope"), Some(challenge)) => {
            Reaction::StepUp(challenge.scopes.clone())
        }
        // Some servers answer 403 to an expired token.
        (401, ..) | (403, Some("invalid_token"), _) => Reaction::Renew,
        _ => Reaction::Forbidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(header: &str) -> String {
        let Some(challenge) = Challenge::parse(header) else {
            return "none".to_owned();
        };
        format!(
            "{}|{}|{}|{}",
            challenge.resource_metadata.unwrap_or_default(),
            challenge.scopes.join(" "),
            challenge.error.unwrap_or_default(),
            challenge.error_description.unwrap_or_default()
        )
    }

    #[test]
    fn headers_are_parsed() {
        let cases = [
            ("", "none"),
            ("Basic realm=\"x\"", "none"),
            ("Bearer", "|||"),
            (
                "bearer realm=\"x\", error=\"invalid_token\"",
                "||invalid_token|",
            ),
            (
                "Bearer resource_metadata=\"https://a/b?c=d,e\", scope=\"x  y\"",
                "https://a/b?c=d,e|x y||",
            ),
            ("Bearer scope=x, error=invalid_token", "|x|invalid_token|"),
            ("Bearer scope = \"x\" ,error = \"e\"", "|x|e|"),
            (
                "Bearer error_description=\"say \\\"hi\\\"\"",
                "|||say \"hi\"",
            ),
            (
                "Basic realm=\"a, Bearer scope=x\", Bearer scope=\"y\"",
                "|y||",
            ),
            ("Negotiate YWJj==, Bearer scope=\"y\"", "|y||"),
            ("Bearer scope=\"y\", Negotiate YWJj==", "|y||"),
            (
                "Bearer error=\"x\", Bearer resource_metadata=\"https://a\"",
                "https://a|||",
            ),
            ("Bearer error=\"unterminated", "||unterminated|"),
            ("Bearer ,,, scope=\"x\",", "|x||"),
            ("DPoP algs=\"ES256\", scope=\"x\"", "|x||"),
            ("\"Bearer\" @, Bearer scope=\"x\"", "|x||"),
            ("error=\"x\", Bearer scope=\"y\"", "|y||"),
        ];
        for (header, expected) in cases {
            assert_eq!(shown(header), expected, "{header}");
        }
    }

    #[test]
    fn a_server_may_accept_bound_tokens() {
        let cases = [
            ("Bearer scope=\"x\"", false),
            ("DPoP", true),
            ("dpop error=\"use_dpop_nonce\"", true),
            ("DPoP algs=\"PS256 ES256\"", true),
            ("DPoP algs=\"PS256\"", false),
            (
                "DPoP algs=\"ES256\", Bearer resource_metadata=\"https://a\"",
                true,
            ),
        ];
        for (header, expected) in cases {
            let challenge = Challenge::parse(header).unwrap();
            assert_eq!(challenge.accepts_dpop, expected, "{header}");
        }
    }

    #[test]
    fn long_headers_end() {
        let long = "a,".repeat(100_000);
        assert_eq!(shown(&long), "none");
        let parameters = "error_description=\"é\", scope=\"x\", ".repeat(10_000);
        assert_eq!(shown(&format!("Bearer {parameters}")), "|x||é");
    }

    #[test]
    fn long_values_are_bounded() {
        let long = "é".repeat(500_000);
        let header = format!(
            "Bearer resource_metadata=\"https://a.example/{long}\", scope=\"{long}\", \
             error=\"{long}\", error_description=\"{long}\""
        );
        let challenge = Challenge::parse(&header).unwrap();
        assert_eq!(challenge.resource_metadata, None);
        assert_eq!(challenge.scopes, Vec::<String>::new());
        let size = serde_json::to_string(&challenge).unwrap().len();
        assert!(size < 4096, "{size}");
    }

    #[test]
    fn each_refusal_has_a_reaction() {
        let step_up = || Reaction::StepUp(vec!["x".to_owned()]);
        let cases = [
            (401, None, Reaction::Renew),
            (401, Some("Bearer"), Reaction::Renew),
            (401, Some("Bearer error=\"invalid_token\""), Reaction::Renew),
            (
                401,
                Some("Bearer error=\"insufficient_scope\", scope=\"x\""),
                step_up(),
            ),
            (403, None, Reaction::Forbidden),
            (403, Some("Bearer scope=\"x\""), Reaction::Forbidden),
            (
                403,
                Some("Bearer error=\"insufficient_scope\", scope=\"x\""),
                step_up(),
            ),
            (403, Some("Bearer error=\"invalid_token\""), Reaction::Renew),
            (
                403,
                Some("Bearer error=\"insufficient_scope\""),
                Reaction::StepUp(Vec::new()),
            ),
        ];
        for (status, header, expected) in cases {
            let challenge = header.and_then(Challenge::parse);
            assert_eq!(
                react(status, challenge.as_ref()),
                expected,
                "{status} {header:?}"
            );
        }
    }
}
