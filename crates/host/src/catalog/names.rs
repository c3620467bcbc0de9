//! The names by which models call tools (TOOL-1).

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use trunkline_config::normalize_name;

use crate::disk::hex;

/// Maximum length of a tool name.
pub(crate) const MAX_NAME: usize = 64;

/// The length of a hash suffix: `_` and eight hex digits.
const SUFFIX: usize = 9;

/// Returns the name by which a model calls `tool` of `server`. Names that are too long are
/// shortened and get a stable suffix.
///
/// ```
/// assert_eq!(trunkline::tool::tool_name("github", "create issue"), "mcp__github__create_issue");
/// ```
pub fn tool_name(server: &str, tool: &str) -> String {
    let name = format!("mcp__{}__{}", normalize_name(server), normalize_name(tool));
    if name.len() <= MAX_NAME {
        name
    } else {
        with_suffix(&name, server, tool, 0)
    }
}

/// Returns the name of a tool without a prefix (TOOL-2). A name that imitates a prefix gets the
/// server's prefix instead.
pub(super) fn bare_name(server: &str, tool: &str) -> String {
    let name = normalize_name(tool);
    if name.starts_with("mcp__") {
        tool_name(server, tool)
    } else if name.len() <= MAX_NAME {
        name
    } else {
        with_suffix(&name, server, tool, 0)
    }
}

/// Returns whether `name` could belong to a tool of `server`, judging by the name alone.
///
/// ```
/// assert!(trunkline::tool::may_belong_to("mcp__github__create_issue", "github"));
/// assert!(!trunkline::tool::may_belong_to("mcp__github__create_issue", "git"));
/// ```
pub fn may_belong_to(name: &str, server: &str) -> bool {
    let prefix = format!("mcp__{}__", normalize_name(server));
    // A shortened name may have lost the end of its server's name.
    name.starts_with(&prefix[..prefix.len().min(MAX_NAME - SUFFIX)])
}

/// Appends a suffix that depends only on the original names and on `attempt`, the number of
/// suffixes already tried.
pub(super) fn with_suffix(name: &str, server: &str, tool: &str, attempt: usize) -> String {
    let mut original = format!("{server}\0{tool}");
    if attempt > 0 {
        let _ = write!(original, "\0{attempt}");
    }
    let name = &name[..name.len().min(MAX_NAME - SUFFIX)];
    format!("{name}_{}", hex(&Sha256::digest(original)[..4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_normalized() {
        let cases = [
            ("github", "get_issue", "mcp__github__get_issue"),
            ("a.b c", "x/y:z", "mcp__a_b_c__x_y_z"),
            ("ünï", "t", "mcp___n___t"),
            ("plugin:p:s", "t-1", "mcp__plugin_p_s__t-1"),
            (
                "claude.ai Slack (Team)",
                "t",
                "mcp__claude_ai_Slack_Team__t",
            ),
            ("claude.ai", "t", "mcp__claude_ai__t"),
        ];
        for (server, tool, expected) in cases {
            assert_eq!(tool_name(server, tool), expected);
        }
    }

    #[test]
    fn bare_name_cannot_imitate_another_server() {
        assert_eq!(bare_name("s", "get issue"), "get_issue");
        assert_eq!(bare_name("s", "mcp__github__x"), "mcp__s__mcp__github__x");
        assert_eq!(bare_name("s", &"a".repeat(80)).len(), MAX_NAME);
    }

    #[test]
    fn long_names_are_shortened_to_stable_unique_names() {
        let one = tool_name("server", &"a".repeat(80));
        let other = tool_name("server", &"a".repeat(81));
        assert_eq!(one.len(), MAX_NAME);
        assert_ne!(one, other);
        assert_eq!(one, tool_name("server", &"a".repeat(80)));
        assert!(one.starts_with("mcp__server__aaa"));
        assert_eq!(tool_name("s", &"a".repeat(56)).len(), MAX_NAME);
        assert!(tool_name("s", &"a".repeat(56)).ends_with('a'));
    }
}
