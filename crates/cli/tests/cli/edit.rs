//! `trunkline edit`: changes an entry in place, and nothing else.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::lab::{Lab, Run, files_under, parsed};
use crate::pty::Session;

const FILE: &str = "{\"n\": 1.50,\n  \"mcpServers\": {\"s\": {\"command\": \"c\",  \"args\": [\"a\", \"--b\"], \"env\": {\"TOKEN\":\"hunter2\"}},\n  \
                    \"r\": { \"url\":\"https://h.example/mcp\", \"headers\": {\"X-Key\": \"hunter2\"} }}}\n";

/// A lab with a stdio and a remote server in the user's file.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.scratch.write("home/.claude.json", FILE);
    lab
}

/// Checks that the file changed only here.
#[track_caller]
fn changed(lab: &Lab, run: &Run, old: &str, new: &str) {
    assert_eq!(run.code, Some(0), "{run:#?}");
    run.never_says("hunter2");
    let expected = FILE.replacen(old, new, 1);
    assert_eq!(lab.scratch.read("home/.claude.json"), expected);
    lab.scratch.write("home/.claude.json", FILE);
}

#[test]
fn changes_are_shown_without_secrets_and_with_the_next_command() {
    let lab = lab();
    let run = lab.plainly(&["edit", "s", "-e", "TOKEN=hunter22", "--timeout", "5000"]);
    run.is(
        0,
        "changed \"s\" in the user scope\n  env.TOKEN: \"***\" → \"***\" (different value)\n  timeout: (none) → 5000\n  \
         written to [DIR]/home/.claude.json\n",
        "next: trunkline get s\n",
    );
    let document = lab
        .plainly(&["edit", "s", "--unset", "timeout", "--json"])
        .json();
    assert_eq!(
        document,
        json!({"edited": "s", "scope": "user", "file": "[DIR]/home/.claude.json",
            "changes": [{"field": "timeout", "old": 5000, "new": null}]})
    );
    lab.plainly(&["edit", "s", "--command", "c"])
        .is(0, "\"s\" is unchanged\n", "");
}

#[test]
fn only_the_named_fields_change() {
    let lab = lab();
    let cases: &[(&[&str], &str, &str)] = &[
        (&["s", "-e", "TOKEN=${T}"], "\"hunter2\"}}", "\"${T}\"}}"),
        (
            &["s", "--unset-env", "TOKEN"],
            "{\"TOKEN\":\"hunter2\"}",
            "{}",
        ),
        (&["s", "--command", "d"], "\"c\"", "\"d\""),
        (
            &["s", "--arg", "--x", "--unset-arg", "a"],
            "[\"a\", \"--b\"]",
            "[\"--b\", \"--x\"]",
        ),
        (
            &["r", "--url", "https://i.example/"],
            "https://h.example/mcp",
            "https://i.example/",
        ),
        (
            &["r", "-H", "x-key: ${K}"],
            "\"X-Key\": \"hunter2\"",
            "\"X-Key\": \"${K}\"",
        ),
        (
            &["r", "--unset-header", "x-key"],
            "{\"X-Key\": \"hunter2\"}",
            "{}",
        ),
        (
            &["s", "--unset", "env"],
            ", \"env\": {\"TOKEN\":\"hunter2\"}",
            "",
        ),
    ];
    for (words, old, new) in cases {
        let run = lab.plainly(&[&["edit"], *words].concat());
        changed(&lab, &run, old, new);
    }
    let run = lab.plainly(&["edit", "s", "--", "d", "-y", "e"]);
    changed(
        &lab,
        &run,
        "\"c\",  \"args\": [\"a\", \"--b\"]",
        "\"d\",  \"args\": [\"-y\", \"e\"]",
    );
}

