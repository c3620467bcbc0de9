//! Why a server asks for a sign-in.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::super::diagnosis::{Diagnosis, Subject};

/// What is known about a refused sign-in.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct AuthEvidence<'a> {
    /// The value of the entry's `Authorization` header.
    pub(in super::super) header: Option<&'a str>,
    /// Whether the entry refers to a variable there that is not set.
    pub(in super::super) unset: Option<&'a str>,
    /// Whether someone is signed in.
    pub(in super::super) is_signed_in: bool,
    /// The server's `WWW-Authenticate` header and its words.
    pub(in super::super) said: &'a str,
    /// What the user can do, as the rest of the program says it.
    pub(in super::super) hint: Option<&'a str>,
}

pub(in super::super) fn diagnose(
    subject: &Subject,
    evidence: &AuthEvidence,
    now: SystemTime,
) -> Diagnosis {
    if let Some(variable) = evidence.unset {
        let message = format!("the variable {variable} of its \"Authorization\" header is not set");
        return Diagnosis::new("variable-not-set", message).fix(format!("export {variable}=VALUE"));
    }
    let said = evidence.said.to_lowercase();
    if let Some(header) = evidence.header {
        let options = "-H 'Authorization: Bearer TOKEN'";
        let fix = subject.edit(options, "replace the \"Authorization\" header");
        let ended = expiry(header).filter(|ended| *ended <= now);
        let (cause, message) = match ended {
            Some(ended) => {
                let ago = now.duration_since(ended).unwrap_or_default();
                let message = format!(
                    "the token of its \"Authorization\" header expired {} ago",
                    span(ago)
                );
                ("token-expired", message)
            }
            None if said.contains("expired") => {
                let message = "the token of its \"Authorization\" header has expired";
                ("token-expired", message.to_owned())
            }
            None => {
                let message = "the server refuses the token of its \"Authorization\" header";
                ("token-refused", message.to_owned())
            }
        };
        return Diagnosis::new(cause, message).fix(fix);
    }
    let fix = match evidence.hint {
        // Another way than the user's own sign-in.
        Some(hint) if !hint.contains("trunkline login") => hint.to_owned(),
        _ => subject.command("login"),
    };
    if evidence.is_signed_in || said.contains("expired") || said.contains("invalid_token") {
        let message = "the sign-in has expired or was revoked";
        return Diagnosis::new("token-expired", message).fix(fix);
    }
    Diagnosis::new("needs-sign-in", "the server needs a sign-in").fix(fix)
}

/// Returns when a token in the form of a JWT expires.
fn expiry(header: &str) -> Option<SystemTime> {
    let token = header.split_whitespace().last()?;
    let payload = token.split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let seconds = claims.get("exp")?.as_u64()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn span(time: Duration) -> String {
    match time.as_secs() / 60 {
        0..=1 => "a moment".to_owned(),
        minutes @ 2..=119 => format!("{minutes} minutes"),
        minutes @ 120..=2879 => format!("{} hours", minutes / 60),
        minutes => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_config::{Scope, ServerEntry};

    use super::*;

    #[test]
    fn the_reason_for_a_sign_in_is_told() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let token = |exp: u64| {
            let claims = URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}"));
            format!("Bearer e30.{claims}.sig")
        };
        let (old, new) = (token(1_000_000 - 7200), token(2_000_000));
        let header = "trunkline edit s -H 'Authorization: Bearer TOKEN'";
        let of = |header| AuthEvidence {
            header,
            ..AuthEvidence::default()
        };
        let cases = [
            (of(None), "needs-sign-in", "trunkline login s"),
            (of(Some(&*old)), "token-expired", header),
            (of(Some(&*new)), "token-refused", header),
            (of(Some("Bearer opaque")), "token-refused", header),
            (
                AuthEvidence {
                    said: "the token expired",
                    ..of(Some("Bearer opaque"))
                },
                "token-expired",
                header,
            ),
            (
                AuthEvidence {
                    is_signed_in: true,
                    ..of(None)
                },
                "token-expired",
                "trunkline login s",
            ),
            (
                AuthEvidence {
                    hint: Some("check its \"clientId\""),
                    ..of(None)
                },
                "needs-sign-in",
                "check its \"clientId\"",
            ),
            (
                AuthEvidence {
                    unset: Some("TOKEN"),
                    ..of(Some("Bearer ${TOKEN}"))
                },
                "variable-not-set",
                "export TOKEN=VALUE",
            ),
        ];
        let mut entry = ServerEntry::http("s", "https://h.test/");
        entry.scope = Scope::User;
        for (evidence, cause, fix) in cases {
            let found = diagnose(&Subject::of_entry(&entry), &evidence, now);
            assert_eq!(
                (found.cause, found.fix.as_deref()),
                (cause, Some(fix)),
                "{evidence:?}"
            );
        }
        let expired = diagnose(&Subject::of_entry(&entry), &of(Some(&*old)), now);
        assert!(
            expired.message.ends_with("expired 2 hours ago"),
            "{}",
            expired.message
        );
    }
}
