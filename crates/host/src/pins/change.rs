//! The differences between a tool and its pin.

use std::fmt::{self, Write as _};

use super::definition::{Definition, PARTS};
use super::diff::{Line, diff};
use crate::catalog::PoolTool;

/// Lines of context in a diff.
const CONTEXT: usize = 2;

/// The differences of a tool since its approved call; the texts come from the server and are
/// untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolChange {
    /// The server.
    pub server: String,
    /// The tool's original name.
    pub tool: String,
    /// The changed parts.
    pub parts: Vec<PartChange>,
}

/// A changed part of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartChange {
    /// The part: `description`, `input schema`, …
    pub part: &'static str,
    /// The pinned text, if any.
    pub before: Option<String>,
    /// The current text, if any.
    pub after: Option<String>,
}

impl ToolChange {
    pub(crate) fn between(tool: &PoolTool, before: &Definition, after: &Definition) -> Self {
        let part = |at: usize| PartChange {
            part: PARTS[at],
            before: before.parts.get(at).cloned().flatten(),
            after: after.parts.get(at).cloned().flatten(),
        };
        let parts = (0..PARTS.len())
            .map(part)
            .filter(|part| part.before != part.after);
        Self {
            server: tool.server.to_string(),
            tool: tool.tool.name.to_string(),
            parts: parts.collect(),
        }
    }
}

impl ToolChange {
    /// Returns the differences as a line diff.
    pub fn diff(&self) -> String {
        let mut text = String::new();
        for change in &self.parts {
            let _ = writeln!(text, "  {}:", change.part);
            let [before, after] = [&change.before, &change.after]
                .map(|text| text.as_deref().unwrap_or_default().trim_end());
            for line in diff(before, after, CONTEXT) {
                let (tag, line) = match line {
                    Line::Same(line) => (' ', line),
                    Line::Removed(line) => ('-', line),
                    Line::Added(line) => ('+', line),
                };
                let _ = writeln!(text, "    {tag}{line}");
            }
        }
        text.pop();
        text
    }
}

impl fmt::Display for ToolChange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(|change| change.part).collect();
        write!(
            f,
            "tool \"{}\" of \"{}\" has changed since its first call ({})",
            self.tool,
            self.server,
            parts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_renders_as_a_diff() {
        let change = ToolChange {
            server: "s".to_owned(),
            tool: "t".to_owned(),
            parts: vec![
                PartChange {
                    part: "title",
                    before: None,
                    after: Some("New".to_owned()),
                },
                PartChange {
                    part: "description",
                    before: Some("one\ntwo\nthree\nfour\nfive".to_owned()),
                    after: Some("one\ntwo\nthree\n4\nfive\n".to_owned()),
                },
            ],
        };
        assert!(change.to_string().ends_with("(title, description)"));
        let expected = "  title:\n    +New\n  description:\n     two\n     three\n    -four\n    +4\n     five";
        assert_eq!(change.diff(), expected);
    }
}
