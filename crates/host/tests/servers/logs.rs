//! Server logs and the trace of all messages.

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline::auth::{Credentials, FixedToken, Token};
use trunkline::config::{StdioEntry, TransportEntry};
use trunkline::log::{LogKind, LogStore, Tracer};
use trunkline::{Host, ServerEntry};
use trunkline_config::{HttpEntry, HttpFlavour, KeyringRef, Secret, ServerUrl, TlsEntry, WsEntry};
use trunkline_testkit::{Script, bin};

use crate::lab::{Lab, call, eventually, until_attempt, until_connected};

fn echo() -> Script {
    Script::default().tool_with(json!({"name": "t"}))
}

/// Returns the texts of one kind in a server's log.
fn texts(logs: &LogStore, server: &str, kind: LogKind) -> Vec<String> {
    let lines = logs.read(Some(server), None, None).into_iter();
    let wanted = lines.filter(|line| line.kind == kind);
    wanted.map(|line| line.text).collect()
}

#[tokio::test]
async fn log_records_loss_and_reconnection() {
    let lab = Lab::new();
    let logs = LogStore::at(lab.at("logs"));
    let script = echo().tool(
        "add",
        json!([{"addTool": {"name": "more"}}, {"replyText": "added"}]),
    );
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script));
    let host = lab.ready(builder.logs(logs.clone())).await;
    assert_eq!(
        call(&host, "mcp__s__add", json!({})).await.unwrap(),
        "added"
    );
    eventually("the new tool", || host.pool().get("mcp__s__more").is_some()).await;
    lab.kill("s");
    until_attempt(&host, "s", 1).await;
    until_connected(&host, "s").await;
    lab.end(host).await;

    let states = texts(&logs, "s", LogKind::State);
    let states: Vec<&str> = states.iter().map(String::as_str).collect();
    let connected =
        "connected: testkit 1.0.0, protocol 2026-07-28, 2 tools, 0 resources, 0 prompts";
    assert!(
        states[0].starts_with("connecting (trunkline pid "),
        "{states:?}"
    );
    assert_eq!(
        states[1..],
        [
            connected,
            "lists changed: 3 tools, 0 resources, 0 prompts",
            "not connected: the server's process was killed by SIGKILL; attempt 1 follows",
            connected,
            "stopped",
        ]
    );
    assert_eq!(logs.problem(), None);
}

#[tokio::test]
async fn keychain_secrets_are_hidden_before_the_server_starts() {
    let lab = Lab::new();
    let logs = LogStore::at(lab.at("logs"));
    let mut entry = lab.server("s", echo());
    let wanted = KeyringRef {
        service: "svc".to_owned(),
        account: "me".to_owned(),
    };
    if let TransportEntry::Stdio(StdioEntry {
        command, args, env, ..
    }) = &mut entry.transport
    {
        let says = r#"echo "my key is $KEY" >&2; exec "$@""#;
        let mut wrapped = vec!["-c".to_owned(), says.to_owned(), "sh".to_owned()];
        wrapped.push(std::mem::replace(command, "/bin/sh".to_owned()));
        wrapped.append(args);
        *args = wrapped;
        env.insert("KEY".to_owned(), Secret::new(wanted.written()));
    }
    entry.keyring.push(wanted);
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(entry)
        .secrets(|_: &KeyringRef| Ok(Some(Secret::new("from the keychain"))))
        .logs(logs.clone());
    let host = lab.ready(builder).await;
    until_connected(&host, "s").await;
    lab.end(host).await;
    assert_eq!(texts(&logs, "s", LogKind::Stderr), ["my key is ***"]);
}

