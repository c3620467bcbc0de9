//! Questions of servers, answered by keyboard, by flag and by hook, or cancelled (ELI-1 to ELI-5,
//! UI-3).

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::{Lab, Run, echo};
use crate::pty::Session;

const ENTER: &str = "\r";
const DOWN: &str = "\x1b[B";
const ESC: &str = "\x1b";
const CTRL_C: &str = "\x03";

fn person() -> Value {
    json!({"message": "who are you?", "requestedSchema": {"type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "age": {"type": "integer", "default": 7, "description": "in years"},
            "sure": {"type": "boolean", "default": true},
            "size": {"type": "string", "enum": ["s", "m", "l"]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        },
        "required": ["name", "size"]}})
}

/// A server whose tool `ask` asks this and answers with what it was told.
fn asking(era: &str, params: &Value) -> Script {
    let question = json!({"method": "elicitation/create", "params": params});
    let actions = match era {
        "modern" => {
            json!([{"inputRequired": {"inputRequests": {"q": question}}}, {"replyInputs": true}])
        }
        _ => json!([{"request": question}, {"replyAnswer": true}]),
    };
    json!({"era": era, "tools": [{"name": "ask", "do": actions}]}).into()
}

/// A server that asks for a person.
fn lab(era: &str) -> Lab {
    Lab::with([("s", asking(era, &person()))])
}

/// Returns whether a terminal shows this text, however it is wrapped, indented and coloured.
fn shows(screen: &str, part: &str) -> bool {
    let mut text = String::new();
    let mut chars = screen.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => _ = chars.by_ref().find(char::is_ascii_alphabetic),
            c if c.is_whitespace() => {}
            c => text.push(c),
        }
    }
    text.contains(&part.split_whitespace().collect::<String>())
}

/// A text without the line breaks of the terminal.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn session(command: &mut Command) -> Session {
    Session::start(command)
}

