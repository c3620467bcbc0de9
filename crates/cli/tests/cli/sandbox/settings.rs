//! Profiles and requirements in settings, and the commands that show them.

use serde_json::{Value, json};

use crate::lab::{Lab, echo};

/// A project with an approved server "s" in this sandbox, and a user with these settings.
fn project(sandbox: &Value, settings: &Value) -> Lab {
    let lab = Lab::new();
    let mut entry = lab.scratch.entry("s", &echo());
    if !sandbox.is_null() {
        entry["sandbox"] = sandbox.clone();
    }
    lab.servers(".mcp.json", &json!({ "s": entry }));
    lab.write_json("home/.claude/settings.json", settings);
    lab
}

fn rules(lab: &Lab) -> Value {
    lab.plainly(&["--json", "sandbox", "explain", "s"]).json()
}

/// The paths of a project's server that are written, by the words that grant them.
fn words(rules: &Value, access: &str) -> Vec<String> {
    let grants = rules["rules"]["grants"].as_array().unwrap().iter();
    grants
        .filter(|grant| grant["access"] == access && grant["word"] != "system")
        .map(|grant| grant["word"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_repository_never_weakens_what_the_settings_require() {
    let greedy = json!({"read": ["home"], "write": ["home", "project"], "network": ["*"]});
    for sandbox in [json!(null), json!(false), json!(true), greedy.clone()] {
        for require in [
            json!(true),
            json!(["s"]),
            json!({"*": "default"}),
            json!("unreadable"),
        ] {
            let lab = project(&sandbox, &json!({ "requireSandbox": require }));
            let shown = rules(&lab);
            assert_eq!(shown["sandboxed"], true, "{sandbox} {require}");
            assert_eq!(shown["rules"]["network"], "none", "{sandbox} {require}");
            assert!(
                words(&shown, "write").is_empty(),
                "{sandbox} {require}: {shown}"
            );
        }
    }
    // Without a requirement, and for another server, the entry decides.
    let lab = project(&json!(false), &json!({"requireSandbox": ["other-*"]}));
    assert_eq!(rules(&lab)["sandboxed"], false);
    let lab = project(&greedy, &json!({}));
    assert_eq!(words(&rules(&lab), "write"), ["home", "project"]);
}

#[test]
fn a_profile_comes_from_the_settings_by_its_name() {
    let profiles = json!({"sandboxProfiles": {"web": {"network": ["example.com:443"]}}});
    let lab = project(&json!("web"), &profiles);
    let rules = rules(&lab);
    assert_eq!(rules["rules"]["network"]["hosts"][0]["host"], "example.com");
    // A repository has none of its own.
    let lab = project(&json!("mine"), &json!({}));
    lab.write_json(
        ".claude/settings.json",
        &json!({"sandboxProfiles": {"mine": {"write": ["home"]}}}),
    );
    let run = lab.plainly(&["sandbox", "explain", "s"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.err.contains("there is no profile \"mine\""), "{run:#?}");
}

#[test]
fn a_mistake_in_an_entry_is_named() {
    let lab = project(&json!({"reed": []}), &json!({}));
    let run = lab.plainly(&["sandbox", "explain", "s"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.err.contains("unknown field \"reed\""), "{run:#?}");
}

#[test]
fn a_command_can_be_tried_in_a_sandbox() {
    let lab = project(&json!({"write": ["project"]}), &json!({}));
    // The test's home is in its project, which is therefore mounted without its own entries.
    std::fs::create_dir(lab.at("sub")).unwrap();
    let script = "echo in; touch sub/written; exit 7";
    let run = lab.plainly(&["sandbox", "try", "s", "--", "sh", "-c", script]);
    assert_eq!(run.code, Some(7), "{run:#?}");
    assert!(
        run.out.starts_with("in\n") && lab.at("sub/written").exists(),
        "{run:#?}"
    );

    let lab = project(&json!(null), &json!({}));
    let run = lab.plainly(&["sandbox", "try", "s"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.err.contains("runs without a sandbox"), "{run:#?}");
}

#[test]
fn the_rules_are_explained() {
    let lab = project(&json!(true), &json!({}));
    let run = lab.plainly(&["sandbox", "explain", "s"]);
    for part in [
        "s runs in a sandbox: its entry asks for it",
        "read     system",
        "[DIR] (project)",
        "write    /tmp, which is private",
        "network  none",
        "512 processes",
        "enforced namespaces, seccomp",
    ] {
        assert!(run.out.contains(part), "{part}: {run:#?}");
    }
}
