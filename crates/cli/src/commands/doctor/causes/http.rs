//! Why a server on the network is reached but not connected: from the start of its responses.

use std::time::{Duration, SystemTime};

use trunkline_config::HttpFlavour;
use url::Url;

use super::super::diagnosis::{Diagnosis, Repair, Subject};
use crate::standing::quoted;

/// A difference between two clocks that matters to tokens and certificates.
const MAX_SKEW: Duration = Duration::from_mins(5);

/// The start of a response.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Sample {
    pub(in super::super) status: u16,
    pub(in super::super) content_type: String,
    pub(in super::super) date: Option<SystemTime>,
    pub(in super::super) location: Option<String>,
    pub(in super::super) body: String,
}

impl Sample {
    /// Returns whether a GET opened the event stream of HTTP+SSE.
    pub(in super::super) fn is_sse(&self) -> bool {
        let has_endpoint = |line: &str| {
            let event = line.strip_prefix("event:");
            event.is_some_and(|event| event.trim() == "endpoint")
        };
        self.content_type.starts_with("text/event-stream") && self.body.lines().any(has_endpoint)
    }

    /// Returns whether a POST was answered with JSON-RPC, be it an error.
    pub(in super::super) fn is_mcp(&self) -> bool {
        self.body.contains("\"jsonrpc\"") && self.body.contains("\"2.0\"")
    }

    fn is_html(&self) -> bool {
        let start = self.body.trim_start().to_ascii_lowercase();
        self.content_type.starts_with("text/html")
            || start.starts_with("<!doctype html")
            || start.starts_with("<html")
    }
}

/// The protocol that a URL turned out to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Spoken {
    Streamable,
    Sse,
}

impl Spoken {
    fn kind(self) -> &'static str {
        match self {
            Self::Streamable => "http",
            Self::Sse => "sse",
        }
    }
}

/// What the URL of an entry, and others of the same host, respond.
#[derive(Clone, Debug)]
pub(in super::super) struct HttpEvidence<'a> {
    pub(in super::super) url: &'a Url,
    pub(in super::super) flavour: HttpFlavour,
    /// The response to a GET.
    pub(in super::super) get: Option<Sample>,
    /// The response to a POST of `ping`.
    pub(in super::super) post: Option<Sample>,
    /// Another URL of the host that speaks MCP.
    pub(in super::super) other: Option<(Url, Spoken)>,
    /// Whether the port speaks TLS, though the URL is a plain one.
    pub(in super::super) is_tls: bool,
}

pub(in super::super) fn diagnose(subject: &Subject, evidence: &HttpEvidence) -> Option<Diagnosis> {
    if evidence.is_tls {
        let url = super::dial::with_scheme(evidence.url, "https");
        let fix = subject.edit(&format!("--url {}", quoted(&url)), "correct the \"url\"");
        let message = "the port speaks TLS, and the URL is a plain one";
        return Some(
            Diagnosis::new("plain-on-tls-port", message)
                .fix(fix)
                .repair(Repair::SetUrl { url, kind: None }),
        );
    }
    wrong_transport(subject, evidence)
        .or_else(|| wrong_path(subject, evidence))
        .or_else(|| {
            let answer = evidence.post.as_ref().or(evidence.get.as_ref())?;
            answered(subject, evidence.url, answer)
        })
}

/// A server of the other protocol.
fn wrong_transport(subject: &Subject, evidence: &HttpEvidence) -> Option<Diagnosis> {
    let is_sse = evidence.get.as_ref().is_some_and(Sample::is_sse);
    let is_mcp = evidence.post.as_ref().is_some_and(Sample::is_mcp);
    let (right, what) = match evidence.flavour {
        HttpFlavour::Streamable if is_sse && !is_mcp => (
            Spoken::Sse,
            "the server speaks HTTP+SSE, and its entry says Streamable HTTP",
        ),
        HttpFlavour::Sse if is_mcp && !is_sse => (
            Spoken::Streamable,
            "the server speaks Streamable HTTP, and its entry says HTTP+SSE",
        ),
        _ => return None,
    };
    let kind = right.kind();
    let fix = subject.edit(
        &format!("--set type={kind}"),
        &format!("set \"type\" to \"{kind}\""),
    );
    let repair = Repair::SetType(kind);
    Some(
        Diagnosis::new("wrong-transport", what)
            .fix(fix)
            .repair(repair),
    )
}

/// A server at another path of the same host.
fn wrong_path(subject: &Subject, evidence: &HttpEvidence) -> Option<Diagnosis> {
    let (url, spoken) = evidence.other.as_ref()?;
    let is_typed = evidence.flavour != HttpFlavour::Either;
    let kind = Some(spoken.kind()).filter(|_| is_typed);
    let mut options = format!("--url {}", quoted(url.as_str()));
    if let Some(kind) = kind {
        options.push_str(" --set type=");
        options.push_str(kind);
    }
    let path = evidence.url.path();
    let message = format!(
        "there is no MCP server at {path}, but one at {}",
        url.path()
    );
    let fix = subject.edit(&options, &format!("set \"url\" to \"{url}\""));
    let url = url.to_string();
    Some(
        Diagnosis::new("wrong-path", message)
            .fix(fix)
            .repair(Repair::SetUrl { url, kind }),
    )
}

