//! Seven scopes with a thousand servers each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trunkline_config::{ConnectorEntry, EntryStatus, Scope};

use crate::lab::{GLOBAL, Lab, MANAGED, MANAGED_SETTINGS, PROJECT, USER};

const MANY: usize = 1000;

/// A file of a thousand servers: every other one has a name shared by all scopes, the others a
/// unique one.
fn file(scope: &str) -> Value {
    let name = |at: usize| match at % 2 {
        0 => format!("shared-{at:04}"),
        _ => format!("{scope}-{at:04}"),
    };
    let entry =
        |at: usize| json!({"command": scope, "args": [at.to_string()], "env": {"K": "${V}"}});
    let servers: BTreeMap<_, _> = (0..MANY).map(|at| (name(at), entry(at))).collect();
    json!({ "mcpServers": servers })
}

#[test]
fn a_thousand_servers_in_each_scope_load_and_the_right_ones_win() {
    let lab = Lab::new();
    let names: Vec<_> = (0..MANY).map(|at| format!("project-{at:04}")).collect();
    let mut local = file("local");
    local["enabledMcpjsonServers"] = json!(names);
    local["disabledMcpServers"] = (0..MANY).map(|at| format!("user-{at:04}")).collect();
    let mut global = json!({"projects": {"<root>/repo": local}});
    global["mcpServers"] = file("user")["mcpServers"].take();
    lab.put(GLOBAL, global);
    lab.put(USER, file("settings"));
    lab.put(PROJECT, file("project"));
    lab.put("plugin/.mcp.json", file("plugin"));
    lab.put("twin/.mcp.json", file("plugin"));
    let denied: Vec<_> = (0..MANY)
        .map(|at| json!({"serverCommand": ["dynamic", at.to_string()]}))
        .filter(|rule| rule["serverCommand"][1].as_str().unwrap().ends_with('2'))
        .collect();
    lab.put(MANAGED_SETTINGS, json!({"deniedMcpServers": denied}));
    let connectors: Vec<_> = (0..MANY)
        .map(|at| ConnectorEntry {
            name: format!("claude.ai {at:04}"),
            id: at.to_string(),
            url: format!("https://{at}.example/mcp"),
            proxy_url: String::new(),
        })
        .collect();
    let loader = lab
        .loader_with(&[("V", "v")])
        .plugin_dirs([lab.at("plugin"), lab.at("twin")])
        .mcp_config([file("dynamic").to_string()]);
    let set = loader.load(&connectors);
    assert_eq!(lab.problems(&set), [""; 0]);
    assert_eq!(set.servers.len(), 8 * MANY);
    let count = |scope, status: fn(&EntryStatus) -> bool| {
        let servers = set.servers.iter();
        servers
            .filter(|server| server.entry.scope == scope && status(&server.status))
            .count()
    };
    let active: fn(&EntryStatus) -> bool = |status| *status == EntryStatus::Active;
    // Every tenth dynamic server is denied, and all of those are shared: there the local ones win.
    assert_eq!(count(Scope::Dynamic, active), 900);
    assert_eq!(count(Scope::Local, active), 500 + 100);
    assert_eq!(
        count(Scope::Local, |s| matches!(s, EntryStatus::Shadowed { .. })),
        400
    );
    // Only names unique to the project are approved.
    assert_eq!(count(Scope::Project, active), 500);
    assert_eq!(
        count(Scope::Project, |s| matches!(
            s,
            EntryStatus::PendingApproval { .. }
        )),
        500
    );
    // Of the user's own, those in one file are disabled and those in the other are not.
    assert_eq!(count(Scope::User, active), 500);
    assert_eq!(count(Scope::User, |s| *s == EntryStatus::Disabled), 500);
    assert_eq!(
        count(Scope::User, |s| matches!(s, EntryStatus::Shadowed { .. })),
        1000
    );
    assert_eq!(count(Scope::Plugin, active), MANY);
    assert_eq!(
        count(Scope::Plugin, |s| matches!(
            s,
            EntryStatus::Suppressed { .. }
        )),
        MANY
    );
    assert_eq!(count(Scope::ClaudeAi, active), MANY);
    let names: Vec<_> = set
        .servers
        .iter()
        .map(|server| &server.entry.name)
        .collect();
    assert!(names.is_sorted());

    lab.put(MANAGED, file("managed"));
    let set = loader.load(&connectors);
    assert_eq!((set.servers.len(), set.active().count()), (MANY, MANY));
}
