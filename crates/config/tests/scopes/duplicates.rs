//! CFG-8: duplicate servers.

use serde_json::json;
use trunkline_config::{ConnectorEntry, Loader, signature};

use crate::lab::{GLOBAL, Lab, PROJECT, USER, commands, of_project, server};

fn connector(name: &str, url: &str) -> ConnectorEntry {
    ConnectorEntry {
        name: format!("claude.ai {name}"),
        id: "i".to_owned(),
        url: url.to_owned(),
        proxy_url: String::new(),
    }
}

/// Two plugins, `one` and `two`, each with a server of the same content.
fn two_plugins(lab: &Lab) -> Loader {
    lab.put("one/.mcp.json", commands([("s", "npx")]));
    lab.put("two/.mcp.json", commands([("t", "npx")]));
    lab.loader().plugin_dirs([lab.at("one"), lab.at("two")])
}

#[test]
fn of_two_plugins_the_first_stays() {
    let lab = Lab::new();
    lab.check_set(
        &two_plugins(&lab).load(&[]),
        &[
            "plugin:one:s plugin [npx] active",
            "plugin:two:t plugin [npx] suppressed by plugin:one:s",
        ],
    );
}

#[test]
fn the_first_enabled_plugin_stays_in_the_order_of_the_settings() {
    let lab = Lab::new();
    lab.put(USER, r#"{"enabledPlugins": {"z@m": true, "a@m": true}}"#);
    for plugin in ["a", "z"] {
        let file = format!("home/.claude/plugins/marketplaces/m/{plugin}/.mcp.json");
        lab.put(&file, commands([("s", "npx")]));
    }
    lab.check(&[
        "plugin:a:s plugin [npx] suppressed by plugin:z:s",
        "plugin:z:s plugin [npx] active",
    ]);
}

#[test]
fn what_somebody_wrote_down_beats_plugins() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("mine", "npx")]));
    lab.check_set(
        &two_plugins(&lab).load(&[]),
        &[
            "mine user [npx] active",
            "plugin:one:s plugin [npx] suppressed by mine",
            "plugin:two:t plugin [npx] suppressed by mine",
        ],
    );
}

#[test]
fn what_somebody_wrote_down_beats_a_connector_unless_it_is_switched_off() {
    let url = "https://c.example/mcp";
    for (off, expected) in [(false, "suppressed by mine"), (true, "active")] {
        let lab = Lab::new();
        lab.put(
            GLOBAL,
            server("mine", &json!({"url": url, "disabled": off})),
        );
        let set = lab.loader().load(&[connector("C", url)]);
        let expected = format!("claude.ai C claudeai [{url}] {expected}");
        assert_eq!(lab.servers(&set)[0], expected);
    }
    let lab = Lab::new();
    let mut global = of_project(&json!({"disabledMcpServers": ["mine"]}));
    global["mcpServers"] = json!({"mine": {"url": url}});
    lab.put(GLOBAL, global);
    let set = lab.loader().load(&[connector("C", url)]);
    assert_eq!(set.active().next().unwrap().name, "claude.ai C");
}

#[test]
fn what_may_not_run_suppresses_nobody() {
    let url = "https://c.example/mcp";
    let lab = Lab::new();
    lab.put(PROJECT, server("pending", &json!({"url": url})));
    lab.put(GLOBAL, server("blocked", &json!({"url": url})));
    lab.put(
        USER,
        json!({"deniedMcpServers": [{"serverName": "blocked"}]}),
    );
    let set = lab.loader().load(&[connector("C", url)]);
    let active: Vec<_> = set.active().map(|entry| &*entry.name).collect();
    assert_eq!(active, ["claude.ai C"]);
}

#[test]
fn two_that_somebody_wrote_down_both_run() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("a", "npx"), ("b", "npx")]));
    lab.check(&["a user [npx] active", "b user [npx] active"]);
}

#[test]
fn which_contents_are_the_same() {
    let vendor = json!({"url": "https://vendor.example/mcp"});
    for (one, other, same) in [
        (
            json!({"command": "c", "args": ["a"]}),
            json!({"command": "c", "args": ["a"], "env": {"K": "v"}}),
            true,
        ),
        (
            json!({"command": "c", "args": ["a"]}),
            json!({"command": "c", "args": ["b"]}),
            false,
        ),
        (
            json!({"command": "c", "args": ["a b"]}),
            json!({"command": "c", "args": ["a", "b"]}),
            false,
        ),
        (json!({"command": "$X"}), json!({"command": "exp"}), true),
        (
            vendor.clone(),
            json!({"type": "sse", "url": "https://VENDOR.example:443/mcp", "headers": {"A": "b"}}),
            true,
        ),
        (
            vendor.clone(),
            json!({"url": "https://proxy.example/p?id=1&mcp_url=https%3A%2F%2Fvendor.example%2Fmcp"}),
            true,
        ),
        (
            vendor.clone(),
            json!({"url": "https://vendor.example/mcp?x"}),
            false,
        ),
        (
            vendor,
            json!({"command": "https://vendor.example/mcp"}),
            false,
        ),
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, json!({"mcpServers": {"a": one, "b": other}}));
        let set = lab.loader_with(&[("X", "exp")]).load(&[]);
        let signatures: Vec<_> = set.active().map(signature).collect();
        assert!(signatures[0].is_some());
        assert_eq!(signatures[0] == signatures[1], same, "{one} {other}");
    }
}

#[test]
fn signatures_are_as_the_spec_writes_them() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        json!({"mcpServers": {"a": {"command": "npx", "args": ["-y"]}, "b": {"url": "https://h.example/"}, "c": {"type": "sdk"}}}),
    );
    let set = lab.load();
    let signatures: Vec<_> = set.active().map(signature).collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        signatures,
        [
            some(r#"stdio:["npx","-y"]"#),
            some("url:https://h.example/"),
            None
        ]
    );
}