/// A response that is not MCP.
fn answered(subject: &Subject, url: &Url, sample: &Sample) -> Option<Diagnosis> {
    let status = sample.status;
    let new_url = |url: &str| subject.edit(&format!("--url {url}"), "correct the \"url\"");
    if let (300..=399, Some(location)) = (status, &sample.location) {
        let next = url
            .join(location)
            .ok()
            .filter(|next| next.scheme().starts_with("http"));
        let next = next.map_or_else(|| "URL".to_owned(), |next| quoted(next.as_str()));
        let message = format!("the server redirects to another host or path (status {status})");
        return Some(Diagnosis::new("redirected", message).fix(new_url(&next)));
    }
    match status {
        407 => Some(
            Diagnosis::new(
                "proxy-credentials",
                "the proxy asks for a user name and password",
            )
            .fix("export HTTP_PROXY=http://USER:PASSWORD@PROXY:PORT"),
        ),
        403 => {
            let fix = format!(
                "check the permissions of the token, and sign in again: {}",
                subject.command("login")
            );
            Some(Diagnosis::new("forbidden", "the server refuses access (status 403)").fix(fix))
        }
        429 => Some(
            Diagnosis::new("rate-limited", "the server limits requests (status 429)")
                .fix("wait a while, then run this again"),
        ),
        500..=599 => {
            let message = format!("the server fails (status {status})");
            let fix = "look into the log of the server; the fault is on its side";
            Some(Diagnosis::new("server-error", message).fix(fix))
        }
        404 | 405 | 410 => {
            let message = format!("there is no MCP server at this path (status {status})");
            Some(Diagnosis::new("wrong-path", message).fix(new_url("URL")))
        }
        _ if sample.is_html() => {
            let message =
                format!("the URL leads to a web page, not to an MCP server (status {status})");
            Some(Diagnosis::new("not-mcp", message).fix(new_url("URL")))
        }
        200..=299 if !sample.is_mcp() && !sample.is_sse() && !sample.body.is_empty() => {
            let message = format!("the response is not MCP (status {status})");
            Some(Diagnosis::new("not-mcp", message).fix(new_url("URL")))
        }
        _ => None,
    }
}

