//! Scopes, precedence, and how `list` shows them (CFG-1, CFG-5, CFG-8).

use serde_json::{Value, json};

use crate::lab::{Lab, parsed};

/// Returns the lines of `list` about one server.
fn about<'a>(out: &'a str, name: &str) -> &'a str {
    let mut lines = out.match_indices('\n').map(|(at, _)| at + 1);
    let starts = |at: &usize| out[*at..].starts_with(&format!("{name} "));
    let start = Some(0).filter(starts).or_else(|| lines.find(starts));
    let rest = &out[start.unwrap_or_else(|| panic!("{name}: {out}"))..];
    let end = rest
        .match_indices('\n')
        .find(|(at, _)| !rest[at + 1..].starts_with(' '));
    &rest[..end.map_or(rest.len(), |(at, _)| at + 1)]
}

#[test]
fn the_strongest_scope_wins_and_lists_shadowed_entries() {
    let lab = Lab::new();
    let dir = lab.scratch.path().to_str().unwrap().to_owned();
    let scopes = ["dynamic", "local", "project", "user"];
    for scope in scopes {
        lab.marking(scope);
    }
    lab.servers(".mcp-config.json", &json!({"s": lab.marking("dynamic")}));
    lab.write_json(
        "home/.claude.json",
        &json!({"mcpServers": {"s": lab.marking("user")}, "projects": {dir: {
            "mcpServers": {"s": lab.marking("local")}, "enabledMcpjsonServers": ["s"]}}}),
    );
    lab.servers(".mcp.json", &json!({"s": lab.marking("project")}));
    let run = lab.run(&["list"]);
    run.is(
        0,
        "s  connected  dynamic     stdio       1 tool\n  \
         shadows local ([DIR]/home/.claude.json)\n  shadows project ([DIR]/.mcp.json)\n  shadows user ([DIR]/home/.claude.json)\n",
        "",
    );
    let listed = lab.run(&["list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(
        listed[0]["shadows"],
        json!([{"scope": "local", "source": "[DIR]/home/.claude.json"}, {"scope": "project", "source": "[DIR]/.mcp.json"},
            {"scope": "user", "source": "[DIR]/home/.claude.json"}])
    );
    for (at, scope) in scopes.iter().enumerate() {
        for other in scopes {
            lab.started(other);
        }
        // The strongest goes, the next one counts.
        let run = if at == 0 {
            lab.run(&["call", "s", "echo"])
        } else {
            lab.plainly(&["call", "s", "echo"])
        };
        run.is(0, "{}\n", "");
        let started: Vec<_> = scopes
            .into_iter()
            .filter(|scope| lab.started(scope))
            .collect();
        assert_eq!(started, [*scope]);
        if at > 0 {
            let run = lab.plainly(&["remove", "s", "-s", scope]);
            assert_eq!(run.code, Some(0), "{run:#?}");
        }
    }
}

#[test]
fn entries_are_never_mixed() {
    let lab = Lab::new();
    let mut user = lab.marking("user");
    user["env"]["SECRET"] = json!("x");
    lab.servers("home/.claude.json", &json!({ "s": user }));
    lab.servers(".mcp-config.json", &json!({"s": lab.marking("dynamic")}));
    let shown = lab.run(&["get", "s", "--json"]).json();
    assert!(shown["config"]["env"]["SECRET"].is_null());
    assert_eq!(shown["others"][0]["config"]["env"]["SECRET"], "***");
}

#[test]
fn only_what_the_flag_names_counts_when_strict() {
    let lab = Lab::new();
    lab.servers("home/.claude.json", &json!({"user": lab.marking("user")}));
    lab.servers(
        ".mcp-config.json",
        &json!({"dynamic": lab.marking("dynamic")}),
    );
    let run = lab.run(&["--strict-mcp-config", "tools"]);
    run.is(0, "mcp__dynamic__echo  Echoes\n", "");
    assert!(!lab.started("user"));
    let none = "--strict-mcp-config excludes all configured servers, and --mcp-config names none";
    lab.plainly(&["--strict-mcp-config", "list"])
        .is(0, &format!("{none}\n"), "");
    let run = lab.plainly(&["--strict-mcp-config", "status"]);
    assert!(run.out.starts_with(none), "{}", run.out);
    lab.plainly(&["--strict-mcp-config", "tools"])
        .fails(2, none, "pass --mcp-config FILE");
    lab.plainly(&["--strict-mcp-config", "get", "user"]).fails(
        2,
        "there is no server \"user\"",
        none,
    );
}

#[test]
fn the_nearest_project_file_wins() {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"s": lab.marking("outer"), "only-outer": lab.marking("only")}),
    );
    lab.servers("a/.mcp.json", &json!({"s": lab.marking("inner")}));
    std::fs::create_dir_all(lab.at("a/b")).unwrap();
    let run = lab.finish(
        lab.bare(&["--approve-project", "list"])
            .current_dir(lab.at("a/b")),
    );
    assert_eq!(
        about(&run.out, "s"),
        "s           connected  project     stdio       1 tool\n  \
         shadows project ([DIR]/.mcp.json)\n"
    );
    assert!(lab.started("inner") && lab.started("only") && !lab.started("outer"));
}

