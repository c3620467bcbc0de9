//! Finding out and remembering which era a server belongs to (LIF-5).

use serde_json::{Value, json};
use trunkline::{Era, EraMemory, Host, Settings};

use crate::lab::{Lab, call, connected};

/// Connects once, with what is remembered in `eras.json`, and says which era the server was found to belong to.
async fn era_of(lab: &Lab, script: Value) -> Era {
    let builder = Host::builder()
        .permit(trunkline::AllowAll)
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
async fn a_server_that_ignores_the_probe_is_connected_and_not_probed_again() {
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
async fn a_server_that_dies_of_the_probe_is_started_again_once_and_that_is_remembered() {
    let lab = Lab::new();
    let script = json!({"era": "legacy", "tools": [{"name": "t"}], "on": {"server/discover": [{"exit": 1}]}});
    assert_eq!(era_of(&lab, script.clone()).await, Era::Legacy);
    assert_eq!(lab.starts("s"), 2);
    assert_eq!(era_of(&lab, script).await, Era::Legacy);
    assert_eq!(lab.starts("s"), 3);
}

#[tokio::test]
async fn a_server_that_answers_the_probe_late_is_found_in_its_own_era() {
    let lab = Lab::new();
    let asked = lab.at("asked");
    let turned_down = json!({"code": -32022, "message": "Unsupported protocol version",
        "data": {"supported": ["2026-07-28"]}});
    // Each answers the probe only once `initialize` has come as well.
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
async fn a_verdict_that_no_longer_holds_is_corrected() {
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
        .permit(trunkline::AllowAll)
        .server(lab.server("s", script))
        .settings(Settings {
            legacy_only: true,
            ..Settings::default()
        });
    let host = lab.ready(builder).await;
    assert_eq!(connected(&host, "s").era(), Era::Legacy);
    assert!(!lab.scratch.read("received").contains("server/discover"));
    lab.end(host).await;
}
