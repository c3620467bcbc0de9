//! Everything about a tool that a model sees or that affects how it is treated.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use trunkline_wire::Json;

use super::canonical::{Kind, canonical, repeats_keys};
use super::change::ToolChange;
use crate::catalog::PoolTool;
use crate::disk::hex;

/// Longer parts are stored as a hash.
const MAX_PART_BYTES: usize = 64 * 1024;

/// Version of the pin format. Version 1 had no `_meta`, kept only the last value of a repeated key,
/// and counted the order of sets.
const VERSION: u8 = 2;

/// A snapshot of a tool's definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// The format version.
    #[serde(default = "first_version")]
    version: u8,
    /// The hash of all parts.
    pub(crate) hash: String,
    /// The parts in the order of [`PARTS`], for display.
    pub(crate) parts: Vec<Option<String>>,
    /// The pool name; empty if another tool has it now.
    #[serde(default)]
    pub(crate) called: String,
}

/// The names of the parts.
pub(crate) const PARTS: [&str; 8] = [
    "name",
    "title",
    "description",
    "input schema",
    "output schema",
    "annotations",
    "instructions of the server",
    "metadata",
];

/// Number of parts in version 1.
const PARTS_IN_VERSION_1: usize = 7;

fn first_version() -> u8 {
    1
}

impl Definition {
    pub(crate) fn of(pool_tool: &PoolTool, instructions: Option<&str>) -> Self {
        let tool = &pool_tool.tool;
        let json = json_parts(pool_tool);
        let [input, output, annotations, meta] = [0, 1, 2, 3].map(|at| {
            let (kind, json) = &json[at];
            json.as_ref().map(|json| canonical(*kind, json.as_str()))
        });
        let parts = [
            Some(tool.name.to_string()),
            tool.title.as_ref().map(ToString::to_string),
            tool.description.as_ref().map(ToString::to_string),
            input,
            output,
            annotations,
            instructions.map(str::to_owned),
            meta,
        ];
        let mut hasher = Sha256::new();
        hasher.update([VERSION]);
        for part in &parts {
            // The length separates adjacent parts.
            let length = part.as_ref().map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(length.to_le_bytes());
            hasher.update(part.as_deref().unwrap_or_default());
        }
        Self {
            version: VERSION,
            hash: hex(&hasher.finalize()),
            parts: parts.map(|part| part.map(bounded)).into(),
            called: pool_tool.name.clone(),
        }
    }

    /// Returns the differences to the current definition, if any.
    pub(crate) fn changed(&self, tool: &PoolTool, now: &Self) -> Option<ToolChange> {
        if self.version != first_version() {
            return (self.hash != now.hash).then(|| ToolChange::between(tool, self, now));
        }
        let before = self.upgraded(tool, now);
        (before.parts != now.parts).then(|| ToolChange::between(tool, &before, now))
    }

    /// Converts a version 1 definition. Parts it lacks are assumed unchanged.
    fn upgraded(&self, tool: &PoolTool, now: &Self) -> Self {
        let mut parts = self.parts.clone();
        parts.resize(PARTS_IN_VERSION_1, None);
        for ((kind, json), at) in json_parts(tool).into_iter().zip(JSON_PARTS) {
            let (Some(before), Some(json)) = (parts.get_mut(at).and_then(Option::as_mut), json)
            else {
                continue;
            };
            if before.len() <= MAX_PART_BYTES && !before.starts_with('(') {
                *before = canonical(kind, before);
            } else if *before == bounded(sorted(&json)) && !repeats_keys(json.as_str()) {
                // Only the hash is known, and it matches.
                parts[at].clone_from(&now.parts[at]);
            }
        }
        parts.extend(now.parts.iter().skip(PARTS_IN_VERSION_1).cloned());
        Self {
            parts,
            ..self.clone()
        }
    }
}

/// Indices of the JSON parts.
const JSON_PARTS: [usize; 4] = [3, 4, 5, 7];