/// Starts a listening server and returns its URL.
async fn listening(lab: &Lab, script: &Script, kind: &str) -> (std::process::Child, String) {
    let entry = lab.scratch.entry("listening", script);
    let mut command = std::process::Command::new(bin("testkit-server"));
    command
        .args(["--listen", kind, "--script"])
        .arg(entry["args"][1].as_str().unwrap())
        .arg("--port-file")
        .arg(lab.at(kind))
        .envs([lab.scratch.marker().env()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    lab.file(kind).await;
    (child, lab.scratch.read(kind))
}

/// Returns the transport of a server, with a token in its entry if it takes no credentials.
fn remote(kind: &str, url: &str) -> TransportEntry {
    let flavour = match kind {
        "http" => HttpFlavour::Streamable,
        "sse" => HttpFlavour::Sse,
        _ => {
            let token = Secret::new("Bearer t0p-s3cret");
            return TransportEntry::Ws(WsEntry {
                url: ServerUrl::new(url),
                headers: [("Authorization".to_owned(), token)].into(),
                headers_helper: None,
                tls: TlsEntry::default(),
            });
        }
    };
    TransportEntry::Http(HttpEntry::new(flavour, url))
}

#[tokio::test]
async fn messages_over_every_network_transport_are_traced_without_the_token_they_are_sent_with() {
    for kind in ["http", "sse", "ws"] {
        let lab = Lab::new();
        let (mut server, url) = listening(&lab, &echo(), kind).await;
        let tracer = Tracer::to_file(&lab.at("trace")).unwrap();
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .server(ServerEntry::new("remote", remote(kind, &url)))
            .credentials(|_| {
                let token = FixedToken(Token::bearer("t0p-s3cret")?);
                Some(Arc::new(token) as Arc<dyn Credentials>)
            })
            .trace(tracer.clone());
        let host = lab.ready(builder).await;
        until_connected(&host, "remote").await;
        let said = json!({"say": "my token is t0p-s3cret", "apiKey": "other"});
        let answer = call(&host, "mcp__remote__t", said).await.unwrap();
        assert!(answer.contains("t0p-s3cret"));
        host.shutdown().await;
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(tracer.problem(), None);

        let text = lab.scratch.read("trace");
        assert!(
            !text.contains("s3cret") && !text.contains("other"),
            "{text}"
        );
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let find =
            |wanted: &dyn Fn(&Value) -> bool| lines.iter().find(|line| wanted(line)).unwrap();
        let call = find(&|line| line["message"]["method"] == "tools/call");
        assert_eq!(call["server"], "remote");
        assert_eq!(call["direction"], "out");
        let shown = json!({"say": "my token is ***", "apiKey": "***"});
        assert_eq!(call["message"]["params"]["arguments"], shown);
        let answer = find(&|line| {
            line["direction"] == "in" && line["message"]["id"] == call["message"]["id"]
        });
        let content = &answer["message"]["result"]["content"][0]["text"];
        assert_eq!(content.as_str().unwrap(), shown.to_string(), "{kind}");
    }
}

#[tokio::test]
async fn stderr_flood_drops_lines_and_delays_no_call() {
    let lab = Lab::new();
    let logs = LogStore::at(lab.at("logs"));
    let flood =
        json!([{"stderrFlood": 20_000_000}, {"stderr": "\nlast line"}, {"replyText": "flooded"}]);
    let script = echo().tool("flood", flood);
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script));
    let host = lab.ready(builder.logs(logs.clone())).await;
    let flooding = {
        let host = host.clone();
        tokio::spawn(async move { call(&host, "mcp__s__flood", json!({})).await })
    };
    for n in 0..100 {
        let said = json!({"n": n});
        assert_eq!(
            call(&host, "mcp__s__t", said.clone()).await.unwrap(),
            said.to_string()
        );
    }
    assert_eq!(flooding.await.unwrap().unwrap(), "flooded");
    lab.end(host).await;
    let size =
        |name: &str| std::fs::metadata(lab.at("logs").join(name)).map_or(0, |found| found.len());
    let limit = 4 * 1024 * 1024 + 128 * 1024;
    assert!(size("s.log") <= limit && size("s.log.1") <= limit);
    assert_eq!(texts(&logs, "s", LogKind::State).last().unwrap(), "stopped");
}
