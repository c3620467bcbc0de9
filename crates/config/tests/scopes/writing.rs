//! CFG-4: adding and removing changes one part of one file, or nothing.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use trunkline_config::{ChangeError, Policy, Scope};

use crate::lab::{GLOBAL, Lab, MANAGED_SETTINGS, PROJECT, USER, commands, server};

/// A `~/.claude.json` that would not survive being parsed and written again.
const REALISTIC: &str = r#"{
  "numStartups": 412,
  "tipsHistory": { "a-tip":1,   "other": 2.50 },
  "mcpServers": {
    "zeta": {
      "type": "stdio",
      "command": "z",
      "args": [],
      "env": {}
    },
    "alpha": {"url": "https:\/\/a.example/", "unknown": [1e21, 12345678901234567890]}
  },
  "projects": {
    "/other/ünï": {
      "allowedTools": [],
      "history": [{"display": "\u00e9 🦀 \ud83e\udd80"}],
      "mcpServers": {"s": {"command": "other"}}
    },
    "<root>/repo": {
      "allowedTools": [ ],
      "mcpServers": {
        "mine": {"command": "m"}
      },
      "lastCost": 0.10,
      "twice": 1,
      "twice": 2
    }
  },
  "oauthAccount": {"emailAddress": "x@example.com"},
  "cachedChangelog": "line\nline"
}
"#;

fn entry() -> Value {
    json!({"type": "stdio", "command": "c", "args": ["é"], "env": {}})
}

#[track_caller]
fn add(lab: &Lab, scope: Scope, name: &str) -> trunkline_config::WriteOutcome {
    lab.editor()
        .add(scope, name, &entry(), &Policy::default())
        .unwrap()
}

/// The text inserted into `old` to make `new`; the rest must be equal.
#[track_caller]
fn inserted<'a>(old: &str, new: &'a str) -> &'a str {
    let pairs = old.bytes().zip(new.bytes());
    let before = pairs.take_while(|(old, new)| old == new).count();
    let end = before + new.len() - old.len();
    assert_eq!(old[before..], new[end..], "more than one place has changed");
    &new[before..end]
}

#[test]
fn adding_puts_in_the_entry_and_removing_it_gives_the_file_back() {
    for (scope, file, text) in [
        (Scope::User, GLOBAL, REALISTIC),
        (Scope::Local, GLOBAL, REALISTIC),
        (
            Scope::Project,
            PROJECT,
            "{\n\t\"$schema\" : \"x\",\n\t\"mcpServers\" : {\n\t\t\"a\" : { \"command\" : \"c\" }\n\t},\n\t\"more\":[ ]\n}",
        ),
        (
            Scope::Project,
            PROJECT,
            "\u{feff}{\r\n  \"mcpServers\": {},\r\n  \"x\": 1.0\r\n}\r\n",
        ),
        (
            Scope::Project,
            PROJECT,
            r#"{"mcpServers":{"a":{"command":"c"}},"x":1}"#,
        ),
    ] {
        let lab = Lab::new();
        lab.put(file, text);
        let written = add(&lab, scope, "new");
        assert_eq!(written.file, lab.at(file));
        let key = lab.at("repo").to_str().unwrap().to_owned();
        assert_eq!(written.project, (scope == Scope::Local).then_some(key));
        let after = lab.text(file);
        assert!(inserted(text, &after).contains("\"new\""), "{after}");
        assert_eq!(lab.entry("new").as_written(), entry());
        assert_eq!(lab.entry("new").scope, scope);
        lab.editor().remove(scope, "new").unwrap();
        assert_eq!(lab.text(file), text);
    }
}

#[test]
fn a_new_entry_stands_last_and_looks_like_its_surroundings() {
    let lab = Lab::new();
    lab.put(GLOBAL, REALISTIC);
    add(&lab, Scope::Local, "new");
    let after = lab.text(GLOBAL);
    assert_eq!(
        inserted(REALISTIC, &after),
        ",\n        \"new\": {\"type\": \"stdio\", \"command\": \"c\", \"args\": [\"é\"], \"env\": {}}"
    );
}