#[test]
fn mistakes_are_explained_and_change_nothing() {
    let lab = lab();
    for (words, error) in [
        (&["s"][..], "no changes given"),
        (&["s", "--url", "https://h"], "\"s\" is a stdio server"),
        (&["r", "-e", "A=1"], "\"r\" is a remote server"),
        (&["s", "-e", "hunter2"], "must have the form KEY=VALUE"),
        (&["r", "-H", "hunter2"], "must have the form 'Name: value'"),
        (
            &["s", "--unset-env", "TOKN"],
            "the entry has no env.TOKN\n  hint: did you mean \"TOKEN\"?",
        ),
        (
            &["s", "--unset-arg", "hunter2"],
            "the entry has no such argument",
        ),
        (&["s", "--set", "timeout=soon"], "is invalid"),
        (&["s", "--unset", "command"], "is invalid"),
        (&["r", "--url", "h.example"], "is invalid"),
        (&["t", "--timeout", "1"], "no server \"t\""),
        (
            &["s", "-s", "local", "--timeout", "1"],
            "there is no server \"s\" in the local scope\n  hint: it is in the user scope",
        ),
        (&["s", "--editor", "--timeout", "1"], "cannot be combined"),
    ] {
        let run = lab.plainly(&[&["edit"], words].concat());
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(2), ""),
            "{words:?}: {run:#?}"
        );
        assert!(run.err.contains(error), "{words:?}: {}", run.err);
        run.never_says("hunter2");
        assert_eq!(lab.scratch.read("home/.claude.json"), FILE);
    }
}

#[test]
fn of_several_scopes_one_must_be_named() {
    let lab = lab();
    lab.servers(".mcp.json", &json!({"s": {"command": "p"}}));
    lab.plainly(&["edit", "s", "--timeout", "1"]).fails(
        2,
        "\"s\" is in several scopes; which one?",
        "add one of: -s project, -s user",
    );
    let run = lab.plainly(&["edit", "s", "--timeout", "1", "-s", "project"]);
    assert!(
        run.out.contains("  written to [DIR]/.mcp.json\n"),
        "{run:#?}"
    );
    assert!(run.err.contains("trunkline approve s"), "{run:#?}");
    assert_eq!(lab.scratch.read("home/.claude.json"), FILE);
}

