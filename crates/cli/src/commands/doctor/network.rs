//! Checks the way to a server on the network: its name, its port and its certificate.

use std::path::Path;
use std::time::Duration;

use trunkline::transport::{Alpn, DialError, Dialer, Target, TlsFiles};
use trunkline_config::{Server, TlsEntry, TransportEntry};
use url::Url;

use super::causes::dial::{DialEvidence, diagnose};
use super::diagnosis::{Diagnosis, Subject};
use super::report::{Step, StepName, StepStatus};

/// The limit for the TLS handshake with a port that is known to be open.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks name resolution, the connection and TLS, up to the step that fails.
pub(super) async fn check(server: &Server, dialer: &Dialer) -> Vec<Step> {
    let transport = &server.entry.transport;
    let Some(url) = transport.url().filter(|_| !transport.is_connector()) else {
        return Vec::new();
    };
    let subject = Subject::of(server);
    let parsed = url.parse().and_then(|url| {
        let target = Target::of(&url).map_err(|error| error.to_string())?;
        Ok((url, target))
    });
    let (url, target) = match parsed {
        Ok(parsed) => parsed,
        Err(problem) => {
            let fix = subject.edit("--url URL", "correct the \"url\"");
            let diagnosis = Diagnosis::new("bad-url", format!("the URL is invalid: {problem}"));
            return vec![Step::failed(StepName::Dns, diagnosis.fix(fix))];
        }
    };
    let address = ServerAddress {
        subject,
        url,
        target,
    };
    let mut steps = Vec::new();
    match dialer.proxy_for(&address.target) {
        Ok(Some(proxy)) => {
            let message = format!("the proxy {proxy} resolves the name");
            steps.push(Step::skipped(StepName::Dns, message));
        }
        Ok(None) => match dialer.resolve(&address.target).await {
            Ok(addresses) => {
                let mut shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                shown.truncate(4);
                let (host, shown) = (&address.target.host, shown.join(", "));
                let message = if *host == shown {
                    format!("{host} needs no name service")
                } else {
                    format!("{host} is {shown}")
                };
                steps.push(Step::ok(StepName::Dns, message));
            }
            Err(error) => return vec![address.failed(&error)],
        },
        Err(error) => return vec![address.failed(&error)],
    }
    let files = tls_files(transport);
    let is_direct = steps.iter().all(|step| step.status != StepStatus::Skipped);
    // A port that is open and silent is told apart from one that is closed.
    if address.target.tls && is_direct {
        let plain = Target {
            tls: false,
            ..address.target.clone()
        };
        if let Err(error) = dialer.dial_direct(&plain, &TlsFiles::default()).await {
            steps.push(address.failed(&error));
            return steps;
        }
    }
    let dialing = async {
        if matches!(transport.kind(), "ws" | "ws-ide") {
            let stream = dialer.dial_direct(&address.target, &files).await;
            stream.map(drop)
        } else {
            let stream = dialer.dial(&address.target, &files, Alpn::Http1Or2).await;
            stream.map(drop)
        }
    };
    let outcome = if address.target.tls && is_direct {
        let silent = DialError::Tls {
            host: address.target.host.clone(),
            error: "the port is open, and does not answer".to_owned(),
        };
        let outcome = tokio::time::timeout(TLS_TIMEOUT, dialing).await;
        outcome.unwrap_or(Err(silent))
    } else {
        dialing.await
    };
    let reached = Step::ok(
        StepName::Connect,
        format!("{} accepts connections", address.target),
    );
    match outcome {
        Ok(()) => {
            steps.push(reached);
            if address.target.tls {
                steps.push(Step::ok(StepName::Tls, "the certificate is valid"));
            }
        }
        Err(error) => {
            let step = address.failed(&error);
            if step.name == StepName::Tls {
                steps.push(reached);
            }
            steps.push(step);
        }
    }
    steps
}

/// The address of the server to check.
struct ServerAddress<'a> {
    subject: Subject<'a>,
    url: Url,
    target: Target,
}

impl ServerAddress<'_> {
    fn failed(&self, error: &DialError) -> Step {
        let known_proxy = known_proxy(&self.target);
        let evidence = DialEvidence {
            url: &self.url,
            target: &self.target,
            error,
            known_proxy: known_proxy.as_deref(),
        };
        let (step, diagnosis) = diagnose(&self.subject, &evidence);
        let address = format!("tried {}", self.target);
        Step::failed(step, diagnosis).evidence([address])
    }
}

pub(super) fn tls_files(transport: &TransportEntry) -> TlsFiles {
    let (TransportEntry::Http(trunkline_config::HttpEntry { tls, .. })
    | TransportEntry::Ws(trunkline_config::WsEntry { tls, .. })) = transport
    else {
        return TlsFiles::default();
    };
    let TlsEntry { ca, cert, key } = tls.clone();
    TlsFiles { ca, cert, key }
}

/// Returns the file in which another program of the user is told to use a proxy, if we use none.
fn known_proxy(target: &Target) -> Option<String> {
    const VARIABLES: [&str; 6] = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ];
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if target.is_loopback() || VARIABLES.iter().any(|name| is_set(name)) {
        return None;
    }
    let home = etcetera::home_dir().ok()?;
    let found = [".npmrc", ".gitconfig"]
        .into_iter()
        .find(|file| names_proxy(&home.join(file)));
    found.map(|file| format!("~/{file}"))
}

fn names_proxy(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        let value = value.trim().trim_matches('"');
        matches!(key.trim(), "proxy" | "https-proxy") && value.contains("://")
    })
}
