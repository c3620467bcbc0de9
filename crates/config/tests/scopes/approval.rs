//! CFG-6: approval of a project's servers.

use serde_json::{Value, json};
use trunkline_config::{EntryStatus, ServerSet, changes_since_approval};

use crate::lab::{
    APPROVALS, GLOBAL, Lab, MANAGED_SETTINGS, PROJECT, SHARED, UNSHARED, USER, commands,
    of_project, server,
};

const ENTRY: &str = r#"{"command": "c", "args": ["x", "y"], "env": {"K": "v", "L": "w"}}"#;
const REMOTE: &str =
    r#"{"url": "https://h.example/mcp", "headers": {"H": "v"}, "headersHelper": "print"}"#;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A project with one approved server `s`.
fn approved(entry: &Value) -> Lab {
    let lab = Lab::new();
    lab.put(PROJECT, server("s", entry));
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    assert_eq!(lab.load().active().count(), 1);
    lab
}

/// The changes of `s` since its approval; empty if it still runs.
#[track_caller]
fn changed(lab: &Lab) -> Vec<String> {
    let set = lab.load();
    let server = set.named("s").next().unwrap();
    let EntryStatus::PendingApproval {
        before: Some(before),
    } = &server.status
    else {
        assert_eq!(server.status, EntryStatus::Active);
        return Vec::new();
    };
    assert_eq!(set.active().count(), 0);
    changes_since_approval(before, &server.entry)
        .into_iter()
        .map(|change| {
            let side =
                |value: Option<Value>| value.map_or("-".to_owned(), |value| value.to_string());
            format!(
                "{}: {} → {}",
                change.field,
                side(change.old),
                side(change.new)
            )
        })
        .collect()
}

#[test]
fn a_project_s_server_waits_for_approval() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("s", "c")]));
    lab.check(&["s project [c] pending"]);
    assert_eq!(lab.load().for_host().count(), 0);
}

#[test]
fn who_may_approve() {
    let by_name = || json!({"enabledMcpjsonServers": ["s"]});
    let all = || json!({"enableAllProjectMcpServers": true});
    for (file, content, counts) in [
        // A name in the user's settings says nothing about a repository never seen before.
        (USER, by_name(), false),
        (USER, all(), true),
        (GLOBAL, of_project(&by_name()), true),
        (GLOBAL, of_project(&all()), true),
        (MANAGED_SETTINGS, by_name(), true),
        (MANAGED_SETTINGS, all(), true),
        // The user section of `~/.claude.json` approves nothing.
        (GLOBAL, by_name(), false),
        (GLOBAL, all(), false),
        (GLOBAL, json!({"projects": {"<root>": by_name()}}), false),
        (SHARED, by_name(), false),
        (SHARED, all(), false),
        (UNSHARED, by_name(), false),
        (UNSHARED, all(), false),
        ("home/.claude/settings.local.json", by_name(), false),
        ("repo/.claude.json", of_project(&by_name()), false),
        (USER, json!({"enabledMcpjsonServers": ["other"]}), false),
        (USER, json!({"enableAllProjectMcpServers": false}), false),
        (USER, json!({"enabledMcpServers": ["s"]}), false),
        (
            USER,
            json!({"allowedMcpServers": [{"serverName": "s"}]}),
            false,
        ),
    ] {
        let lab = Lab::new();
        lab.put(PROJECT, commands([("s", "c")]));
        lab.put(file, &content);
        let expected = if counts { "active" } else { "pending" };
        assert_eq!(
            lab.servers(&lab.load()),
            [format!("s project [c] {expected}")],
            "{file} {content}"
        );
    }
}