#[test]
fn policy_holds_for_edits_too() {
    let lab = lab();
    let denied = json!({"deniedMcpServers": [{"serverCommand": ["evil", "a", "--b"]}]});
    lab.write_json("home/.claude/settings.json", &denied);
    let run = lab.plainly(&["edit", "s", "--command", "evil"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert_eq!(lab.scratch.read("home/.claude.json"), FILE);
}

#[test]
fn an_editor_changes_the_entry_in_a_private_file() {
    let lab = lab();
    // What the editor saw, and who else could have.
    let script = "stat -c %a \"$1\" \"$(dirname \"$1\")\" > seen; cat \"$1\" >> seen; sed -i 's/\"c\"/\"d\"/' \"$1\"";
    lab.scratch.write("editor.sh", script);
    let edit = |editor: &str| {
        let mut command = lab.bare(&["edit", "s", "--editor"]);
        command
            .env("VISUAL", editor)
            .env("TMPDIR", lab.at("temporary"));
        lab.finish(&mut command)
    };
    std::fs::create_dir(lab.at("temporary")).unwrap();
    let run = edit("sh editor.sh");
    changed(&lab, &run, "\"c\"", "\"d\"");
    assert!(
        lab.scratch
            .read("seen")
            .starts_with("600\n700\n{\n  \"command\": \"c\"")
    );
    edit("true").is(0, "\"s\" is unchanged\n", "");
    assert!(files_under(&lab.at("temporary")).is_empty());
    let run = edit("false");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(files_under(&lab.at("temporary")).is_empty());
}

#[test]
fn a_text_that_cannot_be_written_is_kept() {
    let lab = lab();
    std::fs::create_dir(lab.at("temporary")).unwrap();
    for (script, error) in [
        (
            "echo '{\"command\": \"mine\"' > \"$1\"",
            "error: the entry is not valid JSON (line 2, column 0)\n  hint: nothing changed; ",
        ),
        (
            "echo '{\"timeout\": \"mine\"}' > \"$1\"",
            "error: the entry of \"s\" is invalid: ",
        ),
        (
            "echo '{\"command\": \"mine\"}' > \"$1\"; sed -i 's/\"c\"/\"e\"/' home/.claude.json",
            "error: the entry of \"s\" changed in the meantime",
        ),
    ] {
        lab.scratch.write("home/.claude.json", FILE);
        lab.scratch.write("editor.sh", script);
        let mut command = lab.bare(&["edit", "s", "--editor"]);
        command
            .env("EDITOR", "sh editor.sh")
            .env("TMPDIR", lab.at("temporary"));
        let run = lab.finish(&mut command);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
        assert!(run.err.starts_with(error), "{}", run.err);
        let kept = files_under(&lab.at("temporary"));
        let [kept] = kept.as_slice() else {
            panic!("{kept:?}");
        };
        assert!(std::fs::read_to_string(kept).unwrap().contains("mine"));
        assert_eq!(
            std::fs::metadata(kept).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let shown = lab.plain(kept.to_str().unwrap());
        assert!(
            run.err.ends_with(&format!("your text is in {shown}\n")),
            "{}",
            run.err
        );
        std::fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    }
    lab.scratch.write("home/.claude.json", FILE);
    lab.scratch.write("editor.sh", "echo '{mine' > \"$1\"");
    let mut command = lab.bare(&["edit", "s", "--editor", "--json"]);
    command
        .env("EDITOR", "sh editor.sh")
        .env("TMPDIR", lab.at("temporary"));
    let run = lab.finish(&mut command);
    let kept = files_under(&lab.at("temporary"));
    let kept = lab.plain(kept[0].to_str().unwrap());
    assert_eq!(
        parsed(&run.err)["error"]["hint"],
        format!("nothing changed; your text is in {kept}")
    );
}

#[test]
fn bad_variables_and_urls_are_refused() {
    let lab = Lab::new();
    let entries = json!({"s": {"command": "c"}, "r": {"type": "http", "url": "http://h.example"}});
    lab.servers("home/.claude.json", &entries);
    let before = lab.scratch.read("home/.claude.json");
    for name in ["A B", " A", "A\tB", "A\u{1b}B"] {
        let run = lab.plainly(&["edit", "s", "-e", &format!("{name}=x")]);
        run.fails(
            2,
            "the name of a variable cannot have spaces or control characters",
            "",
        );
    }
    lab.plainly(&["edit", "r", "--url", "localhost:9/mcp"])
        .fails(
            2,
            "\"localhost:9/mcp\" is an address without http:// or https://",
            "use http://localhost:9/mcp",
        );
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
}

#[test]
fn a_person_can_go_on_editing() {
    let lab = lab();
    let script = "if [ -e second ]; then echo '{\"command\": \"d\"}' > \"$1\"; else touch second; echo '{' > \"$1\"; fi";
    lab.scratch.write("editor.sh", script);
    let mut command = lab.bare(&["edit", "s", "--editor"]);
    let mut session = Session::start(command.env("EDITOR", "sh editor.sh"));
    session.answer("edit again? [y/N]", "y");
    let (code, screen) = session.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("command: \"c\" → \"d\""), "{screen}");
    assert_eq!(lab.global()["mcpServers"]["s"], json!({"command": "d"}));
}

#[test]
fn a_broken_entry_can_be_mended() {
    let lab = Lab::new();
    lab.servers(
        "home/.claude.json",
        &json!({"s": {"command": 5, "timeout": 1}}),
    );
    let run = lab.plainly(&["edit", "s", "--command", "c"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.global()["mcpServers"]["s"]["command"], "c");
}
