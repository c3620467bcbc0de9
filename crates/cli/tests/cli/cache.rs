//! Cached catalogs: `--lazy` and `--no-cache` (LIF-13).

use serde_json::json;
use trunkline_testkit::wait_for;

use crate::lab::{Lab, SOON, echo, files_under};
use crate::pty::Session;

/// A lab whose server "s" counts its starts.
fn counting() -> Lab {
    let lab = Lab::new();
    let script = echo().on_start(json!([{"countFile": lab.at("starts")}]));
    lab.configure([("s", script)]);
    lab
}

const TOOLS: &str = "mcp__s__echo  Echoes\n";

#[test]
fn a_lazy_server_whose_tools_are_known_is_started_only_to_call_one() {
    let lab = counting();
    lab.run(&["--lazy", "tools"]).is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 1);
    lab.run(&["--lazy", "status"]);
    lab.run(&["list", "--lazy"]);
    assert_eq!(lab.count("starts"), 1);
    lab.run(&["--lazy", "call", "s", "echo", "n:=3"])
        .is(0, "{\"n\":3}\n", "");
    assert_eq!(lab.count("starts"), 2);
    // It counts for the run that is told so.
    lab.run(&["status"]);
    assert_eq!(lab.count("starts"), 3);
}

#[test]
fn lists_are_answered_from_stored_catalogs_unless_they_are_to_be_fresh() {
    let lab = Lab::new();
    let script = echo()
        .resource("file:///r", "r")
        .prompt(json!({"name": "p"}))
        .on_start(json!([{"countFile": lab.at("starts")}]));
    lab.configure([("s", script)]);
    let commands: [&[&str]; 6] = [
        &["tools"],
        &["tools", "s", "echo"],
        &["search", "echo"],
        &["prompts"],
        &["resources", "s"],
        &["get", "s"],
    ];
    let first = lab.run(&["tools"]);
    assert_eq!(first.stored, None, "{first:#?}");
    assert_eq!(lab.count("starts"), 1);
    for words in commands {
        let run = lab.run(words);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
        let note = run.stored.as_deref().unwrap_or_default();
        assert!(
            note.starts_with("from the catalog of "),
            "{words:?}: {note}"
        );
        // With --json, stderr is JSON or nothing.
        let run = lab.run(&[words, &["--json"]].concat());
        assert_eq!(
            (run.stored.as_deref(), run.err.as_str()),
            (None, ""),
            "{run:#?}"
        );
    }
    assert_eq!(lab.count("starts"), 1);
    for (at, words) in commands.iter().enumerate() {
        let run = lab.run(&[words, &["--refresh"][..]].concat());
        assert_eq!((run.code, run.stored), (Some(0), None), "{words:?}");
        assert_eq!(
            lab.count("starts"),
            u32::try_from(at).unwrap() + 2,
            "{words:?}"
        );
    }
}

#[test]
fn a_changed_entry_and_an_unknown_tool_are_looked_up_at_the_server() {
    let lab = counting();
    lab.run(&["tools"]).is(0, TOOLS, "");
    let mut config = crate::lab::parsed(&lab.scratch.read(".mcp-config.json"));
    config["mcpServers"]["s"]["env"]["CHANGED"] = json!("1");
    lab.write_json(".mcp-config.json", &config);
    let run = lab.run(&["tools"]);
    assert_eq!((run.stored, lab.count("starts")), (None, 2));
    // The server may have got it since.
    let run = lab.run(&["tools", "s", "ecko"]);
    assert_eq!((run.code, lab.count("starts")), (Some(2), 3));
    assert!(run.err.contains("did you mean \"echo\"?"), "{}", run.err);
}

#[test]
fn servers_without_a_stored_catalog_are_connected() {
    let lab = counting();
    lab.run(&["tools"]).is(0, TOOLS, "");
    let mut config = crate::lab::parsed(&lab.scratch.read(".mcp-config.json"));
    config["mcpServers"]["t"] = lab.marking("t");
    lab.write_json(".mcp-config.json", &config);
    let run = lab.run(&["tools"]);
    assert_eq!(run.out, format!("{TOOLS}mcp__t__echo  Echoes\n"));
    assert!(run.stored.is_some());
    assert!(lab.started("t"));
    assert_eq!(lab.count("starts"), 1);
}

#[test]
fn lazy_works_by_variable_and_by_entry() {
    let lab = counting();
    lab.run(&["tools"]).is(0, TOOLS, "");
    let mut lazy = lab.command(&["list"]);
    lab.finish(lazy.env("TRUNKLINE_LAZY", "true"));
    assert_eq!(lab.count("starts"), 1);

    let mut config = crate::lab::parsed(&lab.scratch.read(".mcp-config.json"));
    config["mcpServers"]["s"]["lazy"] = json!(true);
    lab.write_json(".mcp-config.json", &config);
    lab.run(&["list"]);
    assert_eq!(lab.count("starts"), 1);
    config["mcpServers"]["s"]["lazy"] = json!(false);
    lab.write_json(".mcp-config.json", &config);
    lab.run(&["tools"]).is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 2);
}

