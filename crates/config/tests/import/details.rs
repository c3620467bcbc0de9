//! Details of each client, one case each.

use std::path::Path;

use serde_json::{Value, json};
use trunkline_config::import::{Client, parse};

/// The first entry of `text`, followed by its notes.
fn first(client: Client, text: &str) -> Value {
    let found = parse(client, Path::new("f"), text);
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    let server = &found.servers[0];
    json!([server.entry, server.notes])
}

#[test]
fn json_clients() {
    let cases = [
        (
            Client::GeminiCli,
            r#"{"mcp": {"allowed": ["b"]}, "mcpServers": {"a": {"url": "https://x"}}}"#,
            json!([{"type": "http", "url": "https://x", "disabled": true}, []]),
        ),
        (
            Client::GeminiCli,
            r#"{"mcp": 5, "mcpServers": {"a": {"httpUrl": "https://x", "url": "https://y", "includeTools": []}}}"#,
            json!([{"type": "http", "url": "https://x", "tools": {"allow": []}}, []]),
        ),
        (
            Client::Opencode,
            r#"{"mcp": {"servers": {"type": "local", "command": "c", "timeout": 5}}}"#,
            json!([
                {"type": "stdio", "command": "c", "args": [], "env": {}, "timeout": 5, "connectTimeout": 5},
                [],
            ]),
        ),
        (
            Client::Opencode,
            r#"{"mcp": {"servers": {"type": {"type": "remote", "url": "https://x"}}}}"#,
            json!([{"type": "http", "url": "https://x"}, []]),
        ),
        (
            Client::Opencode,
            r#"{"mcp": {"a": {"type": "remote", "url": "https://x", "command": ["c", "d"]}}}"#,
            json!([
                {"type": "http", "url": "https://x"},
                ["command is left out: the server is remote", "args is left out: the server is remote"],
            ]),
        ),
        (
            Client::Zed,
            r#"{"context_servers": {"a": {"command": "c", "settings": {"k": 1}}}}"#,
            json!([
                {"type": "stdio", "command": "c", "args": [], "env": {}},
                ["settings is not imported"],
            ]),
        ),
        (
            Client::Cursor,
            r#"{"mcpServers": {"a": {"command": "c", "command": "d", "x\u001b": 1}}}"#,
            json!([
                {"type": "stdio", "command": "d", "args": [], "env": {}},
                ["command is given more than once: the last one is used", "x\u{fffd} is not imported"],
            ]),
        ),
        (
            Client::Cursor,
            r#"{"mcpServers": {"a": {"type": "streamableHttp", "url": "${env:BASE}/mcp", "headers": {}}}}"#,
            json!([{"type": "http", "url": "${BASE}/mcp"}, []]),
        ),
        (
            Client::Windsurf,
            r#"{"mcpServers": {"a": {"command": "c", "url": "https://x"}}}"#,
            json!([
                {"type": "stdio", "command": "c", "args": [], "env": {}},
                ["url is left out: the entry starts a program"],
            ]),
        ),
    ];
    for (client, text, expected) in cases {
        assert_eq!(first(client, text), expected, "{text}");
    }
}

#[test]
fn codex_and_goose() {
    let cases = [
        (
            Client::Codex,
            "mcp_servers = { a = { url = 'https://x', bearer_token = 't', env_http_headers = { X = 'Y' } } }",
            json!([{"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer t", "X": "${Y}"}}, []]),
        ),
        (
            Client::Codex,
            "[mcp_servers.a]\ncommand = 'c'\nenv = { A = '$B' }\nenv_vars = ['A', { name = 'R', source = 'remote' }]",
            json!([
                {"type": "stdio", "command": "c", "args": [], "env": {"A": "$B"}},
                [
                    "a \"$\" in env.A is plain text for Codex but begins a variable here: check it",
                    "env_vars from a remote environment are not imported",
                ],
            ]),
        ),
        (
            Client::Goose,
            "extensions:\n  a:\n    type: streamable_http\n    uri: https://x\n    envs: {A: one}\n    headers: {H: '$A-${B}', I: '${A'}\n",
            json!([{"type": "http", "url": "https://x", "headers": {"H": "one-${B}", "I": "${A"}}, []]),
        ),
        (
            Client::Goose,
            "extensions:\n  a: {type: stdio, cmd: c, envs: {K: v}, env_keys: [K, L], socket: /s}\n",
            json!([
                {"type": "stdio", "command": "c", "args": [], "env": {"K": "v", "L": "${L}"}},
                [
                    "goose may keep L in its keyring: set it in the environment",
                    "socket is not imported",
                ],
            ]),
        ),
    ];
    for (client, text, expected) in cases {
        assert_eq!(first(client, text), expected, "{text}");
    }
}
