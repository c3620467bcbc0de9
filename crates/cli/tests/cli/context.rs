//! `trunkline resources`, `read`, `prompts` and `prompt`.

use serde_json::{Value, json};

use crate::lab::{Lab, echo};

fn offering() -> Value {
    json!({
        "resources": [
            {"uri": "note://1", "name": "one", "description": "First\nsecond line", "mimeType": "text/plain", "text": "no newline"},
            {"uri": "note://\u{1b}[2J", "name": "evil \u{1b}[31m", "text": "x"},
            {"uri": "bin://1", "name": "bytes", "mimeType": "image/x-odd", "blob": "AAEC/w=="},
            {"uri": "bin://bad", "name": "bad", "blob": "not base64!"},
            {"uri": "skill://tidy/SKILL.md", "name": "tidy", "description": "Tidies up", "text": "# Tidy"},
        ],
        "resourceTemplates": [{"uriTemplate": "note://{n}", "name": "notes", "title": "All notes"}],
        "prompts": [
            {"name": "greet it", "description": "Greets", "arguments": [{"name": "who", "required": true}, {"name": "how"}]},
            {"name": "talk", "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}},
                {"role": "assistant", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}}]},
        ],
    })
}

#[test]
fn resources_are_listed_as_they_are_mentioned() {
    let lab = Lab::with([("s 1", offering())]);
    let expected = "@s 1:note://1  First\n\
                    @s 1:note://\\u{1b}[2J  evil \\u{1b}[31m\n\
                    @s 1:bin://1  bytes\n\
                    @s 1:bin://bad  bad\n\
                    @s 1:skill://tidy/SKILL.md  Tidies up\n\
                    @s 1:note://{n}  All notes\n";
    lab.run(&["resources"]).is(0, expected, "");
    lab.run(&["resources", "s 1"]).is(0, expected, "");
    let listed = lab.run(&["resources", "--json"]).json();
    assert_eq!(
        listed[0],
        json!({"server": "s 1", "uri": "note://1", "name": "one", "description": "First\nsecond line", "mimeType": "text/plain"})
    );
    assert_eq!(
        listed[5],
        json!({"server": "s 1", "uriTemplate": "note://{n}", "name": "notes", "title": "All notes"})
    );
    let run = lab.run(&["resources", "s"]);
    run.fails(2, "there is no server \"s\"", "there are: s 1");
}

#[test]
fn a_server_that_failed_is_reported_beside_the_others_resources() {
    let lab = Lab::with_entries(|lab| {
        let good = json!({"resources": [{"uri": "a:1", "name": "one"}]});
        json!({"good": lab.scratch.entry("good", &good), "bad": {"command": "no-such-program"}})
    });
    let complaint = "error: server \"bad\": command not found: no-such-program\n  \
                     hint: install the program, or write its full path as the \"command\"\n";
    lab.run(&["resources"]).is(0, "@good:a:1  one\n", complaint);
    lab.run(&["read", "bad", "a:1"]).is(
        3,
        "",
        "error: the server \"bad\" is not connected: command not found: no-such-program\n  \
         hint: install the program, or write its full path as the \"command\"\n",
    );
}

#[test]
fn text_is_read_as_it_is_and_a_mention_will_do() {
    let lab = Lab::with([
        ("s 1", offering()),
        ("t", json!({"resources": [{"uri": "a:1", "text": "other"}]})),
    ]);
    lab.run(&["read", "s 1", "note://1"])
        .is(0, "no newline\n", "");
    lab.run(&["read", "@s 1:note://1"])
        .is(0, "no newline\n", "");
    lab.run(&["read", "@s_1:note://1"])
        .is(0, "no newline\n", "");
    lab.run(&["read", "@t:a:1"]).is(0, "other\n", "");
    let read = lab.run(&["read", "s 1", "note://1", "--json"]).json();
    assert_eq!(
        read,
        json!({"server": "s 1", "uri": "note://1", "files": [],
            "contents": [{"uri": "note://1", "mimeType": "text/plain", "text": "no newline"}]})
    );
}

