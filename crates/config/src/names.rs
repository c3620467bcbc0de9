//! Server names: which may be used, and when two are the same.

/// The prefix of connectors' names.
pub const CONNECTOR_PREFIX: &str = "claude.ai ";

/// The prefix of plugins' servers' names.
pub(crate) const PLUGIN_PREFIX: &str = "plugin:";

/// Names that no configured server may have.
const RESERVED: [&str; 1] = ["workspace"];

/// A server's or tool's name with every character outside `[A-Za-z0-9_-]` turned into `_` (TOOL-1).
///
/// ```
/// assert_eq!(trunkline_config::normalize_name("my.server/v2"), "my_server_v2");
/// assert_eq!(trunkline_config::normalize_name("claude.ai  Google Drive!"), "claude_ai_Google_Drive");
/// ```
pub fn normalize_name(name: &str) -> String {
    let normal = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let normalized: String = name.chars().map(normal).collect();
    if !name.starts_with(CONNECTOR_PREFIX) {
        return normalized;
    }
    // Connector names are for people; runs of `_` would look like the separator.
    let words: Vec<&str> = normalized
        .split('_')
        .filter(|word| !word.is_empty())
        .collect();
    words.join("_")
}

/// How many characters a name may have (SEC-4).
const MAX_CHARS: usize = 256;

/// How much of an unusable name is quoted.
const MAX_QUOTED: usize = 80;

/// Whether a character could make a name pass for other text: control characters, line breaks, those that change the
/// direction of text, and those that cannot be seen.
pub(crate) fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Why text cannot be a name in any scope, if so.
pub(crate) fn unshowable(name: &str) -> Option<String> {
    if name.chars().any(is_deceptive) {
        let message = "its name holds line breaks, control characters or characters that cannot be seen; choose another one";
        return Some(message.to_owned());
    }
    (name.chars().count() > MAX_CHARS)
        .then(|| format!("its name is longer than {MAX_CHARS} characters; choose another one"))
}

/// A name as a message quotes it: on one line, and not longer than need be to find it.
pub(crate) fn quotable(name: &str) -> String {
    let mut quoted = String::new();
    for (at, c) in name.chars().enumerate() {
        if at == MAX_QUOTED {
            quoted.push('…');
            break;
        }
        if is_deceptive(c) {
            quoted.extend(c.escape_unicode());
        } else {
            quoted.push(c);
        }
    }
    quoted
}

/// Why a name in a file cannot be used, if so (CFG-3).
pub(crate) fn unusable(name: &str) -> Option<String> {
    if name.trim().is_empty() {
        return Some("its name is empty; give it one".to_owned());
    }
    if let Some(reason) = unshowable(name) {
        return Some(reason);
    }
    if RESERVED.contains(&name) {
        return Some(format!(
            "the name \"{name}\" is reserved; choose another one"
        ));
    }
    // Whoever could take these names could pass for a plugin or a connector that policy allows.
    for prefix in [PLUGIN_PREFIX, CONNECTOR_PREFIX] {
        if name.starts_with(prefix) {
            return Some(format!(
                "names that begin with \"{prefix}\" are reserved; choose another one"
            ));
        }
    }
    None
}

/// Why a name cannot be given to a new server, if so (CFG-3).
pub fn unfit_to_add(name: &str) -> Option<String> {
    if let Some(reason) = unusable(name) {
        return Some(reason);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.chars().all(fits) {
        return None;
    }
    let fitting: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    Some(format!(
        "the name \"{name}\" may hold only letters, digits, \"-\" and \"_\"; write for example \"{fitting}\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_are_plain_and_not_reserved() {
        for name in ["a", "A-b_9", "workspaces"] {
            assert_eq!(unfit_to_add(name), None, "{name}");
        }
        for name in [
            "",
            " ",
            "a b",
            "a.b",
            "ünï",
            "workspace",
            "plugin:x:y",
            "a/b",
        ] {
            assert!(unfit_to_add(name).is_some(), "{name}");
        }
        assert!(unfit_to_add("my server.v2").is_some_and(|told| told.contains("\"my-server-v2\"")));
    }

    #[test]
    fn a_file_may_use_any_name_that_is_not_reserved() {
        for name in ["a.b c", "ünï"] {
            assert_eq!(unusable(name), None, "{name}");
        }
        for name in ["", "workspace", "plugin:p:s", "claude.ai Slack"] {
            assert!(unusable(name).is_some(), "{name}");
        }
        let long = "x".repeat(257);
        for name in [
            "a\nb",
            "a\rb",
            "\u{1b}[2J",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{2028}b",
            &long,
        ] {
            assert!(unusable(name).is_some(), "{name:?}");
            let quoted = quotable(name);
            assert!(!quoted.chars().any(is_deceptive) && quoted.chars().count() <= 90);
        }
    }
}
