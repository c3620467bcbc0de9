//! With `--json`, all errors are one JSON object on stderr (UI-2).

use serde_json::{Value, json};

use crate::lab::{Lab, echo, parsed};

#[track_caller]
fn error(lab: &Lab, words: &[&str]) -> Value {
    let run = lab.run(words);
    let document = parsed(&run.err);
    assert_eq!(document["error"]["exitCode"], json!(run.code), "{run:#?}");
    document
}

#[test]
fn errors_have_a_cause_and_a_hint() {
    let crash = json!({"onStart": [{"stderr": "no licence"}, {"exit": 3}]});
    let lab = Lab::with_entries(
        |lab| json!({"s": lab.scratch.entry("s", &echo()), "crash": lab.scratch.entry("crash", &crash)}),
    );
    let unknown = error(&lab, &["call", "x", "t", "--json"]);
    assert_eq!(unknown["error"]["kind"], "usage");
    assert_eq!(unknown["error"]["message"], "there is no server \"x\"");
    assert!(unknown["error"]["hint"].is_string());
    let crashed = error(&lab, &["--json", "call", "crash", "t"]);
    assert_eq!(
        crashed["error"],
        json!({"kind": "not-connected", "exitCode": 3, "stderr": ["no licence"],
            "message": "could not connect to \"crash\": the server's process exited with status 3 before it was connected",
            "hint": "run the command in a terminal to see why it exits"})
    );
}

#[test]
fn a_command_line_that_cannot_be_understood_is_one_too() {
    let lab = Lab::new();
    let run = lab.plainly(&["list", "--nonsense", "--json"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    let document = parsed(&run.err);
    assert_eq!(document["error"]["kind"], "usage");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("--nonsense") && !message.contains('\n'),
        "{message}"
    );
    // Behind `--` it is not ours.
    let run = lab.plainly(&["add", "--nonsense", "x", "--", "cmd", "--json"]);
    assert!(run.err.starts_with("error: "), "{}", run.err);
}

#[test]
fn warnings_are_in_the_same_object_and_a_success_without_any_is_silent() {
    let crash = json!({"onStart": [{"exit": 3}]});
    let lab = Lab::with_entries(
        |lab| json!({"s": lab.scratch.entry("s", &echo()), "crash": lab.scratch.entry("crash", &crash)}),
    );
    let run = lab.run(&["tools", "--json"]);
    assert_eq!(run.code, Some(0));
    let document = parsed(&run.err);
    assert!(document.get("error").is_none(), "{document}");
    assert!(
        document["warnings"][0]
            .as_str()
            .unwrap()
            .contains("\"crash\"")
    );
    lab.run(&["call", "s", "echo", "--json"]);
    assert_eq!(lab.run(&["tools", "s", "--json"]).err, "");
}

#[test]
fn the_list_has_entries_that_cannot_be_used_and_what_is_wrong_with_them() {
    let lab = Lab::with_entries(|lab| {
        let mut odd = lab.scratch.entry("odd", &echo());
        odd["timeout"] = json!("soon");
        json!({"odd": odd, "broken": {"command": 5}, "s": lab.scratch.entry("s", &echo())})
    });
    let run = lab.run(&["list", "--json"]);
    let rows = run.json();
    let row = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {rows:?}"))
            .clone()
    };
    let broken = row("broken");
    assert_eq!(broken["state"], "failed");
    assert!(
        broken["error"]
            .as_str()
            .unwrap()
            .starts_with("invalid entry: "),
        "{broken}"
    );
    assert!(
        broken["diagnostics"][0]
            .as_str()
            .unwrap()
            .contains("command"),
        "{broken}"
    );
    assert!(row("s").get("diagnostics").is_none());
    assert_eq!(run.err, "");
    let listed = lab.run(&["list"]).out;
    assert!(
        listed.contains("broken") && listed.contains("  invalid entry: "),
        "{listed}"
    );
}

#[test]
fn a_failing_server_costs_two_lines_where_others_are_shown() {
    let noisy: Vec<Value> = (0..30)
        .map(|line| json!({"stderr": format!("line {line}")}))
        .collect();
    let noisy = Value::Array([noisy, vec![json!({"exit": 3})]].concat());
    let lab = Lab::with_entries(
        |lab| json!({"s": lab.scratch.entry("s", &echo()), "noisy": lab.scratch.entry("noisy", &json!({"onStart": noisy}))}),
    );
    for words in [
        &["tools"][..],
        &["search", "echo"],
        &["resources"],
        &["prompts"],
    ] {
        let run = lab.run(words);
        let said: Vec<&str> = run
            .err
            .lines()
            .filter(|line| !line.starts_with("no "))
            .collect();
        assert_eq!(said.len(), 2, "{}", run.err);
        assert_eq!(said[1], "  hint: see `trunkline get noisy`");
    }
    assert!(lab.run(&["get", "noisy"]).out.contains("| line 0\n"));
}

#[test]
fn a_mistake_in_the_arguments_starts_nothing() {
    let lab = Lab::with_entries(|lab| json!({"s": lab.marking("s")}));
    for words in [
        &["--json-args", "{"][..],
        &["--json-args", "[]"],
        &["nonsense"],
        &["a:={"],
        &["a=1", "a=2"],
    ] {
        let run = lab.run(&[&["call", "s", "echo"], words].concat());
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(
            run.err
                .contains("  hint: see `trunkline tools s echo` for its arguments\n"),
            "{}",
            run.err
        );
        assert!(!lab.started("s"), "{words:?}");
    }
}
