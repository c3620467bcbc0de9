//! `trunkline sdk`, with a test in Rust or a program in Python as the program that started it
//! (TRN-1).

mod embedder;
mod ending;
mod offers;
mod permits;
mod refusals;

use serde_json::json;

use crate::lab::{Lab, echo, parsed};
use embedder::{Embedder, SOON, example, python};

#[test]
fn the_guides_program_connects_lists_calls_and_is_asked() {
    let lab = Lab::with([("other", echo())]);
    lab.finish(&mut python(&lab)).is(
        0,
        "['mcp__calc__add', 'mcp__calc__greet', 'mcp__other__echo']\nasked about mcp__calc__add\nprogress: 1 of 2\n5\n\
         asked about mcp__calc__greet\nHello, Ada!\nthere is no tool \"mcp__calc__divide\"\n",
        "",
    );
}

#[test]
fn the_guide_shows_that_program() {
    let guide = include_str!("../../../../../docs/sdk.md");
    let program = std::fs::read_to_string(example()).unwrap();
    assert!(guide.contains(&format!("```python\n{program}```\n")));
    assert!(program.lines().count() <= 60);
}

#[test]
fn servers_of_both_kinds_form_one_pool() {
    let lab = Lab::with([("other", echo())]);
    let mut embedder = Embedder::start(&lab);
    let hello = embedder.initialize(&["calc", "absent"]);
    assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(hello["diagnostics"], json!([]));
    let tools = embedder.done(&json!({"subtype": "tools"}))["tools"].clone();
    let names: Vec<_> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["mcp__calc__add", "mcp__calc__never", "mcp__other__echo"]
    );
    assert_eq!(tools[0]["server"], "calc");
    let of_one = embedder.done(&json!({"subtype": "tools", "server": "other"}));
    assert_eq!(of_one["tools"].as_array().unwrap().len(), 1);

    let status = embedder.done(&json!({"subtype": "mcp_status"}));
    let rows: Vec<_> = status["mcpServers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            json!([
                row["name"],
                row["scope"],
                row["transport"],
                row["state"],
                row["status"],
                row["tools"]
            ])
        })
        .collect();
    assert_eq!(
        rows,
        [
            json!(["absent", "dynamic", "sdk", "failed", "failed", 0]),
            json!(["calc", "dynamic", "sdk", "connected", "connected", 2]),
            json!(["other", "dynamic", "stdio", "connected", "connected", 1]),
        ]
    );
    assert_eq!(
        status["mcpServers"][0]["error"],
        "the embedding program answered with an error: there is no such server here"
    );

    let sum = embedder.call("mcp__calc__add", &json!({"a": 2, "b": 3}));
    assert_eq!(
        sum,
        json!({"content": [{"type": "text", "text": "5"}], "isError": false, "files": []})
    );
    let echoed = embedder.call("mcp__other__echo", &json!({"n": 1}));
    assert_eq!(echoed["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(embedder.finish(), "");
}

#[test]
fn a_call_waits_for_servers_that_are_just_starting() {
    let lab = Lab::with([("other", echo())]);
    let mut embedder = Embedder::start(&lab);
    let id = embedder.begin(&json!({"subtype": "initialize", "sdkMcpServers": ["calc"]}));
    let call = embedder.begin(
        &json!({"subtype": "call_tool", "name": "mcp__calc__add", "arguments": {"a": 1, "b": 1}}),
    );
    embedder.end(&id);
    assert_eq!(embedder.end(&call)["response"]["content"][0]["text"], "2");
    embedder.finish();
}

#[test]
fn progress_comes_line_by_line_before_the_result() {
    let lab = Lab::with([(
        "other",
        json!({"tools": [
            {"name": "t", "do": [{"progress": {"steps": 3, "total": true, "message": "going"}}, {"replyText": "done"}]},
        ]}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    let id = embedder.begin(&json!({"subtype": "call_tool", "name": "mcp__other__t"}));
    let result = embedder.end(&id);
    assert_eq!(result["response"]["content"][0]["text"], "done");
    let line = |step: u32| json!({"type": "progress", "request_id": id, "progress": f64::from(step), "total": 3.0, "message": "going"});
    assert_eq!(embedder.seen, [line(1), line(2), line(3)]);
    embedder.finish();
}

#[test]
fn a_call_can_be_withdrawn_and_the_server_hears_of_it() {
    let lab = Lab::new();
    lab.configure([(
        "other",
        json!({"tools": [{"name": "t", "do": [{"touch": lab.at("called")}, {"silence": true}]}],
        "cancelLog": lab.at("cancelled")}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&["calc"]);
    let id = embedder.begin(&json!({"subtype": "call_tool", "name": "mcp__other__t"}));
    // Meanwhile the embedder has its server to serve, or nothing would be ready.
    embedder.done(&json!({"subtype": "tools"}));
    lab.file("called");
    embedder.say(json!({"type": "control_cancel_request", "request_id": id}).to_string());
    trunkline_testkit::wait_for(SOON, "the cancellation", || {
        (lab.scratch.read("cancelled").lines().count() == 1).then_some(())
    });

    // The same for the embedder's own server.
    let id = embedder.begin(&json!({"subtype": "call_tool", "name": "mcp__calc__never"}));
    embedder.done(&json!({"subtype": "mcp_status"}));
    let call = embedder.seen.pop().unwrap_or_else(|| embedder.hear());
    assert_eq!(call["request"]["message"]["params"]["name"], "never");
    embedder.say(json!({"type": "control_cancel_request", "request_id": id}).to_string());
    let told = embedder.hear();
    assert_eq!(
        told["request"]["message"]["method"],
        "notifications/cancelled"
    );
    assert_eq!(
        embedder.hear(),
        json!({"type": "control_cancel_request", "request_id": call["request_id"]})
    );
    assert_eq!(embedder.finish(), "");
}

#[test]
fn a_server_that_asks_the_user_asks_the_embedder() {
    let question =
        json!({"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}});
    let lab = Lab::with([(
        "other",
        json!({"tools": [{"name": "t", "do": [
        {"request": {"method": "elicitation/create", "params": question}}, {"replyAnswer": true},
    ]}], "era": "legacy"}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    let answers = [
        (
            json!({"subtype": "success", "response": {"action": "accept", "content": {"x": 1}}}),
            json!({"action": "accept", "content": {"x": 1}}),
        ),
        (
            json!({"subtype": "success", "response": "yes"}),
            json!({"action": "cancel"}),
        ),
        (
            json!({"subtype": "error", "error": "nobody is here"}),
            json!({"action": "cancel"}),
        ),
    ];
    for (mut answer, expected) in answers {
        let call = embedder.begin(&json!({"subtype": "call_tool", "name": "mcp__other__t"}));
        let asked = embedder.hear();
        assert_eq!(
            asked["request"],
            json!({"subtype": "elicitation", "server_name": "other", "params": question})
        );
        answer["request_id"] = asked["request_id"].clone();
        embedder.say(json!({"type": "control_response", "response": answer}).to_string());
        let result = embedder.end(&call);
        let said = result["response"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(parsed(said), expected);
    }
    assert_eq!(embedder.finish(), "");
}

#[test]
fn servers_are_switched_off_and_on_and_connected_again() {
    let lab = Lab::new();
    lab.configure([(
        "other",
        json!({"onStart": [{"countFile": lab.at("starts")}]}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&["calc"]);
    embedder.done(&json!({"subtype": "tools"}));
    for server in ["calc", "other"] {
        assert_eq!(
            embedder.done(&json!({"subtype": "disable", "server": server}))["state"],
            "disabled"
        );
        assert_eq!(embedder.state(server), "disabled");
        assert_eq!(
            embedder.done(&json!({"subtype": "enable", "server": server}))["state"],
            "connected"
        );
        let toggle =
            |on: bool| json!({"subtype": "mcp_toggle", "serverName": server, "enabled": on});
        assert_eq!(embedder.done(&toggle(false))["status"], "disabled");
        assert_eq!(embedder.done(&toggle(true))["status"], "connected");
        assert_eq!(
            embedder.done(&json!({"subtype": "reconnect", "server": server}))["state"],
            "connected"
        );
    }
    let (code, error) = embedder.refused(&json!({"subtype": "tools", "server": "none"}));
    assert_eq!(
        (code.as_str(), error.as_str()),
        ("bad_request", "there is no server \"none\"")
    );
    assert_eq!(lab.count("starts"), 4);
    assert_eq!(embedder.finish(), "");
}
