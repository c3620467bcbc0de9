//! Cached catalogs: `--lazy` and `--no-cache` (LIF-13).

use serde_json::json;

use crate::lab::{Lab, echo, files_under};

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
    lab.run(&["--lazy", "tools"]).is(0, TOOLS, "");
    lab.run(&["tools", "s", "--lazy"]).is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 1);
    lab.run(&["--lazy", "call", "s", "echo", "n:=3"])
        .is(0, "{\"n\":3}\n", "");
    assert_eq!(lab.count("starts"), 2);
    // It counts for the run that is told so.
    lab.run(&["tools"]).is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 3);
}

#[test]
fn lazy_works_by_variable_and_by_entry() {
    let lab = counting();
    lab.run(&["tools"]).is(0, TOOLS, "");
    let mut lazy = lab.command(&["tools"]);
    lab.finish(lazy.env("TRUNKLINE_LAZY", "true"))
        .is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 1);

    let mut config = crate::lab::parsed(&lab.scratch.read(".mcp-config.json"));
    config["mcpServers"]["s"]["lazy"] = json!(true);
    lab.write_json(".mcp-config.json", &config);
    lab.run(&["tools"]).is(0, TOOLS, "");
    assert_eq!(lab.count("starts"), 1);
    config["mcpServers"]["s"]["lazy"] = json!(false);
    lab.write_json(".mcp-config.json", &config);
    lab.run(&["--lazy", "tools"]).is(0, TOOLS, "");
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
        "s  pending  dynamic     stdio       1 tool (cached)\n  from .mcp-config.json\n",
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
