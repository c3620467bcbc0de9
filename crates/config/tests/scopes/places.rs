//! CFG-1: the files of each scope.

use serde_json::json;
use trunkline_config::{ConnectorEntry, Layout, Scope};

use crate::lab::{GLOBAL, Lab, PROJECT, USER, commands, of_project};

fn connector(name: &str, url: &str) -> ConnectorEntry {
    ConnectorEntry {
        name: name.to_owned(),
        id: "id-1".to_owned(),
        url: url.to_owned(),
        proxy_url: String::new(),
    }
}

#[test]
fn with_no_files_there_are_no_servers_and_no_problems() {
    let lab = Lab::new();
    lab.check(&[]);
    let nowhere = trunkline_config::Loader::new(Layout::under(lab.at("none")), lab.at("no/where"));
    lab.check_set(&nowhere.load(&[]), &[]);
}

#[test]
fn dynamic_servers_come_from_a_file_or_from_the_flag_itself() {
    let lab = Lab::new();
    lab.put("repo/more.json", commands([("a", "from-file")]));
    lab.put("elsewhere.json", commands([("b", "absolute")]));
    let absolute = lab.at("elsewhere.json").to_str().unwrap().to_owned();
    let loader = lab.loader().mcp_config([
        "more.json".to_owned(),
        absolute,
        r#" {"mcpServers": {"c": {"command": "inline"}}}"#.to_owned(),
    ]);
    let set = loader.load(&[]);
    lab.check_set(
        &set,
        &[
            "a dynamic [from-file] active",
            "b dynamic [absolute] active",
            "c dynamic [inline] active",
        ],
    );
    let sources: Vec<_> = set.active().map(|entry| lab.short(&entry.source)).collect();
    assert_eq!(sources, ["more.json", "elsewhere.json", "--mcp-config"]);
}

#[test]
fn of_dynamic_servers_with_one_name_the_later_counts_and_that_is_said() {
    let lab = Lab::new();
    lab.put("repo/first.json", commands([("s", "first")]));
    let loader = lab.loader().mcp_config([
        "first.json",
        r#"{"mcpServers": {"s": {"command": "later"}}}"#,
    ]);
    let set = loader.load(&[]);
    let active: Vec<_> = set
        .active()
        .map(|entry| entry.transport.argv().unwrap()[0].to_owned())
        .collect();
    assert_eq!(active, ["later"]);
    assert_eq!(
        lab.problems(&set),
        ["warning: --mcp-config: server \"s\": it replaces an earlier entry from first.json"]
    );
}

#[test]
fn a_dynamic_file_that_is_missing_or_wrong_is_named() {
    let lab = Lab::new();
    let loader = lab
        .loader()
        .mcp_config(["none.json", "", "[]", "{", r#"{"servers": {}}"#]);
    assert_eq!(
        lab.problems(&loader.load(&[])),
        [
            "none.json: the file cannot be read: No such file or directory (os error 2)",
            "--mcp-config: the name of the file is empty",
            "--mcp-config:1:1: expected an object, found a list",
            "--mcp-config:1:1: not valid JSON: EOF while parsing an object",
            "--mcp-config:1:1: there is no \"mcpServers\" object; it has \"servers\", as VS Code writes it: rename it, or run `trunkline import`",
        ]
    );
}

#[test]
fn strict_leaves_only_dynamic_servers() {
    let lab = Lab::new();
    let mut global = of_project(&commands([("l", "local")]));
    global["mcpServers"] = json!({"u": {"command": "user"}});
    lab.put(GLOBAL, global);
    lab.put(USER, commands([("v", "user")]));
    lab.put(PROJECT, commands([("p", "project")]));
    lab.put("plugin/.mcp.json", commands([("g", "plugin")]));
    let loader = lab
        .loader()
        .strict(true)
        .approve_project(true)
        .plugin_dirs([lab.at("plugin")])
        .mcp_config([r#"{"mcpServers": {"d": {"command": "dynamic"}}}"#]);
    let set = loader.load(&[connector("claude.ai C", "https://c.example/")]);
    lab.check_set(&set, &["d dynamic [dynamic] active"]);
    assert!(!loader.wants_connectors());
    lab.check_set(&lab.loader().strict(true).load(&[]), &[]);
}

#[test]
fn local_servers_are_kept_under_the_root_of_the_repository() {
    let mut lab = Lab::new();
    lab.cd("repo/deep/er");
    lab.put(GLOBAL, of_project(&commands([("s", "local")])));
    lab.check(&["s local [local] active"]);
    assert_eq!(lab.loader().project().key(), lab.at("repo").to_str());
}

#[test]
fn local_servers_of_what_is_no_repository_are_kept_under_the_working_directory() {
    let mut lab = Lab::without_git();
    lab.put(GLOBAL, of_project(&commands([("s", "local")])));
    lab.check(&["s local [local] active"]);
    lab.cd("repo/deep");
    lab.check(&[]);
}

#[test]
fn local_servers_of_other_projects_do_not_count() {
    let lab = Lab::new();
    let servers = commands([("s", "x")]);
    lab.put(
        GLOBAL,
        json!({"projects": {"/": servers, "<root>": servers, "<root>/repo/": servers, "<root>/repo2": servers}}),
    );
    lab.check(&[]);
}

#[test]
fn a_project_s_servers_come_from_every_directory_up_to_the_root_and_the_nearest_wins() {
    let mut lab = Lab::new();
    lab.put(".mcp.json", commands([("a", "top"), ("t", "top")]));
    lab.put(PROJECT, commands([("a", "repo"), ("b", "repo")]));
    lab.put(
        "repo/x/.mcp.json",
        commands([("a", "x"), ("b", "x"), ("c", "x")]),
    );
    lab.cd("repo/x/y");
    let set = lab.loader().approve_project(true).load(&[]);
    lab.check_set(
        &set,
        &[
            "a project [x] active",
            "a project [repo] shadowed by project (repo/x/.mcp.json)",
            "a project [top] shadowed by project (repo/x/.mcp.json)",
            "b project [x] active",
            "b project [repo] shadowed by project (repo/x/.mcp.json)",
            "c project [x] active",
            "t project [top] active",
        ],
    );
    let shadows: Vec<_> = set.servers[0]
        .shadows
        .iter()
        .map(|place| lab.short(&place.to_string()))
        .collect();
    assert_eq!(shadows, ["project (repo/.mcp.json)", "project (.mcp.json)"]);
    let root = std::path::Path::new("/.mcp.json");
    assert!(set.files.iter().any(|file| file == root), "{:?}", set.files);
}

#[test]
fn below_the_working_directory_nothing_is_looked_for() {
    let lab = Lab::new();
    lab.put("repo/below/.mcp.json", commands([("s", "x")]));
    lab.check(&[]);
}

#[test]
fn the_user_s_servers_are_in_two_files_and_claude_json_comes_first() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("a", "global"), ("b", "global")]));
    lab.put(USER, commands([("a", "settings"), ("c", "settings")]));
    lab.check(&[
        "a user [global] active",
        "a user [settings] shadowed by user (home/.claude.json)",
        "b user [global] active",
        "c user [settings] active",
    ]);
}

