//! CFG-1: the enterprise configuration excludes all others, usable or not.

use std::fs;

use serde_json::json;
use trunkline_config::{ChangeError, ConnectorEntry, Loader, Policy, Scope, is_exclusive};

use crate::lab::{GLOBAL, Lab, MANAGED, MANAGED_SETTINGS, PROJECT, USER, commands, of_project};

/// A server in every other scope, and everything that could let them run.
fn everywhere_else(lab: &Lab) -> Loader {
    let mut global = of_project(&commands([("l", "local")]));
    global["mcpServers"] = json!({"u": {"command": "user"}});
    lab.put(GLOBAL, global);
    lab.put(USER, commands([("v", "user")]));
    lab.put(PROJECT, commands([("p", "project")]));
    lab.put("plugin/.mcp.json", commands([("g", "plugin")]));
    lab.loader()
        .approve_project(true)
        .plugin_dirs([lab.at("plugin")])
        .mcp_config([r#"{"mcpServers": {"d": {"command": "dynamic"}}}"#])
}

const LEFT_OUT: &str = "warning: --mcp-config: ignored, because the enterprise configuration (etc/managed-mcp.json) has exclusive control";
const KEPT: &str =
    "; the enterprise configuration has exclusive control, so no servers load until it is fixed";

#[track_caller]
fn check(lab: &Lab, servers: &[&str], problem: Option<&str>) {
    let connector = ConnectorEntry {
        name: "claude.ai C".to_owned(),
        id: "i".to_owned(),
        url: "https://c.example/".to_owned(),
        proxy_url: String::new(),
    };
    let loader = everywhere_else(lab);
    let set = loader.load(&[connector]);
    assert_eq!(lab.servers(&set), servers);
    let problem = problem.map(|problem| format!("{MANAGED}{problem}{KEPT}"));
    let expected: Vec<_> = problem.into_iter().chain([LEFT_OUT.to_owned()]).collect();
    assert_eq!(lab.problems(&set), expected);
    assert_eq!(set.exclusive, Some(lab.at(MANAGED)));
    assert!(!loader.wants_connectors());
    assert!(is_exclusive(&lab.layout()));
    let before = lab.text(GLOBAL);
    let editor = lab.editor();
    for scope in [Scope::Local, Scope::Project, Scope::User] {
        let added = editor.add(scope, "new", &json!({"command": "c"}), &Policy::default());
        let removed = editor.remove(scope, "u");
        for result in [added, removed] {
            let error = result.unwrap_err();
            assert!(matches!(error, ChangeError::Exclusive(_)), "{error:?}");
            assert!(error.is_refused());
            assert_eq!(
                lab.short(&error.to_string()),
                "the enterprise configuration etc/managed-mcp.json has exclusive control, so servers cannot be added or removed here"
            );
        }
    }
    assert_eq!(lab.text(GLOBAL), before);
}

#[test]
fn a_valid_file_gives_the_only_servers() {
    let lab = Lab::new();
    lab.put(MANAGED, commands([("e", "managed"), ("u", "managed")]));
    check(
        &lab,
        &[
            "e enterprise [managed] active",
            "u enterprise [managed] active",
        ],
        None,
    );
}

#[test]
fn a_file_without_servers_gives_none() {
    let lab = Lab::new();
    lab.put(MANAGED, r#"{"mcpServers": {}}"#);
    check(&lab, &[], None);
}

#[test]
fn a_mistake_in_an_entry_costs_only_the_entry() {
    let lab = Lab::new();
    lab.put(
        MANAGED,
        r#"{"mcpServers": {"bad": {}, "e": {"command": "managed"}}}"#,
    );
    let set = everywhere_else(&lab).load(&[]);
    assert_eq!(lab.servers(&set), ["e enterprise [managed] active"]);
    assert_eq!(
        lab.problems(&set)[0],
        "etc/managed-mcp.json:1:24: server \"bad\": it has neither a \"command\" nor a \"url\""
    );
}

#[test]
fn a_malformed_file_is_still_exclusive() {
    for (text, problem) in [
        ("", ":1:1: the file is empty; write at least {}"),
        (" \n", ":2:1: the file is empty; write at least {}"),
        ("{", ":1:1: not valid JSON: EOF while parsing an object"),
        ("[]", ":1:1: expected an object, found a list"),
        ("null", ":1:1: expected an object, found null"),
    ] {
        let lab = Lab::new();
        lab.put(MANAGED, text);
        check(&lab, &[], Some(problem));
    }
}

#[test]
fn a_file_without_the_right_key_is_still_exclusive() {
    for text in ["{}", r#"{"servers": {}}"#, r#"{"mcpServers": []}"#] {
        let lab = Lab::new();
        lab.put(MANAGED, text);
        let set = everywhere_else(&lab).load(&[]);
        assert_eq!(lab.servers(&set), [""; 0]);
        assert_eq!(set.exclusive, Some(lab.at(MANAGED)));
        assert_eq!(set.diagnostics.len(), 2, "{:?}", lab.problems(&set));
    }
}

#[test]
fn what_is_not_text_is_still_exclusive() {
    let lab = Lab::new();
    lab.put_bytes(MANAGED, &[0xff, 0xfe, b'{']);
    check(&lab, &[], Some(": the file is not UTF-8 text"));
}

#[test]
fn a_directory_in_its_place_is_still_exclusive() {
    let lab = Lab::new();
    fs::create_dir(lab.at(MANAGED)).unwrap();
    check(&lab, &[], Some(": it is not a regular file"));
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_or_to_itself_is_still_exclusive() {
    use std::os::unix::fs::symlink;
    let lab = Lab::new();
    symlink(lab.at("none"), lab.at(MANAGED)).unwrap();
    check(
        &lab,
        &[],
        Some(":1:1: the file is empty; write at least {}"),
    );

    let lab = Lab::new();
    symlink(lab.at(MANAGED), lab.at(MANAGED)).unwrap();
    let set = everywhere_else(&lab).load(&[]);
    assert_eq!(lab.servers(&set), [""; 0]);
    assert_eq!(set.exclusive, Some(lab.at(MANAGED)));
}

#[test]
fn strict_and_dynamic_do_not_get_around_it() {
    let lab = Lab::new();
    lab.put(MANAGED, commands([("e", "managed")]));
    let set = everywhere_else(&lab).strict(true).load(&[]);
    assert_eq!(lab.servers(&set), ["e enterprise [managed] active"]);
}

#[test]
fn it_is_subject_to_policy_and_variables_are_expanded_in_it() {
    let lab = Lab::new();
    lab.put(MANAGED, commands([("a", "${TOOL}"), ("b", "$TOOL")]));
    lab.put(
        MANAGED_SETTINGS,
        json!({"deniedMcpServers": [{"serverName": "b"}]}),
    );
    let set = lab.loader_with(&[("TOOL", "hammer")]).load(&[]);
    lab.check_set(
        &set,
        &[
            "a enterprise [hammer] active",
            "b enterprise [hammer] blocked: denied by {\"serverName\":\"b\"} (etc/managed-settings.json)",
        ],
    );
}

#[test]
fn when_it_goes_the_others_are_back() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("u", "user")]));
    lab.put(MANAGED, "{");
    let loader = lab.loader();
    assert_eq!(lab.servers(&loader.load(&[])), [""; 0]);
    lab.remove(MANAGED);
    lab.check_set(&loader.load(&[]), &["u user [user] active"]);
    lab.put(MANAGED, commands([("e", "managed")]));
    lab.check_set(&loader.load(&[]), &["e enterprise [managed] active"]);
    // The earlier content of a managed file does not count once it is broken.
    lab.put(MANAGED, "{");
    assert_eq!(lab.servers(&loader.load(&[])), [""; 0]);
}
