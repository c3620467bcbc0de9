//! Servers from configuration files follow the files (CFG-9).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::config::{Layout, Loader};
use trunkline::connectors::{ConnectorList, Connectors, ConnectorsError};
use trunkline::server::{FailureKind, State};
use trunkline::{CallOptions, Host, ServerEntry};
use trunkline_config::{Editor, EntryStatus, KeyringRef, Secret, SecretError};
use trunkline_testkit::Script;

use crate::lab::{Lab, SOON};

const GLOBAL: &str = "home/.claude.json";
const PROJECT: &str = "repo/.mcp.json";

fn layout(lab: &Lab) -> Layout {
    Layout {
        managed_dir: lab.at("etc"),
        ..Layout::under(lab.at("home"))
    }
}

fn repo(lab: &Lab) -> PathBuf {
    let repo = lab.at("repo");
    std::fs::create_dir_all(repo.join(".git")).unwrap();
    std::fs::create_dir_all(lab.at("home")).unwrap();
    repo
}

/// A server's entry in a file; the server counts its starts.
fn entry(lab: &Lab, name: &str) -> Value {
    let entry = lab.server(name, Script::default().tool("t", json!([])));
    let env: serde_json::Map<String, Value> = [lab.scratch.marker().env()]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    let argv = entry.transport.argv().unwrap();
    json!({"command": argv[0], "args": argv[1..], "env": env})
}

fn with(entry: &Value, field: &str, value: Value) -> Value {
    let mut changed = entry.clone();
    changed[field] = value;
    changed
}

/// Replaces a file atomically, like an editor.
fn put(lab: &Lab, file: &str, servers: &Value) {
    write(lab, file, &json!({"mcpServers": servers}).to_string());
}

fn write(lab: &Lab, file: &str, text: &str) {
    let path = lab.at(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, text).unwrap();
    std::fs::rename(temporary, path).unwrap();
}

fn starts(lab: &Lab, name: &str) -> u32 {
    let text = std::fs::read_to_string(lab.at(&format!("{name}.starts"))).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Waits until the host has these servers in these states.
async fn becomes(host: &Host, expected: &[(&str, &str)]) {
    let states = || -> Vec<(String, &str)> {
        let servers = host.servers();
        let state = |server: &std::sync::Arc<trunkline::server::ServerStatus>| {
            (server.name.to_string(), server.state.name())
        };
        servers.iter().map(state).collect()
    };
    let same = || {
        let now = states();
        now.len() == expected.len() && now.iter().zip(expected).all(|(a, b)| (&*a.0, a.1) == *b)
    };
    let waited = tokio::time::timeout(SOON, async {
        while !same() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "{:?}, not {expected:?}", states());
}

#[tokio::test]
async fn servers_follow_the_files_and_unchanged_ones_stay_connected() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    let [stays, changes, goes, comes] =
        ["stays", "changes", "goes", "comes"].map(|name| entry(&lab, name));
    put(
        &lab,
        GLOBAL,
        &json!({"stays": stays, "changes": changes, "goes": goes}),
    );
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .discover(layout(&lab), &cwd)
        .start();
    let connected = |names: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        names.iter().map(|name| (*name, "connected")).collect()
    };
    becomes(&host, &connected(&["changes", "goes", "stays"])).await;

    let other = with(&changes, "timeout", json!(5000));
    put(
        &lab,
        GLOBAL,
        &json!({"stays": stays, "changes": other, "comes": comes}),
    );
    becomes(&host, &connected(&["changes", "comes", "stays"])).await;
    for (name, expected) in [("stays", 1), ("changes", 2), ("goes", 1), ("comes", 1)] {
        assert_eq!(starts(&lab, name), expected, "{name}");
    }
    let tools = host.pool().tools().len();
    assert_eq!(tools, 3);

    // The same servers from another scope keep their connections.
    write(
        &lab,
        GLOBAL,
        &json!({"projects": {cwd.to_str().unwrap(): {"mcpServers": {"stays": stays}}}}).to_string(),
    );
    becomes(&host, &connected(&["stays"])).await;
    assert_eq!(starts(&lab, "stays"), 1);
    std::fs::remove_file(lab.at(GLOBAL)).unwrap();
    becomes(&host, &[]).await;
    host.shutdown().await;
    lab.scratch.assert_no_processes(SOON);
}

