//! How the program looks on a terminal: snapshots at 80 and 160 columns, with and without colours.

use std::fmt::Write as _;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::lab::{Lab, echo};
use crate::pty::Session;

/// A terminal that is high enough for everything.
const ROWS: u16 = 120;

const REPORT: &str = "# Report\n\nAll **good**, see [the docs](https://h.example/docs).\n\n\
- one item that is long enough to be wrapped at the right margin of a terminal with eighty columns\n\
- two\n  1. nested\n\n```sh\nls -l\n```\n\n| name | value |\n|---|---|\n| alpha | 1 |\n| beta | 22 |\n\n> quoted\n";

fn everything() -> Value {
    let long = "Writes a report about the state of the world, with headings, lists, tables and code, so that \
        people have something to look at";
    let schema = json!({"type": "object", "required": ["topic"], "properties": {
        "topic": {"type": "string", "description": "What it is about"},
        "depth": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2}}});
    let data = json!({"id": 17, "title": "A title that makes it exceed the width of one line by far",
        "labels": ["a", "b"], "user": {"login": "ada", "admin": true, "score": 1.5, "x": null}});
    json!({
        "tools": [
            {"name": "report", "description": long, "inputSchema": schema, "annotations": {"readOnlyHint": true},
             "do": [{"replyText": REPORT}]},
            {"name": "json", "description": "Returns JSON", "do": [{"replyText": data.to_string()}]},
            {"name": "fail", "do": [{"reply": {"content": [{"type": "text", "text": "no such file"}], "isError": true}}]},
            {"name": "a_tool_with_a_name_that_is_wider_than_its_column", "description": "Does something"},
        ],
        "prompts": [{"name": "greet", "description": "Greets somebody", "arguments": [{"name": "who", "required": true}, {"name": "how"}]}],
        "resources": [{"uri": "file:///notes/today.md", "name": "today", "description": "What to do today", "mimeType": "text/markdown", "text": REPORT}],
        "resourceTemplates": [{"uriTemplate": "file:///notes/{day}.md", "name": "day"}],
    })
}

/// Servers in every state, and names and texts of every kind.
fn lab() -> Lab {
    let lab = Lab::with_entries(|lab| {
        let evil = "\u{1b}[31mred\u{202e}\nerror: forged\r\u{9b}2J";
        let hostile = json!({
            "tools": [{"name": evil, "description": evil}, {"name": "工具", "description": "宽字符 ".repeat(30)},
                {"name": "e\u{301}a\u{308}", "description": "combining e\u{301}"}],
            "prompts": [{"name": evil, "description": evil, "arguments": [{"name": evil}]}],
            "resources": [{"uri": "a:1\u{1b}[2J", "name": evil, "description": evil}],
        });
        let crash =
            json!({"onStart": [{"stderr": format!("{evil}: API_URL is not set")}, {"exit": 3}]});
        // First, because the report of its position depends on what is before it.
        json!({
            evil: {"command": "cat"},
            "everything": lab.scratch.entry("everything", &everything()),
            "hostile": lab.scratch.entry("hostile", &hostile),
            "服务器": lab.scratch.entry("wide", &echo()),
            "e\u{301}te\u{301}": lab.scratch.entry("combining", &echo()),
            "empty": lab.scratch.entry("empty", &json!({})),
            "crash": lab.scratch.entry("crash", &crash),
            "missing": {"command": "no-such-program"},
            "remote": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "off": {"command": "cat", "disabled": true},
            "a-server-whose-name-is-rather-long": lab.scratch.entry("long", &echo()),
        })
    });
    lab.servers(".mcp.json", &json!({"shared": {"command": "cat"}}));
    lab
}

/// Runs a command on a terminal, and returns its screen.
pub(crate) fn screen(command: &mut Command, columns: u16) -> vt100::Parser {
    command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
    let (_, shown) = Session::start_sized(command, columns, ROWS).end();
    let mut parser = vt100::Parser::new(ROWS, columns, 0);
    parser.process(shown.replace('\n', "\r\n").as_bytes());
    parser
}

/// Returns the text of a screen.
pub(crate) fn text(parser: &vt100::Parser) -> String {
    parser.screen().contents().trim_end().to_owned()
}

