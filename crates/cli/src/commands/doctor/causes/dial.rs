//! Why no stream to a server can be opened.

use trunkline::transport::{DialError, Target};
use url::Url;

use super::super::diagnosis::{Diagnosis, Repair, Subject};
use super::super::report::StepName;
use crate::standing::quoted;

/// A failure to open a stream.
#[derive(Debug)]
pub(in super::super) struct DialEvidence<'a> {
    pub(in super::super) url: &'a Url,
    pub(in super::super) target: &'a Target,
    pub(in super::super) error: &'a DialError,
    /// The file with the proxy that other programs of the user use, where we use none.
    pub(in super::super) known_proxy: Option<&'a str>,
}

/// Returns the step that failed, and why.
pub(in super::super) fn diagnose(
    subject: &Subject,
    evidence: &DialEvidence,
) -> (StepName, Diagnosis) {
    let message = evidence.error.to_string();
    let new_url = |url: &str| subject.edit(&format!("--url {url}"), "correct the \"url\"");
    match evidence.error {
        DialError::Lookup { .. } | DialError::TimedOut { .. } | DialError::Connect { .. }
            if evidence.known_proxy.is_some() =>
        {
            let file = evidence.known_proxy.unwrap_or_default();
            let message = format!("{message}; {file} names a proxy, which HTTPS_PROXY does not");
            let step = match evidence.error {
                DialError::Lookup { .. } => StepName::Dns,
                _ => StepName::Connect,
            };
            let fix = format!("export HTTPS_PROXY=URL (the one in {file})");
            (step, Diagnosis::new("proxy-needed", message).fix(fix))
        }
        DialError::Lookup { error, .. } => {
            let is_offline = error.contains("emporary failure");
            let fix = if is_offline {
                format!(
                    "check the network connection, and the name: {}",
                    new_url("URL")
                )
            } else {
                new_url("URL")
            };
            (
                StepName::Dns,
                Diagnosis::new("name-not-found", message).fix(fix),
            )
        }
        DialError::Refused { server } => {
            let message = format!("nothing listens on {server}: the connection was refused");
            let fix = format!(
                "start the server, or correct its address: {}",
                new_url("URL")
            );
            (
                StepName::Connect,
                Diagnosis::new("port-closed", message).fix(fix),
            )
        }
        DialError::TimedOut { .. } | DialError::Connect { .. } => {
            let fix = "check the address, the network and its firewall";
            (
                StepName::Connect,
                Diagnosis::new("unreachable", message).fix(fix),
            )
        }
        DialError::Proxy { .. }
        | DialError::ProxyRefused { .. }
        | DialError::ProxyBroken { .. } => {
            let fix = format!(
                "correct HTTPS_PROXY, or reach the server without it: export NO_PROXY={}",
                quoted(&evidence.target.host)
            );
            (
                StepName::Connect,
                Diagnosis::new("proxy-failed", message).fix(fix),
            )
        }
        DialError::ProxyCredentials { .. } => {
            let fix = "export HTTPS_PROXY=http://USER:PASSWORD@PROXY:PORT";
            (
                StepName::Connect,
                Diagnosis::new("proxy-credentials", message).fix(fix),
            )
        }
        DialError::ProxySetting { variable, .. } => {
            let fix = format!("export {variable}=http://PROXY:PORT");
            (
                StepName::Connect,
                Diagnosis::new("proxy-setting", message).fix(fix),
            )
        }
        error => (StepName::Tls, tls(subject, evidence, error, message)),
    }
}

fn tls(
    subject: &Subject,
    evidence: &DialEvidence,
    error: &DialError,
    message: String,
) -> Diagnosis {
    match error {
        DialError::NotTls { .. } => {
            let scheme = if evidence.url.scheme() == "wss" {
                "ws"
            } else {
                "http"
            };
            let plain = with_scheme(evidence.url, scheme);
            let fix = subject.edit(&format!("--url {}", quoted(&plain)), "correct the \"url\"");
            let found = Diagnosis::new("tls-on-plain-port", message).fix(fix);
            // Elsewhere, whoever is on the way could read the traffic.
            if evidence.target.is_loopback() {
                found.repair(Repair::SetUrl {
                    url: plain,
                    kind: None,
                })
            } else {
                found
            }
        }
        DialError::NotTrusted { .. } | DialError::NoAuthorities => {
            let options = "--set 'tls={\"ca\":\"/path/to/authority.pem\"}'";
            let edit = subject.edit(options, "name its authority as \"tls\": {\"ca\": FILE}");
            let fix = format!("{edit}, or export NODE_EXTRA_CA_CERTS=/path/to/authority.pem");
            Diagnosis::new("unknown-authority", message).fix(fix)
        }
        DialError::Expired { .. } => Diagnosis::new("certificate-expired", message)
            .fix("renew the server's certificate; if it is valid, set this machine's clock"),
        DialError::NotYetValid { .. } => Diagnosis::new("certificate-not-valid-yet", message)
            .fix("set this machine's clock: timedatectl set-ntp true"),
        // The message lists the names of the certificate. None of them is suggested: whoever is on
        // the way may have presented it.
        DialError::WrongName { .. } => {
            let fix = subject.edit("--url URL", "correct the \"url\"");
            Diagnosis::new("certificate-name", message).fix(fix)
        }
        DialError::ClientCertificateWanted { .. } | DialError::ClientCertificateRefused { .. } => {
            let options =
                "--set 'tls={\"cert\":\"/path/to/cert.pem\",\"key\":\"/path/to/key.pem\"}'";
            let fix = subject.edit(
                options,
                "name a certificate as \"tls\": {\"cert\", \"key\"}",
            );
            Diagnosis::new("client-certificate", message).fix(fix)
        }
        DialError::File { path, .. } => {
            let fix = format!("correct {}", quoted(&path.display().to_string()));
            Diagnosis::new("certificate-file", message).fix(fix)
        }
        DialError::Url(_) => {
            let fix = subject.edit("--url URL", "correct the \"url\"");
            Diagnosis::new("bad-url", message).fix(fix)
        }
        _ => Diagnosis::new("tls-failed", message).fix("check that the server uses TLS"),
    }
}