#[tokio::test]
async fn partially_written_file_is_ignored() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    let one = entry(&lab, "one");
    put(&lab, GLOBAL, &json!({"one": one}));
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .discover(layout(&lab), &cwd)
        .start();
    becomes(&host, &[("one", "connected")]).await;
    let whole = std::fs::read_to_string(lab.at(GLOBAL)).unwrap();
    for half in ["", "{", &whole[..whole.len() / 2]] {
        std::fs::write(lab.at(GLOBAL), half).unwrap();
        host.reload().await;
        assert_eq!(host.config().diagnostics.len(), 1);
        becomes(&host, &[("one", "connected")]).await;
    }
    std::fs::write(lab.at(GLOBAL), &whole).unwrap();
    host.reload().await;
    assert!(host.config().diagnostics.is_empty());
    assert_eq!(starts(&lab, "one"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn approval_starts_and_change_stops_a_server_at_runtime() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    let one = entry(&lab, "one");
    put(&lab, PROJECT, &json!({"one": one}));
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .discover(layout(&lab), &cwd)
        .start();
    host.ready().await;
    assert!(host.servers().is_empty());
    let pending = host.config();
    assert!(matches!(
        pending.servers[0].status,
        EntryStatus::PendingApproval { before: None }
    ));

    let editor = Editor::new(layout(&lab), &cwd);
    editor.approve(&[&pending.servers[0].entry]).unwrap();
    becomes(&host, &[("one", "connected")]).await;

    put(
        &lab,
        PROJECT,
        &json!({"one": with(&one, "cwd", json!("/"))}),
    );
    becomes(&host, &[]).await;
    assert!(matches!(
        host.config().servers[0].status,
        EntryStatus::PendingApproval { before: Some(_) }
    ));
    assert_eq!(starts(&lab, "one"), 1);

    put(&lab, PROJECT, &json!({"one": one}));
    becomes(&host, &[("one", "connected")]).await;
    editor
        .set_enabled(&host.config().servers[0].entry, false)
        .unwrap();
    becomes(&host, &[("one", "disabled")]).await;
    host.shutdown().await;
    lab.scratch.assert_no_processes(SOON);
}

#[tokio::test]
async fn new_managed_file_takes_over_immediately() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    put(&lab, GLOBAL, &json!({"own": entry(&lab, "own")}));
    std::fs::create_dir(lab.at("etc")).unwrap();
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .discover(layout(&lab), &cwd)
        .start();
    becomes(&host, &[("own", "connected")]).await;
    put(
        &lab,
        "etc/managed-mcp.json",
        &json!({"theirs": entry(&lab, "theirs")}),
    );
    becomes(&host, &[("theirs", "connected")]).await;
    write(&lab, "etc/managed-mcp.json", "nonsense");
    becomes(&host, &[]).await;
    std::fs::remove_file(lab.at("etc/managed-mcp.json")).unwrap();
    becomes(&host, &[("own", "connected")]).await;
    write(
        &lab,
        "etc/managed-settings.json",
        &json!({"deniedMcpServers": [{"serverName": "own"}]}).to_string(),
    );
    becomes(&host, &[]).await;
    host.shutdown().await;
    lab.scratch.assert_no_processes(SOON);
}

#[tokio::test]
async fn embedder_servers_stay_and_take_precedence() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    put(
        &lab,
        GLOBAL,
        &json!({"same": entry(&lab, "same"), "wanted": entry(&lab, "wanted"), "other": entry(&lab, "other")}),
    );
    let own = ServerEntry {
        timeout: Some(Duration::from_secs(1)),
        ..lab.server("same", Script::default())
    };
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(own)
        .loader(Loader::new(layout(&lab), &cwd))
        .only(|name| name != "other")
        .start();
    becomes(&host, &[("same", "connected"), ("wanted", "connected")]).await;
    assert_eq!(
        host.server("same").unwrap().entry.as_ref().unwrap().timeout,
        Some(Duration::from_secs(1))
    );
    std::fs::remove_file(lab.at(GLOBAL)).unwrap();
    host.reload().await;
    becomes(&host, &[("same", "connected")]).await;
    host.shutdown().await;
}

#[tokio::test]
async fn secrets_are_resolved_when_connecting() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    let found = |name: &str| {
        let mut entry = entry(&lab, name);
        entry["env"]["TOKEN"] = json!(format!("x${{keyring:svc/{name}}}"));
        entry
    };
    put(
        &lab,
        GLOBAL,
        &json!({"known": found("known"), "unknown": found("unknown")}),
    );
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .loader(Loader::new(layout(&lab), &cwd))
        .secrets(|wanted: &KeyringRef| {
            Ok((wanted.account == "known").then(|| Secret::new("hunter2")))
        })
        .start();
    host.ready().await;
    let failure = host
        .server("unknown")
        .unwrap()
        .state
        .failure()
        .unwrap()
        .clone();
    assert!(
        matches!(&failure.kind, FailureKind::Secret(SecretError::Missing(wanted)) if wanted.account == "unknown")
    );
    let pid = std::fs::read_to_string(lab.at("known.pid")).unwrap();
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", pid.trim())).unwrap();
    assert!(environment.contains("TOKEN=xhunter2"), "{environment}");
    assert!(!format!("{:?} {failure}", host.servers()).contains("hunter2"));
    host.shutdown().await;
}

