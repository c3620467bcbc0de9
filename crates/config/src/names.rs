//! Server names: which are valid, and which count as the same.

/// The prefix of connector names.
pub const CONNECTOR_PREFIX: &str = "claude.ai ";

/// The prefix of the names of plugin servers.
pub(crate) const PLUGIN_PREFIX: &str = "plugin:";

/// Names that no configured server may have.
const RESERVED: [&str; 1] = ["workspace"];

/// The maximum length of a name in characters (SEC-4).
const MAX_CHARS: usize = 256;

/// How many characters of an invalid name are quoted.
const MAX_QUOTED: usize = 80;

/// Replaces every character of a server or tool name outside `[A-Za-z0-9_-]` by `_` (TOOL-1).
///
/// ```
/// use trunkline_config::normalize_name;
///
/// assert_eq!(normalize_name("my.server/v2"), "my_server_v2");
/// assert_eq!(normalize_name("claude.ai  Google Drive!"), "claude_ai_Google_Drive");
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
    // Connector names are free text; a run of `_` would look like the separator of tool names.
    let words = normalized.split('_').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Whether a character can make a name pass for other text: control characters, line breaks, and
/// bidirectional or invisible characters.
pub(crate) fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Checks that a name is safe to display.
pub(crate) fn check_displayable(name: &str) -> Result<(), String> {
    if name.chars().any(is_deceptive) {
        let message = "its name contains line breaks, control characters or invisible characters; \
                       rename it";
        return Err(message.to_owned());
    }
    if name.chars().count() > MAX_CHARS {
        return Err(format!(
            "its name is longer than {MAX_CHARS} characters; rename it"
        ));
    }
    Ok(())
}

/// A name for a message: on one line, and shortened.
pub(crate) fn quoted_name(name: &str) -> String {
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

/// Checks the name of an entry in a file (CFG-3).
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("its name is empty; give it one".to_owned());
    }
    check_displayable(name)?;
    if RESERVED.contains(&name) {
        return Err(format!("the name \"{name}\" is reserved; rename it"));
    }
    // Otherwise an entry could pass for a plugin or a connector that policy allows.
    for prefix in [PLUGIN_PREFIX, CONNECTOR_PREFIX] {
        if name.starts_with(prefix) {
            return Err(format!(
                "names that begin with \"{prefix}\" are reserved; rename it"
            ));
        }
    }
    Ok(())
}

/// Checks the name of a server that is to be added (CFG-3). The error says what to write instead.
pub fn check_new_name(name: &str) -> Result<(), String> {
    check_name(name)?;
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.chars().all(is_valid) {
        return Ok(());
    }
    let valid: String = name
        .chars()
        .map(|c| if is_valid(c) { c } else { '-' })
        .collect();
    Err(format!(
        "the name \"{name}\" may contain only letters, digits, \"-\" and \"_\"; \
         write for example \"{valid}\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_are_plain_and_not_reserved() {
        for name in ["a", "A-b_9", "workspaces"] {
            assert_eq!(check_new_name(name), Ok(()), "{name}");
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
            assert!(check_new_name(name).is_err(), "{name}");
        }
        let error = check_new_name("my server.v2").unwrap_err();
        assert!(error.contains("\"my-server-v2\""), "{error}");
    }

    #[test]
    fn a_file_may_use_any_name_that_is_not_reserved() {
        for name in ["a.b c", "ünï"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "workspace", "plugin:p:s", "claude.ai Slack"] {
            assert!(check_name(name).is_err(), "{name}");
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
            assert!(check_name(name).is_err(), "{name:?}");
            let quoted = quoted_name(name);
            assert!(!quoted.chars().any(is_deceptive) && quoted.chars().count() <= 90);
        }
    }
}
