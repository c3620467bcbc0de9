//! `doctor --fix`: what it changes, and what it never touches.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::doctor::{is_diagnosed, program, user_servers};
use crate::lab::{Lab, echo};

/// Returns the command line of a working server as a script, and its environment.
fn working(lab: &Lab, asks: bool) -> (String, Value) {
    let entry = lab.scratch.entry("s", &echo());
    let words = entry["args"].as_array().unwrap();
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let run = format!(
        "exec {} {}",
        entry["command"].as_str().unwrap(),
        words.join(" ")
    );
    let script = if asks {
        format!(
            "#!/bin/sh\nif [ \"$1\" = -y ]; then {run}; fi\necho 'Need to install the following packages: p' >&2\nexec cat >/dev/null\n"
        )
    } else {
        format!("#!/bin/sh\n{run}\n")
    };
    (script, entry["env"].clone())
}

#[test]
fn programs_are_found_made_executable_and_answered() {
    let lab = Lab::new();
    let (script, env) = working(&lab, false);
    let found = program(&lab, "home/.local/bin/my-mcp", &script);
    let locked = lab.scratch.write("locked", &script);
    let (script, _) = working(&lab, true);
    let npx = program(&lab, "bin/npx", &script);
    user_servers(
        &lab,
        &json!({
            "elsewhere": {"command": "my-mcp", "env": env},
            "locked": {"command": locked, "env": env},
            "prompt": {"command": npx, "args": ["pkg"], "env": env, "connectTimeout": 1500},
        }),
    );
    let before = lab.scratch.read("home/.claude.json");
    let run = lab.plainly(&["doctor", "--fix", "--dry-run", "--json"]);
    is_diagnosed(
        &run,
        "elsewhere",
        "program",
        "program-elsewhere",
        "--command",
    );
    assert_eq!(
        run.document()["fixes"].as_array().unwrap().len(),
        3,
        "{run:#?}"
    );
    assert_eq!(run.document()["fixes"][0]["applied"], false);
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
    let is_executable = || std::fs::metadata(&locked).unwrap().permissions().mode() & 0o111 != 0;
    assert!(!is_executable());

    let run = lab.plainly(&["doctor", "--fix"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.out.contains("3 ok"), "{run:#?}");
    let servers = lab.global()["mcpServers"].clone();
    assert_eq!(servers["elsewhere"]["command"], json!(found));
    assert_eq!(servers["prompt"]["args"], json!(["-y", "pkg"]));
    assert!(is_executable());
    let run = lab.plainly(&["doctor", "--fix"]);
    assert!(run.out.starts_with("nothing that can be fixed"), "{run:#?}");
}

#[test]
fn files_of_others_are_left_alone() {
    let lab = Lab::new();
    let (script, env) = working(&lab, false);
    program(&lab, "home/.local/bin/my-mcp", &script);
    let entry = json!({"command": "my-mcp", "env": env});
    // A project's file.
    lab.servers(".mcp.json", &json!({"p": entry}));
    assert_eq!(lab.plainly(&["approve", "p", "-y"]).code, Some(0));
    // A file of the command line.
    lab.servers("extra.json", &json!({"d": entry}));
    let (project, extra) = (
        lab.scratch.read(".mcp.json"),
        lab.scratch.read("extra.json"),
    );
    let run = lab.plainly(&["--mcp-config", "extra.json", "doctor", "--fix"]);
    assert_eq!(run.code, Some(3), "{run:#?}");
    for line in [
        "did not fix p: set \"command\" to",
        "did not fix d: set \"command\" to",
    ] {
        assert!(run.out.contains(line), "{line}: {run:#?}");
    }
    assert_eq!(lab.scratch.read(".mcp.json"), project);
    assert_eq!(lab.scratch.read("extra.json"), extra);
}

#[test]
fn a_policy_holds_for_fixes_too() {
    let lab = Lab::new();
    let (script, env) = working(&lab, false);
    program(&lab, "home/.local/bin/my-mcp", &script);
    user_servers(&lab, &json!({"s": {"command": "my-mcp", "env": env}}));
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"allowedMcpServers": [{"serverCommand": ["my-mcp"]}]}),
    );
    let before = lab.scratch.read("home/.claude.json");
    let run = lab.plainly(&["doctor", "--fix"]);
    assert_ne!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.scratch.read("home/.claude.json"), before, "{run:#?}");
}