#[test]
fn servers_of_the_users_settings_count_last_of_the_users() {
    let lab = Lab::new();
    lab.servers("home/.claude.json", &json!({"s": lab.marking("global")}));
    lab.servers(
        "home/.claude/settings.json",
        &json!({"s": lab.marking("settings"), "t": lab.marking("t")}),
    );
    let run = lab.plainly(&["tools"]);
    run.is(0, "mcp__s__echo  Echoes\nmcp__t__echo  Echoes\n", "");
    assert!(lab.started("global") && !lab.started("settings") && lab.started("t"));
}

#[test]
fn plugins_bring_their_servers() {
    let lab = Lab::new();
    let script = lab.marking("tool")["args"][1].clone();
    std::fs::create_dir_all(lab.at("home/.claude/plugins/cache/market/tools/1.0")).unwrap();
    let root = "home/.claude/plugins/cache/market/tools/1.0";
    std::fs::copy(
        script.as_str().unwrap(),
        lab.at(&format!("{root}/script.json")),
    )
    .unwrap();
    let mut entry = lab.marking("tool");
    entry["args"][1] = json!("${CLAUDE_PLUGIN_ROOT}/script.json");
    lab.servers(&format!("{root}/.mcp.json"), &json!({ "s": entry }));
    lab.write_json(
        "home/.claude/plugins/installed_plugins.json",
        &json!({"version": 1, "plugins": {"tools@market": {"version": "1.0", "installPath": lab.at(root)}}}),
    );
    lab.plainly(&["tools"]).fails(
        2,
        "no servers are configured",
        "add one with `trunkline add`, pass --mcp-config FILE, or try `trunkline demo`",
    );
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"enabledPlugins": {"tools@market": true, "gone@market": true}}),
    );
    let run = lab.plainly(&["list"]);
    run.is(
        0,
        "plugin:tools:s  connected  plugin      stdio       1 tool\n\n\
             problems:\n  [DIR]/home/.claude/settings.json: the plugin \"gone@market\" is enabled but not installed; install it, or \
             remove it from \"enabledPlugins\"\n",
        "",
    );
    lab.write_json(
        ".claude/settings.json",
        &json!({"enabledPlugins": {"tools@market": false}}),
    );
    assert_eq!(lab.state("plugin:tools:s"), "unknown");
}

