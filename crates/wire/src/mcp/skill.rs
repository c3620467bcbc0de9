//! Skills (the skills extension).

use bytestring::ByteString;

use super::Item;
use crate::json::Json;

/// The maximum number of files in a skill, from the extension.
const MAX_FILES: usize = 512;

/// The maximum total size of the files in a skill, from the extension.
const MAX_SIZE: u64 = 16 * 1024 * 1024;

/// A skill: a `SKILL.md` with instructions, and its files.
#[derive(Clone, Debug)]
pub struct Skill {
    /// The URI of its `SKILL.md`.
    pub uri: ByteString,
    /// The name, which is not unique.
    pub name: String,
    /// When to use the skill. Untrusted text.
    pub description: String,
    /// The frontmatter of its `SKILL.md`.
    pub frontmatter: Json,
    /// The files, or `None` if the server generates them on demand.
    pub files: Option<Vec<SkillFile>>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFile {
    /// The URI.
    pub uri: String,
    /// The SHA-256 digest, in lower-case hexadecimal.
    pub sha256: String,
    /// The size in bytes.
    pub size: u64,
}

impl Item for Skill {
    fn from_json(raw: Json) -> Result<Self, String> {
        let uri = raw.get("uri").and_then(|uri| uri.as_string());
        let uri = uri.ok_or("it has no uri")?;
        let frontmatter = raw.get("frontmatter").filter(Json::is_object);
        let frontmatter = frontmatter.ok_or("it has no frontmatter")?;
        let text = |member: &str| frontmatter.field::<String>(member);
        let name = text("name").ok_or("its frontmatter has no name")?;
        let description = text("description").ok_or("its frontmatter has no description")?;
        let directory = uri.strip_suffix("/SKILL.md");
        let directory = directory.ok_or("its uri does not end in /SKILL.md")?;
        if directory.rsplit('/').next() != Some(&name) {
            return Err(format!("its uri does not end in its name, \"{name}\""));
        }
        let files = match raw.get("resources") {
            Some(dynamic) if dynamic.as_str() == r#""dynamic""# => None,
            Some(files) => Some(read_files(&files, &uri, directory)?),
            None => return Err("it does not list its files".to_owned()),
        };
        Ok(Self {
            uri,
            name,
            description,
            frontmatter,
            files,
        })
    }
}

fn read_files(files: &Json, uri: &str, directory: &str) -> Result<Vec<SkillFile>, String> {
    let files = files.to_elements().ok_or("its files are not a list")?;
    if files.len() > MAX_FILES {
        return Err(format!("it has more than {MAX_FILES} files"));
    }
    let files: Vec<SkillFile> = files.iter().map(read_file).collect::<Result<_, _>>()?;
    let inside = |file: &SkillFile| {
        let path = file.uri.strip_prefix(directory);
        path.is_some_and(|path| path.starts_with('/') && !path.split('/').any(|part| part == ".."))
    };
    if let Some(outside) = files.iter().find(|file| !inside(file)) {
        return Err(format!("its file \"{}\" is not its own", outside.uri));
    }
    if !files.iter().any(|file| file.uri == uri) {
        return Err("its SKILL.md is not among its files".to_owned());
    }
    let size = files
        .iter()
        .fold(0_u64, |size, file| size.saturating_add(file.size));
    if size > MAX_SIZE {
        return Err(format!("its files have {size} bytes, more than {MAX_SIZE}"));
    }
    Ok(files)
}

fn read_file(file: &Json) -> Result<SkillFile, String> {
    let uri: String = file.field("uri").ok_or("one of its files has no uri")?;
    let digest: Option<String> = file.field("digest");
    let is_hex = |text: &str| {
        text.len() == 64
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let sha256 = digest
        .as_deref()
        .and_then(|digest| digest.strip_prefix("sha256:"))
        .filter(|digest| is_hex(digest))
        .ok_or_else(|| format!("its file \"{uri}\" has no sha256 digest"))?;
    let size = file.field("size");
    Ok(SkillFile {
        size: size.ok_or_else(|| format!("its file \"{uri}\" has no size"))?,
        sha256: sha256.to_owned(),
        uri,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn good() -> Value {
        let digest = format!("sha256:{}", "0f".repeat(32));
        json!({"uri": "skill://a/b/SKILL.md", "frontmatter": {"name": "b", "description": "d", "x": 1},
            "resources": [{"uri": "skill://a/b/SKILL.md", "digest": digest, "size": 9}]})
    }

    type Edit = fn(&mut Value);

    fn refused(change: Edit) -> String {
        let mut skill = good();
        change(&mut skill);
        Skill::from_json(skill.into()).unwrap_err()
    }

    #[test]
    fn a_skill_is_read_with_its_files() {
        let skill = Skill::from_json(good().into()).unwrap();
        assert_eq!((&*skill.name, &*skill.description), ("b", "d"));
        assert_eq!(skill.files.unwrap()[0].size, 9);
        let mut dynamic = good();
        dynamic["resources"] = json!("dynamic");
        assert!(Skill::from_json(dynamic.into()).unwrap().files.is_none());
    }

    #[test]
    fn inconsistent_skills_are_rejected() {
        let cases: [(Edit, &str); 11] = [
            (|skill| skill["uri"] = json!(5), "no uri"),
            (
                |skill| skill["uri"] = json!("skill://a/b/README.md"),
                "/SKILL.md",
            ),
            (
                |skill| skill["uri"] = json!("skill://a/c/SKILL.md"),
                "its name",
            ),
            (|skill| skill["frontmatter"] = json!([]), "frontmatter"),
            (
                |skill| skill["frontmatter"]["description"] = json!(1),
                "description",
            ),
            (|skill| skill["resources"] = json!(null), "not a list"),
            (
                |skill| drop(skill.as_object_mut().unwrap().remove("resources")),
                "list its files",
            ),
            (|skill| skill["resources"] = json!([]), "not among"),
            (
                |skill| skill["resources"][0]["digest"] = json!("sha256:zz"),
                "digest",
            ),
            (
                |skill| skill["resources"][0]["size"] = json!(17_000_000),
                "more than",
            ),
            (
                |skill| {
                    let mut outside = skill["resources"][0].clone();
                    outside["uri"] = json!("skill://a/b/../c/x");
                    skill["resources"].as_array_mut().unwrap().push(outside);
                },
                "not its own",
            ),
        ];
        for (change, expected) in cases {
            let reason = refused(change);
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
