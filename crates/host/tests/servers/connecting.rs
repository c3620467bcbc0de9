//! Connecting, and its failures (LIF-1, LIF-2, LIF-4).

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::call::CallErrorKind;
use trunkline::config::TransportEntry;
use trunkline::server::FailureKind;
use trunkline::{Builtin, Host, HostBuilder, ServerEntry};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, connected, failure, in_time};

/// A server that never answers.
fn mute() -> Value {
    json!({"on": {"server/discover": [{"silence": true}], "initialize": [{"silence": true}]}})
}

#[tokio::test]
async fn connect_timeout_releases_everything() {
    let cases = [
        ("mute", mute()),
        (
            "mute at start",
            json!({"onStart": [{"waitForFile": "/no/such/file"}]}),
        ),
        (
            "with a stubborn grandchild",
            json!({"on": mute()["on"],
            "onStart": [{"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true}}]}),
        ),
        (
            "stubborn itself",
            json!({"on": mute()["on"], "onEof": "ignore",
            "onStart": [{"ignoreSignals": ["INT", "TERM", "HUP"]}]}),
        ),
    ];
    for (what, script) in cases {
        let lab = Lab::new();
        let mut entry = lab.server("s", script);
        entry.connect_timeout = Some(Duration::from_millis(500));
        let host = lab.host([entry]).await;
        let failure = failure(&host, "s");
        assert!(
            matches!(failure.kind, FailureKind::TimedOut(_)),
            "{what}: {failure}"
        );
        let said = failure.to_string();
        assert!(
            said.starts_with("no answer to the handshake after 0."),
            "{what}: {said}"
        );
        assert!(failure.hint().unwrap().contains("connectTimeout"), "{what}");
        lab.scratch.assert_no_processes(Duration::from_secs(2));
        lab.end(host).await;
    }
}

#[tokio::test]
async fn unparsable_stdout_is_reported() {
    let lab = Lab::new();
    let script = json!({"on": mute()["on"], "onStart": [{"write": "Listening on port 8080"}, {"stderr": "a warning"}]});
    let mut entry = lab.server("s", script);
    entry.connect_timeout = Some(Duration::from_secs(1));
    let host = lab.host([entry]).await;
    let failure = failure(&host, "s");
    assert!(
        failure
            .to_string()
            .ends_with(r#"stdout has output that is not a message: "Listening on port 8080""#),
        "{failure}"
    );
    assert!(failure.hint().unwrap().contains("log to stderr"));
    assert_eq!(failure.stderr, ["a warning"]);
    lab.end(host).await;
}

#[tokio::test]
async fn handshake_failure_is_explained() {
    let refusal = json!({"replyError": {"code": -32000, "message": "go away"}});
    let cases = [
        (
            json!({"era": "legacy", "on": {"initialize": [refusal]}}),
            "the server rejected the handshake: go away (error -32000)",
        ),
        (
            json!({"era": "modern", "versions": ["2030-01-01"]}),
            "the server speaks none of our protocol versions, only 2030-01-01",
        ),
        (
            json!({"era": "legacy", "on": {"initialize": [{"reply": {"protocolVersion": "1999-01-01"}}]}}),
            "the server speaks none of our protocol versions, only 1999-01-01",
        ),
        (
            json!({"era": "legacy", "on": {"initialize": [{"reply": {"capabilities": {}}}]}}),
            "invalid response from the server: it names no protocol version",
        ),
        (
            json!({"onStart": [{"stderr": "no licence"}, {"exit": 3}]}),
            "the server's process exited with status 3 before it was connected",
        ),
        (
            json!({"era": "legacy", "on": {"initialize": [{"stderr": "no licence"}, {"signal": "KILL"}]}}),
            "the server's process was killed by SIGKILL before it was connected",
        ),
        (
            json!({"era": "legacy", "on": {"initialize": [{"exit": 0}]}}),
            "the server's process exited with status 0 before it was connected",
        ),
    ];
    for (script, expected) in cases {
        let lab = Lab::new();
        let host = lab.host([lab.server("s", script.clone())]).await;
        let failure = failure(&host, "s");
        assert_eq!(failure.to_string(), expected, "{script}");
        if script.to_string().contains("no licence") {
            assert_eq!(failure.stderr, ["no licence"], "{script}");
        }
        lab.scratch.assert_no_processes(Duration::from_secs(2));
        lab.end(host).await;
    }
}

#[tokio::test]
async fn spawn_failure_is_explained() {
    let lab = Lab::new();
    let plain = lab.scratch.write("plain", "not a program");
    let script = lab.scratch.write("script", "#!/no/such/interpreter\n");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let mut nowhere = ServerEntry::stdio("nowhere", "cat", [""; 0]);
    if let TransportEntry::Stdio(stdio) = &mut nowhere.transport {
        stdio.cwd = Some("/no/such/directory".into());
    }
    let mut pigeon = ServerEntry::stdio("pigeon", "", [""; 0]);
    pigeon.transport = TransportEntry::Sdk;
    let cases = [
        (
            ServerEntry::stdio("missing", "no-such-program", [""; 0]),
            "command not found: no-such-program".to_owned(),
            "install the program",
        ),
        (
            ServerEntry::stdio("plain", path(&plain), [""; 0]),
            format!("not executable: {}", plain.display()),
            "make the file executable",
        ),
        (
            ServerEntry::stdio("script", path(&script), [""; 0]),
            format!(
                "{} could not be started: the interpreter named in its first line is missing",
                script.display()
            ),
            "",
        ),
        (
            nowhere,
            "its working directory does not exist: /no/such/directory".to_owned(),
            "\"cwd\"",
        ),
        (
            pigeon,
            "the server runs in an embedding program, and there is none".to_owned(),
            "trunkline sdk",
        ),
    ];
    let host = lab
        .host(cases.iter().map(|(entry, ..)| entry.clone()))
        .await;
    for (entry, expected, hint) in &cases {
        let failure = failure(&host, &entry.name);
        assert_eq!(&failure.to_string(), expected);
        assert!(
            failure.hint().unwrap_or_default().contains(hint),
            "{expected}"
        );
    }
    lab.end(host).await;
}

#[tokio::test]
async fn failing_server_does_not_affect_others() {
    let lab = Lab::new();
    let mut slow = lab.server("mute", mute());
    slow.connect_timeout = Some(Duration::from_secs(1));
    let echo = Script::default().tool_with(json!({"name": "t"}));
    let host = lab
        .host([
            ServerEntry::stdio("missing", "no-such-program", [""; 0]),
            lab.server("crash", json!({"onStart": [{"exit": 1}]})),
            slow,
            lab.server(
                "garbage",
                json!({"onStart": [{"garbage": 100_000}, {"exit": 1}]}),
            ),
            lab.server("good", echo.clone()),
            lab.server("good-2", echo),
        ])
        .await;
    for name in ["missing", "crash", "mute", "garbage"] {
        failure(&host, name);
    }
    for name in ["good", "good-2"] {
        connected(&host, name);
        let said = call(&host, &format!("mcp__{name}__t"), json!({"to": name})).await;
        assert_eq!(said.unwrap(), json!({"to": name}).to_string());
        assert_eq!(lab.starts(name), 1);
    }
    // The tool of a failed server is not unknown; its server is missing.
    let error = call(&host, "mcp__crash__t", json!({})).await.unwrap_err();
    assert!(
        error.kind() == CallErrorKind::NotConnected && error.server() == Some("crash"),
        "{error}"
    );
    assert!(
        error.to_string().contains("exited with status 1"),
        "{error}"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn slow_starters_overlap() {
    let lab = Lab::new();
    let names: Vec<String> = (0..12).map(|number| format!("s{number}")).collect();
    // None continues before all are up: without overlap this would hang.
    let servers = names.iter().map(|name| {
        let up = lab.at(&format!("{name}.up"));
        lab.server(name, json!({"tools": [{"name": "t"}], "onStart": [{"touch": up}, {"waitForFile": lab.at("go")}]}))
    });
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .servers(servers)
        .start();
    for name in &names {
        lab.file(&format!("{name}.up")).await;
    }
    lab.scratch.write("go", "");
    in_time("the host to be ready", host.ready()).await;
    for name in &names {
        connected(&host, name);
    }
    assert_eq!(host.pool().tools().len(), 12);
    lab.end(host).await;
}

/// A server that counts, using a full core, before it answers.
fn burner(lab: &Lab, name: &str, counts_to: u64) -> ServerEntry {
    let mut entry = lab.server(name, json!({"tools": [{"name": "t"}]}));
    if let TransportEntry::Stdio(stdio) = &mut entry.transport {
        let line = r#"n=0; touch "$0.burning"; while [ $n -lt "$1" ]; do n=$((n+1)); done
            rm "$0.burning"; shift; exec "$@""#;
        let mut wrapped = vec!["-c".to_owned(), line.to_owned()];
        wrapped.push(lab.at(name).to_str().unwrap().to_owned());
        wrapped.push(counts_to.to_string());
        wrapped.push(std::mem::replace(&mut stdio.command, "/bin/sh".to_owned()));
        wrapped.append(&mut stdio.args);
        stdio.args = wrapped;
    }
    entry
}

#[tokio::test]
async fn cpu_bound_servers_do_not_start_all_at_once() {
    let lab = Lab::new();
    let cores = std::thread::available_parallelism().unwrap().get();
    let bound = (4 * cores).max(6);
    let names: Vec<String> = (0..bound + 6).map(|number| format!("s{number}")).collect();
    // About half a second each on its own core.
    let servers = names.iter().map(|name| burner(&lab, name, 500_000));
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .servers(servers)
        .start();
    let mut most = 0;
    let watch = async {
        loop {
            let burning = |name: &&String| lab.at(&format!("{name}.burning")).exists();
            most = most.max(names.iter().filter(burning).count());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = host.ready() => {}
        () = watch => {}
    }
    for name in &names {
        connected(&host, name);
    }
    assert!(most <= bound, "{most} at once");
    lab.end(host).await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_changes_are_batched() {
    let builtins = (0..20).map(|number| Builtin::new(format!("b{number}")));
    let host = builtins
        .fold(
            Host::builder().permit(trunkline::permission::AllowAll),
            HostBuilder::builtin,
        )
        .start();
    let mut events = host.events();
    let changes = events.next().await.unwrap();
    assert_eq!((changes.servers.len(), changes.missed), (20, false));
    host.ready().await;
    host.disable("b7").await.unwrap();
    let changes = events.next().await.unwrap();
    assert_eq!(
        changes
            .servers
            .iter()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
        ["b7"]
    );
    host.shutdown().await;
    drop(host);
    while events.next().await.is_some() {}
}
