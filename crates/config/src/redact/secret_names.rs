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
const WHOLE: [&str; 11] = [
    "auth", "cred", "creds", "jwt", "otp", "pass", "passcode", "pat", "pin", "psk", "pwd",
];

/// Names that end with one of these are secrets. Other keys sort, identify or unlock nothing:
/// `sort-key`, `primary-key`, `public-key`.
const ENDS: [&str; 38] = [
    "accountkey",
    "adminkey",
    "appkey",
    "applicationkey",
    "authkey",
    "deploykey",
    "hmackey",
    "ingestkey",
    "integrationkey",
    "licensekey",
    "masterkey",
    "securitykey",
    "servicekey",
    "servicerolekey",
    "sessionkey",
    "sharedkey",
    "storagekey",
    "subscriptionkey",
    "writekey",
    "adminpass",
    "authpass",
    "certpass",
    "dbpass",
    "ftppass",
    "keypass",
    "ldappass",
    "mailpass",
    "mysqlpass",
    "postgrespass",
    "proxypass",
    "redispass",
    "rootpass",
    "smtppass",
    "sslpass",
    "storepass",
    "userpass",
    "dbpwd",
    "mysqlpwd",
];

/// Last words that make a secret of any name: `GITHUB_PAT`.
const LAST_WORDS: [&str; 5] = ["creds", "jwt", "passcode", "pat", "psk"];

/// Endings that say how a secret is written: `TOKEN_2`, `tokenValue`, `token_base64`.
const FORMS: [&str; 4] = ["value", "val", "base64", "b64"];

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
    let last_word = last_word(name);
    let name: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    is_secret(&name)
        || without_form(&name).is_some_and(is_secret)
        || LAST_WORDS.contains(&last_word.to_lowercase().as_str())
}

/// The last word of a name, without the digits after it.
fn last_word(name: &str) -> &str {
    let name = name.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let separator = |c: char| !c.is_alphanumeric();
    name.rsplit(separator).next().unwrap_or_default()
}

/// A name without the digits at its end, or without the form of its value.
fn without_form(name: &str) -> Option<&str> {
    let form = FORMS.iter().find_map(|form| name.strip_suffix(form));
    let short = form
        .unwrap_or(name)
        .trim_end_matches(|c: char| c.is_ascii_digit());
    // `auth0` is a name.
    (short.len() < name.len() && name != "auth0").then_some(short)
}

/// Whether a name in small letters and digits is that of a secret.
fn is_secret(name: &str) -> bool {
    let token = name.ends_with("token") && !OPEN_TOKENS.iter().any(|open| name.ends_with(open));
    let tokens = ["accesstokens", "authtokens", "apitokens", "refreshtokens"];
    token
        || tokens.iter().any(|tokens| name.ends_with(tokens))
        || WHOLE.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
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
            "GITHUB_TOKEN_2",
            "token1",
            "token-2",
            "tokenValue",
            "token_value",
            "password2",
            "TOKEN_BASE64",
            "app-key",
            "account-key",
            "AccountKey",
            "service-role-key",
            "SUBSCRIPTION_KEY",
            "licenseKey",
            "storage-key",
            "masterKey",
            "hmac-key",
            "keypass",
            "storepass",
            "DB_PASS",
            "MYSQL_PWD",
            "GITHUB_PAT",
            "creds",
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
            "key-file",
            "sort-key",
            "primary-key",
            "primaryKey",
            "public-key",
            "PUBLIC_KEY_2",
            "partition-key",
            "project-key",
            "foreign_key",
            "hot-key",
            "key-id",
            "key1",
            "monkey",
            "bypass",
            "low-pass",
            "format",
            "pat-h",
            "auth0",
            "oauth2",
            "token-file",
            "tokens",
            "maxTokens2",
            "value",
            "base64",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