#[test]
fn new_files_are_written_as_claude_code_writes_them() {
    let lab = Lab::new();
    add(&lab, Scope::Project, "s");
    let text = "{\n  \"mcpServers\": {\n    \"s\": {\n      \"type\": \"stdio\",\n      \"command\": \"c\",\n      \"args\": [\n        \"é\"\n      ],\n      \"env\": {}\n    }\n  }\n}\n";
    assert_eq!(lab.text(PROJECT), text);
    add(&lab, Scope::User, "s");
    assert_eq!(lab.text(GLOBAL), text);
    let lab = Lab::new();
    add(&lab, Scope::Local, "s");
    let global: Value = serde_json::from_str(&lab.text(GLOBAL)).unwrap();
    assert_eq!(
        global["projects"]["<root>/repo"]["mcpServers"]["s"],
        entry()
    );
}

#[test]
fn a_project_s_server_is_written_to_the_working_directory_and_a_local_one_under_the_root() {
    let mut lab = Lab::new();
    lab.cd("repo/x");
    assert_eq!(
        add(&lab, Scope::Project, "p").file,
        lab.at("repo/x/.mcp.json")
    );
    let written = add(&lab, Scope::Local, "l");
    assert_eq!(written.project.as_deref(), lab.at("repo").to_str());
}

#[test]
fn nothing_is_left_beside_the_files() {
    let lab = Lab::new();
    for scope in [Scope::Local, Scope::Project, Scope::User] {
        add(&lab, scope, "s");
        lab.editor().remove(scope, "s").unwrap();
    }
    assert_eq!(lab.names("repo"), [".git", ".mcp.json"]);
    assert_eq!(lab.names("home"), [".claude", ".claude.json"]);
}