/// Returns the text of a screen with its styles as tags.
pub(crate) fn marked(parser: &vt100::Parser) -> String {
    let screen = parser.screen();
    let (rows, columns) = screen.size();
    let mut text = String::new();
    for row in 0..rows {
        let mut open = String::new();
        let mut line = String::new();
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column) else {
                continue;
            };
            if cell.is_wide_continuation() {
                continue;
            }
            let mut style = match cell.fgcolor() {
                vt100::Color::Default => String::new(),
                vt100::Color::Idx(1) => "red".to_owned(),
                vt100::Color::Idx(2) => "green".to_owned(),
                vt100::Color::Idx(3) => "yellow".to_owned(),
                vt100::Color::Idx(6) => "cyan".to_owned(),
                other => format!("{other:?}"),
            };
            for (is_so, name) in [
                (cell.bold(), " bold"),
                (cell.dim(), " dim"),
                (cell.italic(), " italic"),
            ] {
                if is_so {
                    style += name;
                }
            }
            let style = style.trim().to_owned();
            if style != open && cell.has_contents() {
                if !open.is_empty() {
                    line += "⟩";
                }
                if !style.is_empty() {
                    let _ = write!(line, "⟨{style}:");
                }
                open = style;
            }
            line += if cell.has_contents() {
                cell.contents()
            } else {
                " "
            };
        }
        let mut line = line.trim_end().to_owned();
        if !open.is_empty() {
            line += "⟩";
        }
        text += &line;
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Replaces what differs between runs, at the same width.
pub(crate) fn stable(lab: &Lab, text: &str) -> String {
    let mut stable = String::new();
    for line in lab.plain(text).lines() {
        // The time at the end of a summary, and the age of a catalog.
        let words: Vec<&str> = line.split(' ').collect();
        let is_seconds = |word: &str| word.trim_start_matches("⟨dim:").parse::<f64>().is_ok();
        let shown: Vec<String> = words
            .iter()
            .enumerate()
            .map(|(at, word)| match words.get(at + 1) {
                Some(&("s" | "s⟩")) if is_seconds(word) => word
                    .chars()
                    .map(|c| if c.is_ascii_digit() { 'N' } else { c })
                    .collect(),
                _ => (*word).to_owned(),
            })
            .collect();
        stable += &shown.join(" ");
        stable.push('\n');
    }
    stable
}

#[track_caller]
fn check(lab: &Lab, name: &str, words: &[&str]) {
    for columns in [80, 160] {
        let plain = screen(&mut lab.command(words), columns);
        let mut command = lab.command(words);
        let coloured = screen(command.env_remove("NO_COLOR"), columns);
        let shown = text(&plain);
        assert_eq!(
            stable(lab, &text(&coloured)),
            stable(lab, &shown),
            "colours change the text"
        );
        for harmful in ['\u{202e}', '\u{9b}'] {
            assert!(!shown.contains(harmful), "{shown}");
        }
        let snapshot = format!(
            "{}\n=== in colours ===\n{}",
            stable(lab, &shown),
            stable(lab, &marked(&coloured))
        );
        insta::assert_snapshot!(format!("{name}_{columns}"), snapshot);
    }
}

#[test]
fn every_listing_has_its_look() {
    let lab = lab();
    // Paths are as long as the test's directory, so nothing that shows one is wrapped.
    for (name, words) in [
        ("list", &["list"][..]),
        ("list_named", &["list", "everything", "missing"]),
        ("list_failed", &["list", "--failed"]),
        ("tools", &["tools", "--refresh"]),
        ("tools_hostile", &["tools", "hostile"]),
        ("tool", &["tools", "everything", "report"]),
        ("search", &["search", "report"]),
        ("prompts", &["prompts"]),
        ("resources", &["resources"]),
        ("get", &["get", "missing"]),
    ] {
        check(&lab, name, words);
    }
}

#[test]
fn results_and_errors_have_their_look() {
    let lab = lab();
    for (name, words) in [
        (
            "call_markdown",
            &["call", "everything", "report", "topic=x"][..],
        ),
        ("call_json", &["call", "everything", "json"]),
        ("call_fails", &["call", "everything", "fail"]),
        ("call_unknown", &["call", "everything", "reprot"]),
        ("call_missing", &["call", "missing", "t"]),
        (
            "read_markdown",
            &["read", "everything", "file:///notes/today.md"],
        ),
    ] {
        check(&lab, name, words);
    }
    // Whoever wants it raw gets it raw.
    let raw = screen(
        &mut lab.command(&["call", "everything", "report", "topic=x", "--raw"]),
        160,
    );
    assert!(
        text(&raw).contains("All **good**, see [the docs]"),
        "{}",
        text(&raw)
    );
    lab.run(&["call", "everything", "report", "topic=x"])
        .is(0, REPORT, "");
}