#[test]
fn duplicates_are_suppressed_with_the_winners_name() {
    let lab = Lab::new();
    let entry = lab.marking("s");
    lab.servers("home/.claude.json", &json!({"mine": entry}));
    lab.servers(
        "first/.mcp.json",
        &json!({"twin": entry, "other": lab.marking("other")}),
    );
    lab.servers("second/.mcp.json", &json!({"other": lab.marking("other")}));
    let plugins = ["--plugin-dir", "first", "--plugin-dir", "second", "list"];
    let run = lab.plainly(&plugins);
    assert_eq!(run.code, Some(0), "{run:#?}");
    for (name, winner) in [
        ("plugin:first:twin", "mine"),
        ("plugin:second:other", "plugin:first:other"),
    ] {
        let about = about(&run.out, name);
        assert!(
            about.starts_with(name) && about.contains("  suppressed  plugin      stdio\n"),
            "{about}"
        );
        assert!(
            about.contains(&format!("  it duplicates \"{winner}\"\n")),
            "{about}"
        );
    }
    let listed = lab.plainly(&[&plugins[..], &["--json"]].concat()).json();
    let row = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "plugin:first:twin")
        .unwrap();
    assert_eq!(
        (&row["state"], &row["suppressedBy"]),
        (&json!("suppressed"), &json!("mine"))
    );
    let run = lab.plainly(&["--plugin-dir", "first", "call", "plugin:first:twin", "echo"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert!(run.err.contains("it duplicates \"mine\""), "{}", run.err);
}

#[test]
fn variables_expand_and_a_missing_one_is_reported() {
    let lab = Lab::new();
    let mut entry = lab.marking("s");
    let script = entry["args"][1].take();
    entry["args"][1] = json!("${SCRIPT_DIR:-/nowhere}/s.json");
    lab.servers(
        "home/.claude.json",
        &json!({"s": entry, "t": {"command": "$NO_SUCH/bin", "args": ["${env:NO_SUCH}"]}}),
    );
    let file = parsed(&format!("\"{}\"", script.as_str().unwrap()));
    let directory = std::path::Path::new(file.as_str().unwrap())
        .parent()
        .unwrap()
        .to_owned();
    let run = lab.finish(lab.bare(&["list"]).env("SCRIPT_DIR", directory));
    assert!(
        about(&run.out, "s").starts_with("s  connected"),
        "{}",
        run.out
    );
    assert!(
        about(&run.out, "t").contains("command not found: [DIR]/home/$NO_SUCH/bin"),
        "{}",
        run.out
    );
    let (_, problems) = run
        .out
        .split_once("\nproblems:\n")
        .unwrap_or_else(|| panic!("{}", run.out));
    let lines: Vec<_> = problems.lines().collect();
    assert_eq!(lines.len(), 2, "each reference once: {problems}");
    for (line, reference) in lines.iter().zip(["$NO_SUCH", "${env:NO_SUCH}"]) {
        assert!(line.starts_with("  [DIR]/home/.claude.json:"), "{problems}");
        let told = format!(
            ": server \"t\": the variable NO_SUCH is not set, so {reference} is not expanded"
        );
        assert!(line.contains(&told), "{problems}");
    }
    assert_eq!(lab.state("s"), "failed");
}

#[test]
fn each_state_is_shown_with_its_reason() {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"pending": {"command": "a"}, "rejected": {"command": "b"}, "blocked": {"command": "c"}}),
    );
    lab.servers(
        "home/.claude.json",
        &json!({"off": {"command": "d", "disabled": true}, "running": lab.marking("running")}),
    );
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"deniedMcpServers": [{"serverCommand": ["c"]}]}),
    );
    lab.plainly(&["reject", "rejected"]);
    lab.plainly(&["list"]).is(
        0,
        "blocked   blocked           project     stdio
  from [DIR]/.mcp.json
  blocked by policy: denied by {\"serverCommand\":[\"c\"]} ([DIR]/home/.claude/settings.json)
off       disabled          user        stdio
  from [DIR]/home/.claude.json
  hint: enable it with `trunkline enable off`
pending   pending-approval  project     stdio
  from [DIR]/.mcp.json
  it comes with the project and needs your approval
  hint: review it with `trunkline approve pending`
rejected  rejected          project     stdio
  from [DIR]/.mcp.json
  you rejected it ([DIR]/home/.claude.json)
  hint: to allow it again, run `trunkline approve rejected`
running   connected         user        stdio       1 tool
",
        "",
    );
    let listed = lab.plainly(&["list", "--json"]).json();
    let of = |name: &str, rest: Value| {
        let mut row = json!({"name": name, "transport": "stdio", "tools": 0, "prompts": 0, "resources": 0, "scope": "project", "source": "[DIR]/.mcp.json"});
        row.as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        row
    };
    assert_eq!(
        json!([listed[0], listed[2], listed[3]]),
        json!([
            of(
                "blocked",
                json!({"state": "blocked", "error":
                "blocked by policy: denied by {\"serverCommand\":[\"c\"]} ([DIR]/home/.claude/settings.json)"})
            ),
            of(
                "pending",
                json!({"state": "pending-approval", "error": "it comes with the project and needs your approval",
                "hint": "review it with `trunkline approve pending`"})
            ),
            of(
                "rejected",
                json!({"state": "rejected", "error": "you rejected it ([DIR]/home/.claude.json)",
                "hint": "to allow it again, run `trunkline approve rejected`"})
            ),
        ])
    );
}