#[test]
fn everyone_may_reject_and_rejection_wins() {
    for file in [USER, MANAGED_SETTINGS, SHARED, UNSHARED, GLOBAL] {
        for name in ["my.server", "my_server", "my/server"] {
            let lab = Lab::new();
            lab.put(PROJECT, commands([("my.server", "c")]));
            let mut local =
                json!({"enabledMcpjsonServers": ["my.server"], "enableAllProjectMcpServers": true});
            lab.put(USER, &local);
            lab.put(MANAGED_SETTINGS, &local);
            lab.put(GLOBAL, of_project(&local));
            local["disabledMcpjsonServers"] = json!([name]);
            let content = if file == GLOBAL {
                of_project(&local)
            } else {
                local
            };
            lab.put(file, content);
            let expected = format!("my.server project [c] rejected by {file}");
            lab.check(&[&expected]);
            let flagged = lab.loader().approve_project(true).load(&[]);
            lab.check_set(&flagged, &[&expected]);
        }
    }
}

#[test]
fn names_are_compared_normalised() {
    for name in ["my.server", "my_server", "my server"] {
        let lab = Lab::new();
        lab.put(PROJECT, commands([("my.server", "c")]));
        lab.put(
            GLOBAL,
            of_project(&json!({"enabledMcpjsonServers": [name]})),
        );
        lab.check(&["my.server project [c] active"]);
    }
}

#[test]
fn settings_in_the_working_directory_reject_as_well_as_those_of_the_root() {
    let mut lab = Lab::new();
    lab.cd("repo/x");
    lab.put(PROJECT, commands([("a", "c"), ("b", "c")]));
    lab.put(
        "repo/x/.claude/settings.json",
        json!({"disabledMcpjsonServers": ["a"]}),
    );
    lab.put(SHARED, json!({"disabledMcpjsonServers": ["b"]}));
    lab.check(&[
        "a project [c] rejected by repo/x/.claude/settings.json",
        "b project [c] rejected by repo/.claude/settings.json",
    ]);
}

#[test]
fn approving_rejecting_and_resetting_are_kept_for_the_project() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("s", "c"), ("t", "c")]));
    let editor = lab.editor();
    let written = editor.approve(&[&lab.entry("s")]).unwrap();
    assert_eq!(written.file, lab.at(GLOBAL));
    assert_eq!(written.project.as_deref(), lab.at("repo").to_str());
    lab.check(&["s project [c] active", "t project [c] pending"]);
    editor.reject(&["s"]).unwrap();
    lab.check(&[
        "s project [c] rejected by home/.claude.json",
        "t project [c] pending",
    ]);
    editor.approve(&[&lab.entry("s"), &lab.entry("t")]).unwrap();
    lab.check(&["s project [c] active", "t project [c] active"]);
    editor.reset_approvals().unwrap();
    lab.check(&["s project [c] pending", "t project [c] pending"]);
}

#[test]
fn resetting_forgets_everything_of_this_project_and_nothing_of_others() {
    let lab = approved(&json!({"command": "c"}));
    assert!(lab.text(APPROVALS).contains("repo/.mcp.json"));
    let other = json!({"enabledMcpjsonServers": ["s"]});
    let mut global =
        of_project(&json!({"enabledMcpjsonServers": ["s"], "enableAllProjectMcpServers": true}));
    global["projects"]["/other"] = other.clone();
    lab.put(GLOBAL, global);
    lab.editor().reset_approvals().unwrap();
    lab.check(&["s project [c] pending"]);
    assert_eq!(parsed(&lab.text(GLOBAL))["projects"]["/other"], other);
    assert!(!lab.text(APPROVALS).contains("repo/.mcp.json"));
    // With nothing to forget, no file is created.
    let empty = Lab::new();
    empty.editor().reset_approvals().unwrap();
    assert!(!empty.at(GLOBAL).exists() && !empty.at(APPROVALS).exists());
}

#[test]
fn approvals_of_one_project_do_not_count_in_another() {
    let mut lab = Lab::without_git();
    lab.put(PROJECT, commands([("s", "c")]));
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    lab.put("other/.mcp.json", commands([("s", "c")]));
    lab.cd("other");
    lab.check(&["s project [c] pending"]);
}

