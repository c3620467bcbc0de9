//! CFG-3: a mistake affects only itself and is reported with its position.

use serde_json::json;

use crate::lab::{GLOBAL, Lab, MANAGED_SETTINGS, PROJECT, USER, commands, of_project};

/// The servers around the entry under test; they must always load.
const AROUND: [&str; 2] = ["after user [z] active", "before user [a] active"];

/// Writes one entry between two valid ones, on line 3, and compares the one problem: it is
/// somewhere on `part` of the entry.
#[track_caller]
fn check_entry(entry: &str, part: &str, problem: &str) {
    let lab = Lab::new();
    let text = format!(
        "{{\"mcpServers\": {{\n\"before\": {{\"command\": \"a\"}},\n\"bad\": {entry},\n\"after\": {{\"command\": \"z\"}}}}}}"
    );
    lab.put(GLOBAL, text);
    let set = lab.load();
    assert_eq!(lab.servers(&set), AROUND, "{entry}");
    let start = "\"bad\": ".len() + entry.find(part).unwrap() + 1;
    let column = set.diagnostics[0].column.unwrap();
    let place = start..start + part.len();
    assert!(
        place.contains(&column),
        "{entry}: {column} is not in {place:?}"
    );
    assert_eq!(
        lab.problems(&set),
        [format!("{GLOBAL}:3:{column}: server \"bad\": {problem}")],
        "{entry}"
    );
}

