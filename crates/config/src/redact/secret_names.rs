//! Recognises names of secrets.

/// Names that contain one of these, in any spelling, are secrets.
const PARTS: [&str; 14] = [
    "accesskey",
    "apikey",
    "authorization",
    "bearer",
    "clientassertion",
    "cookie",
    "credential",
    "encryptionkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "signingkey",
];

/// Names that are one of these are secrets; as parts they are too common.
const WHOLE: [&str; 9] = [
    "auth", "jwt", "otp", "pass", "passcode", "pat", "pin", "psk", "pwd",
];

/// Tokens that continue a listing or identify a call: a trace is useless without them.
const OPEN_TOKENS: [&str; 7] = [
    "progresstoken",
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "cursortoken",
    "starttoken",
];

/// Whether a name is that of a secret: `apiKey`, `X-API-Key`, `DB_PASSWORD`. Counts of tokens are
/// not.
///
/// ```
/// use trunkline_config::redact::is_secret_name;
///
/// assert!(is_secret_name("GITHUB_TOKEN") && is_secret_name("x-api-key"));
/// assert!(!is_secret_name("maxTokens") && !is_secret_name("key"));
/// ```
pub fn is_secret_name(name: &str) -> bool {
    // No secret has such a long name.
    if name.len() > 100 {
        return false;
    }
    let name: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    let token = name.ends_with("token") && !OPEN_TOKENS.iter().any(|open| name.ends_with(open));
    let tokens = ["accesstokens", "authtokens", "apitokens", "refreshtokens"];
    token
        || tokens.iter().any(|tokens| name.ends_with(tokens))
        || WHOLE.contains(&name.as_str())
        || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "password",
            "DB_PASSWORD",
            "userPassword",
            "Authorization",
            "proxy-authorization",
            "apiKey",
            "api_key",
            "X-API-Key",
            "APIKEY",
            "token",
            "accessToken",
            "refresh_token",
            "GITHUB_TOKEN",
            "client_secret",
            "secretKey",
            "AWS_SECRET_ACCESS_KEY",
            "Cookie",
            "set-cookie",
            "credentials",
            "private_key",
            "privateKeyPem",
            "pwd",
            "auth",
            "accessTokens",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn other_names_are_left_alone() {
        for name in [
            "progressToken",
            "pageToken",
            "nextPageToken",
            "next_token",
            "continuationToken",
            "maxTokens",
            "inputTokens",
            "total_tokens",
            "tokenizer",
            "tokenCount",
            "key",
            "keyboard",
            "author",
            "authors",
            "path",
            "compass",
            "passed",
            "pinned",
            "name",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
