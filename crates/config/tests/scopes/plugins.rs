//! CFG-1: servers of plugins.

use serde_json::{Value, json};
use trunkline_config::{ConnectorEntry, TransportEntry};

use crate::lab::{GLOBAL, Lab, MANAGED_SETTINGS, SHARED, UNSHARED, USER, commands, of_project};

const INSTALLED: &str = "home/.claude/plugins/installed_plugins.json";

/// Enables the plugin `p@m`, which is installed in `plugins/p`.
fn enable(lab: &Lab) {
    lab.put(USER, json!({"enabledPlugins": {"p@m": true}}));
    lab.put(
        INSTALLED,
        json!({"version": 1, "plugins": {"p@m": {"version": "1.0", "installPath": "<root>/plugins/p"}}}),
    );
}

fn manifest(lab: &Lab, servers: &Value) {
    lab.put(
        "plugins/p/.claude-plugin/plugin.json",
        json!({"name": "p", "version": "1.0", "mcpServers": servers}),
    );
}

#[test]
fn a_plugin_s_servers_stand_in_its_file_with_or_without_a_wrapper() {
    for content in [commands([("s", "c")]), json!({"s": {"command": "c"}})] {
        for mark in ["", "\u{feff}"] {
            let lab = Lab::new();
            enable(&lab);
            lab.put("plugins/p/.mcp.json", format!("{mark}{content}"));
            lab.check(&["plugin:p:s plugin [c] active"]);
        }
    }
}

#[test]
fn a_plugin_s_servers_stand_in_its_manifest_in_any_form() {
    let inline = |name: &str| json!({name: {"command": name}});
    for (servers, names) in [
        (inline("a"), &["a"][..]),
        (json!("more.json"), &["f"]),
        (json!("./more.json"), &["f"]),
        (json!("sub/bare.json"), &["g"]),
        (json!(["more.json", "./sub/bare.json"]), &["f", "g"]),
        (json!([inline("a"), "more.json"]), &["a", "f"]),
        (json!([]), &[]),
    ] {
        let lab = Lab::new();
        enable(&lab);
        lab.put("plugins/p/more.json", commands([("f", "f")]));
        lab.put("plugins/p/sub/bare.json", json!({"g": {"command": "g"}}));
        manifest(&lab, &servers);
        let expected: Vec<_> = names
            .iter()
            .map(|name| format!("plugin:p:{name} plugin [{name}] active"))
            .collect();
        assert_eq!(lab.servers(&lab.load()), expected, "{servers}");
        assert_eq!(lab.problems(&lab.load()), [""; 0], "{servers}");
    }
}

#[test]
fn a_plugin_s_own_file_comes_before_its_manifest() {
    let lab = Lab::new();
    enable(&lab);
    lab.put("plugins/p/.mcp.json", commands([("s", "file")]));
    manifest(
        &lab,
        &json!({"s": {"command": "manifest"}, "t": {"command": "manifest"}}),
    );
    let set = lab.load();
    let active: Vec<_> = set.active().map(|entry| entry.transport.argv()).collect();
    assert_eq!(active, [Some(vec!["file"]), Some(vec!["manifest"])]);
}

#[test]
fn a_manifest_that_names_the_plugin_s_own_file_does_not_load_it_twice() {
    let lab = Lab::new();
    enable(&lab);
    lab.put(
        "plugins/p/.mcp.json",
        r#"{"mcpServers": {"s": {"command": "c"}, "bad": {}}}"#,
    );
    manifest(&lab, &json!("./.mcp.json"));
    lab.check_with_problems(
        &["plugin:p:s plugin [c] active"],
        &["plugins/p/.mcp.json:1:47: server \"plugin:p:bad\": it has neither a \"command\" nor a \"url\""],
    );
}

#[test]
fn the_plugin_s_directory_is_known_to_its_servers_and_to_no_others() {
    let lab = Lab::new();
    enable(&lab);
    manifest(
        &lab,
        &json!({"s": {
            "command": "${CLAUDE_PLUGIN_ROOT}/bin/run",
            "args": ["--root=$CLAUDE_PLUGIN_ROOT"],
            "env": {"DATA": "${CLAUDE_PLUGIN_ROOT}/data"},
            "cwd": "${CLAUDE_PLUGIN_ROOT}",
        }}),
    );
    lab.put(GLOBAL, commands([("u", "${CLAUDE_PLUGIN_ROOT}/x")]));
    let set = lab.load();
    assert_eq!(
        lab.servers(&set),
        [
            "plugin:p:s plugin [plugins/p/bin/run --root=<root>/plugins/p] active"
                .replace("<root>/", ""),
            "u user [${CLAUDE_PLUGIN_ROOT}/x] active".to_owned(),
        ]
    );
    let TransportEntry::Stdio(stdio) = &set.servers[0].entry.transport else {
        panic!("a child process");
    };
    let root = lab.at("plugins/p");
    assert_eq!(stdio.cwd.as_ref(), Some(&root));
    let env = |name: &str| stdio.env[name].expose().to_owned();
    assert_eq!(env("DATA"), root.join("data").to_str().unwrap());
    assert_eq!(env("CLAUDE_PLUGIN_ROOT"), root.to_str().unwrap());
}

