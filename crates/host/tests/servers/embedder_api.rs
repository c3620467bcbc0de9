//! The API for programs that embed a host: servers that come and go at run time, approval, custom
//! transports, callbacks, and state on disk.

use std::io;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};
use trunkline::config::{EntryStatus, Layout};
use trunkline::log::{Direction, LogKind};
use trunkline::permission::{AllowAll, Rules};
use trunkline::server::State;
use trunkline::tool::{HostTool, ToolOutput};
use trunkline::{Builtin, CallOptions, Host, ServerEntry};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, in_time};

fn echo(name: &str, text: &'static str) -> Builtin {
    let schema = json!({"type": "object"});
    Builtin::new(name).tool("t", "", &schema, move |_| async move { Ok(text.into()) })
}

#[tokio::test]
async fn servers_are_added_replaced_and_removed_at_run_time() {
    let lab = Lab::new();
    let host = Host::builder().permit(AllowAll).start();
    host.add_builtin(echo("b", "first"));
    assert_eq!(call(&host, "mcp__b__t", json!({})).await.unwrap(), "first");
    host.add_builtin(echo("b", "second"));
    let status = in_time("b", host.ready_for("b")).await.unwrap();
    assert!(matches!(status.state, State::Connected(_)));
    assert_eq!(call(&host, "mcp__b__t", json!({})).await.unwrap(), "second");

    host.add(lab.server("s", Script::default().tool("t", json!([]))));
    in_time("s", host.ready_for("s")).await.unwrap();
    for name in ["s", "b"] {
        in_time("the end", host.remove(name)).await.unwrap();
        assert!(host.server(name).is_none());
    }
    assert!(host.pool().tools().is_empty());
    let error = host.remove("s").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no server \"s\"");
    lab.end(host).await;
}

#[tokio::test]
async fn an_unknown_name_is_an_error_with_a_suggestion() {
    let host = Host::builder().builtin(echo("clock", "noon")).start();
    for error in [
        host.reconnect("clok").await.unwrap_err(),
        host.disable("clok").await.unwrap_err(),
        host.refresh("clok").await.unwrap_err(),
        host.remove("clok").await.unwrap_err(),
        host.ready_for("clok").await.unwrap_err(),
    ] {
        assert_eq!((error.name(), error.suggestion()), ("clok", Some("clock")));
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_removed_server_gives_way_to_the_configured_one_of_its_name() {
    let lab = Lab::new();
    let home = lab.at("home");
    std::fs::create_dir_all(&home).unwrap();
    let argv = lab.server(
        "configured",
        Script::default().tool("t", json!([{"replyText": "configured"}])),
    );
    let argv = argv
        .transport
        .argv()
        .unwrap()
        .into_iter()
        .map(str::to_owned);
    let argv: Vec<_> = argv.collect();
    let entry = json!({"command": argv[0], "args": argv[1..]});
    let config = json!({"mcpServers": {"s": entry}}).to_string();
    std::fs::write(home.join(".claude.json"), config).unwrap();
    let layout = Layout {
        managed_dir: lab.at("etc"),
        ..Layout::under(&home)
    };
    let own = lab.server(
        "s",
        Script::default().tool("t", json!([{"replyText": "own"}])),
    );
    let builder = Host::builder().server(own).discover(layout, &home);
    let host = lab.ready(builder.permit(AllowAll)).await;
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "own");
    in_time("the end", host.remove("s")).await.unwrap();
    assert_eq!(
        call(&host, "mcp__s__t", json!({})).await.unwrap(),
        "configured"
    );
    host.remove("s").await.unwrap_err();
    lab.end(host).await;
}

#[tokio::test]
async fn rules_can_be_replaced_while_the_host_runs() {
    let rules = Rules::default().allow("mcp__b");
    let host = Host::builder()
        .builtin(echo("b", "ok"))
        .rules(rules)
        .start();
    host.ready().await;
    assert_eq!(call(&host, "mcp__b__t", json!({})).await.unwrap(), "ok");
    host.set_rules(Rules::default().deny("mcp__b"));
    call(&host, "mcp__b__t", json!({})).await.unwrap_err();
    host.set_rules(Rules::default().allow("mcp__b__t"));
    assert_eq!(call(&host, "mcp__b__t", json!({})).await.unwrap(), "ok");
    host.shutdown().await;
}

#[tokio::test]
async fn a_tool_is_called_by_its_server_and_the_servers_name_for_it() {
    let schema = json!({"type": "object"});
    let builtin = Builtin::new("my server")
        .tool("a.b", "", &schema, |_| async { Ok("dot".into()) })
        .tool("a_b", "", &schema, |_| async { Ok("line".into()) });
    let host = Host::builder().builtin(builtin).permit(AllowAll).start();
    for (tool, expected) in [("a.b", "dot"), ("a_b", "line")] {
        let output = host.call_on("my server", tool, json!({}), CallOptions::new());
        assert_eq!(output.await.unwrap().text(), expected);
    }
    host.call_on("other", "a_b", json!({}), CallOptions::new())
        .await
        .unwrap_err();
    host.shutdown().await;
}

#[tokio::test]
async fn a_project_server_runs_once_the_program_approves_it_and_only_as_it_was_shown() {
    let lab = Lab::new();
    let (home, repo) = (lab.at("home"), lab.at("repo"));
    std::fs::create_dir_all(repo.join(".git")).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    let server = lab.server(
        "s",
        Script::default().tool("t", json!([{"replyText": "ran"}])),
    );
    let argv = server.transport.argv().unwrap();
    let write = |mode: &str| {
        let entry = json!({"command": argv[0], "args": argv[1..], "env": {"MODE": mode}});
        let config = json!({"mcpServers": {"s": entry}}).to_string();
        std::fs::write(repo.join(".mcp.json"), config).unwrap();
    };
    write("one");
    let layout = Layout {
        managed_dir: lab.at("etc"),
        ..Layout::under(&home)
    };
    let builder = Host::builder().discover(layout, &repo).watch(false);
    let host = lab.ready(builder.permit(AllowAll)).await;
    let mut events = host.events();
    let shown = host.config().servers[0].clone();
    assert!(matches!(shown.status, EntryStatus::PendingApproval { .. }));

    write("two");
    let status = in_time("approval", host.approve(&shown.entry))
        .await
        .unwrap();
    assert!(matches!(
        status,
        EntryStatus::PendingApproval { before: Some(_) }
    ));
    assert!(host.server("s").is_none());
    let changes = in_time("the change", events.next()).await.unwrap();
    assert!(changes.configuration);

    let shown = host.config().servers[0].clone();
    let status = in_time("approval", host.approve(&shown.entry))
        .await
        .unwrap();
    assert_eq!(status, EntryStatus::Active);
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "ran");
    let status = in_time("rejection", host.reject(&shown.entry))
        .await
        .unwrap();
    assert!(matches!(status, EntryStatus::Rejected { .. }));
    assert!(host.server("s").is_none());
    lab.end(host).await;

    let bare = Host::builder().start();
    let error = bare.approve(&shown.entry).await.unwrap_err();
    assert_eq!(error.server(), "s");
    bare.shutdown().await;
}

