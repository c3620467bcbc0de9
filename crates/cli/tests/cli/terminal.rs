//! Server text never controls the user's terminal (SEC-3).

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Command;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::pty;

/// Everything that could steer a terminal: colours, the title, the bell, carriage return, C1, bidi,
/// zero width.
const EVIL: &str = "\u{1b}[31mred\u{1b}]0;title\u{7}\r\u{8}\u{7f}\u{9b}2J\u{202e}\u{200b}end";

/// The characters of [`EVIL`] that must not reach the terminal.
fn harmful(text: &str) -> Vec<char> {
    without_own(text)
        .chars()
        .filter(|c| (c.is_control() && !"\n\t".contains(*c)) || "\u{202e}\u{200b}".contains(*c))
        .collect()
}

/// Removes what the program itself may send: it returns to the start of its lines and clears them.
pub(crate) fn without_own(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match number.strip_prefix(['A', 'J', 'K']) {
            Some(after) => rest += after,
            None => rest.extend(["\u{1b}[", part]),
        }
    }
    let rest = rest.replace("\r\n", "\n");
    rest.split('\n')
        .map(|line| line.trim_start_matches('\r'))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A server that sends it in every field.
fn evil() -> Value {
    json!({
        "serverInfo": {"name": EVIL, "version": EVIL},
        "onStart": [{"stderr": EVIL}],
        "tools": [
            {"name": format!("say{EVIL}"), "description": EVIL, "do": [{"replyText": EVIL}]},
            {"name": "say", "description": EVIL, "do": [{"progress": {"steps": 3, "message": EVIL}}, {"replyText": EVIL}]},
            {"name": "other", "do": [{"reply": {"content": [{"type": EVIL, "text": EVIL}], "structuredContent": EVIL}}]},
            {"name": "fail", "do": [{"reply": {"content": [{"type": "text", "text": EVIL}], "isError": true}}]},
            {"name": "refuse", "do": [{"replyError": {"code": -1, "message": EVIL}}]},
            {"name": "crash", "do": [{"stderr": EVIL}, {"exit": 1}]},
        ],
        "rawTools": [{"name": "", "x": EVIL}],
    })
}

fn lab() -> Lab {
    Lab::with([
        ("evil", evil()),
        (
            "crash",
            json!({"onStart": [{"write": EVIL}, {"stderr": EVIL}, {"exit": 1}]}),
        ),
        (
            "refuse",
            json!({"era": "legacy", "on": {"initialize": [{"replyError": {"code": -1, "message": EVIL}}]}}),
        ),
        (
            "versions",
            json!({"era": "modern", "versions": [format!("2030{EVIL}")]}),
        ),
    ])
}

const COMMANDS: [&[&str]; 8] = [
    &["list"],
    &["tools"],
    &["call", "evil", "refuse"],
    &["call", "evil", "crash"],
    &["call", "crash", "t"],
    &["call", "refuse", "t"],
    &["call", "versions", "t"],
    &["tools", "crash"],
];

/// Runs the program on a terminal and returns what it received.
pub(crate) fn on_a_terminal(command: &mut Command) -> String {
    let (mut master, slave) = pty::open();
    let other = OwnedFd::from(slave.try_clone().unwrap());
    let mut child = command.stdout(slave).stderr(other).spawn().unwrap();
    // The command holds its own copies, without which the end of the output would never come.
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut received = Vec::new();
    // A terminal whose last writer has gone ends with an error, not with an end.
    let _ = master.read_to_end(&mut received);
    child.wait().unwrap();
    String::from_utf8_lossy(&received).into_owned()
}

#[test]
fn server_text_outside_results_is_escaped_even_in_a_pipe() {
    let lab = lab();
    for arguments in COMMANDS {
        let run = lab.run(arguments);
        assert_eq!(harmful(&run.err), [], "{arguments:?}: {}", run.err);
        assert_eq!(harmful(&run.out), [], "{arguments:?}: {}", run.out);
        assert!(
            format!("{}{}", run.out, run.err).contains("end"),
            "{arguments:?}"
        );
    }
}

#[test]
fn results_are_escaped_on_a_terminal_and_only_there() {
    let lab = lab();
    let results: [&[&str]; 3] = [
        &["call", "evil", "say"],
        &["call", "evil", "other"],
        &["call", "evil", "fail"],
    ];
    for arguments in COMMANDS.iter().chain(&results) {
        let shown = on_a_terminal(&mut lab.command(arguments));
        assert_eq!(harmful(&shown), [], "{arguments:?}: {shown}");
        // A line may be wrapped anywhere.
        let unwrapped: String = shown.split(&[' ', '|', '\r', '\n']).collect();
        assert!(unwrapped.contains("end"), "{arguments:?}: {shown}");
    }
    lab.run(&["call", "evil", "say"])
        .is(0, &format!("{EVIL}\n"), "");
}

#[test]
fn json_on_a_terminal_is_escaped_and_still_the_same_json() {
    let lab = lab();
    for arguments in [
        &["list", "--json"][..],
        &["tools", "evil", "--json"],
        &["call", "evil", "say", "--json"],
    ] {
        let shown = on_a_terminal(&mut lab.command(arguments));
        assert_eq!(harmful(&shown), [], "{arguments:?}: {shown}");
        // Behind the line that may have shown how far it was.
        let document = shown
            .rsplit_once("\u{1b}[K")
            .map_or(&*shown, |(_, behind)| behind);
        let start = document.find(['[', '{']).unwrap();
        let mut documents =
            serde_json::Deserializer::from_str(&document[start..]).into_iter::<Value>();
        let document = documents.next().unwrap().unwrap();
        // A result is shown to a model, which is spared such things.
        let kept = arguments[0] != "call";
        assert_eq!(document.to_string().contains("2J"), kept, "{arguments:?}");
    }
}

#[test]
fn status_lines_are_erased_at_the_end() {
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "t", "do": [
        {"progress": {"steps": 3, "total": true, "everyMs": 400, "message": "working"}}, {"replyText": "done"}]}]}),
    )]);
    let shown = on_a_terminal(&mut lab.command(&["call", "s", "t"]));
    assert!(shown.contains(" t  1 s  #"), "{shown:?}");
    assert!(shown.contains("-  [2/3] working"), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[K| done\r\n"), "{shown:?}");
    // Nothing moves where nobody could follow, or where logs are in between.
    for (name, value, flag) in [
        ("TERM", "dumb", "call"),
        ("CI", "1", "call"),
        ("X", "", "-v"),
    ] {
        let words: Vec<_> = [flag, "call", "s", "t"]
            .into_iter()
            .skip(usize::from(flag == "call"))
            .collect();
        let shown = on_a_terminal(lab.command(&words).env(name, value));
        assert!(!shown.contains("\u{1b}[K"), "{name}: {shown:?}");
        assert!(
            shown.ends_with("done\r\n") || flag == "-v",
            "{name}: {shown:?}"
        );
    }
}

#[test]
fn emoji_are_whole_on_a_terminal() {
    let emoji = "ok \u{2714}\u{fe0f} \u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{2139}\u{fe0f}";
    let hidden = "a\u{200d}b\u{fe0f}";
    let said = format!("{emoji} {hidden}");
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "t", "do": [{"replyText": said}]}]}),
    )]);
    let shown = on_a_terminal(&mut lab.command(&["call", "s", "t"]));
    let expected = format!("{emoji} a\\u{{200d}}b\\u{{fe0f}}\r\n");
    assert!(shown.ends_with(&expected), "{shown:?}");
}
