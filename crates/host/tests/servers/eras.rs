//! Detecting and remembering a server's era (LIF-5).

use serde_json::{Value, json};
use trunkline::config::TransportEntry;
use trunkline::server::Era;
use trunkline::storage::EraMemory;
use trunkline::{Host, ServerEntry, Settings};

use crate::lab::{Lab, call, connected, failure};

/// Connects once with the remembered eras and returns the detected one.
async fn era_of(lab: &Lab, script: Value) -> Era {
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script))
        .eras(EraMemory::at(lab.at("eras.json")));
    let host = lab.ready(builder).await;
    let era = connected(&host, "s").era();
    assert_eq!(
        call(&host, "mcp__s__t", json!({"a": 1})).await.unwrap(),
        r#"{"a":1}"#
    );
    lab.end(host).await;
    era
}

#[tokio::test]
async fn servers_of_every_version_connect() {
    let cases = [
        (json!({"era": "modern"}), "2026-07-28", Era::Modern),
        (json!({"era": "dual"}), "2026-07-28", Era::Modern),
        (json!({"era": "legacy"}), "2025-11-25", Era::Legacy),
        (
            json!({"era": "legacy", "versions": ["2025-06-18"]}),
            "2025-06-18",
            Era::Legacy,
        ),
        (
            json!({"era": "legacy", "versions": ["2025-03-26"]}),
            "2025-03-26",
            Era::Legacy,
        ),
        (
            json!({"era": "legacy", "versions": ["2024-11-05"]}),
            "2024-11-05",
            Era::Legacy,
        ),
        (
            json!({"era": "dual", "versions": ["2025-11-25"]}),
            "2025-11-25",
            Era::Legacy,
        ),
    ];
    for (mut script, version, era) in cases {
        script["tools"] = json!([{"name": "t"}]);
        script["instructions"] = json!("be kind");
        let lab = Lab::new();
        let host = lab.host([lab.server("s", script.clone())]).await;
        let connection = connected(&host, "s");
        let identity = connection.identity();
        assert_eq!(
            (identity.protocol_version.as_str(), connection.era()),
            (version, era),
            "{script}"
        );
        assert_eq!(identity.info.as_ref().unwrap().name, "testkit");
        assert_eq!(identity.instructions.as_deref(), Some("be kind"));
        assert_eq!(
            call(&host, "mcp__s__t", json!({"a": 1})).await.unwrap(),
            r#"{"a":1}"#
        );
        assert_eq!(lab.starts("s"), 1);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn server_that_ignores_the_probe_connects_and_is_not_probed_again() {
    let lab = Lab::new();
    let script = json!({"era": "legacy", "tools": [{"name": "t"}], "receivedLog": lab.at("received"),
        "on": {"server/discover": [{"silence": true}]}});
    let probes = || {
        lab.scratch
            .read("received")
            .matches("server/discover")
            .count()
    };
    assert_eq!(era_of(&lab, script.clone()).await, Era::Legacy);
    assert_eq!((lab.starts("s"), probes()), (1, 1));
    assert_eq!(era_of(&lab, script).await, Era::Legacy);
    assert_eq!((lab.starts("s"), probes()), (2, 1));
}

#[tokio::test]
async fn server_that_dies_of_the_probe_is_restarted_once_and_remembered() {
    let lab = Lab::new();
    let script = json!({"era": "legacy", "tools": [{"name": "t"}], "on": {"server/discover": [{"exit": 1}]}});
    assert_eq!(era_of(&lab, script.clone()).await, Era::Legacy);
    assert_eq!(lab.starts("s"), 2);
    assert_eq!(era_of(&lab, script).await, Era::Legacy);
    assert_eq!(lab.starts("s"), 3);
}

/// LIF-5: `initialize` would follow the probe after two seconds, but the server has not read it
/// yet.
#[tokio::test]
async fn server_that_starts_slowly_and_dies_of_the_probe_is_restarted() {
    let lab = Lab::new();
    let script = json!({"era": "legacy", "tools": [{"name": "t"}], "onStart": [{"sleepMs": 2500}],
        "on": {"server/discover": [{"exit": 1}]}});
    assert_eq!(era_of(&lab, script).await, Era::Legacy);
    assert_eq!(lab.starts("s"), 2);
}

#[tokio::test]
async fn late_probe_response_detects_the_right_era() {
    let lab = Lab::new();
    let asked = lab.at("asked");
    let turned_down = json!({"code": -32022, "message": "Unsupported protocol version",
        "data": {"supported": ["2026-07-28"]}});
    // Each answers the probe only after `initialize`.
    let modern = json!({"era": "modern", "tools": [{"name": "t"}], "on": {
        "server/discover": [{"waitForFile": asked}, {"default": true}],
        "initialize": [{"touch": asked}, {"replyError": turned_down}]}});
    assert_eq!(era_of(&lab, modern).await, Era::Modern);

    let lab = Lab::new();
    let asked = lab.at("asked");
    let legacy = json!({"era": "legacy", "tools": [{"name": "t"}], "on": {
        "server/discover": [{"waitForFile": asked}, {"replyError": {"code": -32601, "message": "what?"}}],
        "initialize": [{"touch": asked}, {"default": true}]}});
    assert_eq!(era_of(&lab, legacy).await, Era::Legacy);
    assert_eq!(lab.starts("s"), 1);
}

#[tokio::test]
async fn outdated_era_is_corrected() {
    let lab = Lab::new();
    for (era, found) in [
        ("legacy", Era::Legacy),
        ("modern", Era::Modern),
        ("legacy", Era::Legacy),
        ("modern", Era::Modern),
    ] {
        let script = json!({"era": era, "tools": [{"name": "t"}]});
        assert_eq!(era_of(&lab, script).await, found);
    }
    assert_eq!(lab.starts("s"), 4);
}

#[tokio::test]
async fn legacy_only_never_probes() {
    let lab = Lab::new();
    let script =
        json!({"era": "dual", "tools": [{"name": "t"}], "receivedLog": lab.at("received")});
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script))
        .settings(Settings::default().legacy_only(true));
    let host = lab.ready(builder).await;
    assert_eq!(connected(&host, "s").era(), Era::Legacy);
    assert!(!lab.scratch.read("received").contains("server/discover"));
    lab.end(host).await;
}