/// Answers a host over a stream of JSON lines: one tool, which says how often it connected.
async fn serve(stream: tokio::io::DuplexStream, connection: usize) {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let result = match request["method"].as_str() {
            Some("server/discover") => json!({"resultType": "complete",
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "t", "version": "1"}}}),
            Some("initialize") => json!({"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}),
            Some("tools/list") => json!({"resultType": "complete",
                "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => json!({"resultType": "complete",
                "content": [{"type": "text", "text": format!("connection {connection}")}]}),
            _ => continue,
        };
        let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        let reply = format!("{reply}\n");
        if writer.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_transport_of_the_programs_own_connects_and_reconnects() {
    let attempts = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&attempts);
    let host = Host::builder()
        .permit(AllowAll)
        .connect("tunnel", move || {
            let attempt = {
                let mut attempts = counted.lock().unwrap();
                *attempts += 1;
                *attempts
            };
            async move {
                if attempt == 1 {
                    return Err(io::Error::other("the tunnel is down"));
                }
                let (ours, theirs) = duplex(1024);
                tokio::spawn(serve(theirs, attempt));
                Ok(split(ours))
            }
        })
        .start();
    let status = in_time("the failure", host.ready_for("tunnel"))
        .await
        .unwrap();
    let failure = status.state.failure().unwrap().to_string();
    assert!(failure.contains("the tunnel is down"), "{failure}");
    host.reconnect("tunnel").await.unwrap();
    let said = call(&host, "mcp__tunnel__t", json!({})).await.unwrap();
    assert_eq!(said, "connection 2");
    host.reconnect("tunnel").await.unwrap();
    let said = call(&host, "mcp__tunnel__t", json!({})).await.unwrap();
    assert_eq!(said, "connection 3");
    host.shutdown().await;
}

