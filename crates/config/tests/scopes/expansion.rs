//! CFG-5: variables in entries.

use serde_json::{Value, json};
use trunkline_config::{KeyringRef, Secret, SecretError, ServerEntry, TransportEntry};

use crate::lab::{GLOBAL, Lab, PROJECT, SHARED, UNSHARED, USER, server};

const VARIABLES: [(&str, &str); 4] = [
    ("A", "one"),
    ("EMPTY", ""),
    ("HOST", "h.example"),
    ("REF", "${A}"),
];

#[track_caller]
fn loaded(lab: &Lab, entry: &Value) -> ServerEntry {
    lab.put(GLOBAL, server("s", entry));
    let set = lab.loader_with(&VARIABLES).load(&[]);
    let mut active = set.active();
    active.next().unwrap().clone()
}

#[test]
fn variables_are_expanded_in_the_five_fields_that_the_spec_names() {
    let lab = Lab::new();
    let entry = loaded(
        &lab,
        &json!({"command": "$A", "args": ["${A}", "${NO:-d}", "${env:A}", "${EMPTY:-d}"], "env": {"K": "x${A}y"}, "cwd": "/$A"}),
    );
    let TransportEntry::Stdio(stdio) = &entry.transport else {
        panic!("a child process");
    };
    assert_eq!(
        entry.transport.argv().unwrap(),
        ["one", "one", "d", "one", ""]
    );
    assert_eq!(stdio.env["K"].expose(), "xoney");
    assert_eq!(stdio.cwd, Some("/$A".into()));

    let entry = loaded(
        &lab,
        &json!({"url": "https://${HOST}/$A", "headers": {"H": "Bearer ${A}"}, "headersHelper": "echo $A"}),
    );
    let TransportEntry::Http(http) = &entry.transport else {
        panic!("HTTP");
    };
    assert_eq!(http.url.expose(), "https://h.example/one");
    assert_eq!(http.headers["H"].expose(), "Bearer one");
    assert_eq!(http.headers_helper.as_deref(), Some("echo $A"));
}

#[test]
fn the_value_of_a_variable_is_not_expanded_again() {
    let lab = Lab::new();
    let entry = loaded(&lab, &json!({"command": "$REF"}));
    assert_eq!(entry.transport.argv().unwrap(), ["${A}"]);
    assert!(
        loaded(&lab, &json!({"command": "c", "args": ["$REF"]}))
            .keyring
            .is_empty()
    );
}

#[test]
fn names_are_not_expanded() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        server("$A", &json!({"command": "c", "env": {"$A": "v"}})),
    );
    let set = lab.loader_with(&VARIABLES).load(&[]);
    lab.check_set(&set, &["$A user [c] active"]);
    let entry = set.active().next().unwrap();
    assert!(
        matches!(&entry.transport, TransportEntry::Stdio(stdio) if stdio.env.contains_key("$A"))
    );
}

#[test]
fn a_variable_that_is_not_set_stays_and_is_named_once_and_the_server_runs() {
    let lab = Lab::new();
    for (entry, shown) in [
        (
            json!({"command": "c", "args": ["${NO}", "x ${NO}"]}),
            "c ${NO} x ${NO}",
        ),
        (json!({"url": "https://${NO}/"}), "https://${NO}/"),
        (json!({"url": "${NO}"}), "${NO}"),
    ] {
        lab.put(GLOBAL, server("s", &entry));
        let set = lab.loader_with(&VARIABLES).load(&[]);
        assert_eq!(lab.servers(&set), [format!("s user [{shown}] active")]);
        assert_eq!(
            lab.problems(&set),
            [
                "warning: home/.claude.json:1:20: server \"s\": the variable NO is not set, so ${NO} is not expanded; set it, or write ${NO:-default}"
            ]
        );
    }
}