#[test]
fn without_utf8_the_glyphs_are_ascii() {
    let lab = Lab::with([("s", echo())]);
    let (_, shown) = Session::start_sized(&mut lab.command(&["list"]), 80, ROWS).end();
    assert!(shown.contains("+ s  1 tool"), "{shown}");
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn colours_follow_the_flag_and_the_variables() {
    let lab = Lab::with([("s", echo())]);
    let bold = "\u{1b}[1m";
    for (variables, flags, coloured) in [
        (&[][..], &[][..], false),
        (&[("CLICOLOR_FORCE", "1")][..], &[], true),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[], false),
        (&[("NO_COLOR", "1")], &["--color", "always"], true),
        (&[("CLICOLOR_FORCE", "1")], &["--color=never"], false),
    ] {
        let mut command = lab.command(&[&["tools", "s", "echo"], flags].concat());
        command
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied());
        let run = lab.finish(&mut command);
        assert_eq!(
            run.out.contains(bold),
            coloured,
            "{variables:?} {flags:?}: {}",
            run.out
        );
    }
    let mut command = lab.command(&["tools", "nobody", "--color", "always"]);
    let run = lab.finish(&mut command);
    assert!(
        run.err.starts_with("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m"),
        "{:?}",
        run.err
    );
}

#[test]
fn rows_change_in_place_as_servers_answer() {
    let lab = Lab::new();
    let slow = echo().on_start(json!([{"waitForFile": lab.at("go")}]));
    lab.configure([("quick", echo()), ("slow", slow)]);
    let mut command = lab.command(&["list"]);
    command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
    let session = Session::start_sized(&mut command, 80, 24);
    session.wait_for_text("✓ quick  1 tool");
    session.wait_for_text("starting, 1 s");
    lab.scratch.write("go", "");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0));
    let mut parser = vt100::Parser::new(24, 80, 0);
    parser.process(shown.replace('\n', "\r\n").as_bytes());
    let last = text(&parser);
    let rows: Vec<&str> = last.lines().collect();
    assert_eq!(rows.len(), 3, "{last}");
    assert!(rows[0].starts_with("✓ quick  1 tool "), "{last}");
    assert!(rows[1].starts_with("✓ slow   1 tool "), "{last}");
    assert!(rows[2].starts_with("2 connected "), "{last}");
}

#[test]
fn an_interrupt_leaves_what_is_known() {
    let lab = Lab::new();
    let mute = json!({"on": {"server/discover": [], "initialize": []}});
    lab.configure([
        ("mute", mute),
        ("quick", serde_json::to_value(echo()).unwrap()),
    ]);
    let mut command = lab.command(&["list"]);
    command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
    let session = Session::start_sized(&mut command, 80, 24);
    session.wait_for_text("✓ quick  1 tool");
    session.signal(Signal::INT);
    let (code, shown) = session.end();
    assert_eq!(code, Some(130), "{shown}");
    let mut parser = vt100::Parser::new(24, 80, 0);
    parser.process(shown.replace('\n', "\r\n").as_bytes());
    let last = text(&parser);
    assert!(
        last.starts_with("○ mute   interrupted while connecting"),
        "{last}"
    );
    assert!(last.contains("\n✓ quick  1 tool"), "{last}");
}

#[test]
fn what_is_longer_than_the_screen_is_paged_or_folded() {
    let lines: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
    let lines = lines.join("\n");
    let tools: Vec<Value> = (0..30)
        .map(|n| json!({"name": format!("tool_{n}")}))
        .collect();
    let mut tools = tools;
    tools.push(json!({"name": "long", "do": [{"replyText": lines}]}));
    let lab = Lab::with([("s", json!({ "tools": tools }))]);
    let run = |words: &[&str], pager: &str| {
        let mut command = lab.command(words);
        command.env("TERM", "xterm").env("TRUNKLINE_PAGER", pager);
        Session::start_sized(&mut command, 80, 12).end()
    };
    let paged = "sed 's/^/paged: /'; echo $LESS";
    for words in [&["tools"][..], &["call", "s", "long"]] {
        let (code, shown) = run(words, paged);
        assert_eq!(code, Some(0), "{shown}");
        assert!(
            shown.contains("paged: ") && shown.contains("FRX\n"),
            "{words:?}: {shown}"
        );
    }
    // Leaving early is no error, and neither is a pager that is not installed.
    assert_eq!(run(&["call", "s", "long"], "true").0, Some(0));
    let (code, shown) = run(&["tools"], "no-such-pager-anywhere");
    assert_eq!(code, Some(0));
    assert!(shown.contains("tool_29"), "{shown}");
    for (words, pager) in [
        (&["--no-pager", "call", "s", "long"][..], paged),
        (&["call", "s", "long"], "cat"),
    ] {
        let (code, shown) = run(words, pager);
        assert_eq!(code, Some(0), "{shown}");
        assert!(
            shown.contains("line 8\n") && !shown.contains("line 9\n"),
            "{shown}"
        );
        assert!(
            shown.contains("41 more lines; --raw shows all of it"),
            "{shown}"
        );
    }
    let (_, shown) = run(&["list"], paged);
    assert!(!shown.contains("paged"), "{shown}");
}