#[tokio::test]
async fn callbacks_see_messages_and_log_lines_without_secrets() {
    let lab = Lab::new();
    let script =
        Script::default().tool("t", json!([{"stderr": "hello hunter2\n"}, {"echo": true}]));
    let messages = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (seen, logged) = (Arc::clone(&messages), Arc::clone(&lines));
    let builder = Host::builder()
        .server(lab.server("s", script).env("TOKEN", "hunter2"))
        .on_message(move |message| {
            let text = message.text.to_owned();
            seen.lock()
                .unwrap()
                .push((message.server.to_owned(), message.direction, text));
        })
        .on_log(move |line| logged.lock().unwrap().push(line));
    let host = lab.ready(builder.permit(AllowAll)).await;
    call(&host, "mcp__s__t", json!({"password": "hunter2"}))
        .await
        .unwrap();
    lab.end(host).await;

    let messages = messages.lock().unwrap();
    for (direction, text) in [
        (Direction::Sent, "tools/call"),
        (Direction::Received, "content"),
    ] {
        let is_it = |message: &&(String, Direction, String)| {
            message.0 == "s" && message.1 == direction && message.2.contains(text)
        };
        assert!(
            messages.iter().any(|message| is_it(&message)),
            "{messages:?}"
        );
    }
    assert!(!format!("{messages:?}").contains("hunter2"));
    let lines = lines.lock().unwrap();
    let kinds: Vec<_> = lines.iter().map(|line| line.kind).collect();
    assert!(kinds.contains(&LogKind::State), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.text == "hello ***"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn nothing_is_kept_on_disk_unless_a_directory_is_given() {
    let lab = Lab::new();
    let script = || Script::default().tool("t", json!([{"replyText": "x"}]));
    let dir = lab.at("state");
    for (keep, expected) in [(false, false), (true, true)] {
        let mut builder = Host::builder().server(lab.server("s", script()));
        if keep {
            builder = builder.state_under(&dir);
        }
        let host = lab.ready(builder.permit(AllowAll)).await;
        call(&host, "mcp__s__t", json!({})).await.unwrap();
        host.shutdown().await;
        for part in ["catalogs", "eras.json", "pins", "logs"] {
            assert_eq!(dir.join(part).exists(), expected, "{part}");
        }
    }
}

#[tokio::test]
async fn tools_of_the_program_return_any_content_and_any_error() {
    #[derive(Deserialize)]
    struct Half {
        number: i64,
    }
    let schema = json!({"type": "object"});
    let builtin = Builtin::new("b")
        .tool("half", "", &schema, |call| async move {
            let Half { number } = call.parse()?;
            if number % 2 != 0 {
                return Err(format!("{number} is odd").into());
            }
            Ok((number / 2).to_string().into())
        })
        .tool("open", "", &schema, |_| async move {
            let text = std::fs::read_to_string("/nonexistent/file")?;
            Ok(text.into())
        })
        .tool("chart", "", &schema, |_| async move {
            Ok(ToolOutput::text("sales").with_audio("audio/wav", b"RIFF"))
        });
    let relay = HostTool::new("Relay", "", schema, |call| async move {
        let options = CallOptions::new();
        Ok(call
            .host
            .call("mcp__b__half", call.arguments, options)
            .await?
            .into())
    });
    let host = Host::builder()
        .builtin(builtin)
        .tool(relay)
        .permit(AllowAll)
        .start();
    host.ready().await;
    let output = |name: &'static str, arguments: Value| {
        let host = host.clone();
        async move {
            host.call(name, arguments, CallOptions::new())
                .await
                .unwrap()
        }
    };
    for name in ["mcp__b__half", "Relay"] {
        assert_eq!(output(name, json!({"number": 4})).await.text(), "2");
        let odd = output(name, json!({"number": 3})).await;
        assert!(odd.is_error && odd.text() == "3 is odd", "{odd:?}");
    }
    let wrong = output("mcp__b__half", json!({"number": "x"})).await;
    assert!(
        wrong.is_error && wrong.text().starts_with("the arguments do not fit"),
        "{wrong:?}"
    );
    let failed = output("mcp__b__open", json!({})).await;
    assert!(
        failed.is_error && failed.text().contains("No such file"),
        "{failed:?}"
    );
    let chart = output("mcp__b__chart", json!({})).await;
    assert_eq!(chart.content.len(), 2);
    host.shutdown().await;
}

#[tokio::test]
async fn a_host_shows_its_servers_in_debug_output() {
    let secret = ServerEntry::http("h", "http://127.0.0.1:1/mcp").header("A", "hunter2");
    let host = Host::builder()
        .builtin(echo("b", "x"))
        .server(secret)
        .start();
    host.ready().await;
    let shown = format!("{host:?}");
    assert!(
        shown.contains("\"b\"") && shown.contains("\"h\""),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    host.shutdown().await;
}
