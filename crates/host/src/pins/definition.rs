//! Everything about a tool that a model is told, or that decides how it is treated.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use trunkline_wire::Json;

use crate::catalog::PoolTool;

/// How long a part may be to be kept as it is; of a longer one only the hash is.
const MAX_KEPT: usize = 64 * 1024;

/// A tool as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// Of all parts together.
    pub(crate) hash: String,
    /// What they were, for people; in the order of [`PARTS`].
    pub(crate) parts: Vec<Option<String>>,
    /// The name by which it was called; empty if that is another tool's now.
    #[serde(default)]
    pub(crate) called: String,
}

/// What the parts are called.
pub(crate) const PARTS: [&str; 7] = [
    "name",
    "title",
    "description",
    "input schema",
    "output schema",
    "annotations",
    "instructions of the server",
];

impl Definition {
    pub(crate) fn of(pool_tool: &PoolTool, instructions: Option<&str>) -> Self {
        let tool = &pool_tool.tool;
        // A title may stand in two places; both are shown somewhere.
        let annotations = tool.raw.get("annotations");
        let parts = [
            Some(tool.name.to_string()),
            tool.title.as_ref().map(ToString::to_string),
            tool.description.as_ref().map(ToString::to_string),
            Some(canonical(&tool.input_schema)),
            tool.output_schema.as_ref().map(canonical),
            annotations.as_ref().map(canonical),
            instructions.map(str::to_owned),
        ];
        let mut hasher = Sha256::new();
        for part in &parts {
            // The length keeps parts from running into each other.
            let length = part.as_ref().map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(length.to_le_bytes());
            hasher.update(part.as_deref().unwrap_or_default());
        }
        Self {
            hash: hex(&hasher.finalize()),
            parts: parts.map(|part| part.map(kept)).into(),
            called: pool_tool.name.clone(),
        }
    }
}

fn kept(part: String) -> String {
    if part.len() <= MAX_KEPT {
        return part;
    }
    let hash = hex(&Sha256::digest(&part));
    format!("({} bytes with the SHA-256 {hash})", part.len())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// JSON with its members sorted, one a line: a server that writes the same in another order has changed nothing. What is nested
/// too deep to be read as a tree counts as it is written.
fn canonical(json: &Json) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(json.as_str()) else {
        return json.as_str().to_owned();
    };
    value.sort_all_objects();
    serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::testing::tool_of;

    #[test]
    fn every_part_counts_and_spelling_does_not() {
        let first = json!({
            "name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object", "a": 1},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
        });
        let hash =
            |tool: &Value, instructions| Definition::of(&tool_of("s", tool), instructions).hash;
        let before = hash(&first, Some("i"));
        let mut other = first.clone();
        other["inputSchema"] = serde_json::from_str(r#"{ "a":1,  "type":"object"}"#).unwrap();
        assert_eq!(hash(&other, Some("i")), before);
        for (member, value) in [
            ("name", json!("u")),
            ("title", json!("U")),
            ("description", json!("e")),
            ("inputSchema", json!({"type": "object"})),
            ("outputSchema", json!({})),
            ("annotations", json!({"readOnlyHint": false})),
        ] {
            let mut changed = first.clone();
            changed[member] = value;
            assert_ne!(hash(&changed, Some("i")), before, "{member}");
        }
        assert_ne!(hash(&first, Some("j")), before);
        assert_ne!(hash(&first, None), before);
    }

    #[test]
    fn a_part_that_is_too_long_is_kept_as_its_hash() {
        let long = json!({"name": "t", "description": "x".repeat(100_000)});
        let kept = Definition::of(&tool_of("s", &long), None);
        assert!(kept.parts[2].as_ref().unwrap().starts_with("(100000 bytes"));
    }
}