#[test]
fn a_flag_approves_for_this_run_only() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("s", "c")]));
    let set = lab.loader().approve_project(true).load(&[]);
    lab.check_set(&set, &["s project [c] active"]);
    set.record_approvals(&lab.loader()).unwrap();
    assert_eq!(lab.names("home"), [""; 0]);
    lab.check(&["s project [c] pending"]);
}

#[test]
fn a_flag_approves_what_has_changed_as_well_and_still_only_for_this_run() {
    let lab = approved(&parsed(ENTRY));
    lab.put(PROJECT, commands([("s", "other")]));
    let set = lab.loader().approve_project(true).load(&[]);
    assert_eq!(set.active().count(), 1);
    set.record_approvals(&lab.loader()).unwrap();
    assert!(!changed(&lab).is_empty());
}

#[test]
fn what_is_only_rearranged_or_harmless_stays_approved() {
    for entry in [
        r#"{ "env": {"L": "w", "K": "v"}, "args": ["x","y"], "command": "c" }"#,
        r#"{"command": "\u0063", "args": ["x", "y"], "env": {"K": "v", "L": "w"}}"#,
        r#"{"command": "c", "args": ["x", "y"], "env": {"K": "v", "L": "w"}, "timeout": 5, "connectTimeout": 6, "alwaysLoad": true}"#,
    ] {
        let lab = approved(&parsed(ENTRY));
        lab.put(PROJECT, format!("{{\"mcpServers\":{{\"s\":{entry}}}}}"));
        assert_eq!(changed(&lab), [""; 0], "{entry}");
    }
}

