//! The redactor of `trunkline_config`, for messages: it looks into JSON, and into texts that are JSON themselves.

mod json;

use std::borrow::Cow;

use trunkline_config::redact;
use trunkline_wire::Json;

pub(super) use json::put_quoted;

/// How often a text in a text is looked into as JSON.
const MAX_NESTING: u8 = 3;

/// Knows one server's secrets. Clones know the same ones.
#[derive(Clone, Default)]
pub(crate) struct Redactor(redact::Redactor);

impl Redactor {
    /// Learns secrets.
    pub(crate) fn hide_all<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        self.0.hide_all(secrets);
    }

    /// Learns one secret.
    pub(crate) fn hide(&self, secret: &str) {
        self.0.hide(secret);
    }

    /// A text with its secrets masked.
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.text_within(text, 0)
    }

    /// A message on one line, with its secrets masked.
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

    /// A text with the known secrets masked, and no others.
    fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
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