#[test]
fn settings_of_the_project_hold_no_servers() {
    let lab = Lab::new();
    lab.put(crate::lab::SHARED, commands([("a", "x")]));
    lab.put(crate::lab::UNSHARED, commands([("b", "x")]));
    lab.put(crate::lab::MANAGED_SETTINGS, commands([("c", "x")]));
    lab.check(&[]);
}

#[test]
fn connectors_come_last_and_keep_their_names() {
    let lab = Lab::new();
    assert!(lab.loader().wants_connectors());
    let set = lab.loader().load(&[
        connector("claude.ai Slack", "https://slack.example/mcp"),
        connector("claude.ai Box", "https://box.example/mcp"),
    ]);
    lab.check_set(
        &set,
        &[
            "claude.ai Box claudeai [https://box.example/mcp] active",
            "claude.ai Slack claudeai [https://slack.example/mcp] active",
        ],
    );
    let entry = set.active().next().unwrap();
    assert_eq!(entry.transport.kind(), "claudeai-proxy");
    assert_eq!(
        (entry.scope, &*entry.source),
        (Scope::ClaudeAi, "claude.ai")
    );
}

#[test]
fn the_user_s_files_may_have_been_moved() {
    let lab = Lab::new();
    lab.put("moved/.claude.json", commands([("a", "moved")]));
    lab.put("moved/settings.json", commands([("b", "moved")]));
    lab.put(GLOBAL, commands([("no", "x")]));
    let layout = lab.moved_layout(&lab.at("moved"));
    lab.check_set(
        &lab.loader_at(layout, &[]).load(&[]),
        &["a user [moved] active", "b user [moved] active"],
    );
}

#[test]
fn an_embedding_agent_may_use_names_of_its_own() {
    let lab = Lab::new();
    let layout = Layout {
        project_file: "agent.json".to_owned(),
        project_settings_dir: ".agent".to_owned(),
        global_file: lab.at("home/agent.json"),
        config_dir: lab.at("home/agent"),
        ..lab.layout()
    };
    lab.put("home/agent.json", commands([("u", "user")]));
    lab.put("repo/agent.json", commands([("p", "project")]));
    lab.put(PROJECT, commands([("no", "x")]));
    lab.put(
        "repo/.agent/settings.json",
        json!({"disabledMcpjsonServers": ["p"]}),
    );
    lab.check_set(
        &lab.loader_at(layout, &[]).load(&[]),
        &[
            "p project [project] rejected by repo/.agent/settings.json",
            "u user [user] active",
        ],
    );
}

#[test]
fn every_file_that_counts_is_listed_whether_it_exists_or_not() {
    let lab = Lab::new();
    let set = lab.loader().mcp_config(["more.json"]).load(&[]);
    for file in [
        GLOBAL,
        USER,
        PROJECT,
        crate::lab::SHARED,
        crate::lab::UNSHARED,
        crate::lab::MANAGED_SETTINGS,
        crate::lab::APPROVALS,
        "repo/more.json",
    ] {
        assert!(set.files.contains(&lab.at(file)), "{file}: {:?}", set.files);
    }
}
