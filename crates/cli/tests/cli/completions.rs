//! Completions, in a real bash: names from configuration and catalogs, and nothing that a shell
//! would run.

use std::process::Command;

use serde_json::json;
use trunkline_testkit::Script;

use crate::doctor::user_servers;
use crate::lab::{Lab, Run};

const HOSTILE: [&str; 9] = [
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a b",
    "it's",
    "--no-such-option",
    "\u{1b}[2Jx",
    "a\ntouch pwned",
    "~root",
];

/// A server with plain and hostile names.
fn script() -> Script {
    let mut script = Script::default()
        .tool_with(json!({"name": "create_issue", "description": "Creates; $(x)", "inputSchema": {"type": "object",
            "properties": {"state": {"enum": ["open", "closed", "$(touch pwned)"]}, "draft": {"type": "boolean"}, "a b": {}}}}))
        .tool_with(json!({"name": "create_pull", "inputSchema": {"type": "object"}}))
        .resource("file:///tmp/notes.md", "")
        .resource("file:///tmp/$(touch pwned)", "")
        .prompt(json!({"name": "review", "arguments": [{"name": "file"}, {"name": "a;touch pwned"}]}))
        .prompt(json!({"name": "$(touch pwned)"}));
    for name in HOSTILE {
        script = script.tool_with(json!({"name": name, "inputSchema": {"type": "object"}}));
    }
    script
}

/// A lab with one server, its catalog stored, and the bash script.
fn lab() -> Lab {
    let lab = Lab::new();
    let mut servers =
        json!({"github": lab.scratch.entry("github", &script()), "gitlab": {"command": "no-such"}});
    for name in HOSTILE {
        servers[name] = json!({"command": "no-such"});
    }
    user_servers(&lab, &servers);
    let listed = lab.plainly(&["tools", "github"]);
    assert_eq!(listed.code, Some(0), "{listed:#?}");
    let printed = lab.plainly(&["completions", "bash"]);
    lab.scratch.write("trunkline.bash", &printed.out);
    lab
}

/// Completes a line in bash and returns its candidates.
fn complete(lab: &Lab, line: &str) -> Vec<String> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_trunkline"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    // As readline does: the words end at each break.
    let driver = r#"
        source ./trunkline.bash
        COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        COMP_WORDS=() COMP_CWORD=0
        compopt() { :; }
        _trunkline trunkline
        for reply in "${COMPREPLY[@]}"; do printf '%s\0' "$reply"; done
    "#;
    let mut command = Command::new("bash");
    command
        .args(["--norc", "-c", driver, "bash", line])
        .env_clear()
        .env("PATH", path)
        .env("HOME", lab.scratch.home())
        .current_dir(lab.scratch.path());
    let output = command.output().unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn names_come_from_the_configuration_and_stored_catalogs() {
    let lab = lab();
    for (line, expected) in [
        ("trunkline get gi", &["github", "gitlab"][..]),
        ("trunkline doctor gith", &["github"]),
        ("trunkline mcp get gith", &["github"]),
        ("trunkline --json tools github create_p", &["create_pull"]),
        ("trunkline call gith", &["github"]),
        (
            "trunkline call github create_",
            &["create_issue", "create_pull"],
        ),
        (
            "trunkline call --timeout 5 github create_i",
            &["create_issue"],
        ),
        (
            "trunkline call mcp__github__create_i",
            &["mcp__github__create_issue"],
        ),
        ("trunkline call github create_issue st", &["state="]),
        (
            "trunkline call github create_issue state=",
            &["open", "closed"],
        ),
        (
            "trunkline call mcp__github__create_issue draft=t",
            &["true"],
        ),
        ("trunkline call github create_issue state=open st", &[]),
        // There is another one, which has to be typed.
        ("trunkline read github file:///", &[]),
        ("trunkline read github file:///tmp/n", &["///tmp/notes.md"]),
        ("trunkline prompt github ", &[]),
        ("trunkline prompt github r", &["review"]),
        ("trunkline prompt github review f", &["file="]),
        ("trunkline doc", &["doctor"]),
        ("trunkline tools ", &["github", "gitlab"]),
        ("trunkline doctor --dry", &["--dry-run"]),
        ("trunkline call gitlab x", &[]),
        ("trunkline call 'git", &[]),
    ] {
        assert_eq!(complete(&lab, line), expected, "{line}");
    }
}

