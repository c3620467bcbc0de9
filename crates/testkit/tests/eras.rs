//! The requests that each era admits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use serde_json::{Value, json};
use trunkline_testkit::{Client, Script};

fn modern_meta(version: &str) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}})
}

#[test]
fn each_era_admits_only_its_own_requests() {
    let no_meta = json!({});
    let modern = json!({"_meta": modern_meta("2026-07-28")});
    let unknown = json!({"_meta": modern_meta("1900-01-01")});
    let no_capabilities =
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let handshake = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    // era, method, params, the expected error code, or 0 for a result
    let cases = [
        ("modern", "server/discover", &modern, 0),
        ("modern", "server/discover", &no_meta, -32602),
        ("modern", "tools/list", &no_capabilities, -32602),
        ("modern", "tools/list", &unknown, -32022),
        ("modern", "tools/list", &modern, 0),
        ("modern", "initialize", &handshake, -32022),
        ("modern", "ping", &modern, -32601),
        ("legacy", "server/discover", &modern, -32601),
        ("legacy", "tools/list", &no_meta, -32600),
        ("legacy", "tools/list", &modern, -32600),
        ("legacy", "ping", &no_meta, 0),
        ("legacy", "initialize", &handshake, 0),
        ("dual", "server/discover", &modern, 0),
        ("dual", "server/discover", &no_meta, -32602),
        ("dual", "server/discover", &unknown, -32022),
        ("dual", "tools/list", &modern, 0),
        ("dual", "tools/list", &no_meta, -32600),
        ("dual", "initialize", &handshake, 0),
    ];
    for (era, method, params, code) in cases {
        let mut client = Client::script(&json!({"era": era}).into());
        client.set_modern(false);
        let answer = client.request(method, params.clone());
        assert_eq!(
            answer["error"]["code"].as_i64().unwrap_or(0),
            code,
            "{era} {method} {params}: {answer}"
        );
    }
}

#[test]
fn an_unsupported_version_is_told_the_supported_ones() {
    let mut client = Client::script(&json!({"era": "modern", "versions": ["2027-01-01"]}).into());
    let answer = client.request("tools/list", json!({}));
    assert_eq!(
        answer["error"]["data"],
        json!({"supported": ["2027-01-01"], "requested": "2026-07-28"})
    );
    client.set_modern(false);
    let answer = client.request("initialize", json!({"protocolVersion": "2025-11-25"}));
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("2027-01-01"),
        "{answer}"
    );
}

#[test]
fn the_handshake_agrees_on_a_legacy_version() {
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        for era in ["legacy", "dual"] {
            let mut client = Client::script(&json!({"era": era, "instructions": "be kind"}).into());
            let result = client.initialize(asked);
            assert_eq!(result["protocolVersion"], given, "{era} asked {asked}");
            assert_eq!(result["instructions"], "be kind");
            let list = client.request("tools/list", json!({}));
            assert_eq!(
                list["result"],
                json!({"tools": []}),
                "a legacy result has no modern fields"
            );
        }
    }
}

#[test]
fn modern_results_say_what_they_are_and_who_sent_them() {
    let script = Script::default()
        .tool("t", json!([{"replyText": "x"}]))
        .resource("a:b", "text")
        .prompt(json!({"name": "p"}));
    let mut client = Client::script(&script);
    let cases = [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("prompts/list", json!({}), true),
        ("resources/read", json!({"uri": "a:b"}), true),
        ("prompts/get", json!({"name": "p"}), false),
        ("tools/call", json!({"name": "t"}), false),
    ];
    for (method, params, cacheable) in cases {
        let result = client.request(method, params)["result"].take();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "testkit",
            "{method}"
        );
        assert_eq!(
            result["ttlMs"].is_u64() && result["cacheScope"] == "private",
            cacheable,
            "{method}"
        );
    }
}

#[test]
fn capabilities_follow_from_what_is_present() {
    let cases = [
        (json!({}), json!({})),
        (
            json!({"tools": [{"name": "t"}]}),
            json!({"tools": {"listChanged": true}}),
        ),
        (
            json!({"prompts": [{"name": "p"}]}),
            json!({"prompts": {"listChanged": true}}),
        ),
        (
            json!({"resources": [{"uri": "a:b"}]}),
            json!({"resources": {"subscribe": true, "listChanged": true}}),
        ),
        (
            json!({"tools": [{"name": "t"}], "capabilities": {"x": 1}}),
            json!({"x": 1}),
        ),
    ];
    for (script, expected) in cases {
        let mut client = Client::script(&script.clone().into());
        assert_eq!(
            client.request("server/discover", json!({}))["result"]["capabilities"],
            expected,
            "{script}"
        );
    }
}