/// Returns a URL with another scheme. Its text is rebuilt, because the type keeps special schemes.
pub(in super::super) fn with_scheme(url: &Url, scheme: &str) -> String {
    let text = url.as_str();
    let rest = text.split_once(':').map_or("", |(_, rest)| rest);
    format!("{scheme}:{rest}")
}

#[cfg(test)]
mod tests {
    use trunkline_config::{Scope, ServerEntry};

    use super::*;

    #[test]
    #[allow(clippy::too_many_lines, reason = "one row per error")]
    fn each_error_has_a_step_a_cause_and_a_fix() {
        let host = || "h.test".to_owned();
        let server = || "h.test:443".to_owned();
        let limit = std::time::Duration::from_secs(1);
        let lookup = |error: &str| DialError::Lookup {
            host: host(),
            error: error.to_owned(),
        };
        let names = |name: &str| vec![name.to_owned()];
        let cases = [
            (
                lookup("Name or service not known"),
                "dns",
                "name-not-found",
                "trunkline edit s --url URL",
            ),
            (
                lookup("Temporary failure in name resolution"),
                "dns",
                "name-not-found",
                "check the network",
            ),
            (
                DialError::Refused { server: server() },
                "connect",
                "port-closed",
                "start the server",
            ),
            (
                DialError::TimedOut {
                    server: server(),
                    limit,
                },
                "connect",
                "unreachable",
                "firewall",
            ),
            (
                DialError::ProxyCredentials {
                    proxy: "p:1".to_owned(),
                },
                "connect",
                "proxy-credentials",
                "export HTTPS_PROXY=http://USER",
            ),
            (
                DialError::ProxyRefused {
                    proxy: "p:1".to_owned(),
                    server: server(),
                    answer: "403".to_owned(),
                },
                "connect",
                "proxy-failed",
                "export NO_PROXY=h.test",
            ),
            (
                DialError::ProxySetting {
                    variable: "ALL_PROXY",
                    error: "is bad".to_owned(),
                },
                "connect",
                "proxy-setting",
                "export ALL_PROXY=",
            ),
            (
                DialError::NotTls { host: host() },
                "tls",
                "tls-on-plain-port",
                "--url http://h.test/mcp",
            ),
            (
                DialError::NotTrusted { host: host() },
                "tls",
                "unknown-authority",
                "NODE_EXTRA_CA_CERTS",
            ),
            (
                DialError::Expired { host: host() },
                "tls",
                "certificate-expired",
                "renew",
            ),
            (
                DialError::NotYetValid { host: host() },
                "tls",
                "certificate-not-valid-yet",
                "clock",
            ),
            (
                DialError::WrongName {
                    host: host(),
                    names: names("other.test"),
                },
                "tls",
                "certificate-name",
                "trunkline edit s --url URL",
            ),
            (
                DialError::WrongName {
                    host: host(),
                    names: names("*.x; rm"),
                },
                "tls",
                "certificate-name",
                "--url URL",
            ),
            (
                DialError::ClientCertificateWanted { host: host() },
                "tls",
                "client-certificate",
                "\"cert\"",
            ),
        ];
        let mut entry = ServerEntry::http("s", "https://h.test/mcp");
        entry.scope = Scope::User;
        let url = "https://h.test/mcp".parse().unwrap();
        let target = Target::of(&url).unwrap();
        for (error, step, cause, fix) in cases {
            let evidence = DialEvidence {
                url: &url,
                target: &target,
                error: &error,
                known_proxy: None,
            };
            let (found_step, found) = diagnose(&Subject::of_entry(&entry), &evidence);
            assert_eq!((found_step.text(), found.cause), (step, cause), "{error}");
            let found_fix = found.fix.unwrap();
            assert!(found_fix.contains(fix), "{found_fix}");
            assert!(!found_fix.contains("other.test"), "{found_fix}");
            assert!(found.repair.is_none(), "{error}");
        }
        let error = lookup("Name or service not known");
        let known_proxy = Some("~/.npmrc");
        let evidence = DialEvidence {
            url: &url,
            target: &target,
            error: &error,
            known_proxy,
        };
        let (_, found) = diagnose(&Subject::of_entry(&entry), &evidence);
        assert_eq!(found.cause, "proxy-needed");
    }

    #[test]
    fn tls_is_given_up_only_on_this_machine() {
        let entry = ServerEntry::http("s", "https://localhost:1/mcp");
        let url = "https://localhost:1/mcp".parse().unwrap();
        let target = Target::of(&url).unwrap();
        let error = DialError::NotTls {
            host: "localhost".to_owned(),
        };
        let evidence = DialEvidence {
            url: &url,
            target: &target,
            error: &error,
            known_proxy: None,
        };
        let (_, found) = diagnose(&Subject::of_entry(&entry), &evidence);
        let plain = "http://localhost:1/mcp".to_owned();
        assert_eq!(
            found.repair,
            Some(Repair::SetUrl {
                url: plain,
                kind: None
            })
        );
    }
}
