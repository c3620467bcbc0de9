//! `trunkline enable` and `disable` (CFG-10).

use serde_json::json;

use crate::lab::Lab;

const WRITTEN: &str = "  written to [DIR]/home/.claude.json (project [DIR])\n";

#[test]
fn a_server_is_switched_off_and_on_for_this_project() {
    let lab = Lab::new();
    lab.servers("home/.claude.json", &json!({"s": lab.marking("s")}));
    lab.scratch.write("elsewhere/.git/HEAD", "");
    lab.plainly(&["disable", "s"])
        .is(0, &format!("disabled \"s\" in this project\n{WRITTEN}"), "");
    assert_eq!(lab.of_project(), json!({"disabledMcpServers": ["s"]}));
    assert_eq!(lab.state("s"), "disabled");
    let run = lab.plainly(&["call", "s", "echo"]);
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:#?}");
    assert!(
        run.err.starts_with("error: the server \"s\" is disabled\n"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("trunkline enable s"),
        "what to do about it: {}",
        run.err
    );
    assert!(!lab.started("s"));
    let elsewhere = lab.finish(
        lab.bare(&["call", "s", "echo"])
            .current_dir(lab.at("elsewhere")),
    );
    elsewhere.is(0, "{}\n", "");
    assert!(lab.started("s"));
    lab.plainly(&["enable", "s"])
        .is(0, &format!("enabled \"s\" in this project\n{WRITTEN}"), "");
    assert_eq!(lab.of_project(), json!({"disabledMcpServers": []}));
    lab.plainly(&["call", "s", "echo"]).is(0, "{}\n", "");
}

#[test]
fn doing_it_twice_changes_nothing() {
    let lab = Lab::new();
    lab.plainly(&["add", "--no-check", "s", "cmd"]);
    for command in ["enable", "disable", "disable"] {
        let run = lab.plainly(&[command, "s"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    }
    assert_eq!(lab.of_project()["disabledMcpServers"], json!(["s"]));
}

#[test]
fn an_entry_that_switches_itself_off_is_overridden() {
    let lab = Lab::new();
    let mut entry = lab.marking("s");
    entry["disabled"] = json!(true);
    lab.servers("home/.claude.json", &json!({ "s": entry }));
    let before = lab.global()["mcpServers"].clone();
    assert_eq!(lab.state("s"), "disabled");
    assert!(!lab.started("s"));
    lab.plainly(&["enable", "s"]);
    assert_eq!(lab.of_project(), json!({"enabledMcpServers": ["s"]}));
    lab.plainly(&["call", "s", "echo"]).is(0, "{}\n", "");
    lab.plainly(&["disable", "s"]);
    assert_eq!(lab.state("s"), "disabled");
    assert_eq!(lab.global()["mcpServers"], before);
}

#[test]
fn enabling_does_not_approve() {
    let lab = Lab::new();
    lab.servers(".mcp.json", &json!({"s": lab.marking("s")}));
    let unchanged = WRITTEN.replace("written to", "no change in");
    lab.plainly(&["enable", "s"]).is(
        0,
        &format!("enabled \"s\" in this project\n{unchanged}"),
        "warning: \"s\" still does not run: it comes with the project and needs your approval\n  \
         hint: review it with `trunkline approve s`\n",
    );
    assert_eq!(lab.state("s"), "pending-approval");
    assert!(!lab.started("s"));
}

#[test]
fn a_plugins_server_can_be_switched_off() {
    let lab = Lab::new();
    lab.servers("plugin/.mcp.json", &json!({"s": lab.marking("s")}));
    let plugin = ["--plugin-dir", "plugin"];
    let run = lab.plainly(&[&plugin[..], &["disable", "plugin:plugin:s"]].concat());
    assert_eq!(run.code, Some(0), "{run:#?}");
    let listed = lab
        .plainly(&[&plugin[..], &["list", "--json"]].concat())
        .json();
    assert_eq!(listed[0]["state"], "disabled");
    assert!(!lab.started("s"));
}

#[test]
fn a_connector_can_be_switched_off_without_being_fetched() {
    let lab = Lab::new();
    let run = lab.plainly(&["disable", "claude.ai Slack"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(
        lab.of_project(),
        json!({"disabledMcpServers": ["claude.ai Slack"]})
    );
}

#[test]
fn as_json_and_mistakes() {
    let lab = Lab::new();
    lab.plainly(&["add", "--no-check", "github", "cmd"]);
    assert_eq!(
        lab.plainly(&["--json", "disable", "github"]).json(),
        json!({"disabled": "github", "file": "[DIR]/home/.claude.json", "project": "[DIR]"})
    );
    assert_eq!(
        lab.plainly(&["enable", "github", "--json"]).json(),
        json!({"enabled": "github", "file": "[DIR]/home/.claude.json", "project": "[DIR]"})
    );
    for command in ["enable", "disable"] {
        lab.plainly(&[command, "githbu"]).fails(
            2,
            "there is no server \"githbu\"",
            "did you mean \"github\"?",
        );
    }
    lab.scratch.write("home/.claude.json", "{broken");
    lab.servers(".mcp.json", &json!({"github": {"command": "cmd"}}));
    let run = lab.plainly(&["disable", "github"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
    assert_eq!(lab.scratch.read("home/.claude.json"), "{broken");
}
