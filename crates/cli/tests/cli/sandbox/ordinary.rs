//! An ordinary server works in a sandbox as it does without.

use serde_json::{Value, json};

use crate::lab::{Lab, echo};

/// A lab whose server "s" is in this sandbox.
fn sandboxed(sandbox: &Value) -> Lab {
    Lab::with_entries(|lab| {
        let mut entry = lab.scratch.entry("s", &echo());
        entry["sandbox"] = sandbox.clone();
        json!({ "s": entry })
    })
}

#[test]
fn a_server_answers_from_its_sandbox() {
    let lab = sandboxed(&json!(true));
    let run = lab.run(&["call", "s", "echo", "n:=1"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn a_sandbox_that_cannot_be_had_starts_nothing() {
    for (sandbox, told) in [
        (json!({"read": ["/nonexistent/x"]}), "/nonexistent/x"),
        (json!("unknown"), "there is no profile \"unknown\""),
        (json!({"read": ["~/.claude"]}), "belongs to trunkline"),
    ] {
        let lab = sandboxed(&sandbox);
        lab.scratch.write("home/.claude/x", "");
        let run = lab.run(&["call", "s", "echo", "n:=1"]);
        assert_eq!(run.code, Some(3), "{run:#?}");
        assert!(run.err.contains(told), "{run:#?}");
    }
}
