//! Which secrets a server's entry holds.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use trunkline_config::{
    HttpEntry, IdeEntry, Secret, ServerEntry, ServerUrl, StdioEntry, TransportEntry, WsEntry,
};

use super::names::looks_secret;

/// Schemes that stand before a secret in a header, and are none themselves.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "apikey"];

/// Headers that hold no secret; what stands in them stands in many messages.
const OPEN_HEADERS: [&str; 6] = [
    "accept",
    "accept-language",
    "cache-control",
    "content-type",
    "origin",
    "user-agent",
];

/// Everything in an entry that may be a secret, and what the server inherits from our own environment.
pub(in crate::logs) fn secrets_of(entry: &ServerEntry) -> Vec<String> {
    let mut found = Vec::new();
    match &entry.transport {
        TransportEntry::Stdio(StdioEntry { args, env, .. }) => {
            found.extend(in_env(env));
            found.extend(in_arguments(args));
            found.extend(inherited());
        }
        TransportEntry::Http(HttpEntry { url, headers, .. })
        | TransportEntry::Ws(WsEntry { url, headers, .. }) => {
            found.extend(in_url(url));
            let headers = headers.iter();
            found.extend(headers.flat_map(|(name, value)| header_secrets(name, value.expose())));
        }
        TransportEntry::Ide(IdeEntry {
            url, auth_token, ..
        }) => {
            found.extend(in_url(url));
            found.extend(auth_token.iter().map(|token| token.expose().to_owned()));
        }
        TransportEntry::ClaudeAiProxy { url, proxy, .. } => {
            found.extend(in_url(url));
            found.extend(proxy.iter().flat_map(in_url));
        }
        TransportEntry::Sdk => {}
    }
    found
}

/// The values of variables, but for words like `warn` and numbers like `3000` under names that are no secret's: looked for
/// everywhere, those would make a log unreadable.
fn in_env(env: &BTreeMap<String, Secret>) -> impl Iterator<Item = String> {
    let is_setting = |name: &str, value: &str| {
        let has = |is: fn(char) -> bool| value.contains(is);
        let mixed = has(char::is_alphabetic) && has(|c| c.is_ascii_digit());
        !looks_secret(name) && value.chars().count() < 8 && !mixed
    };
    env.iter()
        .filter(move |(name, value)| !is_setting(name, value.expose()))
        .map(|(_, value)| value.expose().to_owned())
}

/// The value of a header, and what follows the scheme in it.
pub(in crate::logs) fn header_secrets(name: &str, value: &str) -> Vec<String> {
    if OPEN_HEADERS.contains(&name.to_lowercase().as_str()) {
        return Vec::new();
    }
    let mut found = vec![value.to_owned()];
    if let Some((scheme, secret)) = value.trim().split_once(' ')
        && SCHEMES.contains(&scheme.to_lowercase().as_str())
    {
        found.push(secret.trim().to_owned());
    }
    found
}

/// The password, as it is and as it is written, and the values of the query.
fn in_url(url: &ServerUrl) -> Vec<String> {
    let Ok(url) = url.parse() else {
        return Vec::new();
    };
    let password = url.password().into_iter().flat_map(|password| {
        let decoded = percent_decode_str(password).decode_utf8_lossy();
        [password.to_owned(), decoded.into_owned()]
    });
    let query = url.query_pairs().map(|(_, value)| value.into_owned());
    password.chain(query).collect()
}

/// What follows a flag with the name of a secret, behind `=` or as the next argument.
fn in_arguments(args: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut after_flag = false;
    for arg in args {
        let flag = arg.starts_with('-');
        match arg.split_once('=') {
            Some((name, value)) if looks_secret(name) => found.push(value.to_owned()),
            _ if after_flag && !flag => found.push(arg.clone()),
            _ => {}
        }
        after_flag = flag && !arg.contains('=') && looks_secret(arg);
    }
    found
}

/// Variables of our own environment with the names of secrets: a child inherits them.
fn inherited() -> impl Iterator<Item = String> {
    std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(looks_secret))
        .filter_map(|(_, value)| value.into_string().ok())
}

#[cfg(test)]
mod tests {
    use trunkline_config::HttpFlavour;

    use super::*;

    #[test]
    fn arguments_behind_flags_with_the_names_of_secrets_are_secrets() {
        let args = [
            "--token",
            "abc",
            "-v",
            "--api-key=def",
            "--password",
            "--n",
            "3",
            "plain",
        ];
        assert_eq!(in_arguments(&args.map(str::to_owned)), ["abc", "def"]);
    }

    #[test]
    fn headers_and_urls_hold_secrets() {
        let mut http = HttpEntry::at(HttpFlavour::Either, "https://u:pass%21@h/?key=k1&k2");
        http.headers
            .insert("A".to_owned(), Secret::new("Bearer tok"));
        http.headers
            .insert("B".to_owned(), Secret::new("two words"));
        let json = Secret::new("application/json");
        http.headers.insert("Accept".to_owned(), json);
        let entry = ServerEntry::new("s", TransportEntry::Http(http));
        assert_eq!(
            secrets_of(&entry),
            [
                "pass%21",
                "pass!",
                "k1",
                "",
                "Bearer tok",
                "tok",
                "two words"
            ]
        );
    }

    #[test]
    fn the_values_of_env_are_secrets() {
        let env = [
            ("A", "production"),
            ("B", "s3cr3t"),
            ("C_PASSWORD", "word"),
            ("LEVEL", "warn"),
            ("PORT", "3000"),
        ];
        let secrets = env.map(|(name, value)| (name.to_owned(), Secret::new(value)));
        let mut entry = ServerEntry::stdio("s", "x", [""]);
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            stdio.env.extend(secrets);
        }
        assert_eq!(secrets_of(&entry)[..3], ["production", "s3cr3t", "word"]);
        assert!(!secrets_of(&entry).contains(&"warn".to_owned()));
    }
}