#[test]
fn bytes_go_to_a_file_or_where_they_are_sent() {
    let lab = Lab::with([("s", offering())]);
    lab.run(&["read", "s", "bin://1"]).is(
        0,
        "",
        "bin://1 is image/x-odd, 4 bytes; -o FILE writes it to a file, -o - here\n",
    );
    lab.run(&["read", "s", "bin://1", "-o", "out.bin"])
        .is(0, "", "4 bytes written to out.bin\n");
    assert_eq!(std::fs::read(lab.at("out.bin")).unwrap(), [0, 1, 2, 255]);
    let mut command = lab.command(&["read", "s", "bin://1", "-o", "-"]);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, [0, 1, 2, 255]);
    let read = lab
        .run(&["read", "s", "bin://1", "-o", "again.bin", "--json"])
        .json();
    assert_eq!(read["files"], json!(["again.bin"]));
    let run = lab.run(&["read", "s", "bin://1", "-o", "no/such/dir"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    let run = lab.run(&["read", "s", "bin://bad", "-o", "x"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.err.contains("is not Base64"), "{run:#?}");
    assert!(!lab.at("x").exists());
}

#[test]
fn mistakes_in_reading_are_explained() {
    let slow = json!({"resources": [{"uri": "a:1", "do": [{"sleepMs": 60000}]}]});
    let lab = Lab::with([
        ("github", offering()),
        ("slow", slow),
        ("plain", serde_json::to_value(echo()).unwrap()),
    ]);
    lab.run(&["read", "githib", "note://1"]).fails(
        2,
        "there is no server \"githib\"",
        "did you mean \"github\"?",
    );
    lab.run(&["read", "github"]).fails(
        2,
        "which resource?",
        "write `read <server> <uri>` or `read @server:uri`; `trunkline resources` shows them",
    );
    let run = lab.run(&["read", "github", "note://9"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.err.contains("resource not found"), "{run:#?}");
    lab.run(&["read", "plain", "a:1"])
        .fails(1, "the server \"plain\" has no resources", "");
    lab.run(&["read", "github", "a:\u{7}"]).fails(
        2,
        "this is no address of a resource: it holds control characters",
        "",
    );
    let run = lab.run(&["read", "slow", "a:1", "--timeout", "1500"]);
    assert_eq!(run.code, Some(6), "{run:#?}");
    assert!(
        run.err.contains("--timeout (ms) gives it more time"),
        "{run:#?}"
    );
}

#[test]
fn prompts_are_listed_with_their_arguments_and_skills_apart() {
    let lab = Lab::with([("s", offering())]);
    let expected = "/mcp__s__greet_it <who> [how]  Greets\n\
                    /mcp__s__talk  \n\
                    skill @s:skill://tidy/SKILL.md  Tidies up\n";
    lab.run(&["prompts"]).is(0, expected, "");
    let listed = lab.run(&["prompts", "s", "--json"]).json();
    assert_eq!(
        listed,
        json!([
            {"kind": "prompt", "name": "mcp__s__greet_it", "server": "s", "originalName": "greet it", "description": "Greets",
             "arguments": [{"name": "who", "required": true}, {"name": "how", "required": false}]},
            {"kind": "prompt", "name": "mcp__s__talk", "server": "s", "originalName": "talk", "description": "", "arguments": []},
            {"kind": "skill", "name": "tidy", "server": "s", "uri": "skill://tidy/SKILL.md", "description": "Tidies up", "listed": false},
        ])
    );
}

#[test]
fn a_prompt_takes_arguments_by_position_and_by_name() {
    let lab = Lab::with([("s", offering())]);
    for words in [
        &["prompt", "s", "greet it", "Ada", "how=warmly"][..],
        &["prompt", "mcp__s__greet_it", "how=warmly", "Ada"],
        &["prompt", "/mcp__s__greet_it", "Ada", "warmly"],
    ] {
        let run = lab.run(words);
        let said: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(
            said,
            json!({"name": "greet it", "arguments": {"who": "Ada", "how": "warmly"}})
        );
    }
    lab.run(&["prompt", "s", "talk"]).is(
        0,
        "[user]\nhello\n[assistant]\n[image image/png, about 3 bytes; --json shows it]\n",
        "",
    );
    let said = lab.run(&["prompt", "s", "talk", "--json"]).json();
    assert_eq!(
        said["messages"][0],
        json!({"role": "user", "content": {"type": "text", "text": "hello"}})
    );
}

#[test]
fn mistakes_in_prompting_are_explained() {
    let lab = Lab::with([("s", offering())]);
    lab.run(&["prompt", "s", "greet it"]).fails(
        2,
        "the prompt \"greet it\" needs the argument \"who\"",
        "",
    );
    lab.run(&["prompt", "s", "great it", "Ada"]).fails(
        2,
        "there is no prompt \"great it\"",
        "did you mean \"greet it\"?",
    );
    lab.run(&["prompt", "mcp__s__tolk"]).fails(
        2,
        "there is no prompt \"mcp__s__tolk\"",
        "did you mean \"mcp__s__talk\"?",
    );
    lab.run(&["prompt", "s"]).fails(
        2,
        "which prompt?",
        "write `prompt <server> <prompt>`; `trunkline prompts` shows them",
    );
}
