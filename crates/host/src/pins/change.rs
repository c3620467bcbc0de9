//! What is different about a tool.

use std::fmt::{self, Write as _};

use similar::TextDiff;

use super::definition::{Definition, PARTS};
use crate::catalog::PoolTool;

/// How many lines around a difference are shown.
const CONTEXT: usize = 2;

/// What is different about a tool since a call of it was agreed to; its texts are the server's, untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange {
    /// The server.
    pub server: String,
    /// The tool, by its original name.
    pub tool: String,
    /// What is different.
    pub parts: Vec<PartChange>,
}

/// One part of a tool that is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartChange {
    /// Which: `description`, `input schema`, …
    pub part: &'static str,
    /// What it was; `None` if there was none.
    pub before: Option<String>,
    /// What it is.
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
    /// What is different, line by line.
    pub fn diff(&self) -> String {
        let mut text = String::new();
        for change in &self.parts {
            let _ = writeln!(text, "  {}:", change.part);
            let [before, after] =
                [&change.before, &change.after].map(|text| newline_terminated(text.as_deref()));
            let diff = TextDiff::from_lines(&before, &after);
            for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
                for line in hunk.iter_changes() {
                    let said = line.value().trim_end_matches('\n');
                    let _ = writeln!(text, "    {}{said}", line.tag());
                }
            }
        }
        text.pop();
        text
    }
}

/// The text with an end to every line, so that the last one is not another for want of it.
fn newline_terminated(text: Option<&str>) -> String {
    let mut text = text.unwrap_or_default().trim_end().to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

impl fmt::Display for ToolChange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(|change| change.part).collect();
        write!(
            f,
            "the tool \"{}\" of \"{}\" is not what it was when it was first called (changed: {})",
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
        assert!(
            change
                .to_string()
                .ends_with("(changed: title, description)")
        );
        let expected = "  title:\n    +New\n  description:\n     two\n     three\n    -four\n    +4\n     five";
        assert_eq!(change.diff(), expected);
    }
}
