//! `trunkline resources`, `read`, `prompts` and `prompt`.

use serde_json::{Value, json};

use crate::lab::{Lab, echo};
use crate::pty::Session;

fn offering() -> Value {
    json!({
        "resources": [
            {"uri": "note://1", "name": "one", "description": "First\nsecond line", "mimeType": "text/plain", "text": "no newline"},
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
                    @s 1:bin://1  bytes\n\
                    @s 1:bin://bad  bad\n\
                    @s 1:skill://tidy/SKILL.md  Tidies up\n\
                    template @s 1:note://{n}  All notes\n";
    lab.run(&["resources"]).is(0, expected, "");
    lab.run(&["resources", "s 1"]).is(0, expected, "");
    let listed = lab.run(&["resources", "--json"]).json();
    assert_eq!(
        listed[0],
        json!({"server": "s 1", "uri": "note://1", "name": "one", "description": "First\nsecond line", "mimeType": "text/plain"})
    );
    assert_eq!(
        listed[4],
        json!({"server": "s 1", "uriTemplate": "note://{n}", "name": "notes", "title": "All notes"})
    );
    let run = lab.run(&["resources", "s"]);
    run.fails(2, "there is no server \"s\"", "available: s 1");
}

#[test]
fn a_resource_with_something_hidden_in_its_address_is_left_out() {
    let lab = Lab::with([(
        "s",
        json!({"resources": [
            {"uri": "note://\u{1b}[2J", "name": "n", "text": "x"},
            {"uri": "note://2", "name": "ev\u{1b}[31mil", "text": "x"},
        ]}),
    )]);
    lab.run(&["resources"]).is(
        0,
        "@s:note://2  evil\n",
        "warning: server \"s\": resources/list: removed 1 hidden character (1 escape) from its texts\n\
         warning: server \"s\": resources/list: skipped 1 item: hidden characters in the uri\n",
    );
}

#[test]
fn a_server_that_failed_is_reported_beside_the_others_resources() {
    let lab = Lab::with_entries(|lab| {
        let good = json!({"resources": [{"uri": "a:1", "name": "one"}]});
        json!({"good": lab.scratch.entry("good", &good), "bad": {"command": "no-such-program"}})
    });
    let complaint = "error: server \"bad\": command not found: no-such-program\n  \
                     hint: install the program, or set \"command\" to its full path\n";
    lab.run(&["resources"]).is(0, "@good:a:1  one\n", complaint);
    lab.run(&["read", "bad", "a:1"]).is(
        3,
        "",
        "error: the server \"bad\" is not connected: command not found: no-such-program\n  \
         hint: install the program, or set \"command\" to its full path\n",
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
    let (code, shown) = Session::start(&mut lab.command(&["read", "s", "bin://1"])).end();
    let told = "bin://1 is image/x-odd, 4 bytes; save it with -o FILE, or print it with -o -\n";
    assert_eq!(code, Some(0));
    assert!(shown.ends_with(told), "{shown}");
    let output = lab.command(&["read", "s", "bin://1"]).output().unwrap();
    assert_eq!(output.stdout, [0, 1, 2, 255]);
    lab.run(&["read", "s", "bin://1", "-o", "out.bin"])
        .is(0, "", "wrote 4 bytes to out.bin\n");
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
    assert!(run.err.contains("with invalid Base64"), "{run:#?}");
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
        "no resource given: `trunkline read github URI`",
        "list servers and resources with `trunkline resources`",
    );
    lab.run(&["read", "note://1"]).fails(
        2,
        "no server given: `trunkline read SERVER note://1`",
        "list servers and resources with `trunkline resources`",
    );
    let run = lab.run(&["read", "github", "note://9"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.err.contains("resource not found"), "{run:#?}");
    let hint = "  hint: list them with `trunkline resources github`\n";
    assert!(run.err.ends_with(hint), "{run:#?}");
    lab.run(&["read", "github", "note://1", "more"]).fails(
        2,
        "unexpected argument \"more\"",
        "only template variables, as key=value, may follow the URI",
    );
    lab.run(&["read", "plain", "a:1"])
        .fails(1, "the server \"plain\" has no resources", "");
    lab.run(&["read", "github", "a:\u{7}"]).fails(
        2,
        "this is no address of a resource: it holds control characters",
        "",
    );
    let run = lab.run(&["read", "slow", "a:1", "--timeout", "1500"]);
    assert_eq!(run.code, Some(6), "{run:#?}");
    let told = "no answer within 1500 ms\n  hint: allow more time with --timeout; see `trunkline logs slow`";
    assert!(run.err.contains(told), "{run:#?}");
}

#[test]
fn prompts_are_listed_with_their_arguments_and_skills_apart() {
    let lab = Lab::with([("s", offering())]);
    let expected = "/mcp__s__greet_it <who> [how]  Greets\n\
                    /mcp__s__talk\n\
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
        &["prompt", "s", "greet_it", "Ada", "warmly"],
        &["prompt", "/mcp__s__greet_it Ada how=warmly"],
        &["prompt", "s", "greet it", "how=warmly", "--", "Ada"],
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
        "[user]\nhello\n[assistant]\n[image image/png, about 3 bytes; --json has it]\n",
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
    lab.run(&["prompt", "s", "entirely other"]).fails(
        2,
        "there is no prompt \"entirely other\"",
        "list them with `trunkline prompts`",
    );
    let after = "put literal words after `--`";
    lab.run(&["prompt", "s", "greet it", "woh=Ada"]).fails(
        2,
        "the prompt \"greet it\" has no argument \"woh\"; it takes who, how",
        after,
    );
    lab.run(&["prompt", "s", "greet it", "who:=1"]).fails(
        2,
        "the prompt \"greet it\" takes strings only; write who=1",
        after,
    );
    lab.run(&["prompt", "s"]).fails(
        2,
        "no prompt given",
        "usage: `trunkline prompt <server> <prompt>`; list them with `trunkline prompts`",
    );
}

#[test]
fn a_word_behind_two_dashes_is_taken_as_it_is() {
    let lab = Lab::with([("s", offering())]);
    let run = lab.run(&["prompt", "s", "greet it", "--", "how=x"]);
    let said: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(said["arguments"], json!({"who": "how=x"}));
}

#[test]
fn a_template_is_filled_in() {
    let lab = Lab::with([("s", offering())]);
    for words in [
        &["read", "s", "note://{n}", "n=1"][..],
        &["read", "@s:note://{n}", "n=1"],
    ] {
        lab.run(words).is(0, "no newline\n", "");
    }
    let fill = "set its variables: `trunkline read s 'note://{n}' n=VALUE`";
    lab.run(&["read", "s", "note://{n}"])
        .fails(2, "note://{n} is a template", fill);
    lab.run(&["read", "s", "note://{n}", "x=1"]).fails(
        2,
        "cannot expand the template note://{n}: it has no variable \"x\"; did you mean \"n\"?",
        fill,
    );
    lab.run(&["read", "s", "note://1", "n=1"]).fails(
        2,
        "note://1 is not a template and takes no variables",
        "",
    );
}

#[test]
fn text_in_bytes_is_shown_and_several_contents_go_to_several_files() {
    let two = json!({"contents": [{"uri": "two:1", "mimeType": "image/png", "blob": "AAEC"}, {"uri": "two:1", "text": "words"}]});
    let script = json!({"resources": [
        {"uri": "a:1", "name": "a", "mimeType": "text/plain; charset=utf-8", "blob": "aGVsbG8="},
        {"uri": "two:1", "name": "two", "do": [{"reply": two}]},
    ]});
    let lab = Lab::with([("s", script)]);
    let (code, shown) = Session::start(&mut lab.command(&["read", "s", "a:1"])).end();
    assert_eq!(code, Some(0));
    assert!(shown.ends_with("hello\n"), "{shown}");
    lab.run(&["read", "s", "a:1"]).is(0, "hello", "");
    lab.run(&["read", "s", "two:1", "-o", "out.png"]).is(
        0,
        "",
        "wrote 3 bytes to out-1.png\nwrote 5 bytes to out-2.png\n",
    );
    assert_eq!(std::fs::read(lab.at("out-1.png")).unwrap(), [0, 1, 2]);
    assert_eq!(lab.scratch.read("out-2.png"), "words");
    assert!(!lab.at("out.png").exists());
    let read = lab.run(&["read", "s", "two:1", "-o", "x", "--json"]).json();
    assert_eq!(read["files"], json!(["x-1", "x-2"]));
}

#[test]
fn an_empty_list_is_reported() {
    let lab = Lab::with([("s", echo()), ("none", serde_json::from_str("{}").unwrap())]);
    for (words, what) in [
        (&["resources", "s"][..], "resources"),
        (&["prompts", "s"], "prompts"),
        (&["tools", "none"], "tools"),
    ] {
        lab.run(words).is(0, "", &format!("no {what}\n"));
    }
}
