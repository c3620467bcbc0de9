//! `trunkline install` and `uninstall`.

use serde_json::json;

use crate::lab::Lab;

const PROGRAM: &str = env!("CARGO_BIN_EXE_trunkline");

#[test]
fn it_shows_the_change_without_secrets_and_writes_only_when_told() {
    let lab = Lab::new();
    let before = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\", \"env\": {\"TOKEN\": \"hunter2\"}}\n  }\n}\n";
    let file = lab.scratch.write("home/.cursor/mcp.json", before);
    let shown = format!(
        "Cursor: [DIR]/home/.cursor/mcp.json\n    {{\n      \"mcpServers\": {{\n  \
         -     \"a\": {{\"command\": \"…\", \"env\": {{\"TOKEN\": \"…\"}}}}\n  \
         +     \"a\": {{\"command\": \"…\", \"env\": {{\"TOKEN\": \"…\"}}}},\n  \
         +     \"trunkline\": {{\"command\": \"{PROGRAM}\", \"args\": [\"serve\"]}}\n      }}\n    }}\n"
    );
    let nothing = "nothing written; pass --yes to write\n";
    lab.plainly(&["install", "cursor"]).is(0, &shown, nothing);
    lab.plainly(&["install", "cursor", "--dry-run"])
        .is(0, &shown, "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    lab.plainly(&["install", "cursor", "--yes"]).is(
        0,
        &shown,
        "written to [DIR]/home/.cursor/mcp.json\nnext: restart Cursor\n",
    );
    let listed = lab.plainly(&["install", "--json"]).json();
    assert_eq!(listed[2]["installedAs"], "trunkline", "{listed:#}");
    let run = lab.plainly(&["uninstall", "cursor", "--yes", "--json"]);
    assert_eq!(run.json()["written"], true);
    run.never_says("hunter2");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    lab.plainly(&["uninstall", "cursor"]).is(
        0,
        "Cursor has no \"trunkline\" ([DIR]/home/.cursor/mcp.json)\n",
        "",
    );
}

#[test]
fn without_a_name_it_lists_the_clients_on_this_machine() {
    let lab = Lab::new();
    lab.plainly(&["install"]).is(
        0,
        "no client found on this machine\n",
        "  hint: `trunkline install CLIENT` takes claude-code, claude-desktop, cursor, vscode, codex, gemini, zed\n",
    );
    lab.scratch
        .write("home/.codex/config.toml", "model = \"x\"\n");
    lab.plainly(&["install"]).is(
        0,
        "codex  not installed  [DIR]/home/.codex/config.toml\n",
        "",
    );
}

#[test]
fn mistakes_name_the_next_step() {
    let lab = Lab::new();
    lab.plainly(&["install", "cursr"]).fails(
        2,
        "there is no client \"cursr\"",
        "did you mean \"cursor\"?",
    );
    lab.plainly(&["install", "zed", "--http", "localhost"])
        .fails(
            2,
            "--http: \"localhost\" is not a URL",
            "give the URL of the endpoint, for example http://127.0.0.1:8080/mcp",
        );
    lab.plainly(&[
        "install",
        "claude-desktop",
        "--http",
        "http://127.0.0.1:1/mcp",
    ])
    .fails(
        2,
        "Claude Desktop starts servers from its file and takes URLs only in its settings",
        "leave --http out",
    );
}

#[test]
fn print_gives_the_entry_for_pasting() {
    let lab = Lab::new();
    let run = lab.plainly(&["install", "codex", "--print", "--", "--profile", "work"]);
    run.is(
        0,
        &format!(
            "[mcp_servers.trunkline]\ncommand = \"{PROGRAM}\"\nargs = [\"serve\", \"--profile\", \"work\"]\n"
        ),
        "",
    );
}

#[test]
fn a_gateway_in_its_own_configuration_does_not_start_itself() {
    let lab = Lab::new();
    lab.plainly(&["install", "claude-code", "--yes"]);
    assert_eq!(
        lab.global()["mcpServers"]["trunkline"]["args"],
        json!(["serve"])
    );
    let listed = lab.plainly(&["list", "--json"]).json();
    assert_eq!(listed[0]["state"], "suppressed", "{listed:#}");
    assert_eq!(
        listed[0]["error"],
        "it starts this gateway, which does not start itself"
    );
}
