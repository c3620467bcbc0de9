//! What a program that embeds a host relies on: directories, errors of their own, events, time limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::call::{CallErrorKind, TimeLimit};
use trunkline::config::{Layout, TransportEntry};
use trunkline::permission::{AllowAll, Rules};
use trunkline::server::State;
use trunkline::tool::HostTool;
use trunkline::{AgentScope, CallOptions, Host, HostBuilder, ServerEntry};
use trunkline_config::{EntryStatus, HttpEntry, HttpFlavour};
use trunkline_testkit::Script;
use trunkline_testkit::net::RawHttp;

use crate::lab::{Lab, call, in_time};

fn script() -> Script {
    Script::default()
        .tool("t", json!([{"replyText": "called"}]))
        .tool("silent", json!([{"silence": true}]))
}

/// A host that looks for servers in a project, with nothing in it yet.
fn discovering(lab: &Lab) -> HostBuilder {
    let project = project(lab);
    std::fs::create_dir_all(lab.at("home")).unwrap();
    let layout = Layout {
        managed_dir: lab.at("etc"),
        ..Layout::under(lab.at("home"))
    };
    Host::builder().permit(AllowAll).discover(layout, &project)
}

fn project(lab: &Lab) -> PathBuf {
    let project = lab.at("repo");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    project
}

fn write(lab: &Lab, file: &str, content: &Value) {
    let path = lab.at(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content.to_string()).unwrap();
}

/// A server's entry as a file has it.
fn entry(lab: &Lab, name: &str) -> Value {
    let entry = lab.server(name, script());
    let argv = entry.transport.argv().unwrap();
    let (variable, value) = lab.scratch.marker().env();
    json!({"command": argv[0], "args": argv[1..], "env": {variable: value}})
}

fn own_tool() -> HostTool {
    HostTool::new("Deploy", "Deploys", json!({"type": "object"}), |_| async {
        Ok("deployed".into())
    })
}

fn own_names(host: &Host) -> Vec<String> {
    let pool = host.pool();
    pool.own().iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn a_scope_holds_for_the_hosts_own_tools() {
    let host = Host::builder().permit(AllowAll).tool(own_tool()).start();
    for (scope, sees) in [
        (AgentScope::all(), true),
        (AgentScope::none(), false),
        (AgentScope::all().tools(["mcp__s__*"]), false),
        (AgentScope::all().without(["Deploy"]), false),
        (AgentScope::none().tools(["Deploy"]), true),
    ] {
        let agent = host.agent(scope);
        assert_eq!(own_names(&agent).contains(&"Deploy".to_owned()), sees);
        let exported = agent.export().await;
        assert_eq!(exported.as_str().contains("Deploys"), sees);
        match call(&agent, "Deploy", json!({})).await {
            Ok(text) => assert!(sees && text == "deployed"),
            Err(error) => {
                assert!(
                    !sees && error.kind() == CallErrorKind::UnknownTool,
                    "{error}"
                );
            }
        }
        // An agent of an agent sees no more.
        let nested = agent.agent(AgentScope::all());
        assert_eq!(own_names(&nested), own_names(&agent));
    }
    let denying = host.agent(AgentScope::all().rules(Rules::default().deny("Deploy")));
    assert!(!denying.export().await.as_str().contains("Deploys"));
    host.shutdown().await;
}

#[tokio::test]
async fn rules_and_scopes_add_up() {
    let lab = Lab::new();
    let builder = Host::builder()
        .server(lab.server("s", script()))
        .rules(Rules::default().deny("mcp__s__silent"))
        .rules(Rules::default().allow("mcp__s__t"));
    let host = lab.ready(builder).await;
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "called");
    let error = call(&host, "mcp__s__silent", json!({})).await.unwrap_err();
    assert!(error.rule().is_some(), "{error}");
    let scope = AgentScope::all()
        .rules(Rules::default().deny("mcp__s__t"))
        .rules(Rules::default().allow("mcp__s"));
    let error = call(&host.agent(scope), "mcp__s__t", json!({})).await;
    assert!(error.unwrap_err().rule().is_some());
    lab.end(host).await;
}

