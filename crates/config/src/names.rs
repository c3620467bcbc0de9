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

/// Why a name in a file cannot be used, if so (CFG-3).
pub(crate) fn unusable(name: &str) -> Option<String> {
    if name.trim().is_empty() {
        return Some("its name is empty; give it one".to_owned());
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
    }
}
