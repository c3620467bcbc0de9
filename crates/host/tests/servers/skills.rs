//! Skills: listed without reading them, and held to what is listed when they are read (CTX-3).

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use trunkline::Host;
use trunkline::call::CallErrorKind;
use trunkline::context::ReadOptions;

use crate::lab::{Lab, in_time};

const BODY: &str = "---\nname: tidy\ndescription: Tidies up\nversion: 1.10\n---\n# Tidy\n";
const HELP: &str = "more about it\n";

fn listed(uri: &str, text: &str) -> Value {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(text) {
        write!(digest, "{byte:02x}").unwrap();
    }
    json!({"uri": uri, "digest": digest, "size": text.len()})
}

/// A server that lists the skill `tidy`, and serves these texts for it.
fn serving(lab: &Lab, body: &str, help: &str) -> Value {
    let skill = json!({"uri": "skill://home/tidy/SKILL.md",
        "frontmatter": {"name": "tidy", "description": "Tidies up", "version": 1.1},
        "resources": [listed("skill://home/tidy/SKILL.md", BODY), listed("skill://home/tidy/help.md", HELP)]});
    json!({"era": "modern", "receivedLog": lab.at("received"),
        "capabilities": {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}},
        "resources": [{"uri": "skill://home/tidy/SKILL.md", "text": body}, {"uri": "skill://home/tidy/help.md", "text": help},
            {"uri": "skill://home/tidy/secret.md", "text": "not listed"}, {"uri": "skill://other/SKILL.md", "text": "x"}],
        "on": {"skills/list": [{"reply": {"skills": [skill, {"uri": "skill://bad/SKILL.md"}]}}],
            "skills/get": [{"reply": {"skill": skill}}]}})
}

async fn host(lab: &Lab, script: Value) -> Host {
    lab.host([lab.server("s", script)]).await
}

fn reads(lab: &Lab) -> usize {
    lab.scratch
        .read("received")
        .matches("resources/read")
        .count()
}

#[tokio::test]
async fn a_skill_is_read_when_it_is_needed_and_is_what_was_listed() {
    let lab = Lab::new();
    let host = host(&lab, serving(&lab, BODY, HELP)).await;
    let found = in_time("skills", host.skills()).await;
    assert_eq!(found.skills.len(), 1, "the list alone counts: {found:?}");
    assert_eq!(
        found.problems,
        ["server \"s\": skill 1 was left out: it has no frontmatter"]
    );
    assert_eq!(reads(&lab), 0);
    let skill = &found.skills[0];
    assert!(skill.listed && skill.skill.name == "tidy" && &*skill.server == "s");
    let loaded = host.load_skill(skill, ReadOptions::new()).await.unwrap();
    assert_eq!(loaded.text, BODY);
    let help = host.read_skill_file(skill, "skill://home/tidy/help.md", ReadOptions::new());
    assert_eq!(help.await.unwrap(), HELP.as_bytes());
    let before = reads(&lab);
    for uri in [
        "skill://home/tidy/secret.md",
        "skill://other/SKILL.md",
        "skill://home/tidy/../x",
    ] {
        let error = host
            .read_skill_file(skill, uri, ReadOptions::new())
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("is not one of its files"),
            "{error}"
        );
    }
    assert_eq!(
        reads(&lab),
        before,
        "what is not listed is not even asked for"
    );
    let again = host.skill("s", "skill://home/tidy/SKILL.md").await.unwrap();
    assert_eq!(again.skill.files, skill.skill.files);
    lab.end(host).await;
}

#[tokio::test]
async fn a_skill_that_is_not_what_was_listed_is_not_given() {
    let other = BODY.replace("# Tidy", "# Evil");
    let longer = format!("{BODY}more\n");
    for (body, help, expected) in [
        (other.as_str(), HELP, "is not what is listed"),
        (longer.as_str(), HELP, "bytes, and"),
        (
            BODY,
            "MORE about it\n",
            "skill://home/tidy/help.md is not what is listed",
        ),
    ] {
        let lab = Lab::new();
        let host = host(&lab, serving(&lab, body, help)).await;
        let skill = in_time("skills", host.skills()).await.skills.remove(0);
        let error = if body == BODY {
            let read =
                host.read_skill_file(&skill, "skill://home/tidy/help.md", ReadOptions::new());
            read.await.unwrap_err()
        } else {
            host.load_skill(&skill, ReadOptions::new())
                .await
                .unwrap_err()
        };
        assert!(error.kind() == CallErrorKind::Unverified, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn without_the_extension_a_resource_that_looks_like_a_skill_is_one_and_marked() {
    let lab = Lab::new();
    let script = json!({"resources": [{"uri": "skill://a/SKILL.md", "description": "d", "text": "# A"}, {"uri": "skill://a/x.md"}]});
    let host = host(&lab, script).await;
    let skills = in_time("skills", host.skills()).await.skills;
    assert_eq!(skills.len(), 1);
    assert!(!skills[0].listed && skills[0].skill.description == "d");
    let loaded = host
        .load_skill(&skills[0], ReadOptions::new())
        .await
        .unwrap();
    assert_eq!(loaded.text, "# A");
    assert!(host.skill("s", "skill://a/SKILL.md").await.is_err());
    lab.end(host).await;
}
