//! CFG-3: nothing panics, and broken files are left alone.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use trunkline_config::{ConnectorEntry, Policy, Scope, changes_since_approval, signature};

use crate::lab::{
    APPROVALS, GLOBAL, Lab, MANAGED, MANAGED_SETTINGS, PROJECT, SHARED, UNSHARED, USER,
};

const SERVERS: &str = r#"{
  "mcpServers": {
    "files": {"type": "stdio", "command": "npx", "args": ["-y", "server-files", "${HOME:-/root}"], "env": {"A": "${A}", "B": "é"}},
    "web": {"type": "http", "url": "https://h.example/mcp?x=1", "headers": {"Authorization": "Bearer $TOKEN"},
      "headersHelper": "print", "oauth": {"clientId": "c", "callbackPort": 9, "scopes": ["a"]}, "tls": {"ca": "/ca"}},
    "any.name": {"url": "https://${keyring:s/a}/", "timeout": 5, "disabled": false, "tools": {"allow": ["*"], "deny": []}},
    "ide": {"type": "ws-ide", "url": "ws://127.0.0.1:1/", "authToken": "t"}
  }
}"#;

const SETTINGS: &str = r#"{
  "enabledMcpjsonServers": ["files"], "disabledMcpjsonServers": ["web"], "enableAllProjectMcpServers": false,
  "allowedMcpServers": [{"serverName": "files"}, {"serverCommand": ["npx", "-y"]}, {"serverUrl": "https://*.example/*"}],
  "deniedMcpServers": [{"serverUrl": "https://evil.example/*"}, {"serverName": "x"}],
  "allowManagedMcpServersOnly": false, "enabledPlugins": {"p@m": true, "q@m": false},
  "mcpServers": {"own": {"command": "c"}}
}"#;

const APPROVED: &str = r#"{"projects": {"<root>/repo": {"<root>/repo/.mcp.json": {
  "files": {"sha256": "00", "entry": {"command": "npx", "args": [], "env": {"A": "sha256:00"}}}}}}}"#;

const INSTALLED: &str =
    r#"{"version": 2, "plugins": {"p@m": [{"scope": "user", "installPath": "<root>/plugins/p"}]}}"#;

const MANIFEST: &str = r#"{"name": "p", "mcpServers": ["./more.json", {"s": {"command": "${CLAUDE_PLUGIN_ROOT}/x"}}]}"#;

/// Every file that counts, with its possible content.
fn files() -> Vec<(&'static str, String)> {
    let project = r#"{"mcpServers": {"l": {"command": "c"}}, "enabledMcpjsonServers": ["files"], "disabledMcpServers": ["web"]}"#;
    let global = format!(
        "{{\n  \"numStartups\": 5,\n  \"projects\": {{\"<root>/repo\": {project}}},\n  {}",
        &SERVERS[2..]
    );
    vec![
        (GLOBAL, global),
        (USER, SETTINGS.to_owned()),
        (MANAGED_SETTINGS, SETTINGS.to_owned()),
        (SHARED, SETTINGS.to_owned()),
        (UNSHARED, SETTINGS.to_owned()),
        (PROJECT, SERVERS.to_owned()),
        (APPROVALS, APPROVED.to_owned()),
        (
            "home/.claude/plugins/installed_plugins.json",
            INSTALLED.to_owned(),
        ),
        ("plugins/p/.claude-plugin/plugin.json", MANIFEST.to_owned()),
        ("plugins/p/more.json", SERVERS.to_owned()),
        ("plugins/p/.mcp.json", SERVERS.to_owned()),
        ("repo/dynamic.json", SERVERS.to_owned()),
        (MANAGED, SERVERS.to_owned()),
    ]
}

