//! Collects the secrets of an entry, so that logs can mask them by value.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::classify::{is_path_setting, is_plain, is_words};
use super::entry::{command_line_secrets, is_telling};
use super::patterns::merged;
use super::ranges::{OPEN_HEADERS, helper_ranges, scheme_end};
use super::redactor::Redactor;
use super::secret_names::is_secret_name;
use crate::entry::{IdeEntry, ServerEntry, ServerUrl, StdioEntry, TransportEntry};
use crate::secret::Secret;

/// The secrets of an expanded entry and of the environment that its process inherits. A log must
/// never show them.
pub fn entry_secrets(entry: &ServerEntry) -> Vec<String> {
    let mut found = Vec::new();
    match &entry.transport {
        TransportEntry::Stdio(StdioEntry {
            command, args, env, ..
        }) => {
            found.extend(env_secrets(env));
            found.extend(command_line_secrets(command, args));
            found.extend(inherited());
        }
        TransportEntry::Http(_) | TransportEntry::Ws(_) => {
            let headers = entry.transport.headers().into_iter().flatten();
            found.extend(entry.transport.url().into_iter().flat_map(url_secrets));
            found.extend(headers.flat_map(|(name, value)| header_secrets(name, value.expose())));
            let helper = entry.transport.headers_helper().unwrap_or_default();
            let ranges = merged(helper_ranges(helper)).into_iter();
            found.extend(ranges.map(|range| helper[range].to_owned()));
        }
        TransportEntry::Ide(IdeEntry {
            url, auth_token, ..
        }) => {
            found.extend(url_secrets(url));
            found.extend(auth_token.iter().map(|token| token.expose().to_owned()));
        }
        TransportEntry::ClaudeAiProxy { url, proxy, .. } => {
            found.extend(url_secrets(url));
            found.extend(proxy.iter().flat_map(url_secrets));
        }
        TransportEntry::Sdk => {}
    }
    found
}

/// A redactor for what is displayed about a server: masks its secrets by value, but not values that
/// are ordinary words.
pub fn display_redactor(entry: &ServerEntry) -> Redactor {
    let mut secrets = entry_secrets(entry);
    secrets.retain(|secret| is_telling(secret));
    let redactor = Redactor::default();
    redactor.hide_all(secrets.iter().map(String::as_str));
    redactor
}

/// The secrets in a header: its value, and the part after the scheme.
pub fn header_secrets(name: &str, value: &str) -> Vec<String> {
    if OPEN_HEADERS.contains(&name.to_lowercase().as_str()) {
        return Vec::new();
    }
    let (scheme, secret) = value.trim().split_at(scheme_end(value.trim()));
    let mut found = vec![value.to_owned()];
    if !scheme.is_empty() {
        found.push(secret.trim().to_owned());
    }
    found
}

fn env_secrets(env: &BTreeMap<String, Secret>) -> impl Iterator<Item = String> {
    let is_setting = |name: &str, value: &str| {
        is_path_setting(name, value)
            || !is_secret_name(name) && (is_plain(value) || is_words(value))
    };
    env.iter()
        .filter(move |(name, value)| !is_setting(name, value.expose()))
        .map(|(_, value)| value.expose().to_owned())
}

/// Variables of our own environment whose names mark them as secrets: a child inherits them.
fn inherited() -> impl Iterator<Item = String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| is_inherited_secret(name, value))
        .map(|(_, value)| value)
}

/// Whether a variable of our own environment is a secret. `PWD` is the working directory, and no
/// password.
pub fn is_inherited_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) && name != "PWD" && !is_path_setting(name, value)
}

/// The password of a URL, encoded and decoded, and the query values that are not plain words.
fn url_secrets(url: &ServerUrl) -> Vec<String> {
    let Ok(url) = url.parse() else {
        return Vec::new();
    };
    let password = url.password().into_iter().flat_map(|password| {
        let decoded = percent_decode_str(password).decode_utf8_lossy();
        [password.to_owned(), decoded.into_owned()]
    });
    let query = url
        .query_pairs()
        .filter(|(name, value)| {
            let open = is_plain(value) || is_words(value);
            is_secret_name(name) || name == "key" || !open
        })
        .map(|(_, value)| value.into_owned());
    password.chain(query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{HttpEntry, HttpFlavour};

    #[test]
    fn the_secrets_of_an_entry_are_collected() {
        let mut http = HttpEntry::new(HttpFlavour::Either, "https://u:pass%21@h/?key=k1&k2&v=1");
        for (name, value) in [
            ("A", "Bearer tok"),
            ("B", "two words"),
            ("Accept", "application/json"),
        ] {
            http.headers.insert(name.to_owned(), Secret::new(value));
        }
        let entry = ServerEntry::new("s", TransportEntry::Http(http));
        assert_eq!(
            entry_secrets(&entry),
            ["pass%21", "pass!", "k1", "Bearer tok", "tok", "two words"]
        );
        let args = ["--token", "abc", "-e", "K_SECRET=def", "plain"];
        let mut entry = ServerEntry::stdio("s", "x", args);
        let env = [
            ("A", "production"),
            ("B", "s3cr3t"),
            ("C_PASSWORD", "word"),
            ("LEVEL", "warn"),
            ("ROOT", "/home/me/project"),
            ("PORT", "3000"),
        ];
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            let env = env.map(|(name, value)| (name.to_owned(), Secret::new(value)));
            stdio.env.extend(env);
        }
        assert_eq!(entry_secrets(&entry)[..4], ["s3cr3t", "word", "abc", "def"]);
    }

    #[test]
    fn the_working_directory_is_no_secret() {
        for (name, value, expected) in [
            ("PWD", "/tmp/x", false),
            ("OLDPWD", "/tmp/x", false),
            ("DB_PASSWORD", "hunter2x", true),
            ("GITHUB_TOKEN", "abcdefgh", true),
            ("HOME", "/home/me", false),
        ] {
            assert_eq!(is_inherited_secret(name, value), expected, "{name}");
        }
    }

    #[test]
    fn a_token_is_secret_without_its_scheme_too() {
        for scheme in ["Bearer", "DPoP", "dpop", "Basic"] {
            let value = format!("{scheme} tok");
            let found = header_secrets("Authorization", &value);
            assert_eq!(found, [value.as_str(), "tok"]);
        }
    }
}
