//! Bad files in every scope: each is reported with its position, and the rest works (CFG-3).

use serde_json::json;

use crate::lab::{Lab, parsed};

const BROKEN: &str = "{\n  \"mcpServers\": {,}\n}";

/// A lab with one good server beside bad files.
fn with_one_good() -> Lab {
    let lab = Lab::new();
    lab.servers(".mcp-config.json", &json!({"good": lab.marking("good")}));
    lab
}

#[test]
fn a_broken_file_costs_only_itself() {
    for file in [
        "home/.claude.json",
        ".mcp.json",
        "home/.claude/settings.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
        "plugin/.mcp.json",
        "home/.claude/plugins/installed_plugins.json",
        "home/.claude/trunkline/approvals.json",
    ] {
        let lab = with_one_good();
        lab.scratch.write(file, BROKEN);
        std::fs::create_dir_all(lab.at("plugin")).unwrap();
        if file.contains("installed_plugins") {
            lab.write_json("home/.claude/settings.json", &json!({"enabledPlugins": {}}));
        }
        let run = lab.run(&["--plugin-dir", "plugin", "list"]);
        assert_eq!(
            (run.code, run.err.as_str()),
            (Some(0), ""),
            "{file}: {run:#?}"
        );
        assert!(
            run.out.starts_with("good  connected"),
            "{file}: {}",
            run.out
        );
        if !file.contains("installed_plugins") {
            let problem = format!("\nproblems:\n  [DIR]/{file}:2:18: not valid JSON: ");
            assert!(run.out.contains(&problem), "{file}: {}", run.out);
        }
        lab.run(&["call", "good", "echo"]).code.unwrap();
        assert_eq!(lab.scratch.read(file), BROKEN, "{file}");
    }
}

#[test]
fn a_bad_entry_costs_only_itself_in_every_scope() {
    let lab = Lab::new();
    let text = |bad: &str, good: &str| {
        format!(
            "{{\"mcpServers\": {{\n  \"{bad}\": {{\"command\": 5}},\n  \"{good}\": {}\n}}}}",
            lab.marking(good)
        )
    };
    lab.scratch
        .write("home/.claude.json", text("bad-user", "good-user"));
    lab.scratch
        .write(".mcp.json", text("bad-project", "good-project"));
    lab.scratch
        .write("plugin/.mcp.json", text("bad", "good-plugin"));
    lab.scratch
        .write(".mcp-config.json", text("bad-dynamic", "good-dynamic"));
    let run = lab.run(&["--plugin-dir", "plugin", "--approve-project", "tools"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    for good in ["user", "project", "plugin", "dynamic"] {
        assert!(lab.started(&format!("good-{good}")), "{good}: {run:#?}");
    }
    for (place, name) in [
        ("[DIR]/home/.claude.json", "bad-user"),
        ("[DIR]/.mcp.json", "bad-project"),
        ("[DIR]/plugin/.mcp.json", "plugin:plugin:bad"),
        (".mcp-config.json", "bad-dynamic"),
    ] {
        let at = format!(
            "warning: {place}:2:{}",
            "  \"\": {\"command\": ".len() + name.rsplit(':').next().unwrap().len() + 1
        );
        let line = run.err.lines().find(|line| line.starts_with(&at));
        let line = line.unwrap_or_else(|| panic!("{at}: {}", run.err));
        assert!(
            line.contains(&format!(
                "server \"{name}\": \"command\": expected a string"
            )),
            "{line}"
        );
    }
}

#[test]
fn odd_encodings_are_read_or_explained() {
    let lab = Lab::new();
    let good = json!({"mcpServers": {"good": lab.marking("good")}}).to_string();
    for (text, fine) in [
        (format!("\u{feff}{good}").into_bytes(), true),
        (good.replace(',', ",\r\n").into_bytes(), true),
        (
            good.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            false,
        ),
        (b"\xff\xfe\x00".to_vec(), false),
        (
            format!("{{\"x\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(),
            true,
        ),
        (vec![b' '; 17 << 20], false),
        (Vec::new(), false),
    ] {
        lab.scratch.write("home/.claude.json", &text);
        let run = lab.plainly(&["list"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
        let problem = "\nproblems:\n  [DIR]/home/.claude.json";
        assert_eq!(run.out.contains(problem), !fine, "{}", run.out);
    }
}

#[test]
fn every_reading_command_reports_problems() {
    let lab = with_one_good();
    lab.scratch.write(".mcp.json", BROKEN);
    let problem = "[DIR]/.mcp.json:2:18: not valid JSON: key must be a string";
    lab.run(&["call", "good", "echo"])
        .is(0, "{}\n", &format!("warning: {problem}\n"));
    let run = lab.run(&["list", "--json"]);
    assert_eq!(parsed(&run.err), json!({"warnings": [problem]}));
    assert_eq!(run.json()[0]["state"], "connected");
    let run = lab.run(&["get", "good"]);
    assert_eq!(run.err, format!("warning: {problem}\n"));
    // A name that cannot be found may be in the file that cannot be read.
    for words in [
        &["get", "lost"][..],
        &["remove", "lost"],
        &["enable", "lost"],
        &["approve", "lost"],
        &["call", "lost", "t"],
        &["tools", "lost"],
    ] {
        let run = lab.run(words);
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(2), ""),
            "{words:?}: {run:#?}"
        );
        assert!(run.err.contains(problem), "{words:?}: {}", run.err);
    }
}

#[test]
fn reserved_names_and_empty_urls_are_reported() {
    let lab = Lab::new();
    lab.servers(
        "home/.claude.json",
        &json!({"workspace": {"command": "a"}, "plugin:x:y": {"command": "a"}, "": {"command": "a"},
            "claude.ai x": {"command": "a"}, "later": {"type": "http", "url": ""}, "fine.name here": lab.marking("fine")}),
    );
    let run = lab.plainly(&["list"]);
    for part in [
        "fine.name here  connected",
        "the name \"workspace\" is reserved; rename it",
        "it is not configured yet: its \"url\" is empty; write the URL of the server",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
}