#[test]
fn each_variable_that_is_not_set_is_named() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        server(
            "s",
            &json!({"command": "$B", "args": ["${C}"], "env": {"E": "${D}", "F": "${input:x}"}}),
        ),
    );
    let set = lab.load();
    let told: Vec<_> = set
        .diagnostics
        .iter()
        .map(|problem| problem.message.split(" is n").next().unwrap())
        .collect();
    assert_eq!(
        told,
        [
            "the variable B",
            "the variable C",
            "the variable D",
            "${input:x}"
        ]
    );
}

#[test]
fn the_project_s_directory_is_a_variable_in_every_scope() {
    let lab = Lab::new();
    let entry = json!({"command": "${CLAUDE_PROJECT_DIR}/run"});
    lab.put(GLOBAL, server("u", &entry));
    lab.put(PROJECT, server("p", &entry));
    lab.check(&["p project [repo/run] pending", "u user [repo/run] active"]);
}

#[test]
fn no_settings_file_can_set_a_variable() {
    let lab = Lab::new();
    for file in [USER, SHARED, UNSHARED] {
        lab.put(file, json!({"env": {"NO": "set", "A": "set"}}));
    }
    lab.put(
        GLOBAL,
        server("s", &json!({"command": "c", "args": ["$NO", "$A"]})),
    );
    let set = lab.loader_with(&VARIABLES).load(&[]);
    assert_eq!(lab.servers(&set), ["s user [c $NO one] active"]);
}

#[test]
fn a_keychain_reference_stays_until_the_connection_is_made() {
    let lab = Lab::new();
    let entry = loaded(
        &lab,
        &json!({"url": "https://${HOST}/", "headers": {"Authorization": "Bearer ${keyring:git hub/me/work}", "X": "${keyring:a/b}"}}),
    );
    assert_eq!(
        lab.problems(&lab.loader_with(&VARIABLES).load(&[])),
        [""; 0]
    );
    let reference = |service: &str, account: &str| KeyringRef {
        service: service.to_owned(),
        account: account.to_owned(),
    };
    assert_eq!(
        entry.keyring,
        [reference("git hub", "me/work"), reference("a", "b")]
    );
    let whole = entry
        .with_secrets(|wanted| Ok(Some(Secret::new(format!("<{}>", wanted.account)))))
        .unwrap();
    let TransportEntry::Http(http) = &whole.transport else {
        panic!("HTTP");
    };
    assert_eq!(http.headers["Authorization"].expose(), "Bearer <me/work>");
    assert_eq!(http.headers["X"].expose(), "<b>");
    let missing = entry.with_secrets(|_| Ok(None)).unwrap_err();
    assert_eq!(
        missing,
        SecretError::Missing(reference("git hub", "me/work"))
    );
    let told = missing.to_string();
    assert!(
        told.contains("git hub") && told.contains("me/work"),
        "{told}"
    );
    let locked = entry
        .with_secrets(|_| Err("locked".to_owned()))
        .unwrap_err();
    assert!(locked.to_string().contains("locked"));
}

#[test]
fn what_a_secret_or_a_variable_holds_is_never_looked_up_in_the_keychain() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        server(
            "s",
            &json!({"command": "c", "args": ["$TRICK", "${keyring:a/b}"]}),
        ),
    );
    let set = lab.loader_with(&[("TRICK", "${keyring:c/d}")]).load(&[]);
    let entry = set.active().next().unwrap();
    assert_eq!(entry.keyring.len(), 1);
    let whole = entry
        .with_secrets(|_| Ok(Some(Secret::new("${keyring:c/d}"))))
        .unwrap();
    assert_eq!(
        whole.transport.argv().unwrap(),
        ["c", "${keyring:c/d}", "${keyring:c/d}"]
    );
}

#[test]
fn a_keychain_reference_that_is_incomplete_is_named() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        server("s", &json!({"command": "c", "args": ["${keyring:only}"]})),
    );
    lab.check_with_problems(
        &["s user [c ${keyring:only}] active"],
        &["warning: home/.claude.json:1:20: server \"s\": ${keyring:only} is not a variable and is not expanded; write ${keyring:service/account}"],
    );
}
