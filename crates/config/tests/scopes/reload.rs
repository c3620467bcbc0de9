//! CFG-9: which changes count, and files that are being written.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::lab::{GLOBAL, Lab, PROJECT, SHARED, USER, commands, of_project, server};

/// The hash of one entry in the user scope.
fn hash(entry: &Value) -> String {
    let lab = Lab::new();
    lab.put(GLOBAL, server("s", entry));
    let set = lab.load();
    let mut active = set.for_host();
    active.next().unwrap().hash()
}

#[test]
fn the_hash_is_the_same_in_every_scope() {
    let entry = json!({"command": "c", "args": ["x"], "env": {"K": "v"}, "timeout": 5});
    let file = server("s", &entry);
    let lab = Lab::new();
    lab.put(GLOBAL, of_project(&file));
    let local = lab.entry("s").hash();
    let lab = Lab::new();
    lab.put(PROJECT, &file);
    let project = lab.entry("s").hash();
    let lab = Lab::new();
    lab.put(USER, &file);
    let settings = lab.entry("s").hash();
    let lab = Lab::new();
    let set = lab.loader().mcp_config([file.to_string()]).load(&[]);
    let dynamic = set.active().next().unwrap().hash();
    assert_eq!([&local, &project, &settings], [&dynamic; 3]);
    assert_eq!(dynamic, hash(&entry));
    assert!(dynamic.len() == 64 && dynamic.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn the_hash_changes_with_each_field() {
    let stdio = json!({"command": "c", "args": ["x"], "env": {"K": "v"}});
    let http = json!({"type": "http", "url": "https://h/", "headers": {"K": "v"}});
    let mut entries = vec![stdio.clone(), http.clone()];
    for (field, values) in [
        ("command", [json!("d"), json!("e")]),
        ("args", [json!([]), json!(["x", ""])]),
        ("env", [json!({}), json!({"K": "w"})]),
        ("cwd", [json!("/"), json!("/x")]),
        ("timeout", [json!(1), json!(2)]),
        ("connectTimeout", [json!(1), json!(2)]),
        ("alwaysLoad", [json!(true), Value::Null]),
        ("disabled", [json!(true), Value::Null]),
        ("tools", [json!({"allow": []}), json!({"deny": ["x"]})]),
        ("sandbox", [json!({}), json!({"read": []})]),
    ] {
        for value in values.iter().filter(|value| !value.is_null()) {
            let mut entry = stdio.clone();
            entry[field] = value.clone();
            entries.push(entry);
        }
    }
    for (field, values) in [
        ("type", [json!("sse"), json!(null)]),
        ("url", [json!("https://i/"), json!("https://h/?x")]),
        ("headers", [json!({}), json!({"K": "w"})]),
        ("headersHelper", [json!("a"), json!("b")]),
        (
            "oauth",
            [json!({"clientId": "a"}), json!({"scopes": ["a"]})],
        ),
        ("tls", [json!({"ca": "/a"}), json!({"key": "/a"})]),
    ] {
        for value in values {
            let mut entry = http.clone();
            entry[field] = value;
            entries.push(entry);
        }
    }
    let hashes: HashSet<_> = entries.iter().map(hash).collect();
    assert_eq!(hashes.len(), entries.len());
}

#[test]
fn the_hash_does_not_change_with_spelling() {
    let written = |text: &str| hash(&serde_json::from_str(text).unwrap());
    assert_eq!(
        written(r#"{"command": "c", "args": [], "env": {}}"#),
        written(
            r#"{"env":{},"type":"stdio","command":"\u0063","unknown":5,"timeout":0,"disabled":false}"#
        )
    );
}

#[test]
fn a_changed_variable_is_a_changed_entry() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        server("s", &json!({"command": "c", "env": {"K": "$X"}})),
    );
    let hash = |value| {
        let set = lab.loader_with(&[("X", value)]).load(&[]);
        set.active().next().unwrap().hash()
    };
    assert_eq!(hash("1"), hash("1"));
    assert_ne!(hash("1"), hash("2"));
}

#[test]
fn switching_a_server_off_for_the_project_changes_what_the_host_sees() {
    let lab = Lab::new();
    lab.put(GLOBAL, server("s", &json!({"command": "c"})));
    let hash = |lab: &Lab| lab.load().for_host().next().unwrap().hash();
    let on = hash(&lab);
    lab.editor().set_enabled(&lab.entry("s"), false).unwrap();
    assert_ne!(hash(&lab), on);
    lab.editor().set_enabled(&lab.entry("s"), true).unwrap();
    assert_eq!(hash(&lab), on);
}

#[test]
fn a_half_written_file_is_not_acted_on() {
    let whole = commands([("s", "c")]).to_string();
    for file in [GLOBAL, USER, PROJECT] {
        let lab = Lab::new();
        lab.put(file, &whole);
        let loader = lab.loader().approve_project(true);
        let before = loader.load(&[]);
        assert_eq!(before.active().count(), 1);
        for half in ["", "{", &whole[..whole.len() / 2]] {
            lab.put(file, half);
            let set = loader.load(&[]);
            assert_eq!(lab.servers(&set), lab.servers(&before), "{file} {half:?}");
            assert_eq!(set.diagnostics.len(), 1);
            assert!(
                set.diagnostics[0]
                    .message
                    .ends_with("; the last good content stays in effect")
            );
        }
        lab.put(file, commands([("t", "d")]));
        let names: Vec<_> = loader
            .load(&[])
            .active()
            .map(|entry| entry.name.clone())
            .collect();
        assert_eq!(names, ["t"]);
        lab.remove(file);
        lab.check_set(&loader.load(&[]), &[]);
    }
}

#[test]
fn a_half_written_settings_file_keeps_its_rejections_and_policy() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("u", "c")]));
    lab.put(PROJECT, commands([("p", "c")]));
    lab.put(USER, json!({"deniedMcpServers": [{"serverName": "u"}]}));
    lab.put(SHARED, json!({"disabledMcpjsonServers": ["p"]}));
    let loader = lab.loader().approve_project(true);
    assert_eq!(loader.load(&[]).active().count(), 0);
    lab.put(USER, "{\"den");
    lab.put(SHARED, "{\"dis");
    let set = loader.load(&[]);
    assert_eq!(set.active().count(), 0, "{:?}", lab.servers(&set));
    assert_eq!(set.diagnostics.len(), 2);
}

#[test]
fn a_file_that_was_never_whole_gives_nothing() {
    let lab = Lab::new();
    lab.put(GLOBAL, "{");
    let loader = lab.loader();
    for _ in 0..2 {
        let set = loader.load(&[]);
        assert!(set.servers.is_empty());
        assert_eq!(
            lab.problems(&set),
            ["home/.claude.json:1:1: not valid JSON: EOF while parsing an object"]
        );
    }
}
