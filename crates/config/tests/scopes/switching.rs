//! CFG-10: enabling and disabling servers for a project.

use serde_json::{Value, json};
use trunkline_config::{ChangeError, Editor, Scope, ServerEntry, WriteOutcome};

use crate::lab::{GLOBAL, Lab, PROJECT, commands, of_project, server};

type Change = fn(&Editor, &ServerEntry) -> Result<WriteOutcome, ChangeError>;

/// The lists of the project: disabled and enabled servers.
fn lists(lab: &Lab) -> (Value, Value) {
    let global: Value = serde_json::from_str(&lab.text(GLOBAL)).unwrap();
    let project = &global["projects"]["<root>/repo"];
    (
        project["disabledMcpServers"].clone(),
        project["enabledMcpServers"].clone(),
    )
}

#[test]
fn switching_off_and_on_is_kept_for_the_project() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("s", "c"), ("t", "c")]));
    let written = lab.editor().set_enabled(&lab.entry("s"), false).unwrap();
    assert_eq!(written.file, lab.at(GLOBAL));
    lab.check(&["s user [c] disabled", "t user [c] active"]);
    assert_eq!(lists(&lab), (json!(["s"]), Value::Null));
    lab.editor().set_enabled(&lab.entry("s"), false).unwrap();
    assert_eq!(lists(&lab).0, json!(["s"]));
    lab.editor().set_enabled(&lab.entry("s"), true).unwrap();
    lab.check(&["s user [c] active", "t user [c] active"]);
    assert_eq!(lists(&lab), (json!([]), Value::Null));
}

#[test]
fn another_project_is_not_concerned() {
    let mut lab = Lab::new();
    lab.put(GLOBAL, commands([("s", "c")]));
    lab.editor().set_enabled(&lab.entry("s"), false).unwrap();
    lab.cd("other");
    lab.check(&["s user [c] active"]);
    lab.cd("repo/below");
    lab.check(&["s user [c] disabled"]);
}

#[test]
fn an_entry_that_switches_itself_off_can_be_switched_on_for_the_project() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        server("s", &json!({"command": "c", "disabled": true})),
    );
    lab.check(&["s user [c] disabled"]);
    lab.editor().set_enabled(&lab.entry("s"), true).unwrap();
    lab.check(&["s user [c] active"]);
    assert_eq!(lists(&lab), (Value::Null, json!(["s"])));
    assert!(lab.load().for_host().all(|entry| !entry.disabled));
    lab.editor().set_enabled(&lab.entry("s"), false).unwrap();
    lab.check(&["s user [c] disabled"]);
    assert_eq!(lists(&lab), (json!(["s"]), json!([])));
}

#[test]
fn of_both_lists_the_one_that_switches_off_wins() {
    let lab = Lab::new();
    let mut global = of_project(&json!({"disabledMcpServers": ["s"], "enabledMcpServers": ["s"]}));
    global["mcpServers"] = json!({"s": {"command": "c", "disabled": true}});
    lab.put(GLOBAL, global);
    lab.check(&["s user [c] disabled"]);
}

#[test]
fn switching_on_does_not_approve() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("s", "c")]));
    lab.editor().set_enabled(&lab.entry("s"), true).unwrap();
    lab.check(&["s project [c] pending"]);
    lab.put(GLOBAL, of_project(&json!({"enabledMcpServers": ["s"]})));
    lab.check(&["s project [c] pending"]);
}

#[test]
fn a_server_of_any_scope_can_be_switched_off() {
    let lab = Lab::new();
    lab.put("p/.mcp.json", commands([("g", "c")]));
    let loader = lab
        .loader()
        .plugin_dirs([lab.at("p")])
        .mcp_config([commands([("d", "dynamic")]).to_string()]);
    let connector = trunkline_config::ConnectorEntry {
        name: "claude.ai C".to_owned(),
        id: "i".to_owned(),
        url: "https://c.example/".to_owned(),
        proxy_url: String::new(),
    };
    let connectors = [connector];
    for server in loader.load(&connectors).servers {
        lab.editor().set_enabled(&server.entry, false).unwrap();
    }
    let set = loader.load(&connectors);
    assert_eq!(set.active().count(), 0);
    assert_eq!(set.for_host().count(), 3);
}

#[test]
fn a_list_that_is_none_is_left_alone() {
    let lab = Lab::new();
    let global = of_project(&json!({"disabledMcpServers": "s"})).to_string();
    lab.put(GLOBAL, &global);
    let entry = ServerEntry::stdio("s", "c", [""; 0]);
    let error = lab.editor().set_enabled(&entry, false).unwrap_err();
    assert_eq!(
        lab.short(&error.to_string()),
        "home/.claude.json: \"disabledMcpServers\" is not a list; fix the file first"
    );
    assert_eq!(lab.text(GLOBAL), global);
}

#[test]
fn a_broken_file_is_left_alone() {
    let lab = Lab::new();
    lab.put(GLOBAL, "{,");
    let editor = lab.editor();
    let entry = ServerEntry::stdio("s", "c", [""; 0]);
    let changes: [Change; 5] = [
        |editor, entry| editor.set_enabled(entry, false),
        |editor, entry| editor.approve(&[entry]),
        |editor, _| editor.reject(&["s"]),
        |editor, _| {
            editor
                .reset_approvals()
                .map(|mut changed| changed.remove(0))
        },
        |editor, _| editor.remove(Scope::Local, "s"),
    ];
    for change in changes {
        let error = change(&editor, &entry).unwrap_err();
        assert!(matches!(error, ChangeError::NotJson(_)), "{error:?}");
        assert_eq!(lab.text(GLOBAL), "{,");
    }
}

#[test]
fn disabled_servers_that_are_not_a_list_disable_all() {
    for list in [json!("s"), json!({"s": true}), json!(5)] {
        let lab = Lab::new();
        let mut global = commands([("s", "c"), ("t", "c")]);
        global["projects"]["<root>/repo"]["disabledMcpServers"] = list.clone();
        lab.put(GLOBAL, global);
        let set = lab.load();
        assert_eq!(
            lab.servers(&set),
            ["s user [c] disabled", "t user [c] disabled"],
            "{list}"
        );
        let problem = lab.problems(&set).join("\n");
        assert!(
            problem.contains("every server is disabled in this project"),
            "{problem}"
        );
    }
}