#[test]
fn an_entry_of_the_wrong_shape_costs_itself() {
    for (entry, problem) in [
        ("5", "expected an object with a \"command\" or a \"url\""),
        ("null", "expected an object with a \"command\" or a \"url\""),
        (
            "\"npx\"",
            "expected an object with a \"command\" or a \"url\"",
        ),
        ("{}", "it has neither a \"command\" nor a \"url\""),
        (
            r#"{"comand": "c"}"#,
            "it has neither a \"command\" nor a \"url\"; \"comand\" is not a field: did you mean \"command\"?",
        ),
        (
            r#"{"command": ""}"#,
            "its \"command\" is empty; write the program to start",
        ),
        (
            r#"{"type": "stdio"}"#,
            "a \"stdio\" server needs a \"command\"",
        ),
        (r#"{"type": "http"}"#, "a \"http\" server needs a \"url\""),
        (
            r#"{"type": "http", "command": "c"}"#,
            "a \"http\" server needs a \"url\"",
        ),
        (
            r#"{"type": "http", "url": ""}"#,
            "it is not configured yet: its \"url\" is empty; write the URL of the server",
        ),
        (
            r#"{"url": "ftp://h/"}"#,
            "the \"url\" of a \"http\" server begins with https:// or http://, not with ftp:",
        ),
        (
            r#"{"type": "ws", "url": "https://h/"}"#,
            "the \"url\" of a \"ws\" server begins with wss:// or ws://, not with https:",
        ),
        (
            r#"{"url": "example.com/mcp"}"#,
            "its \"url\" is not a URL: relative URL without a base",
        ),
        (
            r#"{"url": "https://h/", "oauth": {"authServerMetadataUrl": "http://h/"}}"#,
            "\"authServerMetadataUrl\" must begin with https://",
        ),
        (
            r#"{"type": "pigeon", "command": "c"}"#,
            "unknown \"type\": \"pigeon\"; write one of stdio, http, streamable-http, sse, ws, sse-ide, ws-ide, sdk, claudeai-proxy",
        ),
    ] {
        // A problem with a whole object is reported at its start.
        let part = if entry.starts_with('{') { "{" } else { entry };
        check_entry(entry, part, problem);
    }
}

#[test]
fn a_list_is_no_entry_even_if_it_has_as_many_elements_as_an_entry_has_fields() {
    let entry = r#"["stdio", "evil", [], {"K": "hunter2"}, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null]"#;
    check_entry(
        entry,
        entry,
        "expected an object with a \"command\" or a \"url\"",
    );
}

#[test]
fn a_field_of_the_wrong_shape_is_named_where_it_stands() {
    for (entry, part, problem) in [
        (r#"{"command": 5}"#, "5", r#""command": expected a string"#),
        (
            r#"{"command": "c", "args": "long text"}"#,
            "\"long text\"",
            r#""args": expected a list of strings"#,
        ),
        (
            r#"{"command": "c", "args": ["x", 5]}"#,
            "5",
            r#""args": expected a list of strings"#,
        ),
        (
            r#"{"command": "c", "env": {"A": 12}}"#,
            "12",
            r#""env": expected an object of strings"#,
        ),
        (
            r#"{"command": "c", "timeout": "5"}"#,
            "\"5\"",
            r#""timeout": expected a number of milliseconds"#,
        ),
        (
            r#"{"command": "c", "timeout": -5}"#,
            "-5",
            r#""timeout": expected a number of milliseconds"#,
        ),
        (
            r#"{"command": "c", "disabled": "yes"}"#,
            "\"yes\"",
            r#""disabled": expected true or false"#,
        ),
        (
            r#"{"command": "c", "tools": {"allow": "x"}}"#,
            "\"x\"",
            r#""tools": expected a sequence"#,
        ),
        (
            r#"{"url": "https://h/", "oauth": {"callbackPort": 65536}}"#,
            "65536",
            r#""oauth": expected u16"#,
        ),
        (
            r#"{"command": "c", "args": [], "args": []}"#,
            "\"args\": []}",
            "duplicate field `args`",
        ),
    ] {
        check_entry(entry, part, problem);
    }
}

#[test]
fn a_list_or_an_object_in_the_wrong_place_is_named_where_it_stands() {
    for (entry, part, problem) in [
        (
            r#"{"command": ["c"]}"#,
            "[",
            r#""command": expected a string"#,
        ),
        (
            r#"{"command": "c", "args": {}}"#,
            "{}",
            r#""args": expected a list of strings"#,
        ),
        (
            r#"{"command": "c", "args": ["x", []]}"#,
            "[]",
            r#""args": expected a list of strings"#,
        ),
        (
            r#"{"url": "https://h/", "headers": ["a"]}"#,
            "[",
            r#""headers": expected an object of strings"#,
        ),
    ] {
        check_entry(entry, part, problem);
    }
}

#[test]
fn columns_count_characters_and_lines_end_in_either_way() {
    for (newline, bom) in [
        ("\n", ""),
        ("\r\n", ""),
        ("\r\n", "\u{feff}"),
        ("\n", "\u{feff}"),
    ] {
        let lab = Lab::new();
        let text = format!(
            "{bom}{{{newline}\"mcpServers\": {{{newline}\"ünï\": {{\"command\": \"é\"}}, \"bad\": {{}}}}}}{newline}"
        );
        lab.put(GLOBAL, text);
        lab.check_with_problems(
            &["ünï user [é] active"],
            &["home/.claude.json:3:33: server \"bad\": it has neither a \"command\" nor a \"url\""],
        );
    }
}

#[test]
fn names_in_files_may_be_anything_but_empty_or_reserved() {
    for (name, problem) in [
        ("my.server v2", None),
        ("ünï", None),
        ("a/b", None),
        ("", Some("its name is empty; give it one")),
        ("  ", Some("its name is empty; give it one")),
        (
            "workspace",
            Some("the name \"workspace\" is reserved; rename it"),
        ),
        (
            "plugin:p:s",
            Some("names that begin with \"plugin:\" are reserved; rename it"),
        ),
        (
            "claude.ai X",
            Some("names that begin with \"claude.ai \" are reserved; rename it"),
        ),
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, commands([(name, "c"), ("ok", "c2")]));
        let set = lab.load();
        let problems: Vec<_> = set
            .diagnostics
            .iter()
            .map(|problem| &*problem.message)
            .collect();
        assert_eq!(problems, problem.as_slice(), "{name}");
        assert!(
            set.diagnostics
                .iter()
                .all(|problem| problem.server.as_deref() == Some(name))
        );
        assert_eq!(set.active().count(), 2 - problems.len(), "{name}");
    }
}

#[test]
fn of_repeated_servers_the_last_counts_and_that_is_said() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        "{\"mcpServers\": {\n\"s\": {\"command\": \"first\"},\n\"s\": {\"command\": \"last\"}}}",
    );
    lab.check_with_problems(
        &["s user [last] active"],
        &["warning: home/.claude.json:3:6: server \"s\": it is defined more than once in this file; the last one counts"],
    );
}

#[test]
fn servers_in_a_repeated_object_of_servers_are_not_dropped_in_silence() {
    let lab = Lab::new();
    lab.put(
        GLOBAL,
        "{\"mcpServers\": {\"a\": {\"command\": \"first\"}},\n\"mcpServers\": {\"b\": {\"command\": \"last\"}}}",
    );
    let set = lab.load();
    assert!(
        !set.diagnostics.is_empty() || set.servers.len() == 2,
        "{:?}",
        lab.servers(&set)
    );
}