#[tokio::test]
async fn servers_run_in_the_project_that_the_host_serves() {
    let lab = Lab::new();
    let mut entry = entry(&lab, "s");
    let mut args = vec![json!("-c"), json!(r#"pwd > "$0"; exec "$@""#)];
    args.push(json!(lab.at("directory")));
    args.push(entry["command"].take());
    args.extend(entry["args"].as_array().unwrap().iter().cloned());
    entry["command"] = json!("/bin/sh");
    entry["args"] = json!(args);
    write(
        &lab,
        "home/.claude.json",
        &json!({"mcpServers": {"s": entry}}),
    );
    let host = lab.ready(discovering(&lab)).await;
    let directory = lab.scratch.read("directory");
    let project = project(&lab).canonicalize().unwrap();
    assert_eq!(directory.trim(), project.to_str().unwrap());
    lab.end(host).await;
}

#[tokio::test]
async fn a_tool_of_a_server_that_does_not_run_is_an_error_of_its_own() {
    let lab = Lab::new();
    write(
        &lab,
        "home/.claude.json",
        &json!({"mcpServers": {"waits2": entry(&lab, "waits2")}}),
    );
    let waiting = json!({"waits": entry(&lab, "waits"), "gone": entry(&lab, "gone")});
    write(&lab, "repo/.mcp.json", &json!({"mcpServers": waiting}));
    let settings = json!({"disabledMcpjsonServers": ["gone"]});
    write(&lab, "repo/.claude/settings.local.json", &settings);
    let host = lab.ready(discovering(&lab)).await;

    let error = call(&host, "mcp__waits__t", json!({})).await.unwrap_err();
    let pending = |standing: &EntryStatus| matches!(standing, EntryStatus::PendingApproval { .. });
    assert!(
        error.server() == Some("waits") && error.standing().is_some_and(pending),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "the server \"waits\" does not run: it waits for your approval"
    );
    assert!(error.hint().unwrap().contains("trunkline approve"));
    let error = call(&host, "mcp__gone__t", json!({})).await.unwrap_err();
    let rejected = |standing: &EntryStatus| matches!(standing, EntryStatus::Rejected { .. });
    assert!(error.standing().is_some_and(rejected), "{error:?}");

    in_time("the end of one", host.disable("waits2"))
        .await
        .unwrap();
    let error = call(&host, "mcp__waits2__t", json!({})).await.unwrap_err();
    let disabled = |state: &State| matches!(state, State::Disabled);
    assert!(error.state().is_some_and(disabled), "{error:?}");
    assert!(error.hint().is_some());
    lab.end(host).await;
}

#[tokio::test]
async fn after_the_shutdown_every_call_says_so() {
    let lab = Lab::new();
    let builder = Host::builder()
        .permit(AllowAll)
        .server(lab.server("s", script()))
        .tool(own_tool());
    let host = lab.ready(builder).await;
    let agent = host.agent(AgentScope::all());
    in_time("shutdown", host.shutdown()).await;
    for host in [&host, &agent] {
        for name in ["mcp__s__t", "Deploy", "no_such_tool"] {
            let error = call(host, name, json!({})).await.unwrap_err();
            assert!(error.kind() == CallErrorKind::ShutDown, "{error}");
        }
    }
}

#[tokio::test]
async fn a_call_waits_for_the_first_connection_and_for_one_after_a_pause() {
    let lab = Lab::new();
    let builder = Host::builder().permit(AllowAll);
    let host = builder.server(lab.server("s", script())).start();
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "called");
    in_time("the pause", host.disable("s")).await.unwrap();
    in_time("the end of the pause", host.reconnect("s"))
        .await
        .unwrap();
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "called");
    lab.end(host).await;

    // The same where files say which servers there are.
    write(
        &lab,
        "home/.claude.json",
        &json!({"mcpServers": {"f": entry(&lab, "f")}}),
    );
    let host = discovering(&lab).start();
    assert_eq!(call(&host, "mcp__f__t", json!({})).await.unwrap(), "called");
    lab.end(host).await;
}