#[test]
fn a_plugin_is_found_where_the_list_of_installed_ones_says() {
    for (list, found) in [
        (
            json!({"version": 1, "plugins": {"p@m": {"installPath": "<root>/plugins/p"}}}),
            true,
        ),
        (
            json!({"version": 2, "plugins": {"p@m": [{"scope": "user", "installPath": "<root>/plugins/p"}]}}),
            true,
        ),
        (
            json!({"version": 2, "plugins": {"p@m": [{"scope": "project", "projectPath": "<root>/repo", "installPath": "<root>/plugins/p"}]}}),
            true,
        ),
        (
            json!({"version": 2, "plugins": {"p@m": [{"scope": "project", "projectPath": "<root>/other", "installPath": "<root>/plugins/p"}]}}),
            false,
        ),
        (
            json!({"version": 2, "plugins": {"p@m": [
                {"installPath": "<root>/plugins/p"},
                {"projectPath": "<root>/other", "installPath": "<root>/plugins/none"},
            ]}}),
            true,
        ),
        (
            json!({"version": 2, "plugins": {"q@m": [{"installPath": "<root>/plugins/p"}]}}),
            false,
        ),
        (json!({"plugins": []}), false),
        (json!({}), false),
    ] {
        let lab = Lab::new();
        enable(&lab);
        lab.put("plugins/p/.mcp.json", commands([("s", "c")]));
        lab.put(INSTALLED, &list);
        let expected: &[&str] = if found {
            &["plugin:p:s plugin [c] active"]
        } else {
            &[]
        };
        assert_eq!(lab.servers(&lab.load()), expected, "{list}");
        let problems = lab.problems(&lab.load());
        assert_eq!(problems.is_empty(), found, "{list} {problems:?}");
    }
}

#[test]
fn a_plugin_that_is_not_listed_is_found_in_its_marketplace() {
    for dir in ["m/plugins/p", "m/p"] {
        let lab = Lab::new();
        lab.put(USER, json!({"enabledPlugins": {"p@m": true}}));
        let file = format!("home/.claude/plugins/marketplaces/{dir}/.mcp.json");
        lab.put(&file, commands([("s", "c")]));
        lab.check(&["plugin:p:s plugin [c] active"]);
    }
}

#[test]
fn a_plugin_s_name_cannot_lead_out_of_the_plugins_directory() {
    for id in ["../../evil@m", "p@../..", "..@m", "/@m", "p@"] {
        let lab = Lab::new();
        lab.put(USER, json!({"enabledPlugins": {id: true}}));
        for dir in [
            "home/.claude/evil",
            "home/.claude",
            "home/.claude/plugins",
            "home/.claude/plugins/marketplaces",
        ] {
            lab.put(&format!("{dir}/.mcp.json"), commands([("s", "c")]));
            lab.put(&format!("{dir}/p/.mcp.json"), commands([("s", "c")]));
        }
        let set = lab.load();
        assert_eq!(lab.servers(&set), [""; 0], "{id}");
        assert_eq!(set.diagnostics.len(), 1, "{id}");
    }
}

#[test]
fn an_enabled_plugin_that_is_not_there_is_named() {
    let lab = Lab::new();
    lab.put(USER, json!({"enabledPlugins": {"p@m": true}}));
    lab.check_with_problems(
        &[],
        &["warning: home/.claude/settings.json: the plugin \"p@m\" is enabled but not installed; install it, or remove it from \"enabledPlugins\""],
    );
}

#[test]
fn who_may_enable_a_plugin_and_who_may_switch_it_off() {
    let on = || json!({"enabledPlugins": {"p@m": true}});
    let off = || json!({"enabledPlugins": {"p@m": false}});
    let cases: &[(&[(&str, Value)], bool)] = &[
        (&[], false),
        (&[(USER, on())], true),
        (&[(USER, json!({"enabledPlugins": ["p@m"]}))], true),
        (&[(USER, json!({"enabledPlugins": {"p@m": ["1.0"]}}))], true),
        (&[(MANAGED_SETTINGS, on())], true),
        (&[(USER, off())], false),
        (&[(SHARED, on())], false),
        (&[(UNSHARED, on())], false),
        (&[(GLOBAL, of_project(&on()))], false),
        (&[(GLOBAL, on())], false),
        (&[(USER, on()), (SHARED, off())], false),
        (&[(USER, on()), (UNSHARED, off())], false),
        (&[(USER, on()), (MANAGED_SETTINGS, off())], false),
        (&[(USER, off()), (MANAGED_SETTINGS, on())], false),
    ];
    for (files, runs) in cases {
        let lab = Lab::new();
        enable(&lab);
        lab.remove(USER);
        lab.put("plugins/p/.mcp.json", commands([("s", "c")]));
        for (file, content) in *files {
            lab.put(file, content);
        }
        assert_eq!(lab.load().active().count() == 1, *runs, "{files:?}");
    }
}

