//! `trunkline tools`.

use serde_json::json;

use crate::lab::{Lab, echo};

#[test]
fn tools_are_listed_one_a_line_and_sorted() {
    let long = "x".repeat(200);
    let lab = Lab::with([
        ("b", serde_json::to_value(echo()).unwrap()),
        (
            "a",
            json!({"tools": [{"name": "z", "description": "First line\nsecond line"}, {"name": "long", "description": long}, {"name": "bare"}]}),
        ),
    ]);
    let shown = format!(
        "mcp__a__bare  \nmcp__a__long  {}…\nmcp__a__z  First line\n",
        "x".repeat(100)
    );
    lab.run(&["tools"])
        .is(0, &format!("{shown}mcp__b__echo  Echoes\n"), "");
    lab.run(&["tools", "a"]).is(0, &shown, "");
}

#[test]
fn as_json_they_have_the_promised_shape() {
    let schema = json!({"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number", "maximum": 1.5}}});
    let lab = Lab::with([(
        "s.1",
        json!({"tools": [
            {"name": "get thing", "title": "Get", "description": "Gets\nit", "inputSchema": schema,
             "annotations": {"readOnlyHint": true, "openWorldHint": true},
             "_meta": {"anthropic/searchHint": "find \n  things", "anthropic/alwaysLoad": true}},
            {"name": "rm", "annotations": {"destructiveHint": true, "title": "Remove"}},
        ]}),
    )]);
    let expected = json!([
        {"name": "mcp__s_1__get_thing", "server": "s.1", "originalName": "get thing", "title": "Get", "description": "Gets\nit",
         "inputSchema": schema, "readOnly": true, "destructive": false, "openWorld": true, "alwaysLoad": true,
         "searchHint": "find things"},
        {"name": "mcp__s_1__rm", "server": "s.1", "originalName": "rm", "title": "Remove", "description": "",
         "inputSchema": {"type": "object"}, "readOnly": false, "destructive": true, "openWorld": false, "alwaysLoad": false},
    ]);
    let run = lab.run(&["tools", "--json"]);
    assert_eq!(run.json(), expected);
    assert!(
        run.out.contains(&schema.to_string()),
        "the order of keys is the server's: {}",
        run.out
    );
}

#[test]
fn a_server_that_failed_is_reported_and_the_others_tools_are_shown() {
    let lab = Lab::with_entries(
        |lab| json!({"good": lab.scratch.entry("good", &echo()), "bad": {"command": "no-such-program"}}),
    );
    let complaint = "error: server \"bad\": command not found: no-such-program\n  \
                     hint: install the program, or write its full path as the \"command\"\n";
    lab.run(&["tools"])
        .is(0, "mcp__good__echo  Echoes\n", complaint);
    lab.run(&["tools", "bad"]).is(3, "", complaint);
    lab.run(&["tools", "bad", "--json"])
        .is(3, "[]\n", complaint);
}

#[test]
fn a_server_that_is_not_configured_is_bad_usage() {
    let lab = Lab::with([("github", echo()), ("gitlab", echo())]);
    lab.run(&["tools", "githib"]).is(
        2,
        "",
        "error: there is no server \"githib\"\n  hint: did you mean \"github\"?\n",
    );
    lab.run(&["tools", "weather"]).is(
        2,
        "",
        "error: there is no server \"weather\"\n  hint: there are: github, gitlab\n",
    );
}

#[test]
fn only_the_server_asked_for_is_started() {
    let lab = Lab::new();
    let counting = |name: &str| echo().on_start(json!([{"countFile": lab.at(name)}]));
    lab.scratch
        .config(&[("a", counting("a.starts")), ("b", counting("b.starts"))]);
    lab.run(&["tools", "a"]).is(0, "mcp__a__echo  Echoes\n", "");
    assert_eq!((lab.count("a.starts"), lab.count("b.starts")), (1, 0));
}
