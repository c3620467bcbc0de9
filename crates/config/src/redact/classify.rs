//! Classifies values by their shape: plain values, words, paths and random keys.

use std::ops::Range;

use url::Url;

use super::patterns::secret_ranges;

/// Endings of variables that hold the path of a secret.
const PATH_NAMES: [&str; 5] = ["file", "path", "dir", "directory", "credentials"];

/// Whether a value is the path of a secret, as in `TOKEN_FILE`.
pub(super) fn is_path_setting(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `oauth.privateKeyFile` may be a bare file name, and a user who approves it has to see it.
    let is_own = name == "privatekeyfile" && !value.contains("---") && !is_random(value);
    PATH_NAMES.iter().any(|end| name.ends_with(end)) && (is_own || is_path(value))
}

/// Whether a value is a boolean, a number, a file path, or a URL without credentials. A number may
/// still be a `PIN`, so check the name first.
pub(super) fn is_plain(value: &str) -> bool {
    let value = value.trim();
    let is_word = ["true", "false", "yes", "no", "on", "off", "null", "none"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(value));
    value.is_empty() || is_word || is_number(value) || is_path(value) || is_open_url(value)
}

/// Whether a value consists of ordinary words and numbers: `production`, `us-east-1`,
/// `info,db=warn`. Masking these everywhere would make a log unreadable.
pub(super) fn is_words(value: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "-_.,:;/@=|+*".contains(c);
    let is_word = |run: &str| {
        let letters = run.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = run.len() - letters.len();
        let has_digits = letters.contains(|c: char| c.is_ascii_digit());
        let humps = letters.chars().skip(1).filter(|c| c.is_uppercase());
        let mixed = letters.contains(char::is_lowercase) && humps.count() > 2;
        run.len() <= 20 && digits <= 4 && !has_digits && !mixed
    };
    value.len() <= 100 && value.split(is_separator).all(is_word)
}

/// Whether a text looks like a generated key: long, without separators, with all kinds of
/// characters.
pub(super) fn is_random(text: &str) -> bool {
    let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
    text.len() >= 20
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+=_-".contains(c))
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && text.chars().filter(char::is_ascii_digit).count() >= 2
}

fn is_number(value: &str) -> bool {
    value.len() <= 12 && value.parse::<f64>().is_ok()
}

/// Whether a value is an absolute, relative or home path without a part that looks like a key.
pub(super) fn is_path(value: &str) -> bool {
    let windows = value.get(1..3).is_some_and(|rest| rest == ":\\");
    let rooted = ["/", "./", "../", "~/"]
        .iter()
        .any(|root| value.starts_with(root));
    let parts = || value.split(['/', '\\']).filter(|part| !part.is_empty());
    (rooted || windows)
        && parts().count() > 0
        && !value.contains(['\n', '='])
        && !parts().any(is_random)
        // Base64 may begin with a slash, but usually contains digits and capitals.
        && (parts().count() > 1 || is_words(value) || value.starts_with("./"))
}

/// Whether a value is a URL without user information, query and fragment, and without a part that
/// looks like a key.
fn is_open_url(value: &str) -> bool {
    let Ok(url) = Url::parse(value) else {
        return false;
    };
    let open = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    open && value.contains("://")
        && !url.path().split('/').any(is_random)
        && secret_ranges(value) == [] as [Range<usize>; 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_no_secrets() {
        for value in [
            "",
            "true",
            "No",
            "3000",
            "-1.5",
            "/home/me/project",
            "./data",
            "~/notes/a.md",
            "C:\\Users\\me",
            "https://api.example/v1/mcp",
            "http://localhost:3000",
        ] {
            assert!(is_plain(value), "{value}");
        }
        for value in [
            "hunter2",
            "abcd",
            "/9aF3kL0qP2mX7bV5nC8dW1e",
            "/a1/9aF3kL0qP2mX7bV5nC8dW1e",
            "https://me:pw@host/x",
            "https://host/?key=abc",
            "https://hooks.example/T0/Xk9dkKq0Pz1aB2cD3eF4gH",
            "1234567890123",
            "-----BEGIN",
        ] {
            assert!(!is_plain(value), "{value}");
        }
        assert!(is_path_setting("TOKEN_FILE", "/run/secrets/token"));
        assert!(!is_path_setting("TOKEN", "/run/secrets/token"));
    }

    #[test]
    fn words_are_no_secrets_unless_their_name_says_so() {
        for value in [
            "production",
            "us-east-1",
            "info,db=warn",
            "v1.22.333",
            "my-database",
            "me@example.org",
            "a b",
        ] {
            assert!(is_words(value), "{value}");
        }
        for value in ["s3cr3t", "hunter2x", "aBcDeFgH", "abc123def", "pw:12345678"] {
            assert!(!is_words(value), "{value}");
        }
    }
}