#[test]
fn a_form_is_filled_in_by_keyboard() {
    for era in ["modern", "legacy"] {
        let lab = lab(era);
        let mut session = session(&mut lab.command(&["call", "s", "ask"]));
        session.type_after("s asks, during mcp__s__ask:", "");
        session.type_after("| who are you?", "");
        session.type_after("? s/ask Your name *: ", &format!("A{ENTER}"));
        session.type_after("must have at least 2 characters", &format!("da{ENTER}"));
        session.type_after("| in years", "");
        // The default is there to be edited.
        session.type_after("? s/ask age: 7", &format!("x{ENTER}"));
        session.type_after("must be a whole number", &format!("\x7f6{ENTER}"));
        session.type_after("? s/ask sure: ", &format!("{DOWN}{ENTER}"));
        session.type_after("? s/ask size *: ", &format!("{DOWN}{ENTER}"));
        session.type_after("? s/ask tags: ", &format!(" {DOWN} {ENTER}"));
        session.type_after("Your name = Ada", "");
        session.type_after("tags = x, y", "");
        session.type_after("s/ask send these values", ENTER);
        let (code, text) = session.end();
        assert_eq!(code, Some(0), "{text}");
        for part in [
            r#""name":"Ada""#,
            r#""age":76"#,
            r#""sure":false"#,
            r#""size":"m""#,
        ] {
            assert!(shows(&text, part), "{era}: {part} in {text}");
        }
        assert!(shows(&text, r#""tags":["x","y"]"#), "{era}: {text}");
    }
}

#[test]
fn a_form_is_edited_declined_or_cancelled() {
    for (keys, expected) in [
        // Edit the name.
        (
            vec![
                ("send these values", format!("{DOWN}{ENTER}")),
                ("field to edit", ENTER.to_owned()),
                ("Your name *: Ada", format!("m{ENTER}")),
                ("Your name = Adam", ENTER.to_owned()),
            ],
            r#""name":"Adam""#,
        ),
        (
            vec![("send these values", format!("d{ENTER}"))],
            r#"{"action":"decline"}"#,
        ),
        (
            vec![("send these values", format!("c{ENTER}"))],
            r#"{"action":"cancel"}"#,
        ),
        (
            vec![("send these values", ESC.to_owned())],
            r#"{"action":"cancel"}"#,
        ),
    ] {
        let lab = lab("legacy");
        // The flags fill in a part of the form.
        let command = [
            "call", "s", "ask", "--elicit", "name=Ada", "--elicit", "size=xl",
        ];
        let mut session = session(&mut lab.command(&command));
        session.type_after("s/ask age: 7", ENTER);
        session.type_after("s/ask sure: ", ENTER);
        session.type_after("s/ask size *: ", ENTER);
        session.type_after("s/ask tags: ", ENTER);
        for (prompt, keys) in keys {
            session.type_after(prompt, &keys);
        }
        let (code, text) = session.end();
        assert_eq!(code, Some(0), "{text}");
        assert!(shows(&text, expected), "{expected} in {text}");
    }
}

#[test]
fn an_interrupt_ends_the_dialog_and_restores_the_terminal() {
    for by_signal in [false, true] {
        for era in ["modern", "legacy"] {
            let lab = lab(era);
            let mut session = session(&mut lab.command(&["call", "s", "ask"]));
            session.type_after("? s/ask Your name *: ", "");
            session.wait_for_no_echo();
            if by_signal {
                let pid = Pid::from_raw(session.pid().cast_signed()).unwrap();
                kill_process(pid, Signal::TERM).unwrap();
            } else {
                session.type_after("? s/ask Your name *: ", CTRL_C);
            }
            session.wait_for_echo();
            let (code, text) = session.end();
            assert_eq!(code, Some(130), "{text}");
            assert!(
                text.contains("interrupted; \"mcp__s__ask\" may have run"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_question_that_the_server_withdraws_closes_its_dialog() {
    let lab = Lab::new();
    let mut request = json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create"});
    request["params"] = person();
    let withdrawn = json!({"method": "notifications/cancelled", "params": {"requestId": "q1"}});
    lab.configure([(
        "s",
        json!({"era": "legacy", "tools": [{"name": "ask", "do": [
            {"write": request.to_string()}, {"waitForFile": lab.at("seen")},
            {"notify": withdrawn}, {"waitForFile": lab.at("closed")}, {"replyText": "went on"},
        ]}]}),
    )]);
    let mut session = session(&mut lab.command(&["call", "s", "ask"]));
    session.type_after("? s/ask Your name *: ", "Ad");
    lab.scratch.write("seen", "");
    session.type_after("s/ask: the question is settled or was withdrawn", "");
    session.wait_for_echo();
    lab.scratch.write("closed", "");
    let (code, text) = session.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("went on\n"), "{text}");
}

#[test]
fn flags_answer_where_nobody_can_be_asked() {
    for era in ["modern", "legacy"] {
        let lab = lab(era);
        let answered = lab.run(&[
            "call",
            "s",
            "ask",
            "--elicit",
            "name=Ada",
            "--elicit",
            "size:=\"m\"",
            "--elicit",
            "tags=y",
        ]);
        assert_eq!(
            (answered.code, answered.err.as_str()),
            (Some(0), ""),
            "{answered:#?}"
        );
        let content = r#""content":{"name":"Ada","size":"m","tags":["y"],"age":7,"sure":true}"#;
        assert!(answered.out.contains(content), "{}", answered.out);
    }
    let optional = json!({"message": "sure?", "requestedSchema": {"type": "object",
        "properties": {"sure": {"type": "boolean", "default": true}}}});
    let lab = Lab::with([("s", asking("legacy", &optional))]);
    lab.run(&["call", "s", "ask", "--elicit-defaults"]).is(
        0,
        "{\"action\":\"accept\",\"content\":{\"sure\":true}}\n",
        "",
    );
    lab.run(&[
        "call", "s", "ask", "--elicit", "sure=no", "--elicit", "other=1",
    ])
    .is(
        0,
        "{\"action\":\"accept\",\"content\":{\"sure\":false}}\n",
        "warning: --elicit: the server did not ask for \"other\"\n",
    );
}

#[test]
fn what_nobody_answers_is_cancelled_and_the_message_says_how_to_answer() {
    let check = |run: &Run, why: &str, hint: &str| {
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(run.out.contains(r#"{"action":"cancel"}"#), "{run:#?}");
        let expected = format!("warning: s/ask asks {why}\n  hint: {hint}\n");
        assert_eq!(run.err, expected);
    };
    let lab = lab("legacy");
    let hint = "run it on a terminal, or answer with --elicit name=VALUE --elicit age=VALUE \
                --elicit sure=VALUE --elicit size=VALUE --elicit tags=VALUE (name is \"Your name\"), or --elicit-defaults";
    check(
        &lab.run(&["call", "s", "ask"]),
        "\"who are you?\"; cancelled: there is nobody to ask",
        hint,
    );
    check(
        &lab.run(&["call", "s", "ask", "--elicit-defaults"]),
        "\"who are you?\"; cancelled: \"Your name\" is required; \"size\" is required",
        hint,
    );
    check(
        &lab.run(&["call", "s", "ask", "--elicit", "age=old"]),
        "\"who are you?\"; cancelled: \"age\" must be a whole number",
        hint,
    );
    let page = json!({"mode": "url", "message": "sign", "url": "https://example.com/s",
        "elicitationId": "1"});
    let lab = Lab::with([("s", asking("legacy", &page))]);
    check(
        &lab.run(&["call", "s", "ask", "--elicit-defaults"]),
        "\"sign\" (https://example.com/s); cancelled: there is nobody to ask",
        "run it on a terminal, without --no-input and --json, to open the page",
    );
    // On a terminal, too, if it must not ask.
    let (code, text) = session(&mut lab.command(&["call", "s", "ask", "--no-input"])).end();
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("cancelled") && !text.contains("? s/ask"),
        "{text}"
    );
    lab.run(&["call", "s", "ask", "--elicit", "name"]).fails(
        2,
        "--elicit: \"name\" is not an argument; write key=value or key:=json",
        "see `trunkline tools s ask` for its arguments",
    );
}

#[test]
fn a_page_is_opened_only_with_consent() {
    let page = json!({"mode": "url", "message": "please sign",
        "url": "https://accounts.example.com:8443/s?a=1", "elicitationId": "1"});
    for (keys, opened, expected) in [
        (format!("o{ENTER}"), true, r#"{"action":"accept"}"#),
        (format!("i{ENTER}"), false, r#"{"action":"accept"}"#),
        (format!("d{ENTER}"), false, r#"{"action":"decline"}"#),
        (ESC.to_owned(), false, r#"{"action":"cancel"}"#),
    ] {
        let lab = Lab::with([("s", asking("legacy", &page))]);
        let browser = lab
            .scratch
            .write("browser", "#!/bin/sh\necho \"$1\" > \"$0.opened\"\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&browser, mode).unwrap();
        let mut command = lab.command(&["call", "s", "ask"]);
        let mut session = session(command.env("BROWSER", &browser));
        session.type_after("host: accounts.example.com:8443", "");
        session.type_after("? s/ask open accounts.example.com", &keys);
        let (code, text) = session.end();
        assert_eq!(code, Some(0), "{text}");
        assert!(shows(&text, expected), "{text}");
        if opened {
            lab.file("browser.opened");
        } else {
            assert!(!lab.at("browser.opened").exists());
        }
    }
    // Nothing but web pages.
    for url in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://example.com/",
        "no url",
    ] {
        let page = json!({"mode": "url", "message": "m", "url": url, "elicitationId": "1"});
        let lab = Lab::with([("s", asking("legacy", &page))]);
        let (code, text) = session(&mut lab.command(&["call", "s", "ask"])).end();
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.contains("names a page that cannot be opened"),
            "{url}: {text}"
        );
        assert!(shows(&text, r#"{"action":"cancel"}"#), "{url}: {text}");
    }
}

#[test]
fn a_call_that_needs_a_page_is_repeated_when_the_user_or_the_server_says_so() {
    let lab = Lab::new();
    let page = json!({"mode": "url", "message": "sign in", "url": "https://example.com/s",
        "elicitationId": "e1"});
    let error =
        json!({"code": -32042, "message": "sign in first", "data": {"elicitations": [page]}});
    lab.configure([(
        "s",
        json!({"era": "legacy", "tools": [
            {"name": "ask", "do": [{"countFile": lab.at("calls")}, {"replyError": error}]},
        ]}),
    )]);
    // The user says that it is done, three times; the server does not agree.
    let mut session = session(&mut lab.command(&["call", "s", "ask"]));
    for round in 1..=3 {
        // The default is harmless; a letter moves to another choice.
        session.wait_for_count("> Cancel", round);
        session.type_keys(&format!("i{ENTER}"));
        session.wait_for_count("> I have finished, repeat the call", round);
        session.type_keys(ENTER);
    }
    let (code, text) = session.end();
    assert_eq!(code, Some(1), "{text}");
    assert!(
        folded(&text).contains("it still asks for a page that was visited"),
        "{text}"
    );
    assert_eq!(lab.count("calls"), 4);

    // The server says so, while the dialog is open.
    let lab = Lab::new();
    let complete = json!({"method": "notifications/elicitation/complete",
        "params": {"elicitationId": "e1"}});
    lab.configure([(
        "s",
        json!({"era": "legacy", "tools": [
            {"name": "ask", "do": [{"replyError": error}]},
            {"name": "done", "do": [{"waitForFile": lab.at("visited")}, {"replyText": "x"}]},
        ], "on": {"notifications/initialized": [
            {"waitForFile": lab.at("visited")}, {"notify": complete},
        ]}}),
    )]);
    let mut session = Session::start(&mut lab.command(&["call", "s", "ask"]));
    session.type_after("> Cancel", &format!("i{ENTER}"));
    session.type_after("waiting for you to finish at example.com", "");
    lab.scratch.write("visited", "");
    session.type_after("the question is settled or was withdrawn", "");
    // It asks again, because this server never agrees.
    session.wait_for_count("> Cancel", 2);
    session.type_keys(ESC);
    let (code, text) = session.end();
    assert_eq!(code, Some(1), "{text}");
    assert!(
        folded(&text).contains("the page it needs was not visited"),
        "{text}"
    );
}

#[test]
fn hooks_answer_and_block() {
    let lab = lab("legacy");
    let content = json!({"action": "accept", "content": {"name": "Hook", "size": "l"}});
    let mut output = content;
    output["hookEventName"] = json!("Elicitation");
    let command = format!(
        "cat > asked.json; echo '{}'",
        json!({"hookSpecificOutput": output})
    );
    let hooks = |event: &str, command: &str| {
        json!({"hooks": {event: [{"matcher": "", "hooks": [
            {"type": "command", "command": command},
        ]}]}})
    };
    lab.write_json(
        "home/.claude/settings.json",
        &hooks("Elicitation", &command),
    );
    let run = lab.run(&["call", "s", "ask"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    assert!(run.out.contains(r#""name":"Hook""#), "{run:#?}");
    assert!(
        lab.scratch
            .read("asked.json")
            .contains(r#""mcp_server_name":"s""#)
    );

    lab.write_json(
        "home/.claude/settings.json",
        &hooks("PreToolUse", "echo not on fridays >&2; exit 2"),
    );
    lab.run(&["call", "s", "ask"]).fails(
        5,
        "\"mcp__s__ask\" may not be called: a hook blocks it: not on fridays",
        "",
    );
    // A repository's hooks do not run.
    lab.write_json("home/.claude/settings.json", &json!({}));
    lab.write_json(
        ".claude/settings.json",
        &hooks("PreToolUse", "touch ran; exit 2"),
    );
    let run = lab.run(&[
        "call", "s", "ask", "--elicit", "name=Ada", "--elicit", "size=s",
    ]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.err.contains("\"hooks\" of a repository do not run"),
        "{run:#?}"
    );
    assert!(!lab.at("ran").exists());
}

#[test]
fn a_call_without_arguments_offers_a_form_and_shows_the_command() {
    let schema = json!({"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "near": {"type": "object"},
    }, "required": ["city", "near"]});
    let script = Script::default().tool_with(json!({"name": "weather", "inputSchema": schema}));
    let lab = Lab::with([("s", script)]);
    let mut session = session(&mut lab.command(&["call", "s.weather"]));
    session.type_after(
        "s/weather needs arguments (* required; 1 optional ones under Edit)",
        "",
    );
    session.type_after("? s/weather city *: ", &format!("New York{ENTER}"));
    session.type_after("? s/weather near *: ", &format!("[]{ENTER}"));
    session.type_after("must be a JSON object", &format!("\x7f\x7f{{}}{ENTER}"));
    session.type_after("call with these arguments", ENTER);
    let (code, text) = session.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("= trunkline call s weather city='New York' near:='{}'"),
        "{text}"
    );
    assert!(shows(&text, r#"{"city":"New York","near":{}}"#), "{text}");

    for keys in [ESC.to_owned(), CTRL_C.to_owned()] {
        let mut session = Session::start(&mut lab.command(&["call", "s", "weather"]));
        session.type_after("? s/weather city *: ", &keys);
        if keys == ESC {
            session.type_after("call with these arguments", &format!("c{ENTER}c{ENTER}"));
        }
        let (code, text) = session.end();
        assert_eq!(code, Some(130), "{text}");
    }
    // Not without a terminal, nor if told not to ask.
    for more in [&[][..], &["--no-input"]] {
        let mut words = vec!["call", "s", "weather"];
        words.extend(more);
        let run = lab.run(&words);
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(run.err.contains("\"city\""), "{run:#?}");
    }
}

#[test]
fn a_server_and_its_tool_may_be_one_word() {
    let lab = Lab::with([("files", echo()), ("files.more", echo())]);
    for word in [
        "files.echo",
        "files/echo",
        "files.more.echo",
        "files.more/echo",
    ] {
        lab.run(&["call", word, "s=x"]).is(0, "{\"s\":\"x\"}\n", "");
    }
    lab.run(&["call", "files.nope"]).fails(
        2,
        "the server \"files\" has no tool \"nope\"",
        "list them with `trunkline tools files`",
    );
    // Mistakes in arguments cost no start.
    let lab = Lab::with_entries(|lab| json!({"s": lab.marking("s")}));
    for (word, problem) in [
        ("{oops", "\"{oops\" is not a JSON object"),
        ("s=@/no/such", "cannot read the file \"/no/such\" for \"s\""),
        ("o:=@.mcp-config.json.no", "cannot read the file"),
    ] {
        let run = lab.run(&["call", "s", "echo", word]);
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(run.err.contains(problem), "{run:#?}");
        assert!(!lab.started("s"));
    }
    lab.scratch.write("text", "from a file");
    lab.run(&["call", "s", "echo", "s=@text", "{\"n\": 1}"]).is(
        0,
        "{\"n\":1,\"s\":\"from a file\"}\n",
        "",
    );
}

/// Texts that try to leave their place.
const EVIL: &str = "a\u{1b}[31mb\u{1b}]0;t\u{7}\nerror: forged\r\n? github/pay send: \u{202e}c";

#[test]
fn a_hostile_question_stays_in_its_place() {
    let params = json!({"message": EVIL, "requestedSchema": {"type": "object",
        "properties": {
            "one": {"type": "string", "title": EVIL, "description": EVIL},
            "two": {"type": "string", "oneOf": [{"const": "x", "title": EVIL}]},
            "github asks": {"type": "string", "title": "\"github\" asks, during mcp__github__pay:"},
        }, "required": ["one", "two"]}});
    let lab = Lab::with([("s", asking("legacy", &params))]);
    let mut session = session(&mut lab.command(&["call", "s", "ask"]));
    session.type_after("s asks, during mcp__s__ask:", "");
    session.type_after("text", &format!("x{ENTER}"));
    session.type_after("to move", ENTER);
    session.type_after("optional", ENTER);
    session.type_after("send these values", ENTER);
    let (code, text) = session.end();
    assert_eq!(code, Some(0), "{text}");
    for bad in ["\u{1b}[31m", "\u{1b}]0;", "\u{7}", "\u{202e}"] {
        assert!(!text.contains(bad), "{bad:?} in {text:?}");
    }
    // A row begins after a line break, or where the prompt is drawn again.
    let rows = text
        .split(['\n', '\r'])
        .map(|row| row.trim_start_matches("\u{1b}[J"));
    for row in rows {
        assert!(
            !row.starts_with("error: forged") && !row.starts_with("? github"),
            "{row:?}"
        );
    }
}

#[test]
fn a_form_of_ten_thousand_fields_can_be_cancelled() {
    let properties: serde_json::Map<String, Value> = (0..10_000)
        .map(|n| (format!("f{n}"), json!({"type": "string", "default": "d"})))
        .collect();
    let params = json!({"message": "all of it", "requestedSchema":
        {"type": "object", "properties": properties}});
    let lab = Lab::with([("s", asking("legacy", &params))]);
    let mut session = session(&mut lab.command(&["call", "s", "ask"]));
    session.type_after("? s/ask f0: d", ESC);
    session.type_after("(9950 more)", "");
    session.type_after("send these values", &format!("c{ENTER}"));
    let (code, text) = session.end();
    assert_eq!(code, Some(0), "{text}");
    let run = lab.run(&["call", "s", "ask", "--elicit-defaults"]);
    assert_eq!(run.code, Some(0));
    assert!(run.out.contains(r#""f9999":"d""#));
}
