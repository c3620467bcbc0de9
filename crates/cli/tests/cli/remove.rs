//! `trunkline remove`.

use serde_json::json;

use crate::lab::{ADD_WITH_SECRET, Lab};

/// A lab with a server `s` in these scopes.
fn with_s_in(scopes: &[&str]) -> Lab {
    let lab = Lab::new();
    for scope in scopes {
        let run = lab.plainly(&["add", "--no-check", "-s", scope, "s", "cmd"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
    lab
}

#[test]
fn it_is_removed_from_where_it_is() {
    for (scope, place) in [
        ("local", "[DIR]/home/.claude.json (project [DIR])"),
        ("project", "[DIR]/.mcp.json"),
        ("user", "[DIR]/home/.claude.json"),
    ] {
        for words in [
            &["remove", "s"][..],
            &["remove", "s", "-s", scope],
            &["rm", "s"],
        ] {
            let lab = with_s_in(&[scope]);
            lab.plainly(words).is(
                0,
                &format!("removed \"s\" from the {scope} scope\n  written to {place}\n"),
                "",
            );
            lab.plainly(words).fails(
                2,
                &match words {
                    [_, _] => "there is no server \"s\"".to_owned(),
                    _ => format!("there is no server \"s\" in the {scope} scope"),
                },
                if words.len() == 2 {
                    "no servers are configured"
                } else {
                    ""
                },
            );
        }
    }
}

#[test]
fn a_name_in_several_scopes_needs_a_scope() {
    let lab = with_s_in(&["user", "project", "local"]);
    let before = lab.scratch.read("home/.claude.json");
    lab.plainly(&["remove", "s"]).is(
        2,
        "",
        "error: \"s\" is in several scopes; which one?\n  \
         trunkline remove -s local s   # [DIR]/home/.claude.json\n  \
         trunkline remove -s project s   # [DIR]/.mcp.json\n  \
         trunkline remove -s user s   # [DIR]/home/.claude.json\n",
    );
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
    for scope in ["project", "local", "user"] {
        let run = lab.plainly(&["remove", "s", "-s", scope]);
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
    assert_eq!(lab.plainly(&["list", "--json"]).json(), json!([]));
}

#[test]
fn the_client_secret_goes_with_the_server() {
    let lab = Lab::new();
    let run = lab.finish(
        lab.bare(&ADD_WITH_SECRET)
            .env("MCP_CLIENT_SECRET", "hunter2"),
    );
    assert_eq!(run.code, Some(0), "{run:#?}");
    let secrets = || lab.scratch.read("home/.claude/trunkline/secrets.json");
    assert!(secrets().contains("hunter2"));
    let run = lab.plainly(&["remove", "s"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    assert!(!secrets().contains("hunter2"), "{}", secrets());
}

#[test]
fn a_wrong_scope_hints_at_the_right_one() {
    let lab = with_s_in(&["user"]);
    lab.plainly(&["remove", "s", "-s", "local"]).fails(
        2,
        "there is no server \"s\" in the local scope",
        "it is in the user scope: `trunkline remove -s user s`",
    );
}

#[test]
fn a_near_miss_suggests_the_right_name() {
    let lab = Lab::new();
    lab.plainly(&["add", "--no-check", "-s", "user", "github", "cmd"]);
    lab.plainly(&["remove", "githib"]).fails(
        2,
        "there is no server \"githib\"",
        "did you mean \"github\"?",
    );
    lab.plainly(&["remove", "githib", "-s", "user"]).fails(
        2,
        "there is no server \"githib\" in the user scope",
        "did you mean \"github\"?",
    );
    lab.plainly(&["remove", "weather"]).fails(
        2,
        "there is no server \"weather\"",
        "available: github",
    );
}

#[test]
fn servers_of_other_sources_can_only_be_disabled() {
    let lab = Lab::new();
    lab.servers("plugin/.mcp.json", &json!({"s": {"command": "cmd"}}));
    lab.plainly(&["--plugin-dir", "plugin", "remove", "plugin:plugin:s"]).fails(
        2,
        "\"plugin:plugin:s\" comes from the plugin scope ([DIR]/plugin/.mcp.json), which cannot be edited",
        "disable it with `trunkline disable plugin:plugin:s`",
    );
    lab.servers(".mcp-config.json", &json!({"d": {"command": "cmd"}}));
    lab.run(&["remove", "d"]).fails(
        2,
        "\"d\" comes from the dynamic scope (.mcp-config.json), which cannot be edited",
        "disable it with `trunkline disable d`",
    );
}

#[test]
fn of_several_files_of_a_scope_the_one_that_counts_is_changed() {
    let lab = Lab::new();
    lab.servers(".mcp.json", &json!({"s": {"command": "outer"}}));
    lab.servers(
        "in/.mcp.json",
        &json!({"s": {"command": "inner"}, "t": {"command": "t"}}),
    );
    let remove = |name: &str| lab.finish(lab.bare(&["remove", name]).current_dir(lab.at("in")));
    remove("s").is(
        0,
        "removed \"s\" from the project scope\n  written to [DIR]/in/.mcp.json\n",
        "",
    );
    remove("s").is(
        0,
        "removed \"s\" from the project scope\n  written to [DIR]/.mcp.json\n",
        "",
    );
    assert_eq!(remove("s").code, Some(2));
    lab.servers(
        "home/.claude/settings.json",
        &json!({"u": {"command": "u"}}),
    );
    remove("u").is(
        0,
        "removed \"u\" from the user scope\n  written to [DIR]/home/.claude/settings.json\n",
        "",
    );
}

#[test]
fn a_name_that_no_add_would_take_can_be_removed() {
    let lab = Lab::new();
    lab.servers(
        "home/.claude.json",
        &json!({"my server; rm -rf": {"command": "x"}}),
    );
    lab.servers(".mcp.json", &json!({"my server; rm -rf": {"command": "x"}}));
    let run = lab.plainly(&["remove", "my server; rm -rf"]);
    assert!(
        run.err
            .contains("trunkline remove -s user 'my server; rm -rf'"),
        "{}",
        run.err
    );
    let run = lab.plainly(&["remove", "my server; rm -rf", "-s", "user"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn as_json_it_says_what_was_removed_where() {
    let lab = with_s_in(&["local"]);
    assert_eq!(
        lab.plainly(&["remove", "s", "--json"]).json(),
        json!({"removed": "s", "scope": "local", "file": "[DIR]/home/.claude.json", "project": "[DIR]"})
    );
}

#[test]
fn a_broken_file_is_left_alone() {
    let lab = Lab::new();
    let broken = "{\"mcpServers\": {\"s\": ";
    lab.scratch.write("home/.claude.json", broken);
    for words in [&["remove", "s"][..], &["remove", "s", "-s", "user"]] {
        let run = lab.plainly(words);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
        assert!(
            run.err.contains("[DIR]/home/.claude.json"),
            "the reason is the file: {}",
            run.err
        );
        assert_eq!(lab.scratch.read("home/.claude.json"), broken);
    }
}
