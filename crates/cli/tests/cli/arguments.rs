//! The arguments of `trunkline call`, in every notation.

use crate::lab::{Lab, echo};

#[test]
fn arguments_are_written_in_four_ways() {
    let lab = Lab::with([("s", echo())]);
    let cases: [(&[&str], &str); 8] = [
        (&[], "{}"),
        (
            &["s=x", "n=3", "on=true", "other=3"],
            r#"{"s":"x","n":3,"on":true,"other":"3"}"#,
        ),
        (
            &["s=three words = x", "n=many", "--no-validate"],
            r#"{"s":"three words = x","n":"many"}"#,
        ),
        (
            &["n:=4", r#"list:=[1,{"a":null}]"#],
            r#"{"n":4,"list":[1,{"a":null}]}"#,
        ),
        (
            &["--json-args", r#"{"z":1,"a":{"b":[]}}"#],
            r#"{"z":1,"a":{"b":[]}}"#,
        ),
        (&["s=x", "--json-args", r#"{"z":1}"#], r#"{"z":1,"s":"x"}"#),
        (&["s=ünï 🦀"], r#"{"s":"ünï 🦀"}"#),
        (&["s="], r#"{"s":""}"#),
    ];
    for (arguments, out) in cases {
        for tool in [&["call", "s", "echo"][..], &["call", "mcp__s__echo"]] {
            lab.run(&[tool, arguments].concat())
                .is(0, &format!("{out}\n"), "");
        }
    }
}

#[test]
fn arguments_are_read_from_standard_input() {
    let lab = Lab::with([("s", echo())]);
    let words = ["call", "s", "echo", "--json-args", "-"];
    lab.run_with_input(&words, "{\"a\": 1,\n \"b\": [2]}\n")
        .is(0, "{\"a\":1,\"b\":[2]}\n", "");
    lab.run_with_input(&[&words[..], &["s=x"]].concat(), "{}")
        .is(0, "{\"s\":\"x\"}\n", "");
    let run = lab.run_with_input(&words, "");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    assert!(
        run.err
            .starts_with("error: stdin is empty; --json-args - expects a JSON object"),
        "{}",
        run.err
    );
}

#[test]
fn an_argument_that_begins_with_a_dash_is_no_flag() {
    let lab = Lab::with([("s", echo())]);
    lab.run(&["call", "s", "echo", "n=-3", "s=--x"])
        .is(0, "{\"n\":-3,\"s\":\"--x\"}\n", "");
    lab.run(&["call", "s", "echo", "--", "-x=1"])
        .is(0, "{\"-x\":\"1\"}\n", "");
}

#[test]
fn mistakes_in_the_arguments_are_explained_and_nothing_is_called() {
    let lab = Lab::new();
    lab.configure([(
        "s",
        echo().on(
            "tools/call",
            serde_json::json!([{"touch": lab.at("called")}, {"default": true}]),
        ),
    )]);
    let cases: [(&[&str], &str); 7] = [
        (
            &["word"],
            "\"word\" is not an argument; write key=value or key:=json",
        ),
        (&["=x"], "\"=x\" has no name before the \"=\""),
        (&["s=1", "s=2"], "the argument \"s\" is given twice"),
        (
            &["s=1", "--json-args", r#"{"s":1}"#],
            "the argument \"s\" is given twice",
        ),
        (
            &["n:=three"],
            "the value of \"n\" is not valid JSON: expected ident at line 1 column 2; for a string, write n=three",
        ),
        (
            &["--json-args", "[1]"],
            "--json-args must be a JSON object, such as '{\"a\": 1}'",
        ),
        (
            &["--json-args", "{"],
            "--json-args is not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
    ];
    for (arguments, complaint) in cases {
        let words = [&["call", "s", "echo"], arguments].concat();
        lab.run(&words).fails(
            2,
            complaint,
            "see `trunkline tools s echo` for its arguments",
        );
    }
    assert!(!lab.at("called").exists());
}

#[test]
fn a_tool_or_server_that_is_not_there_is_bad_usage_with_a_suggestion() {
    let lab = Lab::with([("files", echo()), ("time", echo())]);
    let cases: [(&[&str], &str, &str); 11] = [
        (
            &["files", "ech"],
            "the server \"files\" has no tool \"ech\"",
            "did you mean \"echo\"?",
        ),
        (
            &["mcp__flies__echo"],
            "there is no tool \"mcp__flies__echo\"",
            "did you mean a tool of \"files\"? list them with `trunkline tools files`",
        ),
        (
            &["echo", "s=x"],
            "there is no server \"echo\"",
            "usage: `trunkline call <server> <tool>`; find its server with `trunkline search select:echo`",
        ),
        (
            &["files:echo"],
            "there is no server \"files:echo\"",
            "use `trunkline call files echo`",
        ),
        (
            &["files", "ehco"],
            "the server \"files\" has no tool \"ehco\"",
            "did you mean \"echo\"?",
        ),
        (
            &["files", "unrelated"],
            "the server \"files\" has no tool \"unrelated\"",
            "list them with `trunkline tools files`",
        ),
        (
            &["file", "echo"],
            "there is no server \"file\"",
            "did you mean \"files\"?",
        ),
        (
            &["weather", "echo"],
            "there is no server \"weather\"",
            "available: files, time",
        ),
        (
            &["files"],
            "no tool given",
            "usage: `trunkline call <server> <tool>`; list them with `trunkline tools <server>`",
        ),
        (
            &["mcp__files__ecko"],
            "there is no tool \"mcp__files__ecko\"",
            "did you mean \"mcp__files__echo\"?",
        ),
        (
            &["mcp__weather__today"],
            "there is no tool \"mcp__weather__today\"",
            "list them with `trunkline tools`",
        ),
    ];
    for (words, what, hint) in cases {
        lab.run(&[&["call"], words].concat()).is(
            2,
            "",
            &format!("error: {what}\n  hint: {hint}\n"),
        );
    }
}
