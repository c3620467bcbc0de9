//! The texts of log lines.

use trunkline_wire::Json;

use super::redact::Redactor;
use crate::catalog::Catalog;
use crate::connection::{Connected, State};

/// Maximum length of quoted server data.
const MAX_SHOWN_BYTES: usize = 2000;

/// Longer data is not quoted at all.
const MAX_INSPECTED_BYTES: usize = 16 * 1024;

/// Describes a state.
pub(super) fn state(state: &State, catalog: &Catalog) -> String {
    match state {
        State::Pending {
            attempt,
            last_failure: None,
        } => match attempt {
            0 => "known from an earlier run; connects when needed".to_owned(),
            1 => format!("connecting (trunkline pid {})", std::process::id()),
            attempt => format!("connecting, attempt {attempt}"),
        },
        State::Pending {
            attempt,
            last_failure: Some(failure),
        } => format!("not connected: {failure}; attempt {attempt} follows"),
        State::Connected(connected) => self::connected(connected, catalog),
        State::Failed(failure) => match failure.hint() {
            Some(hint) => format!("failed: {failure} (hint: {hint})"),
            None => format!("failed: {failure}"),
        },
        State::NeedsAuth(asked) => format!("needs-auth: {asked}"),
        State::Disabled => "stopped".to_owned(),
    }
}

fn connected(connected: &Connected, catalog: &Catalog) -> String {
    let identity = connected.identity();
    let server = match &identity.info {
        Some(info) => format!("{} {}", info.name, info.version),
        None => "unnamed server".to_owned(),
    };
    format!(
        "connected: {server}, protocol {}, {}",
        identity.protocol_version,
        counts(catalog)
    )
}

/// Describes changed lists.
pub(super) fn lists(catalog: &Catalog) -> String {
    format!("lists changed: {}", counts(catalog))
}

fn counts(catalog: &Catalog) -> String {
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    [
        count(catalog.tools().len(), "tool"),
        count(catalog.resources.len(), "resource"),
        count(catalog.prompts.len(), "prompt"),
    ]
    .join(", ")
}

/// Describes an unusable frame.
pub(super) fn unusable_frame(what: &str, frame: &[u8], redactor: &Redactor) -> String {
    // In a truncated message the name of a secret may be missing.
    if frame.len() > MAX_INSPECTED_BYTES {
        return format!("unusable: {what} ({} bytes)", frame.len());
    }
    let text = String::from_utf8_lossy(frame);
    let text = redactor.text(text.trim()).replace(['\n', '\r'], " ");
    format!("unusable: {what}: {}", cut(&text))
}

/// Describes a log message from the server.
pub(super) fn message(params: &Json, redactor: &Redactor) -> String {
    let field = |key| match params.get(key) {
        Some(value) => render(&value, redactor),
        None => String::new(),
    };
    let (level, logger, data) = (field("level"), field("logger"), field("data"));
    let space = if logger.is_empty() { "" } else { " " };
    format!("[{level}{space}{logger}] {data}")
}

/// Renders a string verbatim and other values as JSON, truncated.
fn render(value: &Json, redactor: &Redactor) -> String {
    let raw = value.as_str();
    if raw.len() > MAX_INSPECTED_BYTES {
        return format!("({} bytes)", raw.len());
    }
    match value.as_string() {
        Some(text) => cut(&redactor.text(&text)),
        None => cut(&redactor.message(value)),
    }
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_SHOWN_BYTES);
    let more = if end < text.len() { "…" } else { "" };
    format!("{}{more}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(params: &str) -> String {
        message(
            &Json::parse(params.to_owned()).unwrap(),
            &Redactor::default(),
        )
    }

    #[test]
    fn log_messages_carry_level_and_logger() {
        for (params, expected) in [
            (
                r#"{"level":"warning","logger":"db","data":"slow"}"#,
                "[warning db] slow",
            ),
            (
                r#"{"level":"info","data":{"n":1,"token":"x"}}"#,
                r#"[info] {"n":1,"token":"***"}"#,
            ),
            (r#"{"data":"{\"token\":\"x\"}"}"#, r#"[] {"token":"***"}"#),
            ("{}", "[] "),
        ] {
            assert_eq!(logged(params), expected);
        }
        let long = logged(&format!(
            r#"{{"level":"info","data":"{}"}}"#,
            "x".repeat(MAX_SHOWN_BYTES + 1)
        ));
        assert_eq!(long.len(), "[info] …".len() + MAX_SHOWN_BYTES);
        let huge = logged(&format!(
            r#"{{"level":"info","data":"{}"}}"#,
            "x".repeat(MAX_INSPECTED_BYTES)
        ));
        assert_eq!(huge, format!("[info] ({} bytes)", MAX_INSPECTED_BYTES + 2));
    }

    #[test]
    fn unusable_frames_are_logged_without_secrets() {
        let redactor = Redactor::default();
        for (frame, expected) in [
            (&b"hello\nworld\n"[..], "unusable: no JSON: hello world"),
            (
                br#"{"password":"x"}"#,
                r#"unusable: no JSON: {"password":"***"}"#,
            ),
            (
                br#"{"password":"x"#,
                r#"unusable: no JSON: {"password":"***"#,
            ),
            (b"\xff", "unusable: no JSON: \u{fffd}"),
        ] {
            assert_eq!(unusable_frame("no JSON", frame, &redactor), expected);
        }
        let huge = unusable_frame("no JSON", &vec![b'x'; MAX_INSPECTED_BYTES + 1], &redactor);
        assert_eq!(
            huge,
            format!("unusable: no JSON ({} bytes)", MAX_INSPECTED_BYTES + 1)
        );
    }
}