#[test]
fn unknown_fields_of_a_new_entry_and_their_order_are_kept() {
    let lab = Lab::new();
    let entry: Value =
        serde_json::from_str(r#"{"zeta": 1, "command": "c", "x": {"b": 1, "a": 2}}"#).unwrap();
    lab.editor()
        .add(Scope::User, "s", &entry, &Policy::default())
        .unwrap();
    assert_eq!(lab.entry("s").as_written().to_string(), entry.to_string());
}

/// Tries to add a server and compares the error; no file may change.
#[track_caller]
fn refused(lab: &Lab, scope: Scope, name: &str, entry: &Value, told: &str) -> ChangeError {
    let state = |file| fs::read(lab.at(file)).ok();
    let before = [GLOBAL, PROJECT].map(state);
    let policy = lab.load().policy;
    let error = lab.editor().add(scope, name, entry, &policy).unwrap_err();
    assert_eq!(lab.short(&error.to_string()), told);
    assert_eq!([GLOBAL, PROJECT].map(state), before);
    error
}

#[test]
fn a_name_that_the_scope_has_is_refused_and_one_that_another_has_is_not() {
    for (scope, file) in [
        (Scope::User, GLOBAL),
        (Scope::Local, GLOBAL),
        (Scope::Project, PROJECT),
    ] {
        let lab = Lab::new();
        add(&lab, scope, "s");
        let told = format!("the {scope} scope already has a server \"s\" ({file})");
        let error = refused(&lab, scope, "s", &entry(), &told);
        assert!(!error.is_refused());
        for other in [Scope::User, Scope::Local, Scope::Project] {
            if other != scope {
                add(&lab, other, "s");
            }
        }
    }
}

#[test]
fn a_name_that_does_not_fit_is_refused_with_one_that_does() {
    let lab = Lab::new();
    for (name, told) in [
        (
            "my server.v2",
            "the name \"my server.v2\" may contain only letters, digits, \"-\" and \"_\"; write for example \"my-server-v2\"",
        ),
        ("", "its name is empty; give it one"),
        ("workspace", "the name \"workspace\" is reserved; rename it"),
        (
            "plugin:p:s",
            "names that begin with \"plugin:\" are reserved; rename it",
        ),
    ] {
        refused(&lab, Scope::User, name, &entry(), told);
    }
}

#[test]
fn an_entry_that_would_not_load_is_refused() {
    let lab = Lab::new();
    for (entry, told) in [
        (json!({}), "it has neither a \"command\" nor a \"url\""),
        (
            json!(5),
            "expected an object with a \"command\" or a \"url\"",
        ),
        (
            json!({"type": "pigeon", "url": "https://h/"}),
            "unknown \"type\": \"pigeon\"; write one of stdio, http, streamable-http, sse, ws, sse-ide, ws-ide, sdk, claudeai-proxy",
        ),
        (
            json!({"command": "c", "args": "x"}),
            r#""args": expected a list of strings"#,
        ),
        (
            json!({"url": "nonsense"}),
            "its \"url\" is not a URL: relative URL without a base",
        ),
    ] {
        let told = format!("the entry of \"s\" is invalid: {told}");
        refused(&lab, Scope::User, "s", &entry, &told);
    }
}

#[test]
fn what_policy_blocks_is_refused() {
    let lab = Lab::new();
    lab.put(
        MANAGED_SETTINGS,
        json!({"deniedMcpServers": [{"serverName": "no"}, {"serverCommand": ["evil"]}]}),
    );
    let error = refused(
        &lab,
        Scope::User,
        "no",
        &entry(),
        "the server \"no\" is blocked by policy: denied by {\"serverName\":\"no\"} (etc/managed-settings.json)",
    );
    assert!(error.is_refused());
    refused(
        &lab,
        Scope::Project,
        "s",
        &json!({"command": "evil"}),
        "the server \"s\" is blocked by policy: denied by {\"serverCommand\":[\"evil\"]} (etc/managed-settings.json)",
    );
}

#[test]
fn other_scopes_are_not_written() {
    let lab = Lab::new();
    for scope in [
        Scope::Enterprise,
        Scope::Dynamic,
        Scope::Plugin,
        Scope::ClaudeAi,
    ] {
        let told = format!(
            "servers of the {scope} scope cannot be changed here; use local, project or user"
        );
        refused(&lab, scope, "s", &entry(), &told);
        let error = lab.editor().remove(scope, "s").unwrap_err();
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn a_file_that_is_broken_is_left_alone() {
    for (text, told) in [
        ("{\n,}", ":2:1: not valid JSON: key must be a string"),
        (
            "{\"mcpServers\": {\"a\": {}",
            ":1:23: not valid JSON: EOF while parsing an object",
        ),
        ("[]", ":1:1: expected an object, found a list"),
        (
            "{\"mcpServers\": []}",
            ": line 1, column 16: \"mcpServers\" is not an object",
        ),
    ] {
        for (scope, file) in [(Scope::User, GLOBAL), (Scope::Project, PROJECT)] {
            let lab = Lab::new();
            lab.put(file, text);
            let told = format!("{file}{told}; fix the file first");
            refused(&lab, scope, "s", &entry(), &told);
            let error = lab.editor().remove(scope, "s").unwrap_err();
            assert_eq!(lab.short(&error.to_string()), told);
            assert_eq!(lab.text(file), text);
        }
    }
}

#[test]
fn a_file_that_is_no_text_or_no_file_is_left_alone() {
    let lab = Lab::new();
    lab.put_bytes(GLOBAL, b"\xff{}");
    fs::create_dir(lab.at(PROJECT)).unwrap();
    for scope in [Scope::User, Scope::Local, Scope::Project] {
        let error = lab
            .editor()
            .add(scope, "s", &entry(), &Policy::default())
            .unwrap_err();
        assert!(matches!(error, ChangeError::File(_)), "{error:?}");
    }
    assert_eq!(fs::read(lab.at(GLOBAL)).unwrap(), b"\xff{}");
    assert!(lab.at(PROJECT).is_dir());
}

#[test]
fn removing_keeps_everything_else() {
    let lab = Lab::new();
    lab.put(GLOBAL, REALISTIC);
    lab.editor().remove(Scope::User, "zeta").unwrap();
    let without = REALISTIC.replace(
        "    \"zeta\": {\n      \"type\": \"stdio\",\n      \"command\": \"z\",\n      \"args\": [],\n      \"env\": {}\n    },\n",
        "",
    );
    assert_eq!(lab.text(GLOBAL), without);
    lab.editor().remove(Scope::Local, "mine").unwrap();
    let without = without.replace("{\n        \"mine\": {\"command\": \"m\"}\n      }", "{}");
    assert_eq!(lab.text(GLOBAL), without);
}

#[test]
fn removing_finds_the_user_s_servers_in_both_files() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("a", "global"), ("b", "global")]));
    lab.put(USER, commands([("a", "settings"), ("c", "settings")]));
    let remove = |name| {
        lab.editor()
            .remove(Scope::User, name)
            .map(|written| written.file)
    };
    assert_eq!(remove("c").unwrap(), lab.at(USER));
    // Of two, the one that takes effect is removed first.
    assert_eq!(remove("a").unwrap(), lab.at(GLOBAL));
    assert_eq!(remove("a").unwrap(), lab.at(USER));
    assert!(matches!(remove("a"), Err(ChangeError::Unknown { .. })));
    lab.check(&["b user [global] active"]);
}