/// A server as a shell script that counts its starts.
fn shell(lab: &Lab, line: &str) -> ServerEntry {
    let script = format!("echo >> '{}'; {line}", lab.at("s.lines").display());
    ServerEntry::stdio("s", "/bin/sh", ["-c".to_owned(), script])
}

#[tokio::test]
async fn server_that_exits_at_startup_is_started_once() {
    let cases = [
        ("before it reads anything", "echo 'no key' >&2; exit 1"),
        ("after a while", "sleep 0.2; echo 'no key' >&2; exit 1"),
        (
            "when it has read the legacy handshake",
            r#"read probe; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}';
            read hello; echo 'no key' >&2; exit 1"#,
        ),
    ];
    for (when, line) in cases {
        let lab = Lab::new();
        let host = lab.host([shell(&lab, line)]).await;
        let failure = failure(&host, "s");
        assert_eq!(failure.stderr, ["no key"], "{when}");
        assert_eq!(lab.scratch.read("s.lines").lines().count(), 1, "{when}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn server_that_rejects_the_probe_and_dies_is_restarted_without_it() {
    let lab = Lab::new();
    let mut entry = lab.server("s", json!({"era": "legacy", "tools": [{"name": "t"}]}));
    if let TransportEntry::Stdio(stdio) = &mut entry.transport {
        let line = r#"if [ ! -e "$0" ]; then touch "$0"; read -r probe
            id=$(echo "$probe" | sed 's/.*"id":\([0-9]*\).*/\1/')
            echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32600,"message":"initialize first"}}'
            exit 1; fi; exec "$@""#;
        let mut wrapped = vec!["-c".to_owned(), line.to_owned()];
        wrapped.push(lab.at("again").to_str().unwrap().to_owned());
        wrapped.push(std::mem::replace(&mut stdio.command, "/bin/sh".to_owned()));
        wrapped.append(&mut stdio.args);
        stdio.args = wrapped;
    }
    let host = lab.host([entry]).await;
    assert_eq!(connected(&host, "s").era(), Era::Legacy);
    assert!(lab.at("again").exists());
    lab.end(host).await;
}
