//! SEC-1: possible secrets are not displayed.

use serde_json::json;
use trunkline_config::{EntryStatus, Secret, changes_since_approval};

use crate::lab::{APPROVALS, GLOBAL, Lab, PROJECT, server};

const SECRET: &str = "hunter2";

#[test]
fn no_problem_quotes_a_value() {
    for entry in [
        json!({"command": "c", "env": SECRET}),
        json!({"command": "c", "env": {"K": [SECRET]}}),
        json!({"command": "c", "args": SECRET}),
        json!({"command": "c", "timeout": SECRET}),
        json!({"url": "https://h/", "headers": SECRET}),
        json!({"url": "https://h/", "headers": {"K": {"x": SECRET}}}),
        json!({"url": "https://h/", "oauth": SECRET}),
        json!({"url": format!("https://u:{SECRET}@[h/")}),
        json!({"url": format!("ftp://u:{SECRET}@h/?k={SECRET}")}),
        json!({"type": "ws-ide", "url": "ws://h/", "authToken": [SECRET]}),
        json!(SECRET),
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, server("s", &entry));
        let set = lab.load();
        assert_eq!(set.diagnostics.len(), 1, "{entry}");
        assert!(
            !format!("{:?}", set.diagnostics).contains(SECRET),
            "{entry}"
        );
    }
}

#[test]
fn nothing_that_is_printed_for_debugging_holds_a_secret() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        json!({"mcpServers": {
            "a": {"command": "c", "env": {"K": SECRET, "L": "$TOKEN"}},
            "b": {"url": format!("https://u:{SECRET}@h/?key={SECRET}"), "headers": {"H": SECRET}},
            "c": {"type": "ws", "url": "wss://h/", "headers": {"H": "$TOKEN"}},
            "d": {"type": "ws-ide", "url": "ws://h/", "authToken": SECRET},
        }}),
    );
    let set = lab.loader_with(&[("TOKEN", SECRET)]).load(&[]);
    assert_eq!(set.active().count(), 4);
    assert!(!format!("{set:?}").contains(SECRET), "{set:?}");
}

#[test]
fn what_the_keychain_gave_is_not_shown_wherever_it_was_put() {
    for entry in [
        json!({"command": "c", "env": {"K": "${keyring:a/b}"}}),
        json!({"url": "https://h/?key=${keyring:a/b}", "headers": {"H": "${keyring:a/b}"}}),
        json!({"command": "c", "args": ["--token=${keyring:a/b}"]}),
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, server("s", &entry));
        let whole = lab
            .entry("s")
            .with_secrets(|_| Ok(Some(Secret::new(SECRET))))
            .unwrap();
        assert!(!format!("{whole:?}").contains(SECRET), "{entry}");
    }
}

#[test]
fn what_was_approved_is_kept_and_compared_without_secrets() {
    for (field, entry, changed) in [
        (
            "env",
            json!({"command": "c", "env": {"K": SECRET}}),
            json!({"command": "c", "env": {"K": "hunter2!"}}),
        ),
        (
            "headers",
            json!({"url": "https://h/", "headers": {"K": SECRET}}),
            json!({"url": "https://h/", "headers": {"K": "hunter2!"}}),
        ),
        (
            "authToken",
            json!({"type": "ws-ide", "url": "ws://h/", "authToken": SECRET}),
            json!({"type": "ws-ide", "url": "ws://h/", "authToken": "hunter2!"}),
        ),
        (
            "url",
            json!({"url": format!("https://u:{SECRET}@h/")}),
            json!({"url": format!("https://u:{SECRET}@i/")}),
        ),
    ] {
        let lab = Lab::new();
        lab.put(PROJECT, server("s", &entry));
        lab.editor().approve(&[&lab.entry("s")]).unwrap();
        assert!(!lab.text(APPROVALS).contains(SECRET), "{field}");
        lab.put(PROJECT, server("s", &changed));
        let set = lab.load();
        let server = &set.servers[0];
        let EntryStatus::PendingApproval {
            before: Some(before),
        } = &server.status
        else {
            panic!("{field} has changed");
        };
        let changes = changes_since_approval(before, &server.entry);
        assert_eq!(changes.len(), 1);
        assert!(changes[0].field.starts_with(field), "{changes:?}");
        assert!(!format!("{changes:?}").contains(SECRET), "{changes:?}");
    }
}

#[cfg(unix)]
#[test]
fn new_files_of_the_user_are_for_the_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    lab.put(PROJECT, server("s", &json!({"command": "c"})));
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    for (path, mode) in [
        (GLOBAL, 0o600),
        (APPROVALS, 0o600),
        ("home/.claude/trunkline", 0o700),
    ] {
        let permissions = std::fs::metadata(lab.at(path)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{path}");
    }
}