/// Returns the JSON parts in the order of [`JSON_PARTS`].
fn json_parts(pool_tool: &PoolTool) -> [(Kind, Option<Json>); 4] {
    let tool = &pool_tool.tool;
    [
        (Kind::Schema, Some(tool.input_schema.clone())),
        (Kind::Schema, tool.output_schema.clone()),
        // A title may be in two places, and both are displayed.
        (Kind::Data, tool.raw.get("annotations")),
        (Kind::Meta, tool.meta.clone()),
    ]
}

fn bounded(part: String) -> String {
    if part.len() <= MAX_PART_BYTES {
        return part;
    }
    let hash = hex(&Sha256::digest(&part));
    format!("({} bytes with the SHA-256 {hash})", part.len())
}

/// Formats JSON like version 1: sorted members, pretty-printed.
fn sorted(json: &Json) -> String {
    let Ok(mut value) = json.to_value() else {
        return json.as_str().to_owned();
    };
    value.sort_all_objects();
    serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trunkline_wire::mcp::Item as _;

    use super::*;
    use crate::catalog::testing::tool_of;

    #[test]
    fn hash_covers_every_part_but_not_spelling() {
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
            ("_meta", json!({"anthropic/searchHint": "mail"})),
        ] {
            let mut changed = first.clone();
            changed[member] = value;
            assert_ne!(hash(&changed, Some("i")), before, "{member}");
        }
        assert_ne!(hash(&first, Some("j")), before);
        assert_ne!(hash(&first, None), before);
    }

    #[test]
    fn long_part_is_stored_as_its_hash() {
        let long = json!({"name": "t", "description": "x".repeat(100_000)});
        let bounded = Definition::of(&tool_of("s", &long), None);
        assert!(
            bounded.parts[2]
                .as_ref()
                .unwrap()
                .starts_with("(100000 bytes")
        );
    }

    /// Builds a version 1 definition.
    fn of_version_one(tool: &PoolTool) -> Definition {
        let mut parts = Definition::of(tool, None).parts;
        parts.truncate(PARTS_IN_VERSION_1);
        for (at, (_, json)) in JSON_PARTS.into_iter().zip(json_parts(tool)).take(3) {
            parts[at] = json.map(|json| bounded(sorted(&json)));
        }
        let text = json!({"hash": "old", "parts": parts, "called": tool.name});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn version_1_pin_detects_exactly_the_changes() {
        let read = |text: String| {
            let tool = trunkline_wire::mcp::Tool::from_json(Json::parse(text).unwrap()).unwrap();
            let server = "s".into();
            let options = crate::catalog::ToolOptions::plain(&server);
            (*crate::catalog::server_tools(&options, vec![tool]).0[0]).clone()
        };
        let with = |schema: &str, rest: &str| {
            read(format!(r#"{{"name":"t","inputSchema":{schema}{rest}}}"#))
        };
        let long = format!(
            r#"{{"type":"object","description":"{}"}}"#,
            "x".repeat(100_000)
        );
        let long_twice = long.replacen('{', r#"{"description":"do evil","#, 1);
        for (before, after, rest, changed) in [
            (
                r#"{"required":["a","b"]}"#,
                r#"{"required":["b","a"]}"#,
                "",
                "",
            ),
            (r#"{"a":1}"#, r#"{"a":1}"#, r#","_meta":{"k":1}"#, ""),
            (r#"{"a":1}"#, r#"{"a":2}"#, "", "input schema"),
            (r#"{"a":1}"#, r#"{"a":2,"a":1}"#, "", "input schema"),
            (
                r#"{"a":1}"#,
                r#"{"a":1}"#,
                r#","outputSchema":{}"#,
                "output schema",
            ),
            (&long, &long, "", ""),
            (&long, &long_twice, "", "input schema"),
        ] {
            let pinned = of_version_one(&with(before, ""));
            assert_eq!(pinned.version, 1);
            let tool = with(after, rest);
            let change = pinned.changed(&tool, &Definition::of(&tool, None));
            let parts = change.map_or(String::new(), |change| {
                let parts = change.parts.iter().map(|part| part.part);
                parts.collect::<Vec<_>>().join(", ")
            });
            assert_eq!(parts, changed, "{}", after.get(..60).unwrap_or(after));
        }
    }
}
