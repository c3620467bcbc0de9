//! Lists, pages, changes of the list and subscriptions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::{Client, Scratch, Script, generated, wait_until};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn names(list: &Value) -> Vec<String> {
    let tools = list["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn tools_are_listed_without_their_actions_and_raw_ones_byte_for_byte() {
    let script = Script::parse(
        r#"{"tools": [{"name": "t", "x-extra": [1], "do": []}], "rawTools": [{ "name":7 , "n": 1.00}, null], "generateTools": 1}"#,
    );
    let mut client = Client::script(&script.unwrap());
    client.send("tools/list", json!({}));
    let line = String::from_utf8(client.line().unwrap()).unwrap();
    let expected = format!(
        r#""tools":[{{"name":"t","x-extra":[1]}},{},{{ "name":7 , "n": 1.00}},null]"#,
        generated::tool(0)
    );
    assert!(line.contains(&expected), "{line}");
}

#[test]
fn generated_tools_have_a_realistic_size() {
    for index in [0, 7, 1000] {
        let tool = generated::tool(index);
        assert!((400..=520).contains(&tool.len()), "{} bytes", tool.len());
        serde_json::from_str::<Value>(&tool).unwrap();
    }
}

#[test]
fn pages_cover_the_list_once() {
    let mut client = Client::script(&json!({"generateTools": 7, "pageSize": 3}).into());
    let mut all = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.request("tools/list", params);
        assert!(names(&page).len() <= 3);
        all.extend(names(&page));
        match page["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(all, (0..7).map(generated::name).collect::<Vec<_>>());
    assert_eq!(
        client.request("tools/list", json!({"cursor": "bad"}))["error"]["code"],
        -32602
    );
}

#[test]
fn cursors_can_be_wrong_in_each_way() {
    type Check = fn(&Value) -> bool;
    let cases: [(&str, Check); 3] = [
        ("repeat", |cursor| cursor == "again"),
        ("number", |cursor| cursor == 2),
        ("huge", |cursor| {
            cursor.as_str().is_some_and(|text| text.len() > 1 << 20)
        }),
    ];
    for (fault, check) in cases {
        let mut client = Client::script(
            &json!({"generateTools": 4, "pageSize": 2, "cursorFault": fault}).into(),
        );
        let first = client.request("tools/list", json!({}));
        let cursor = &first["result"]["nextCursor"];
        assert!(check(cursor), "{fault}");
        let second = client.request("tools/list", json!({"cursor": cursor}));
        assert_eq!(
            names(&first) == names(&second),
            fault == "repeat",
            "{fault}"
        );
        assert_eq!(
            second["result"].get("nextCursor").is_some(),
            fault == "repeat",
            "{fault}"
        );
    }
}

fn changing() -> Script {
    Script::default()
        .tool("add", json!([{"addTool": {"name": "new", "do": [{"replyText": "I am new"}]}}, {"replyText": "ok"}]))
        .tool("remove", json!([{"removeTool": "new"}, {"replyText": "ok"}]))
        .tool("update", json!([{"publish": {"method": "notifications/resources/updated", "params": {"uri": "a:b"}}}, {"replyText": "ok"}]))
}

#[test]
fn listeners_hear_of_changes_they_asked_for_under_their_id() {
    let mut client = Client::script(&changing());
    client.send(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    client.send(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": ["a:b"]}}),
    );
    for id in [1, 2] {
        let ack = client.message();
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(ack["params"]["_meta"][SUBSCRIPTION], id);
    }
    for (tool, method, listener) in [
        ("add", "notifications/tools/list_changed", 1),
        ("update", "notifications/resources/updated", 2),
        ("remove", "notifications/tools/list_changed", 1),
    ] {
        let id = client.send("tools/call", json!({"name": tool}));
        let heard = client.message();
        assert_eq!(
            (&heard["method"], &heard["params"]["_meta"][SUBSCRIPTION]),
            (&json!(method), &json!(listener))
        );
        assert_eq!(
            client.message()["id"],
            id,
            "{tool}: one notification, then the reply"
        );
    }
    client.notify("notifications/cancelled", &json!({"requestId": 1}));
    let id = client.send("tools/call", json!({"name": "add"}));
    assert_eq!(
        client.message()["id"],
        id,
        "a cancelled subscription hears nothing"
    );
    assert_eq!(client.call_text("new", json!({})), "I am new");
}

#[test]
fn a_legacy_client_hears_of_changes_plainly() {
    let mut client = Client::script(&changing());
    client.initialize("2025-11-25");
    client.send("tools/call", json!({"name": "add"}));
    let expected =
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}});
    assert_eq!(client.message(), expected);
}

#[test]
fn a_cancelled_request_is_never_answered() {
    let scratch = Scratch::new();
    let mut script = Script::default().tool(
        "slow",
        json!([{"waitForFile": scratch.join("go")}, {"replyText": "late"}]),
    );
    script.cancel_log = Some(scratch.join("cancelled"));
    script.received_log = Some(scratch.join("received"));
    let mut client = Client::script(&script);
    let id = client.send("tools/call", json!({"name": "slow"}));
    client.notify("notifications/cancelled", &json!({"requestId": id}));
    wait_until(Duration::from_secs(5), || {
        scratch.read("cancelled") == "1\n"
    });
    scratch.write("go", "");
    client.close_stdin();
    assert_eq!(client.line(), None);
    assert_eq!(scratch.read("received").lines().count(), 2);
}

#[test]
fn resources_and_prompts_give_their_content_or_what_they_are_told() {
    let script: Script = json!({
        "resources": [
            {"uri": "a:text", "name": "a", "mimeType": "text/plain", "text": "hello"},
            {"uri": "a:blob", "name": "b", "blob": "AAAA"},
            {"uri": "a:do", "name": "c", "do": [{"reply": {"contents": []}}]}],
        "prompts": [
            {"name": "fixed", "messages": [{"role": "user", "content": {"type": "text", "text": "m"}}]},
            {"name": "plain"}]
    })
    .into();
    let mut client = Client::script(&script);
    let mut get = |method: &str, params: Value, key: &str| {
        client.request(method, params)["result"][key].take()
    };
    let listed = get("resources/list", json!({}), "resources");
    assert_eq!(
        listed[0],
        json!({"uri": "a:text", "name": "a", "mimeType": "text/plain"})
    );
    let text = json!([{"uri": "a:text", "mimeType": "text/plain", "text": "hello"}]);
    assert_eq!(
        get("resources/read", json!({"uri": "a:text"}), "contents"),
        text
    );
    assert_eq!(
        get("resources/read", json!({"uri": "a:blob"}), "contents"),
        json!([{"uri": "a:blob", "blob": "AAAA"}])
    );
    assert_eq!(
        get("resources/read", json!({"uri": "a:do"}), "contents"),
        json!([])
    );
    assert_eq!(
        get("prompts/list", json!({}), "prompts"),
        json!([{"name": "fixed"}, {"name": "plain"}])
    );
    assert_eq!(
        get("prompts/get", json!({"name": "fixed"}), "messages")[0]["content"]["text"],
        "m"
    );
    let said = get(
        "prompts/get",
        json!({"name": "plain", "arguments": {"x": "1"}}),
        "messages",
    );
    assert_eq!(
        said[0]["content"]["text"],
        r#"{"name":"plain","arguments":{"x":"1"}}"#
    );
    assert_eq!(
        client.request("resources/read", json!({"uri": "a:none"}))["error"]["code"],
        -32602
    );
}
