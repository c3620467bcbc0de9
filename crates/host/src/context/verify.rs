//! Verifies the files of a skill against its server's list (the skills extension). This detects
//! files that were changed or truncated on their way; it does not make the server trustworthy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
#[cfg(feature = "validation")]
use trunkline_config::yaml_value;
use trunkline_wire::mcp::{ResourceBody, ResourceContent, SkillFile};

#[cfg(not(feature = "validation"))]
use crate::absent::validation::yaml_value;

/// Returns the bytes of a content; an `Err` says why there are none.
pub(super) fn bytes(content: &ResourceContent) -> Result<Vec<u8>, String> {
    match &content.body {
        ResourceBody::Text(text) => Ok(text.as_bytes().to_vec()),
        ResourceBody::Blob(blob) => STANDARD
            .decode(&**blob)
            .map_err(|_| "it is not Base64".to_owned()),
    }
}

/// Checks the size and digest of a file against the list.
pub(super) fn check(listed: &SkillFile, bytes: &[u8]) -> Result<(), String> {
    if u64::try_from(bytes.len()) != Ok(listed.size) {
        return Err(format!(
            "{} has {} bytes, and {} are listed",
            listed.uri,
            bytes.len(),
            listed.size
        ));
    }
    let digest = Sha256::digest(bytes);
    let is_listed = |(at, byte): (usize, &u8)| {
        listed.sha256.get(2 * at..2 * at + 2) == Some(&format!("{byte:02x}"))
    };
    if digest.iter().enumerate().all(is_listed) {
        Ok(())
    } else {
        Err(format!("{} is not what is listed", listed.uri))
    }
}

/// Returns the frontmatter of a `SKILL.md`.
pub(super) fn frontmatter(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let fence = |line: &str| line.trim_end() == "---";
    if !lines.next().is_some_and(fence) {
        return Err("its SKILL.md has no frontmatter".to_owned());
    }
    let mut yaml = String::new();
    for line in lines {
        if fence(line) {
            return match yaml_value(&yaml) {
                Ok(Value::Object(members)) => Ok(members),
                Ok(_) => Err("the frontmatter of its SKILL.md is not a mapping".to_owned()),
                Err(problem) => Err(format!(
                    "the frontmatter of its SKILL.md cannot be read: {problem}"
                )),
            };
        }
        yaml.push_str(line);
    }
    Err("the frontmatter of its SKILL.md has no end".to_owned())
}

/// Returns the first member in which two frontmatters differ.
pub(super) fn difference<'a>(
    found: &'a Map<String, Value>,
    listed: &'a Map<String, Value>,
) -> Option<&'a str> {
    let members = found.keys().chain(listed.keys());
    let differs = |key: &&String| match (found.get(*key), listed.get(*key)) {
        (Some(one), Some(other)) => !same(one, other),
        _ => true,
    };
    members
        .map(|key| (key, differs(&key)))
        .find_map(|(key, differs)| differs.then_some(key.as_str()))
}

/// Returns whether two values are equal, regardless of how numbers are spelt.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            let in_other = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| same(value, other))
            };
            one.len() == other.len() && one.iter().all(in_other)
        }
        // YAML's 1.10 may have been parsed as the number 1.1.
        (Value::String(text), number @ Value::Number(_))
        | (number @ Value::Number(_), Value::String(text)) => {
            text.parse::<f64>().ok() == number.as_f64()
        }
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_held_to_its_size_and_its_digest() {
        let listed = SkillFile {
            uri: "skill://a/x".to_owned(),
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned(),
            size: 3,
        };
        assert_eq!(check(&listed, b"abc"), Ok(()));
        assert_eq!(
            check(&listed, b"abd").unwrap_err(),
            "skill://a/x is not what is listed"
        );
        assert_eq!(
            check(&listed, b"abcd").unwrap_err(),
            "skill://a/x has 4 bytes, and 3 are listed"
        );
    }

    #[test]
    fn frontmatter_is_what_stands_between_the_lines() {
        let read = frontmatter("---\r\nname: a\nversion: 1.10\n---\n# Title\n---\n").unwrap();
        assert_eq!(Value::Object(read), json!({"name": "a", "version": "1.10"}));
        for (text, problem) in [
            ("# Title", "no frontmatter"),
            ("", "no frontmatter"),
            ("---\nname: a", "no end"),
            ("---\n- a\n---\n", "not a mapping"),
            ("---\na: [\n---\n", "cannot be read"),
        ] {
            let found = frontmatter(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }

    #[test]
    fn every_member_counts_but_not_how_numbers_are_spelled() {
        let check = |one: Value, other: Value, expected: Option<&str>| {
            let (Value::Object(one), Value::Object(other)) = (one, other) else {
                panic!("not objects");
            };
            assert_eq!(difference(&one, &other), expected);
        };
        check(
            json!({"a": 1, "b": ["x"]}),
            json!({"b": ["x"], "a": 1.0}),
            None,
        );
        check(json!({"v": "1.10"}), json!({"v": 1.1}), None);
        check(json!({"a": "x"}), json!({"a": "y"}), Some("a"));
        check(
            json!({"a": 1}),
            json!({"a": 1, "allowed-tools": "*"}),
            Some("allowed-tools"),
        );
        check(json!({"a": 1, "b": 2}), json!({"a": 1}), Some("b"));
        check(json!({"m": {"k": 1}}), json!({"m": {"k": 2}}), Some("m"));
    }
}