#[test]
fn what_has_changed_is_pending_again_and_the_change_is_told() {
    type Edit = fn(&mut Value);
    let cases: [(&str, Edit, &[&str]); 13] = [
        (
            ENTRY,
            |e| e["tools"] = json!({"deny": ["x"]}),
            &[r#"tools: - → {"deny":["x"]}"#],
        ),
        (
            ENTRY,
            |e| e["command"] = json!("d"),
            &[r#"command: "c" → "d""#],
        ),
        (
            ENTRY,
            |e| e["args"] = json!(["x", "z"]),
            &[r#"args: ["x","y"] → ["x","z"]"#],
        ),
        (
            ENTRY,
            |e| e["args"] = json!(["x"]),
            &[r#"args: ["x","y"] → ["x"]"#],
        ),
        (ENTRY, |e| e["cwd"] = json!("/"), &[r#"cwd: - → "/""#]),
        (
            ENTRY,
            |e| e["type"] = json!("stdio"),
            &[r#"type: - → "stdio""#],
        ),
        (
            ENTRY,
            |e| *e = json!({"url": "https://h/"}),
            &[
                r#"args: ["x","y"] → -"#,
                r#"command: "c" → -"#,
                r#"env: {"K":"#,
                r#"url: - → "https://h/""#,
            ],
        ),
        (ENTRY, |e| e["env"]["K"] = json!("u"), &["env.K: "]),
        (ENTRY, |e| e["env"]["M"] = json!(""), &["env.M: - → "]),
        (
            REMOTE,
            |e| e["url"] = json!("https://i.example/mcp"),
            &[r#"url: "https://h.example/mcp" → "https://i.example/mcp""#],
        ),
        (REMOTE, |e| e["headers"]["H"] = json!("u"), &["headers.H: "]),
        (
            REMOTE,
            |e| e["headersHelper"] = json!("other"),
            &[r#"headersHelper: "sha256:"#],
        ),
        (
            REMOTE,
            |e| e["oauth"] = json!({"clientId": "c"}),
            &[r#"oauth: - → {"clientId":"c"}"#],
        ),
    ];
    for (before, edit, told) in cases {
        let mut entry = parsed(before);
        let lab = approved(&entry);
        edit(&mut entry);
        lab.put(PROJECT, server("s", &entry));
        let found = changed(&lab);
        assert_eq!(found.len(), told.len(), "{found:?}");
        for (found, told) in found.iter().zip(told) {
            assert!(found.starts_with(told), "{found} is not {told}");
        }
        // With the old content it runs; with the new content approved, it runs too.
        lab.put(PROJECT, server("s", &parsed(before)));
        assert_eq!(changed(&lab), [""; 0]);
        lab.put(PROJECT, server("s", &entry));
        lab.editor().approve(&[&lab.entry("s")]).unwrap();
        assert_eq!(changed(&lab), [""; 0]);
    }
}

#[test]
fn an_approval_is_for_what_is_written_not_for_what_variables_make_of_it() {
    let lab = approved(&json!({"command": "c", "args": ["${X:-one}"]}));
    let set = lab.loader_with(&[("X", "two")]).load(&[]);
    lab.check_set(&set, &["s project [c two] active"]);
    // Expanded, it is another entry.
    lab.put(
        PROJECT,
        server("s", &json!({"command": "c", "args": ["one"]})),
    );
    assert_eq!(changed(&lab), [r#"args: ["${X:-one}"] → ["one"]"#]);
}

/// Loads and binds approvals by name alone.
fn load_and_record(lab: &Lab) -> ServerSet {
    let loader = lab.loader();
    let set = loader.load(&[]);
    set.record_approvals(&loader).unwrap();
    set
}

#[test]
fn an_approval_by_name_alone_is_bound_to_what_is_found_first() {
    for (file, content) in [
        (GLOBAL, of_project(&json!({"enabledMcpjsonServers": ["s"]}))),
        (MANAGED_SETTINGS, json!({"enabledMcpjsonServers": ["s"]})),
    ] {
        let lab = Lab::new();
        lab.put(PROJECT, commands([("s", "c")]));
        lab.put(file, content);
        lab.check_set(&load_and_record(&lab), &["s project [c] active"]);
        lab.put(PROJECT, commands([("s", "evil")]));
        let set = load_and_record(&lab);
        lab.check_set(&set, &["s project [evil] changed"]);
        // Looking at it again does not approve it.
        lab.check_set(&load_and_record(&lab), &["s project [evil] changed"]);
        lab.editor().approve(&[&lab.entry("s")]).unwrap();
        lab.check(&["s project [evil] active"]);
    }
}

#[test]
fn a_name_in_the_user_s_settings_counts_for_what_was_approved_in_the_project() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("s", "c")]));
    lab.put(USER, json!({"enabledMcpjsonServers": ["s"]}));
    let set = load_and_record(&lab);
    assert_eq!(lab.servers(&set), ["s project [c] pending"]);
    let told: Vec<_> = set.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("settings.json: server \"s\": \"enabledMcpjsonServers\""));
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    lab.put(GLOBAL, json!({}));
    lab.check(&["s project [c] active"]);
    lab.put(PROJECT, commands([("s", "evil")]));
    lab.check(&["s project [evil] changed"]);
}

#[test]
fn a_list_of_rejected_servers_that_is_unreadable_rejects_all() {
    for list in [json!("s"), json!({"s": true}), json!([["s"]]), json!(5)] {
        for file in [USER, GLOBAL, MANAGED_SETTINGS, SHARED] {
            let lab = approved(&json!({"command": "c"}));
            let rejects = json!({"disabledMcpjsonServers": list, "enabledMcpjsonServers": ["s"]});
            let content = if file == GLOBAL {
                of_project(&rejects)
            } else {
                rejects
            };
            lab.put(file, content);
            let set = lab.loader().approve_project(true).load(&[]);
            let expected = format!("s project [c] rejected by {file}");
            assert_eq!(lab.servers(&set), [expected], "{list}");
            assert!(!set.diagnostics.is_empty());
        }
    }
}

#[test]
fn an_approval_covers_the_files_in_the_repository_that_run() {
    let lab = Lab::new();
    lab.put(
        PROJECT,
        server(
            "s",
            &json!({"command": "./run.sh", "args": ["dist/x.js", "data.db"]}),
        ),
    );
    for (file, text) in [("run.sh", "one"), ("dist/x.js", "1"), ("data.db", "d")] {
        lab.put(&format!("repo/{file}"), text);
    }
    let entry = lab.entry("s");
    assert_eq!(entry.program().as_deref(), lab.at("repo/run.sh").to_str());
    let files: Vec<_> = entry.files.iter().map(|file| &*file.path).collect();
    assert_eq!(files, ["dist/x.js", "run.sh"]);
    lab.editor().approve(&[&entry]).unwrap();
    assert_eq!(changed(&lab), [""; 0]);
    lab.put("repo/data.db", "other");
    assert_eq!(changed(&lab), [""; 0]);
    lab.put("repo/run.sh", "two");
    let told = changed(&lab);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("file run.sh: \"sha256:"), "{told:?}");
    let watched = lab.load().files;
    assert!(watched.contains(&lab.at("repo/run.sh")), "{watched:?}");
    std::fs::remove_file(lab.at("repo/dist/x.js")).unwrap();
    assert_eq!(changed(&lab).len(), 2);
}

#[test]
fn an_entry_that_names_too_many_files_stays_pending_and_says_so() {
    let lab = Lab::new();
    let names: Vec<_> = (0..65).map(|n| format!("f{n}.js")).collect();
    for name in &names {
        lab.put(&format!("repo/{name}"), "1");
    }
    lab.put(
        PROJECT,
        server("s", &json!({"command": "node", "args": names})),
    );
    let entry = lab.entry("s");
    lab.editor().approve(&[&entry]).unwrap();
    let set = lab.load();
    let status = &set.servers[0].status;
    assert_eq!(*status, EntryStatus::PendingApproval { before: None });
    let told = set.diagnostics.iter();
    let mut told = told.map(|diagnostic| &*diagnostic.message);
    assert!(told.any(|told| told.starts_with("it names more than 64 files")));
}

#[test]
fn a_relative_command_starts_from_the_folder_of_its_file() {
    let mut lab = Lab::new();
    let relative = json!({"command": "./run", "env": {}});
    lab.cd("repo/deep/down");
    lab.put(PROJECT, server("project", &relative));
    let mut global = of_project(&server("local", &relative));
    global["mcpServers"] = json!({"user": relative, "bare": {"command": "run"},
        "below": {"command": "./run", "cwd": "sub"}});
    lab.put(GLOBAL, global);
    lab.put("repo/deep/flag.json", server("flag", &relative));
    let set = lab.loader().mcp_config(["../flag.json"]).load(&[]);
    for (name, program) in [
        ("project", lab.at("repo/run")),
        ("local", lab.at("repo/run")),
        ("user", lab.at("home/run")),
        ("bare", "run".into()),
        ("below", lab.at("home/sub/run")),
        ("flag", lab.at("repo/deep/run")),
    ] {
        let server = set.named(name).next().unwrap();
        let found = server.entry.program();
        // `..` may lead through a link, so it stays.
        let found = found.map(|path| path.replace("/down/../", "/"));
        assert_eq!(found.as_deref(), program.to_str(), "{name}");
    }
}

#[test]
fn what_is_pending_rejected_blocked_or_shadowed_is_not_bound() {
    let lab = Lab::new();
    lab.put(
        PROJECT,
        commands([("p", "c"), ("r", "c"), ("b", "c"), ("s", "c")]),
    );
    lab.put(
        GLOBAL,
        of_project(&json!({"enabledMcpjsonServers": ["r", "b", "s"], "disabledMcpjsonServers": ["r"], "mcpServers": {"s": {"command": "local"}}})),
    );
    lab.put(USER, json!({"deniedMcpServers": [{"serverName": "b"}]}));
    load_and_record(&lab);
    assert!(!lab.at(APPROVALS).exists());
}

#[test]
fn an_approval_of_all_is_one_of_whatever_comes() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("s", "c")]));
    lab.put(USER, json!({"enableAllProjectMcpServers": true}));
    lab.check_set(&load_and_record(&lab), &["s project [c] active"]);
    lab.put(PROJECT, commands([("s", "other"), ("t", "new")]));
    lab.check_set(
        &load_and_record(&lab),
        &["s project [other] active", "t project [new] active"],
    );
}

#[test]
fn an_approved_name_in_a_nearer_file_is_not_what_was_approved() {
    let mut lab = approved(&json!({"command": "c"}));
    lab.put("repo/x/.mcp.json", commands([("s", "evil")]));
    lab.cd("repo/x");
    lab.check(&["s project [evil] changed", "s project [c] active"]);
    // The approved content counts in any file.
    lab.put("repo/x/.mcp.json", commands([("s", "c")]));
    lab.check(&[
        "s project [c] active",
        "s project [c] shadowed by project (repo/x/.mcp.json)",
    ]);
}

#[test]
fn an_approved_name_in_another_spelling_is_not_what_was_approved() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("my.server", "c")]));
    lab.editor().approve(&[&lab.entry("my.server")]).unwrap();
    lab.put(
        PROJECT,
        commands([("my.server", "c"), ("my_server", "evil")]),
    );
    let set = lab.load();
    let active: Vec<_> = set.active().map(|entry| entry.transport.argv()).collect();
    assert_eq!(active, [Some(vec!["c"])], "{:?}", lab.servers(&set));
}