#[test]
fn removing_finds_a_project_s_servers_in_the_directories_above() {
    let mut lab = Lab::new();
    lab.put(PROJECT, commands([("s", "repo"), ("t", "repo")]));
    lab.put("repo/x/.mcp.json", commands([("s", "x")]));
    lab.cd("repo/x");
    let remove = |name| {
        lab.editor()
            .remove(Scope::Project, name)
            .map(|written| written.file)
    };
    assert_eq!(remove("t").unwrap(), lab.at(PROJECT));
    assert_eq!(remove("s").unwrap(), lab.at("repo/x/.mcp.json"));
    assert_eq!(remove("s").unwrap(), lab.at(PROJECT));
    let error = remove("s").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no server \"s\" in the project scope"
    );
}

#[test]
fn removing_what_is_not_there_makes_nothing() {
    let lab = Lab::new();
    for scope in [Scope::User, Scope::Local, Scope::Project] {
        let error = lab.editor().remove(scope, "s").unwrap_err();
        assert!(matches!(error, ChangeError::Unknown { .. }), "{error:?}");
    }
    assert_eq!(lab.names("repo"), [".git"]);
    assert!(!lab.at(GLOBAL).exists() && !lab.at(USER).exists());
}

/// Directories above the working directory may not be writable; `/` usually is not.
#[cfg(target_os = "linux")]
#[test]
fn removing_needs_no_right_to_write_where_there_is_no_file() {
    let lab = Lab::new();
    let editor = trunkline_config::Editor::new(lab.layout(), Path::new("/proc/self"));
    let error = editor.remove(Scope::Project, "s").unwrap_err();
    assert!(matches!(error, ChangeError::Unknown { .. }), "{error}");
}

#[test]
fn the_scopes_of_a_name_are_told_strongest_first() {
    let mut lab = Lab::new();
    let places = |lab: &Lab, name| -> Vec<String> {
        let found = lab.editor().scopes_of(name);
        found
            .iter()
            .map(|place| lab.short(&place.to_string()))
            .collect()
    };
    assert_eq!(places(&lab, "s"), [""; 0]);
    lab.put(USER, commands([("s", "c"), ("only", "c")]));
    lab.put(PROJECT, commands([("s", "c")]));
    lab.cd("repo/x");
    assert_eq!(
        places(&lab, "s"),
        [
            "project (repo/.mcp.json)",
            "user (home/.claude/settings.json)"
        ]
    );
    for scope in [Scope::Local, Scope::Project] {
        add(&lab, scope, "s");
    }
    lab.put(USER, commands([("only", "c")]));
    add(&lab, Scope::User, "s");
    assert_eq!(
        places(&lab, "s"),
        [
            "local (home/.claude.json)",
            "project (repo/x/.mcp.json)",
            "user (home/.claude.json)"
        ]
    );
    assert_eq!(places(&lab, "only"), ["user (home/.claude/settings.json)"]);
    lab.put(GLOBAL, "{");
    assert_eq!(places(&lab, "s"), ["project (repo/x/.mcp.json)"]);
}

#[cfg(unix)]
#[test]
fn modes_and_links_are_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let lab = Lab::new();
    lab.put("dotfiles/claude.json", server("a", &entry()));
    symlink(lab.at("dotfiles/claude.json"), lab.at(GLOBAL)).unwrap();
    lab.put(PROJECT, "{}");
    fs::set_permissions(lab.at(PROJECT), fs::Permissions::from_mode(0o664)).unwrap();
    add(&lab, Scope::User, "s");
    add(&lab, Scope::Project, "s");
    assert!(lab.at(GLOBAL).is_symlink());
    assert!(lab.text("dotfiles/claude.json").contains("\"s\""));
    let mode = fs::metadata(lab.at(PROJECT)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o664);
}

#[test]
fn those_who_add_at_the_same_time_lose_nothing() {
    let lab = Lab::new();
    lab.put(GLOBAL, REALISTIC);
    std::thread::scope(|threads| {
        for at in 0..8 {
            let lab = &lab;
            threads.spawn(move || {
                for scope in [Scope::User, Scope::Local, Scope::Project] {
                    add(lab, scope, &format!("{scope}-{at}"));
                }
            });
        }
    });
    let set = lab.load();
    let added = set
        .servers
        .iter()
        .filter(|server| server.entry.name.contains('-'));
    assert_eq!(added.count(), 24);
}