#[tokio::test]
async fn a_call_waits_for_a_connection_no_longer_than_it_may_take() {
    let lab = Lab::new();
    let mute = json!({"on": {"server/discover": [], "initialize": []}});
    let host = Host::builder()
        .permit(AllowAll)
        .server(lab.server("s", mute))
        .start();
    let options = CallOptions::new().timeout(Duration::from_millis(200));
    let error = in_time("the call", host.call("mcp__s__t", json!({}), options)).await;
    assert!(
        error.as_ref().is_err_and(|error| error.state().is_some()),
        "{error:?}"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn events_end_with_the_shutdown_whoever_still_holds_the_host() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", script())]).await;
    let (clone, agent) = (host.clone(), host.agent(AgentScope::all()));
    let (mut events, mut of_agent) = (clone.events(), agent.events());
    in_time("the agent's end", agent.shutdown()).await;
    in_time("the end of its events", async {
        while of_agent.next().await.is_some() {}
    })
    .await;
    in_time("shutdown", host.shutdown()).await;
    let mut heard = 0;
    in_time("the end of the events", async {
        while let Some(changes) = events.next().await {
            heard += usize::from(changes.servers.contains("s"));
        }
    })
    .await;
    assert!(heard > 0, "the last change is told");
    assert_eq!(in_time("no more", clone.events().next()).await, None);
}

#[tokio::test]
async fn an_event_tells_that_a_server_waits_for_approval() {
    let lab = Lab::new();
    let host = lab.ready(discovering(&lab)).await;
    let mut events = host.events();
    write(
        &lab,
        "repo/.mcp.json",
        &json!({"mcpServers": {"new": entry(&lab, "new")}}),
    );
    in_time("a reload", host.reload()).await;
    in_time("the event", async {
        loop {
            let changes = events.next().await.unwrap();
            if changes.awaiting_approval.contains("new") {
                break;
            }
        }
    })
    .await;
    lab.end(host).await;
}

#[tokio::test]
async fn a_time_limit_is_told_as_it_was_set_and_by_whom() {
    let lab = Lab::new();
    let half = Duration::from_millis(500);
    let mut limited = lab.server("limited", script());
    limited.timeout = Some(half);
    let mut builder = Host::builder().permit(AllowAll);
    builder = builder.server(limited).server(lab.server("free", script()));
    let host = lab.ready(builder).await;
    for (server, timeout, by, hint) in [
        ("free", Some(half), TimeLimit::Call, None),
        (
            "limited",
            None,
            TimeLimit::Entry,
            Some("\"timeout\" (ms) in the server's entry"),
        ),
    ] {
        let options = CallOptions::new().timeout(timeout);
        let name = format!("mcp__{server}__silent");
        let error = in_time(&name, host.call(&name, json!({}), options)).await;
        let error = error.unwrap_err();
        assert!(error.time_limit() == Some((half, by)), "{error:?}");
        assert!(error.to_string().contains("within 500 ms"), "{error}");
        let said = error.hint();
        assert_eq!(said.is_some(), hint.is_some(), "{said:?}");
        assert!(said.unwrap_or_default().contains(hint.unwrap_or_default()));
    }
    lab.end(host).await;
}

#[tokio::test]
async fn a_call_in_an_expired_session_is_made_again_in_a_new_one() {
    // The server forgets its first session as soon as a tool is called in it.
    let sessions = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&sessions);
    let server = RawHttp::start(move |request, reply| {
        let mut headers = vec![("content-type", "application/json")];
        let session;
        let result = match request.rpc_method().as_str() {
            "initialize" => {
                session = (counted.fetch_add(1, Ordering::SeqCst) + 1).to_string();
                headers.push(("mcp-session-id", &session));
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"}})
            }
            "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            "tools/call" if request.header("mcp-session-id") == Some("1") => {
                reply.respond(404, &[("content-type", "text/plain")], "no such session");
                return;
            }
            "tools/call" => json!({"content": [{"type": "text", "text": "called"}]}),
            "notifications/initialized" => {
                reply.status(202);
                return;
            }
            "server/discover" => {
                let error = json!({"code": -32600, "message": "no session"});
                let answer = json!({"jsonrpc": "2.0", "id": request.rpc_id(), "error": error});
                reply.json(400, &answer);
                return;
            }
            _ => {
                reply.status(405);
                return;
            }
        };
        let answer = json!({"jsonrpc": "2.0", "id": request.rpc_id(), "result": result});
        reply.respond(200, &headers, answer.to_string());
    });
    let http = HttpEntry::new(HttpFlavour::Streamable, server.url());
    let entry = ServerEntry::new("s", TransportEntry::Http(http));
    let host = Host::builder().permit(AllowAll).server(entry).start();
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "called");
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
    in_time("shutdown", host.shutdown()).await;
}