#[test]
fn plugins_may_be_named_by_their_directories() {
    let lab = Lab::new();
    lab.put("folder/.mcp.json", commands([("s", "c")]));
    lab.put(
        "other/.claude-plugin/plugin.json",
        json!({"name": "named", "mcpServers": {"t": {"command": "c2"}}}),
    );
    let loader = lab
        .loader()
        .plugin_dirs([lab.at("folder"), lab.at("other"), lab.at("none")]);
    let set = loader.load(&[]);
    assert_eq!(
        lab.servers(&set),
        [
            "plugin:folder:s plugin [c] active",
            "plugin:named:t plugin [c2] active"
        ]
    );
    assert_eq!(
        lab.problems(&set),
        ["none: there is no such plugin directory"]
    );
}

#[test]
fn a_manifest_cannot_name_a_file_outside_the_plugin() {
    let lab = Lab::new();
    enable(&lab);
    lab.put("plugins/out.json", commands([("s", "c")]));
    let absolute = lab.at("plugins/out.json");
    manifest(
        &lab,
        &json!(["../out.json", absolute, "sub/../../out.json", "none.json"]),
    );
    let set = lab.load();
    assert_eq!(lab.servers(&set), [""; 0]);
    let problems = lab.problems(&set);
    let outside = "the servers file of a plugin must be inside the plugin; write a relative path";
    let told: Vec<_> = problems
        .iter()
        .filter(|problem| problem.ends_with(outside))
        .collect();
    assert_eq!((told.len(), problems.len()), (3, 4), "{problems:?}");
    assert!(problems[3].ends_with("there is no such file in the plugin"));
}

#[test]
fn a_mistake_in_a_plugin_costs_only_itself() {
    let lab = Lab::new();
    enable(&lab);
    lab.put("plugins/p/.mcp.json", "{");
    manifest(
        &lab,
        &json!({"s": {"command": "c"}, "bad": {"type": "pigeon"}}),
    );
    lab.check_with_problems(
        &["plugin:p:s plugin [c] active"],
        &[
            "plugins/p/.mcp.json:1:1: not valid JSON: EOF while parsing an object",
            "plugins/p/.claude-plugin/plugin.json:1:69: server \"plugin:p:bad\": unknown \"type\": \"pigeon\"; write one of stdio, http, streamable-http, sse, ws, sse-ide, ws-ide, sdk, claudeai-proxy",
        ],
    );
}

#[test]
fn no_file_can_pass_for_a_plugin_or_a_connector() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        commands([
            ("plugin:p:s", "c"),
            ("claude.ai Box", "c"),
            ("workspace", "c"),
        ]),
    );
    let set = lab.load();
    assert_eq!(lab.servers(&set), [""; 0]);
    assert_eq!(set.diagnostics.len(), 3);
}

#[test]
fn a_plugin_is_stronger_than_a_connector_of_the_same_name() {
    let lab = Lab::new();
    enable(&lab);
    lab.put("plugins/p/.mcp.json", commands([("s", "c")]));
    let connector = ConnectorEntry {
        name: "plugin:p:s".to_owned(),
        id: "i".to_owned(),
        url: "https://c.example/".to_owned(),
        proxy_url: String::new(),
    };
    lab.check_set(
        &lab.loader().load(&[connector]),
        &[
            "plugin:p:s plugin [c] active",
            "plugin:p:s claudeai [https://c.example/] shadowed by plugin (plugins/p/.mcp.json)",
        ],
    );
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_plugin_is_not_followed() {
    let lab = Lab::new();
    lab.put(
        "plugin/.claude-plugin/plugin.json",
        json!({"name": "p", "mcpServers": "./link.json"}),
    );
    lab.put("elsewhere.json", commands([("evil", "evil")]));
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(lab.at(to), lab.at(at)).unwrap();
    link("elsewhere.json", "plugin/link.json");
    link("elsewhere.json", "plugin/.mcp.json");
    let load = || lab.loader().plugin_dirs([lab.at("plugin")]).load(&[]);
    let set = load();
    assert_eq!(lab.servers(&set), [""; 0]);
    let problems = lab.problems(&set);
    assert_eq!(problems.len(), 2, "{problems:#?}");
    let told = |problem: &String| problem.contains("a link out of the plugin");
    assert!(problems.iter().all(told), "{problems:#?}");
    // A link within the plugin is no matter.
    lab.put("plugin/real.json", commands([("fine", "fine")]));
    std::fs::remove_file(lab.at("plugin/link.json")).unwrap();
    link("plugin/real.json", "plugin/link.json");
    assert_eq!(lab.servers(&load()), ["plugin:p:fine plugin [fine] active"]);
}
