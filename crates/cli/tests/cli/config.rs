//! Bad configuration is reported with its position, and the rest works.

use serde_json::json;

use crate::lab::{Lab, echo};

/// The output of `list` without servers.
const NOTHING: &str = "no servers are configured; add one with `trunkline add`, import those of another client with \
    `trunkline import`, or try `trunkline demo`\n";

/// The hint of commands that need a server.
const GIVE_ONE: &str =
    "add one with `trunkline add`, pass --mcp-config FILE, or try `trunkline demo`";

const COMMANDS: [&[&str]; 3] = [&["list"], &["tools"], &["call", "good", "echo"]];

#[test]
fn without_configuration_the_way_to_give_one_is_shown() {
    let lab = Lab::new();
    lab.plainly(&["list"]).is(0, NOTHING, "");
    lab.plainly(&["list", "--json"]).is(0, "[]\n", "");
    for command in &COMMANDS[1..] {
        lab.plainly(command)
            .fails(2, "no servers are configured", GIVE_ONE);
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_place() {
    let cases: [(&[u8], &str); 6] = [
        (
            b"{\n  \"mcpServers\": {,}\n}",
            "bad.json:2:18: not valid JSON: key must be a string",
        ),
        (b"", "bad.json:1:1: the file is empty; write at least {}"),
        (
            b"{\"servers\": {}}",
            "bad.json:1:1: there is no \"mcpServers\" object; it has \"servers\", as VS Code writes it: rename it, or run `trunkline import`",
        ),
        (
            b"{\"mcpServers\": []}",
            "bad.json:1:16: \"mcpServers\": expected an object, found a list; write {\"name\": {\"command\": …}}",
        ),
        (b"\xff\xfe", "bad.json: the file is not UTF-8 text"),
        (
            b"{\"mcpServers\":\n {\"x\": {\"command\": 5}}}",
            "bad.json:2:20: server \"x\": \"command\": expected a string",
        ),
    ];
    for (text, complaint) in cases {
        let lab = Lab::new();
        lab.scratch.write("bad.json", text);
        for command in COMMANDS {
            let run = lab.finish(lab.bare(&["--mcp-config", "bad.json"]).args(command));
            run.is(2, "", &format!("error: {complaint}\n"));
        }
    }
}

#[test]
fn a_missing_file_is_bad_configuration() {
    let lab = Lab::new();
    for command in COMMANDS {
        lab.finish(lab.bare(&["--mcp-config", "missing.json"]).args(command))
            .is(
                2,
                "",
                "error: --mcp-config: no such file: \"missing.json\"\n",
            );
    }
}

#[test]
fn one_bad_entry_costs_only_itself() {
    let lab = Lab::new();
    let good = lab.scratch.entry("good", &echo());
    lab.scratch.write(".mcp-config.json", format!("{{\"mcpServers\": {{\n\"good\": {good},\n\"bad\": {{\"command\": 5}},\n\"worse\": {{}}}}}}"));
    let bad = ".mcp-config.json:3:20: server \"bad\": \"command\": expected a string";
    let worse =
        ".mcp-config.json:4:10: server \"worse\": it has neither a \"command\" nor a \"url\"";
    let warnings = format!("warning: {bad}\nwarning: {worse}\n");
    // What is wrong with others is no business of one call.
    lab.run(&["call", "good", "echo"]).is(0, "{}\n", "");
    lab.run(&["tools"])
        .is(0, "mcp__good__echo  Echoes\n", &warnings);
    lab.run(&["list"]).is(
        0,
        "bad    failed     -           -\n  from .mcp-config.json\n  \
         invalid entry: \"command\": expected a string\n  hint: fix it in .mcp-config.json:3:20\n\
         good   connected  dynamic     stdio       1 tool\n\
         worse  failed     -           -\n  from .mcp-config.json\n  \
         invalid entry: it has neither a \"command\" nor a \"url\"\n  hint: fix it in .mcp-config.json:4:10\n",
        "",
    );
    let run = lab.run(&["list", "--json"]);
    assert_eq!(run.json().as_array().unwrap().len(), 3);
    assert_eq!(run.err, "");
}

#[test]
fn a_configuration_may_be_given_as_text_and_several_times() {
    let lab = Lab::new();
    let [one, two] = ["one", "two"]
        .map(|name| json!({"mcpServers": {name: lab.scratch.entry(name, &echo())}}).to_string());
    let file = lab.scratch.write("two.json", two);
    let configs = ["--mcp-config", &one, "--mcp-config", file.to_str().unwrap()];
    lab.finish(lab.bare(&configs).arg("tools")).is(
        0,
        "mcp__one__echo  Echoes\nmcp__two__echo  Echoes\n",
        "",
    );
    lab.finish(lab.bare(&["call", "one", "echo"]).args(configs))
        .is(0, "{}\n", "");
}

#[test]
fn a_file_that_is_missing_beside_a_good_one_is_a_mistake_too() {
    let lab = Lab::with([("good", echo())]);
    let configs = ["--mcp-config", "missing.json", "call", "good", "echo"];
    lab.run(&configs)
        .fails(2, "--mcp-config: no such file: \"missing.json\"", "");
}

#[test]
fn a_broken_file_is_an_error_beside_good_ones() {
    let lab = Lab::with([("good", echo())]);
    lab.servers("home/.claude.json", &json!({"user": {"command": "true"}}));
    lab.scratch.write("broken.json", "{\"mcpServers\": {");
    lab.scratch.write("empty.json", "{}");
    for (named, start) in [
        ("{bad", "error: --mcp-config:1:2: not valid JSON"),
        ("[]", "error: --mcp-config:1:1: "),
        ("broken.json", "error: broken.json:1:16: not valid JSON"),
        (
            "empty.json",
            "error: empty.json:1:1: there is no \"mcpServers\" object",
        ),
    ] {
        for command in COMMANDS {
            for run in [
                lab.finish(lab.bare(&["--mcp-config", named]).args(command)),
                lab.finish(lab.command(&["--mcp-config", named]).args(command)),
            ] {
                assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
                assert!(run.err.starts_with(start), "{start}: {}", run.err);
            }
        }
    }
}

#[test]
fn several_configurations_may_follow_one_flag() {
    let lab = Lab::new();
    let [one, two] = ["one", "two"].map(|name| json!({name: lab.scratch.entry(name, &echo())}));
    lab.servers("one.json", &one);
    let two = json!({"mcpServers": two}).to_string();
    let tools = "mcp__one__echo  Echoes\nmcp__two__echo  Echoes\n";
    lab.plainly(&["--mcp-config", "one.json", &two, "tools"])
        .is(0, tools, "");
    lab.plainly(&["tools", "--mcp-config", "one.json", &two])
        .is(0, tools, "");
    lab.plainly(&["call", "--mcp-config", "one.json", &two, "two", "echo"])
        .is(0, "{}\n", "");
}

#[test]
fn only_the_named_servers_are_used() {
    let lab = Lab::with([("one", echo()), ("two", echo()), ("three", echo())]);
    lab.run(&["--mcp-server", "two", "tools"])
        .is(0, "mcp__two__echo  Echoes\n", "");
    lab.run(&["tools", "--mcp-server", "two", "--mcp-server", "one"])
        .is(0, "mcp__one__echo  Echoes\nmcp__two__echo  Echoes\n", "");
    let listed = lab.run(&["--mcp-server", "two", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let run = lab.run(&["--mcp-server", "two", "call", "one", "echo"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    lab.run(&["--mcp-server", "twoo", "tools"]).fails(
        2,
        "there is no server \"twoo\"",
        "did you mean \"two\"?",
    );
}

#[test]
fn a_broken_entry_is_there_and_explained() {
    let lab = Lab::new();
    let text = "{\"mcpServers\": {\n\"a\": {\"comand\": \"x\"},\n\"b\": {\"command\": 5},\n\
        \"c\": {\"command\": \"true\", \"arg\": [], \"url\": \"https://h.example\"}}}";
    lab.scratch.write("home/.claude.json", text);
    let place = |at: &str| format!("fix it in [DIR]/home/.claude.json:{at}");
    for words in [&["get", "a"][..], &["call", "a", "t"], &["tools", "a"]] {
        lab.plainly(words).fails(
            2,
            "the entry of \"a\" cannot be used: it has neither a \"command\" nor a \"url\"; \
             \"comand\" is not a field: did you mean \"command\"?",
            &place("2:6"),
        );
    }
    lab.plainly(&["get", "b"]).fails(
        2,
        "the entry of \"b\" cannot be used: \"command\": expected a string",
        &place("3:18"),
    );
    let run = lab.plainly(&["list"]);
    for told in [
        "\"arg\" is not a field: did you mean \"args\"?",
        "\"url\" has no effect beside \"command\"; remove one of them",
    ] {
        assert!(run.out.contains(told), "{told}: {}", run.out);
    }
}

#[test]
fn configurations_before_and_after_the_command_add_up() {
    let lab = Lab::with([("one", echo())]);
    let two = json!({"mcpServers": {"two": lab.scratch.entry("two", &echo())}}).to_string();
    let run = lab.run(&["tools", "--mcp-config", &two]);
    run.is(0, "mcp__one__echo  Echoes\nmcp__two__echo  Echoes\n", "");
}

#[test]
fn an_empty_configuration_has_no_servers() {
    let lab = Lab::new();
    lab.scratch
        .write(".mcp-config.json", "{\"mcpServers\": {}}");
    lab.run(&["list"]).is(0, NOTHING, "");
    assert_eq!(lab.run(&["list", "--json"]).json(), json!([]));
    for command in &COMMANDS[1..] {
        lab.run(command)
            .fails(2, "no servers are configured", GIVE_ONE);
    }
}

#[test]
fn the_environment_and_directory_of_an_entry_are_used() {
    let lab = Lab::with_entries(|lab| {
        let mut entry = lab.scratch.entry("s", &echo());
        let command = entry["command"].take();
        let args = entry["args"].take();
        lab.scratch.write("elsewhere/here", "");
        let line =
            "echo \"$(pwd) $(printenv TOKEN) $CLAUDE_PROJECT_DIR\" > seen; exec \"$0\" \"$@\"";
        let mut words = vec![json!("-c"), json!(line), command];
        words.extend(args.as_array().unwrap().clone());
        json!({"s": {"command": "sh", "args": words, "cwd": lab.at("elsewhere"), "env": {"TOKEN": "secret value"}}})
    });
    lab.run(&["call", "s", "echo"]).is(0, "{}\n", "");
    let seen = lab.plain(&lab.scratch.read("elsewhere/seen"));
    assert_eq!(seen, "[DIR]/elsewhere secret value [DIR]\n");
    let listed = lab.run(&["list", "--json"]);
    assert!(!listed.out.contains("secret"), "{}", listed.out);
}
