//! CFG-2: every type of server and every field.

use std::time::Duration;

use serde_json::json;
use trunkline_config::{HttpFlavour, TransportEntry};

use crate::lab::{GLOBAL, Lab, server};

#[test]
fn every_type_of_server_loads_with_its_fields() {
    for (entry, kind) in [
        (json!({"command": "c"}), "stdio"),
        (
            json!({"type": "stdio", "command": "c", "args": [], "env": {}}),
            "stdio",
        ),
        (json!({"type": "http", "url": "https://h/"}), "http"),
        (
            json!({"type": "streamable-http", "url": "https://h/"}),
            "http",
        ),
        (json!({"url": "https://h/"}), "http"),
        (json!({"type": "sse", "url": "http://h/"}), "sse"),
        (json!({"type": "ws", "url": "wss://h/"}), "ws"),
        (
            json!({"type": "sse-ide", "url": "http://127.0.0.1:9/"}),
            "sse-ide",
        ),
        (
            json!({"type": "ws-ide", "url": "ws://127.0.0.1:9/", "authToken": "t", "ideName": "i"}),
            "ws-ide",
        ),
        (json!({"type": "sdk"}), "sdk"),
        (
            json!({"type": "claudeai-proxy", "url": "https://h/", "id": "i"}),
            "claudeai-proxy",
        ),
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, server("s", &entry));
        let set = lab.load();
        assert_eq!(lab.problems(&set), [""; 0], "{entry}");
        assert_eq!(
            set.active().next().unwrap().transport.kind(),
            kind,
            "{entry}"
        );
    }
}

#[test]
fn every_field_arrives() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        json!({"mcpServers": {
            "a": {"command": "c", "args": ["x"], "env": {"K": "v"}, "cwd": "/w", "timeout": 1, "connectTimeout": 2,
                "alwaysLoad": true, "lazy": false, "tools": {"allow": ["a*"], "deny": ["ab"]}, "sandbox": {"network": []}, "unknown": 1},
            "b": {"url": "https://h/", "headers": {"H": "v"}, "headersHelper": "print", "timeout": 0,
                "oauth": {"clientId": "c", "callbackPort": 5, "authServerMetadataUrl": "https://a/", "scopes": "x y", "xaa": true},
                "tls": {"ca": "/ca", "cert": "/cert", "key": "/key"}},
        }}),
    );
    let set = lab.load();
    assert_eq!(lab.problems(&set), [""; 0]);
    let [a, b] = &set.servers[..] else {
        panic!("two servers");
    };
    let a = &a.entry;
    let TransportEntry::Stdio(stdio) = &a.transport else {
        panic!("a child process");
    };
    assert_eq!(
        (&*stdio.command, &*stdio.args),
        ("c", &["x".to_owned()][..])
    );
    assert_eq!(stdio.env["K"].expose(), "v");
    assert_eq!(stdio.cwd, Some("/w".into()));
    assert_eq!(a.timeout, Some(Duration::from_millis(1)));
    assert_eq!(a.connect_timeout, Some(Duration::from_millis(2)));
    assert!(a.always_load && a.tools.offers("ac") && !a.tools.offers("ab") && !a.tools.offers("b"));
    assert_eq!((a.lazy, b.entry.lazy), (Some(false), None));
    assert_eq!(a.sandbox, Some(json!({"network": []})));
    assert_eq!(a.as_written()["unknown"], 1);
    let TransportEntry::Http(http) = &b.entry.transport else {
        panic!("HTTP");
    };
    assert_eq!(http.flavour, HttpFlavour::Either);
    assert_eq!(http.headers["H"].expose(), "v");
    assert_eq!(http.headers_helper.as_deref(), Some("print"));
    assert_eq!(http.oauth.client_id.as_deref(), Some("c"));
    assert_eq!(http.oauth.callback_port, Some(5));
    assert_eq!(
        http.oauth.auth_server_metadata_url.as_deref(),
        Some("https://a/")
    );
    assert_eq!(http.oauth.scopes.as_deref().unwrap(), ["x", "y"]);
    assert!(http.oauth.xaa);
    assert_eq!(http.tls.ca, Some("/ca".into()));
    assert_eq!(
        (&http.tls.cert, &http.tls.key),
        (&Some("/cert".into()), &Some("/key".into()))
    );
    assert_eq!(b.entry.timeout, None);
}
