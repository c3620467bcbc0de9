//! The redactor of `trunkline_config`, extended to JSON and JSON inside strings.

mod json;

use std::borrow::Cow;

use trunkline_config::redact;
use trunkline_wire::Json;

pub(super) use json::put_quoted;

/// Maximum nesting of JSON inside strings.
const MAX_NESTING: u8 = 3;

/// Redacts one server's secrets. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Redactor(redact::Redactor);

impl Redactor {
    /// Adds secrets.
    pub(crate) fn hide_all<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        self.0.hide_all(secrets);
    }

    /// Adds a secret.
    pub(crate) fn hide(&self, secret: &str) {
        self.0.hide(secret);
    }

    /// Masks the secrets in a text.
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.text_within(text, 0)
    }

    /// Masks the secrets in a message, on one line.
    pub(crate) fn message(&self, json: &Json) -> String {
        json::redacted(json, self, 0)
    }

    fn text_within<'a>(&self, text: &'a str, nested: u8) -> Cow<'a, str> {
        if nested < MAX_NESTING
            && text.trim_start().starts_with(['{', '['])
            && let Ok(json) = Json::parse(text.to_owned())
        {
            return json::redacted(&json, self, nested + 1).into();
        }
        self.0.text(text)
    }

    /// Masks known secrets only.
    pub(super) fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.known(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_are_redacted() {
        let redactor = Redactor::default();
        let line = r#"{"level": 30, "req": {"headers": {"authorization": "x"}}}"#;
        let shown = r#"{"level":30,"req":{"headers":{"authorization":"***"}}}"#;
        assert_eq!(redactor.text(line), shown);
        assert_eq!(redactor.text("[info] password=abc"), "[info] password=***");
    }
}
