//! Secrets in the keychain that entries refer to (CFG-5).

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::lab::Lab;

/// A lab whose server `s` writes the variable TOKEN to the file `seen`; its value is in the
/// keychain.
fn wanting_a_secret() -> Lab {
    let lab = Lab::new();
    let entry = lab.marking("s");
    let mut words = vec![
        json!("-c"),
        json!("printenv TOKEN > seen; exec \"$0\" \"$@\""),
        entry["command"].clone(),
    ];
    words.extend(entry["args"].as_array().unwrap().clone());
    lab.servers(
        "home/.claude.json",
        &json!({"s": {"command": "sh", "args": words, "env": {"TOKEN": "${keyring:svc/acct}"}}}),
    );
    lab
}

#[test]
fn a_missing_secret_is_named() {
    let lab = wanting_a_secret();
    let cause = "the keychain has no secret for account \"acct\" of service \"svc\"";
    let run = lab.plainly(&["list"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    assert!(run.out.starts_with("s  failed  user "), "{}", run.out);
    assert!(run.out.contains(cause), "{}", run.out);
    let run = lab.plainly(&["call", "s", "echo"]);
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:#?}");
    assert!(
        run.err
            .starts_with(&format!("error: could not connect to \"s\": {cause}")),
        "{}",
        run.err
    );
    assert!(!lab.started("s"));
}

#[test]
fn a_secret_in_the_fallback_file_is_used_and_never_shown() {
    let lab = wanting_a_secret();
    let secrets = lab.write_json(
        "home/.claude/trunkline/secrets.json",
        &json!({"svc": {"acct": "hunter2"}}),
    );
    std::fs::set_permissions(&secrets, PermissionsExt::from_mode(0o600)).unwrap();
    lab.plainly(&["call", "s", "echo"]).is(0, "{}\n", "");
    assert_eq!(lab.scratch.read("seen"), "hunter2\n");
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["get", "s"],
        &["get", "s", "--json"],
    ] {
        let run = lab.plainly(words);
        assert_eq!(run.code, Some(0), "{run:#?}");
        run.never_says("hunter2");
    }
    let shown = lab.plainly(&["get", "s"]);
    assert!(
        shown.out.contains("    TOKEN: ${keyring:svc/acct}\n"),
        "{}",
        shown.out
    );
}

#[test]
fn a_variables_value_is_not_expanded_again() {
    let lab = wanting_a_secret();
    lab.write_json(
        "home/.claude/trunkline/secrets.json",
        &json!({"svc": {"acct": "hunter2"}}),
    );
    let text = lab
        .scratch
        .read("home/.claude.json")
        .replace("${keyring:svc/acct}", "${OUTSIDE}");
    lab.scratch.write("home/.claude.json", text);
    let mut command = lab.bare(&["call", "s", "echo"]);
    lab.finish(command.env("OUTSIDE", "${keyring:svc/acct}"))
        .is(0, "{}\n", "");
    assert_eq!(lab.scratch.read("seen"), "${keyring:svc/acct}\n");
}

#[test]
fn a_broken_file_of_secrets_is_explained_without_its_contents() {
    let lab = wanting_a_secret();
    lab.scratch.write(
        "home/.claude/trunkline/secrets.json",
        "{\"svc\": \"hunter2\"",
    );
    let run = lab.plainly(&["list"]);
    run.never_says("hunter2");
    assert!(
        run.out.contains("home/.claude/trunkline/secrets.json"),
        "{}",
        run.out
    );
}