/// Returns the cause if the clock of this machine differs from the server's.
pub(in super::super) fn clock_skew(date: Option<SystemTime>, now: SystemTime) -> Option<Diagnosis> {
    let date = date?;
    let (skew, direction) = match now.duration_since(date) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    if skew <= MAX_SKEW {
        return None;
    }
    let minutes = skew.as_secs() / 60;
    let amount = match minutes {
        0..=119 => format!("{minutes} minutes"),
        120..=2879 => format!("{} hours", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    };
    let message = format!("this machine's clock is {amount} {direction} the server's");
    Some(Diagnosis::new("clock-skew", message).fix("timedatectl set-ntp true"))
}

/// Returns the URLs of the same host at which a server may be instead, most likely first.
pub(in super::super) fn candidates(url: &Url) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let mut found: Vec<Url> = Vec::new();
    for path in [
        format!("{path}/mcp"),
        format!("{path}/sse"),
        format!("{parent}/mcp"),
        format!("{parent}/sse"),
        "/mcp".to_owned(),
        "/sse".to_owned(),
        "/api/mcp".to_owned(),
        "/mcp/".to_owned(),
    ] {
        let mut other = url.clone();
        other.set_path(&path);
        if other != *url && !found.contains(&other) {
            found.push(other);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use HttpFlavour::{Either, Sse, Streamable};
    use trunkline_config::{Scope, ServerEntry};

    use super::*;

    fn sample(status: u16, content_type: &str, body: &str) -> Sample {
        Sample {
            status,
            content_type: content_type.to_owned(),
            body: body.to_owned(),
            ..Sample::default()
        }
    }

    fn found(evidence: &HttpEvidence) -> Option<Diagnosis> {
        let mut entry = ServerEntry::http("s", "http://h.test/");
        entry.scope = Scope::User;
        diagnose(&Subject::of_entry(&entry), evidence)
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "one row per response")]
    fn responses_are_explained() {
        let sse = || {
            sample(
                200,
                "text/event-stream",
                "event: endpoint\ndata: /messages\n\n",
            )
        };
        let mcp = || {
            sample(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","error":{"code":-1}}"#,
            )
        };
        let none = || sample(404, "text/plain", "Not Found");
        let page = || {
            sample(
                200,
                "text/html; charset=utf-8",
                "<!doctype html><title>Hi</title>",
            )
        };
        let url: Url = "http://h.test/".parse().unwrap();
        let other = |path: &str, spoken| Some((url.join(path).unwrap(), spoken));
        let cases = [
            (
                Streamable,
                sse(),
                none(),
                None,
                Some(("wrong-transport", "trunkline edit s --set type=sse")),
            ),
            (
                Sse,
                none(),
                mcp(),
                None,
                Some(("wrong-transport", "trunkline edit s --set type=http")),
            ),
            (Streamable, sse(), mcp(), None, None),
            (
                Streamable,
                none(),
                none(),
                other("/mcp", Spoken::Streamable),
                Some((
                    "wrong-path",
                    "trunkline edit s --url http://h.test/mcp --set type=http",
                )),
            ),
            (
                Either,
                none(),
                none(),
                other("/sse", Spoken::Sse),
                Some(("wrong-path", "trunkline edit s --url http://h.test/sse")),
            ),
            (
                Either,
                page(),
                page(),
                None,
                Some(("not-mcp", "trunkline edit s --url URL")),
            ),
            (
                Either,
                none(),
                none(),
                None,
                Some(("wrong-path", "trunkline edit s --url URL")),
            ),
            (
                Either,
                none(),
                sample(502, "", ""),
                None,
                Some((
                    "server-error",
                    "look into the log of the server; the fault is on its side",
                )),
            ),
            (
                Either,
                none(),
                sample(407, "", ""),
                None,
                Some((
                    "proxy-credentials",
                    "export HTTP_PROXY=http://USER:PASSWORD@PROXY:PORT",
                )),
            ),
            (
                Either,
                none(),
                sample(200, "application/json", "{\"ok\":1}"),
                None,
                Some(("not-mcp", "trunkline edit s --url URL")),
            ),
        ];
        for (flavour, get, post, other, expected) in cases {
            let evidence = HttpEvidence {
                url: &url,
                flavour,
                get: Some(get),
                post: Some(post),
                other,
                is_tls: false,
            };
            let found = found(&evidence).map(|found| (found.cause, found.fix.unwrap_or_default()));
            assert_eq!(
                found.as_ref().map(|(cause, fix)| (*cause, fix.as_str())),
                expected,
                "{evidence:?}"
            );
        }
    }

    #[test]
    fn a_plain_url_to_a_tls_port_is_upgraded() {
        let url: Url = "http://h.test:8443/mcp".parse().unwrap();
        let evidence = HttpEvidence {
            url: &url,
            flavour: HttpFlavour::Either,
            get: None,
            post: None,
            other: None,
            is_tls: true,
        };
        let found = found(&evidence).unwrap();
        let upgraded = "https://h.test:8443/mcp".to_owned();
        assert_eq!(found.cause, "plain-on-tls-port");
        assert_eq!(
            found.repair,
            Some(Repair::SetUrl {
                url: upgraded,
                kind: None
            })
        );
    }

    #[test]
    fn a_redirect_is_followed_by_the_user_alone() {
        let url: Url = "http://h.test/mcp".parse().unwrap();
        let mut redirect = sample(302, "", "");
        redirect.location = Some("https://other.test/login?x=$(y)".to_owned());
        let entry = ServerEntry {
            scope: Scope::User,
            ..ServerEntry::http("s", "")
        };
        let found = answered(&Subject::of_entry(&entry), &url, &redirect).unwrap();
        assert_eq!(
            found.fix.as_deref(),
            Some("trunkline edit s --url 'https://other.test/login?x=$(y)'")
        );
        assert!(found.repair.is_none());
    }

    #[test]
    fn a_skewed_clock_is_reported_in_both_directions() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(1000);
        for (date, expected) in [
            (None, None),
            (Some(now), None),
            (Some(now - Duration::from_mins(4)), None),
            (
                Some(now - Duration::from_mins(10)),
                Some("10 minutes ahead of"),
            ),
            (Some(now + Duration::from_hours(3)), Some("3 hours behind")),
            (
                Some(now - Duration::from_hours(72)),
                Some("3 days ahead of"),
            ),
        ] {
            let found = clock_skew(date, now).map(|found| found.message);
            let expected =
                expected.map(|what| format!("this machine's clock is {what} the server's"));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn other_paths_of_the_host_are_tried() {
        let url: Url = "https://h.test/v1/sse?k=1".parse().unwrap();
        let found = candidates(&url);
        let paths: Vec<&str> = found.iter().map(Url::path).collect();
        assert_eq!(
            paths,
            [
                "/v1/sse/mcp",
                "/v1/sse/sse",
                "/v1/mcp",
                "/mcp",
                "/sse",
                "/api/mcp",
                "/mcp/"
            ]
        );
        assert!(found.iter().all(|other| other.origin() == url.origin()));
    }
}