#[derive(Clone, Debug)]
enum Mutation {
    Flip(Index, u8),
    Cut(Index),
    Drop(Index, usize),
    Insert(Index, Vec<u8>),
    Repeat(Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", "\"", ",", ":", "null", "5", "\\", "$", "${", "\u{feff}", "\r\n", "{}",
        "[]", "\"\"", "\\ud800", "-", "e9", "\0",
    ]);
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        any::<Index>().prop_map(Mutation::Cut),
        (any::<Index>(), 1..30_usize).prop_map(|(at, length)| Mutation::Drop(at, length)),
        (any::<Index>(), token).prop_map(|(at, token)| Mutation::Insert(at, token.into())),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..4))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (any::<Index>(), 1..200_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match mutation {
        Mutation::Flip(at, with) => {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= with;
            }
        }
        Mutation::Cut(at) => bytes.truncate(place(at, bytes)),
        Mutation::Drop(at, length) => {
            let at = place(at, bytes);
            bytes.drain(at..bytes.len().min(at + length));
        }
        Mutation::Insert(at, new) => {
            let at = place(at, bytes);
            bytes.splice(at..at, new.iter().copied());
        }
        Mutation::Repeat(at, length) => {
            let at = place(at, bytes);
            let part = bytes[at..bytes.len().min(at + length)].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

/// Exercises a tree of arbitrary files.
fn use_all(lab: &Lab) {
    let connector = ConnectorEntry {
        name: "claude.ai X".to_owned(),
        id: "i".to_owned(),
        url: "https://h.example/mcp".to_owned(),
        proxy_url: String::new(),
    };
    let loader = lab
        .loader_with(&[("TOKEN", "t")])
        .mcp_config(["dynamic.json"])
        .plugin_dirs([lab.at("plugins/p")]);
    let set = loader.load(std::slice::from_ref(&connector));
    for server in &set.servers {
        server.entry.hash();
        signature(&server.entry);
        set.policy.blocks(&server.entry);
        if let trunkline_config::EntryStatus::PendingApproval {
            before: Some(before),
        } = &server.status
        {
            changes_since_approval(before, &server.entry);
        }
    }
    for problem in &set.diagnostics {
        assert!(!problem.message.is_empty());
    }
    let _ = set.record_approvals(&loader);
    let again = loader.approve_project(true).load(&[connector]);
    assert_eq!(again.servers.len(), set.servers.len());
}

/// Exercises adding and removing. A file that is not JSON stays unchanged.
fn edit_all(lab: &Lab) {
    let read = |file: &str| std::fs::read(lab.at(file)).unwrap();
    let broken: Vec<_> = [GLOBAL, PROJECT, APPROVALS, USER]
        .into_iter()
        .map(|file| (file, read(file)))
        .filter(|(_, bytes)| {
            let text = std::str::from_utf8(bytes).unwrap_or("{");
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let empty = text.trim().is_empty();
            !empty && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
        })
        .collect();
    let editor = lab.editor();
    let entry = json!({"command": "c"});
    for scope in [Scope::Local, Scope::Project, Scope::User] {
        let _ = editor.add(scope, "new", &entry, &Policy::default());
        let _ = editor.remove(scope, "files");
    }
    editor.scopes_of("web");
    let loaded = lab.loader().approve_project(true).load(&[]);
    let entries: Vec<_> = loaded.active().take(2).collect();
    let _ = editor.approve(&entries);
    let _ = editor.reject(&["web"]);
    for entry in &entries {
        let _ = editor.set_enabled(entry, false);
    }
    let _ = editor.reset_approvals();
    for (file, bytes) in broken {
        assert_eq!(read(file), bytes, "{file}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn whatever_the_files_hold_nothing_panics(
        mutations in prop::collection::vec((any::<Index>(), mutation()), 0..40),
        managed in prop::bool::weighted(0.2),
    ) {
        let lab = Lab::new();
        let root = lab.at("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        let mut files = files();
        if !managed {
            files.pop();
        }
        let mut files: Vec<_> = files
            .into_iter()
            .map(|(name, text)| (name, text.replace("<root>", root).into_bytes()))
            .collect();
        for (file, mutation) in &mutations {
            let (_, bytes) = file.get(&files);
            let mut bytes = bytes.clone();
            mutate(&mut bytes, mutation);
            let at = file.index(files.len());
            files[at].1 = bytes;
        }
        for (name, bytes) in &files {
            lab.put_bytes(name, bytes);
        }
        use_all(&lab);
        edit_all(&lab);
    }
}

#[test]
fn unchanged_the_files_are_good() {
    let lab = Lab::new();
    for (name, text) in files() {
        if name != MANAGED {
            lab.put(name, text);
        }
    }
    let set = lab.loader_with(&[("TOKEN", "t"), ("A", "a")]).load(&[]);
    assert_eq!(lab.problems(&set), [""; 0]);
    assert!(set.servers.len() > 10);
    use_all(&lab);
    edit_all(&lab);
}