#[tokio::test]
async fn entry_filters_offered_tools() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    let script = Script::default()
        .tool("get_one", json!([]))
        .tool("get_two", json!([]))
        .tool("delete", json!([]));
    let served = lab.server("s", script);
    let argv = served.transport.argv().unwrap();
    put(
        &lab,
        GLOBAL,
        &json!({"s": {
            "command": argv[0], "args": argv[1..], "alwaysLoad": true,
            "tools": {"allow": ["get_*"], "deny": ["*two"]},
        }}),
    );
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .loader(Loader::new(layout(&lab), &cwd))
        .start();
    host.ready().await;
    let pool = host.pool();
    let names: Vec<_> = pool.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["mcp__s__get_one"]);
    assert!(pool.tools()[0].always_load);
    for (name, filter) in [("get_two", "tools.deny"), ("delete", "tools.allow")] {
        let tool = format!("mcp__s__{name}");
        let call = host.call(&tool, json!({}), CallOptions::new());
        let error = call.await.unwrap_err();
        let hidden = format!("the tool \"{name}\" of \"s\" is hidden by {filter} of its entry (");
        assert!(error.to_string().starts_with(&hidden), "{error}");
    }
    let error = host.find_tool("mcp__s__deleet").unwrap_err();
    assert_eq!(error.to_string(), "there is no tool \"mcp__s__deleet\"");
    host.shutdown().await;
}

/// Connectors that never arrive.
struct Never;

impl Connectors for Never {
    fn list(
        &self,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ConnectorList, ConnectorsError>> + Send + '_>>
    {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn hanging_connectors_delay_nobody_and_are_reported() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    put(&lab, GLOBAL, &json!({"one": entry(&lab, "one")}));
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .loader(Loader::new(layout(&lab), &cwd))
        .connectors(Never)
        .start();
    let mut events = host.events();
    let connected = |host: &Host| {
        let one = host.server("one");
        one.is_some_and(|one| matches!(one.state, State::Connected(_)))
    };
    while !connected(&host) {
        tokio::time::timeout(SOON, events.next())
            .await
            .expect("news");
    }
    // Connected while the list is still pending.
    assert!(host.config().diagnostics.is_empty());
    tokio::time::timeout(SOON, host.ready())
        .await
        .expect("ready in the end");
    let told = host.config().diagnostics[0].to_string();
    assert!(told.contains("took longer than 5 s"), "{told}");
    assert_eq!(starts(&lab, "one"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn embedder_servers_obey_policy_unless_bypassed() {
    let denies = json!({"deniedMcpServers": [{"serverName": "own"}]}).to_string();
    let company = json!({"mcpServers": {}}).to_string();
    for (file, text) in [
        ("home/.claude/settings.json", &denies),
        ("etc/managed-settings.json", &denies),
        ("etc/managed-mcp.json", &company),
    ] {
        for bypass in [false, true] {
            let lab = Lab::new();
            let cwd = repo(&lab);
            write(&lab, file, text);
            let own = || lab.server("own", Script::default().tool("t", json!([])));
            let builder = || {
                Host::builder()
                    .permit(trunkline::permission::AllowAll)
                    .discover(layout(&lab), &cwd)
                    .bypass_policy(bypass)
            };
            let state = |host: &Host| host.server("own").map(|status| status.state.name());
            let expected = bypass.then_some("connected");

            let host = builder().server(own()).start();
            host.ready().await;
            assert_eq!(state(&host), expected, "{file}");
            let blocked = |host: &Host| {
                let set = host.config();
                let mut named = set.named("own");
                named.any(|server| matches!(server.status, EntryStatus::Blocked(_)))
            };
            assert_eq!(blocked(&host), !bypass, "{file}");
            host.reload().await;
            assert_eq!((state(&host), blocked(&host)), (expected, !bypass));
            host.shutdown().await;

            let host = builder().start();
            host.ready().await;
            host.add(own());
            host.ready().await;
            assert_eq!(state(&host), expected, "{file}");
            let agent = host.agent(trunkline::AgentScope::none().server(own()));
            agent.ready().await;
            assert_eq!(state(&agent), expected, "{file}");
            host.shutdown().await;
            assert_eq!(starts(&lab, "own") > 0, bypass, "{file}");
        }
    }
}

#[tokio::test]
async fn embedder_server_follows_policy_changes() {
    let lab = Lab::new();
    let cwd = repo(&lab);
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .discover(layout(&lab), &cwd)
        .server(lab.server("own", Script::default().tool("t", json!([]))))
        .start();
    becomes(&host, &[("own", "connected")]).await;
    let settings = "home/.claude/settings.json";
    let denies = json!({"deniedMcpServers": [{"serverName": "own"}]});
    write(&lab, settings, &denies.to_string());
    becomes(&host, &[]).await;
    write(&lab, settings, "{}");
    becomes(&host, &[("own", "connected")]).await;
    host.shutdown().await;
}
