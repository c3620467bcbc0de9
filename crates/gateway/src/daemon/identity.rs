//! The inherited variables that decide which process a server is.
//!
//! Two agents of one user have hundreds of variables that differ and mean nothing to a server. What
//! matters is which code runs, how it reaches the network, and as whom it acts there.

use std::collections::BTreeMap;

use ring::digest::{Context, SHA256};
use trunkline_config::redact::is_inherited_secret;

use crate::socket::ClientEnvironment;

/// The names that matter. `PATH` is part of a server's definition.
const NAMES: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "LANG",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "VIRTUAL_ENV",
    "KUBECONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// The beginnings of names that matter: runtimes, package managers, and the clouds and services
/// that a server acts on.
const PREFIXES: &[&str] = &[
    "LC_",
    "LD_",
    "XDG_CONFIG_",
    "XDG_DATA_",
    "XDG_CACHE_",
    "XDG_STATE_",
    "NODE_",
    "NPM_CONFIG_",
    "PYTHON",
    "PIP_",
    "UV_",
    "CONDA_",
    "RUBY",
    "GEM_",
    "JAVA_",
    "DENO_",
    "BUN_",
    "GIT_",
    "GH_",
    "GITHUB_",
    "GITLAB_",
    "AWS_",
    "AZURE_",
    "ARM_",
    "GOOGLE_",
    "GCP_",
    "CLOUDSDK_",
    "DOCKER_",
    "KUBE",
    "PG",
    "MYSQL_",
    "REDIS_",
    "DATABASE_",
];

/// A digest of the variables that matter, so that no secret is kept twice.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Inherited([u8; 32]);

impl Inherited {
    pub(super) fn of(environment: &ClientEnvironment) -> Self {
        let relevant: BTreeMap<&String, &String> = environment
            .0
            .iter()
            .filter(|(name, value)| matters(name, value))
            .collect();
        let mut context = Context::new(&SHA256);
        for (name, value) in relevant {
            for text in [name, value] {
                context.update(&text.len().to_le_bytes());
                context.update(text.as_bytes());
            }
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Self(digest)
    }
}

fn matters(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    NAMES.contains(&upper.as_str())
        || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || is_inherited_secret(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited(variables: &[(&str, &str)]) -> Inherited {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Inherited::of(&ClientEnvironment(variables.iter().map(owned).collect()))
    }

    #[test]
    fn identity_network_and_code_tell_processes_apart_and_nothing_else_does() {
        let plain = inherited(&[]);
        for (name, value) in [
            ("HOME", "/home/b"),
            ("https_proxy", "http://127.0.0.1:3128"),
            ("GITHUB_TOKEN", "ghp_b"),
            ("ACME_API_KEY", "k"),
            ("AWS_PROFILE", "prod"),
            ("NODE_OPTIONS", "--require x"),
            ("PYTHONPATH", "/x"),
            ("KUBECONFIG", "/k"),
        ] {
            assert!(inherited(&[(name, value)]) != plain, "{name}");
            assert!(
                inherited(&[(name, value)]) != inherited(&[(name, "other")]),
                "{name}"
            );
        }
        for name in [
            "PWD",
            "SHLVL",
            "TERM",
            "SSH_CONNECTION",
            "CLAUDECODE",
            "WINDOWID",
            "PATH",
        ] {
            assert!(inherited(&[(name, "1")]) == plain, "{name}");
        }
        assert!(inherited(&[("LC_A", "bc")]) != inherited(&[("LC_AB", "c")]));
    }
}