#[test]
fn without_the_cache_nothing_is_kept_and_nothing_is_known() {
    let lab = counting();
    let catalogs = lab.at("home/.cache/trunkline/catalogs");
    lab.run(&["--no-cache", "tools"]).is(0, TOOLS, "");
    // Neither what it offers nor which era it belongs to.
    assert!(!lab.at("home/.cache/trunkline").exists());
    lab.run(&["tools"]).is(0, TOOLS, "");
    let eras = lab.at("home/.cache/trunkline/eras.json");
    std::fs::write(&eras, "{}").unwrap();
    lab.run(&["--no-cache", "tools"]).is(0, TOOLS, "");
    assert_eq!(std::fs::read_to_string(&eras).unwrap(), "{}");
    assert_eq!(files_under(&catalogs).len(), 1);
    lab.run(&["--lazy", "--no-cache", "tools"]).is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 4);
}

#[test]
fn a_server_that_waits_is_shown_with_what_is_known_of_it() {
    let lab = counting();
    lab.run(&["tools"]).is(0, TOOLS, "");
    lab.run(&["list", "--lazy"]).is(
        0,
        "s  not started  dynamic     stdio       1 tool (cached)\n",
        "",
    );
    let row = &lab.run(&["list", "--lazy", "--json"]).json()[0];
    assert_eq!(
        (&row["state"], &row["cached"], &row["tools"]),
        (&json!("pending"), &json!(true), &json!(1))
    );
    assert!(
        lab.run(&["list", "--json"]).json()[0]
            .get("cached")
            .is_none()
    );
}

#[test]
fn a_list_that_the_server_does_not_know_is_a_note_and_no_warning() {
    let lab = Lab::new();
    let refusal = json!([{"replyError": {"code": -32601, "message": "Method not found"}}]);
    let script = echo()
        .resource("file:///r", "r")
        .on("resources/list", refusal);
    lab.configure([("s", script)]);
    lab.run(&["tools"]).is(0, TOOLS, "");
    lab.run(&["--lazy", "tools"]).is(0, TOOLS, "");
    let get = lab.run(&["get", "s"]);
    let note = "  note: it declares resources/list but does not support it\n";
    assert!(get.out.contains(note), "{}", get.out);
}

/// Makes everything stored look an hour old.
fn age(lab: &Lab) {
    let past = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for path in files_under(&lab.scratch.home()) {
        let mut text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.to_string_lossy().contains("catalogs/") {
            // The time of the fetch is in the file, and that of the last confirmation is its own.
            let stored = crate::lab::parsed(&text);
            let fetched = stored["fetchedAt"].as_u64().unwrap();
            text = text.replace(&fetched.to_string(), &(fetched - 3_600_000).to_string());
            std::fs::write(&path, text).unwrap();
        }
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(past).unwrap();
    }
}

#[test]
fn old_catalogs_are_checked_in_the_background_on_a_terminal_only() {
    let lab = counting();
    lab.run(&["tools"]).is(0, TOOLS, "");
    age(&lab);
    // In a pipe, nothing is started.
    let run = lab.run(&["tools"]);
    assert_eq!((lab.count("starts"), run.out.as_str()), (1, TOOLS));
    for options in [&["--lazy"][..], &["--no-cache"], &["--json"]] {
        let before = lab.count("starts");
        let (_, shown) = Session::start(&mut lab.command(&[options, &["tools"]].concat())).end();
        assert!(!shown.contains("background"), "{shown}");
        let asked = u32::from(options == ["--no-cache"]);
        assert_eq!(lab.count("starts"), before + asked);
    }
    let off = ("TRUNKLINE_BACKGROUND_CHECK", "false");
    let (_, shown) = Session::start(lab.command(&["tools"]).envs([off])).end();
    assert!(shown.contains("--refresh connects"), "{shown}");

    let before = lab.count("starts");
    let (code, shown) = Session::start(&mut lab.command(&["tools"])).end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("checking in the background"), "{shown}");
    wait_for(SOON, "the check", || {
        (lab.count("starts") == before + 1).then_some(())
    });
    // It ends by itself and leaves nothing.
    lab.scratch.assert_no_processes(SOON);
    let run = lab.run(&["tools"]);
    assert!(run.stored.unwrap().starts_with("from the catalog of "));

    // Another one has to wait.
    let (_, shown) = Session::start(&mut lab.command(&["tools"])).end();
    assert!(!shown.contains("background"), "{shown}");
}