#[test]
fn a_file_of_servers_that_is_not_one_costs_itself() {
    for (text, problem) in [
        ("", ":1:1: the file is empty; write at least {}"),
        ("\u{feff}", ":1:1: the file is empty; write at least {}"),
        ("nonsense", ":1:2: not valid JSON: expected ident"),
        (
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"}",
            ":1:37: not valid JSON: EOF while parsing an object",
        ),
        (
            "{\"mcpServers\": {},}",
            ":1:19: not valid JSON: trailing comma before the closing bracket; remove it",
        ),
        ("{} {}", ":1:4: not valid JSON: trailing characters"),
        ("[]", ":1:1: expected an object, found a list"),
        ("{}", ":1:1: there is no \"mcpServers\" object"),
        (
            "{\"servers\": {}}",
            ":1:1: there is no \"mcpServers\" object; it has \"servers\", as VS Code writes it: rename it, or run `trunkline import`",
        ),
        (
            "{\"s\": {\"command\": \"c\"}}",
            ":1:1: there is no \"mcpServers\" object; put the servers into one: {\"mcpServers\": {\"name\": {…}}}",
        ),
        (
            "{\"mcpServers\": [5]}",
            ":1:16: \"mcpServers\": expected an object, found a list; write {\"name\": {\"command\": …}}",
        ),
        (
            "{\"mcpServers\": null}",
            ":1:16: \"mcpServers\": expected an object, found null; write {\"name\": {\"command\": …}}",
        ),
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, commands([("u", "user")]));
        lab.put(PROJECT, text);
        lab.check_with_problems(&["u user [user] active"], &[&format!("{PROJECT}{problem}")]);
    }
}

#[test]
fn a_broken_file_of_the_user_costs_only_itself() {
    for file in [GLOBAL, USER] {
        let lab = Lab::new();
        lab.put(PROJECT, commands([("p", "project")]));
        lab.put(file, "{,}");
        lab.check_with_problems(
            &["p project [project] pending"],
            &[&format!("{file}:1:2: not valid JSON: key must be a string")],
        );
    }
}

#[test]
fn a_wrong_shape_on_the_way_to_local_servers_is_named() {
    for (global, problem) in [
        (
            json!({"projects": 5}),
            "1:13: \"projects\": expected an object, found a number",
        ),
        (
            of_project(&json!([])),
            "\"projects\": expected an object, found a list",
        ),
        (
            of_project(&json!({"mcpServers": "x"})),
            "\"mcpServers\": expected an object, found a string; write {\"name\": {\"command\": …}}",
        ),
    ] {
        let lab = Lab::new();
        let mut global = global;
        global["mcpServers"] = json!({"u": {"command": "user"}});
        lab.put(GLOBAL, global);
        let set = lab.load();
        assert_eq!(lab.servers(&set), ["u user [user] active"]);
        let problems = lab.problems(&set);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].ends_with(problem), "{problems:?}");
    }
}

#[test]
fn a_setting_of_the_wrong_shape_is_named_and_the_others_count() {
    let lab = Lab::new();
    lab.put(PROJECT, commands([("a", "x"), ("b", "x")]));
    lab.put(
        USER,
        "{\"enabledMcpjsonServers\": [\"a\", 5],\n\"disabledMcpjsonServers\": {},\n\"enableAllProjectMcpServers\": \"yes\",\n\"enabledPlugins\": 7}",
    );
    let set = lab.load();
    assert_eq!(
        lab.servers(&set),
        [
            "a project [x] rejected by home/.claude/settings.json",
            "b project [x] rejected by home/.claude/settings.json"
        ]
    );
    let mut problems = lab.problems(&set);
    problems.sort();
    assert_eq!(
        problems,
        [
            "home/.claude/settings.json:1:33: \"enabledMcpjsonServers\": expected a string",
            "home/.claude/settings.json:2:27: \"disabledMcpjsonServers\": expected a list",
            "home/.claude/settings.json:3:35: \"enableAllProjectMcpServers\": expected a boolean",
            "home/.claude/settings.json:4:19: \"enabledPlugins\": expected an object, found a number",
        ]
    );
}

#[test]
fn a_list_of_switched_off_servers_with_a_mistake_in_it_still_counts() {
    let lab = Lab::new();
    let mut global = of_project(&json!({"disabledMcpServers": ["s", 5]}));
    global["mcpServers"] = json!({"s": {"command": "c"}});
    lab.put(GLOBAL, global);
    let set = lab.load();
    assert_eq!(lab.servers(&set), ["s user [c] disabled"]);
    assert_eq!(set.diagnostics.len(), 1, "{:?}", lab.problems(&set));
}

#[test]
fn a_broken_managed_settings_file_is_named_once() {
    let lab = Lab::new();
    lab.put(MANAGED_SETTINGS, "{");
    lab.check_with_problems(
        &[],
        &["etc/managed-settings.json:1:1: not valid JSON: EOF while parsing an object"],
    );
}