#[test]
fn nothing_that_a_shell_interprets_is_offered() {
    let lab = lab();
    lab.scratch.write("$(touch pwned).json", "");
    for line in [
        "trunkline get ",
        "trunkline call ",
        "trunkline call github ",
        "trunkline call github create_issue ",
        "trunkline call github create_issue state=",
        "trunkline tools github ",
        "trunkline read github ",
        "trunkline prompt github ",
        "trunkline prompt github review ",
        "trunkline call github $(touch pwned)",
        "trunkline call github `touch pwned",
        "trunkline clean --plugin-dir ",
    ] {
        for reply in complete(&lab, line) {
            let is_plain = |c: char| c.is_alphanumeric() || "_-.:/@%+,=".contains(c);
            assert!(reply.chars().all(is_plain), "{line}: {reply:?}");
            assert_ne!(reply, "--no-such-option", "{line}");
        }
    }
    assert!(!lab.at("pwned").exists());
}

#[test]
fn a_script_is_installed_and_removed() {
    let lab = Lab::new();
    let run = |words: &[&str]| -> Run { lab.finish(lab.bare(words).env("SHELL", "/usr/bin/fish")) };
    for (shell, file) in [
        (
            "bash",
            "home/.local/share/bash-completion/completions/trunkline",
        ),
        ("zsh", "home/.zfunc/_trunkline"),
        ("fish", "home/.config/fish/completions/trunkline.fish"),
    ] {
        let installed = run(&["completions", "--install", shell]);
        assert_eq!(installed.code, Some(0), "{installed:#?}");
        assert!(
            installed.out.contains(&format!("[DIR]/{file}")),
            "{installed:#?}"
        );
        assert!(installed.err.starts_with("next: "), "{installed:#?}");
        let printed = run(&["completions", shell]);
        assert_eq!(lab.scratch.read(file), printed.out);
        let again = run(&["completions", "--install", shell, "--json"]).json();
        assert_eq!(again["changed"], false);
        assert_eq!(run(&["completions", "--uninstall", shell]).code, Some(0));
        assert!(!lab.at(file).exists());
        lab.scratch.write(file, "my own");
        for word in ["--install", "--uninstall"] {
            let refused = run(&["completions", word, shell]);
            assert_eq!(refused.code, Some(2), "{refused:#?}");
        }
        assert_eq!(lab.scratch.read(file), "my own");
        std::fs::remove_file(lab.at(file)).unwrap();
    }
    // The user's shell by default.
    assert_eq!(run(&["completions", "--install"]).code, Some(0));
    assert!(
        lab.at("home/.config/fish/completions/trunkline.fish")
            .exists()
    );
    let unknown = lab.plainly(&["completions", "--install"]);
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
    // Other shells get commands and options.
    assert!(run(&["completions", "powershell"]).out.contains("doctor"));
}

#[test]
fn manual_pages_cover_every_command() {
    let lab = Lab::new();
    let page = lab.plainly(&["man"]);
    assert_eq!(page.code, Some(0), "{page:#?}");
    assert!(
        page.out.starts_with(".ie") && page.out.contains("trunkline"),
        "{page:#?}"
    );
    let run = lab.plainly(&["man", "--out", "pages"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    for name in ["trunkline.1", "trunkline-doctor.1", "trunkline-call.1"] {
        assert!(
            lab.scratch.read(format!("pages/{name}")).contains(".TH"),
            "{name}"
        );
    }
}