#[test]
fn while_what_was_approved_cannot_be_told_nothing_is() {
    for broken in [
        "{",
        "[]",
        r#"{"projects": 5}"#,
        r#"{"projects": {"x": {"y": {"z": {}}}}}"#,
    ] {
        let lab = approved(&json!({"command": "c"}));
        lab.put(PROJECT, commands([("s", "evil")]));
        lab.put(APPROVALS, broken);
        let set = lab.load();
        assert_eq!(
            set.diagnostics.len(),
            1,
            "{broken}: {:?}",
            lab.problems(&set)
        );
        assert_eq!(lab.servers(&set), ["s project [evil] pending"], "{broken}");
    }
}

#[test]
fn an_entry_too_deep_to_be_parsed_is_bound_to_its_content_too() {
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let text = |command: &str| {
        format!("{{\"mcpServers\": {{\"s\": {{\"command\": \"{command}\", \"x\": {deep}}}}}}}")
    };
    let lab = Lab::new();
    lab.put(PROJECT, text("c"));
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    lab.check(&["s project [c] active"]);
    lab.put(PROJECT, text("evil"));
    lab.check(&["s project [evil] changed"]);
}

#[test]
fn other_scopes_need_no_approval() {
    let lab = Lab::new();
    let mut global = of_project(&commands([("l", "local")]));
    global["mcpServers"] = json!({"u": {"command": "user"}});
    lab.put(GLOBAL, global);
    lab.check(&["l local [local] active", "u user [user] active"]);
}

#[test]
fn a_command_that_prints_headers_needs_approval_in_the_local_scope_too() {
    let lab = Lab::new();
    let entry = |helper: &str| json!({"h": {"type": "http", "url": "https://h.example/", "headersHelper": helper}});
    lab.put(GLOBAL, of_project(&json!({"mcpServers": entry("print")})));
    let status = |lab: &Lab| lab.servers(&lab.load()).join("");
    assert!(status(&lab).ends_with("pending"), "{}", status(&lab));
    lab.editor().approve(&[&lab.entry("h")]).unwrap();
    assert!(status(&lab).ends_with("active"), "{}", status(&lab));
    let text = lab.text(GLOBAL).replace("print", "other");
    lab.put(GLOBAL, text);
    assert!(status(&lab).ends_with("changed"), "{}", status(&lab));
    lab.put(GLOBAL, json!({"mcpServers": entry("print")}));
    assert!(status(&lab).ends_with("active"), "{}", status(&lab));
}
