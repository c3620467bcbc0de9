//! `trunkline call`: results and exit codes.

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::{Lab, echo};

/// A lab with a server `s` whose tool `t` returns this result.
fn replying(result: &Value) -> Lab {
    Lab::with([("s", Script::default().tool("t", json!([{"reply": result}])))])
}

#[test]
fn a_tool_is_called_by_server_and_name_or_by_its_whole_name() {
    let lab = Lab::with([
        (
            "s",
            json!({"tools": [{"name": "get thing", "do": [{"replyText": "got"}]}]}),
        ),
        (
            "mcp__odd",
            json!({"tools": [{"name": "t", "do": [{"replyText": "odd"}]}]}),
        ),
    ]);
    for words in [
        &["call", "s", "get thing"][..],
        &["call", "s", "get_thing"],
        &["call", "mcp__s__get_thing"],
    ] {
        lab.run(words).is(0, "got\n", "");
    }
    lab.run(&["call", "mcp__odd", "t"]).is(0, "odd\n", "");
    lab.run(&["call", "mcp__mcp__odd__t"]).is(0, "odd\n", "");
}

#[test]
fn a_tool_of_a_server_with_a_long_name_is_called_by_the_name_it_is_listed_under() {
    let name = "a-rather-long-name-for-a-server-that-somebody-generated-from-a-path";
    let lab = Lab::with([(name, echo())]);
    let listed = lab.run(&["tools", "--json"]).json()[0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(listed.len(), 64);
    lab.run(&["call", name, "echo"]).is(0, "{}\n", "");
    lab.run(&["call", &listed]).is(0, "{}\n", "");
}

#[test]
fn only_the_server_that_is_needed_is_started() {
    let lab = Lab::new();
    let counting = |name: &str| echo().on_start(json!([{"countFile": lab.at(name)}]));
    lab.scratch
        .config(&[("a", counting("a.starts")), ("b", counting("b.starts"))]);
    lab.run(&["call", "a", "echo"]).is(0, "{}\n", "");
    lab.run(&["call", "mcp__a__echo"]).is(0, "{}\n", "");
    assert_eq!((lab.count("a.starts"), lab.count("b.starts")), (2, 0));
}

#[test]
fn text_is_printed_as_it_is_and_other_content_in_short() {
    let link = json!({"type": "resource_link", "uri": "file:///x", "name": "x"});
    let embedded =
        json!({"type": "resource", "resource": {"uri": "file:///y", "text": "the text of y"}});
    let cases = [
        (
            json!({"content": [{"type": "text", "text": "one\r\ntwo"}, {"type": "text", "text": "three\n"}]}),
            "one\r\ntwo\nthree\n",
        ),
        (json!({"content": []}), ""),
        (
            json!({"content": [], "structuredContent": {"b": 1, "a": [2]}}),
            "{\"b\":1,\"a\":[2]}\n",
        ),
        (
            json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}}),
            "x\n",
        ),
        (
            json!({"content": [link, embedded]}),
            "[resource file:///x: x; read it with `trunkline read s file:///x`]\nthe text of y\n",
        ),
        (
            json!({"content": [{"type": "hologram", "beam": 7}]}),
            "{\"type\":\"hologram\",\"beam\":7}\n",
        ),
    ];
    for (result, out) in cases {
        replying(&result).run(&["call", "s", "t"]).is(0, out, "");
    }
}

#[test]
fn as_json_a_result_has_the_promised_shape() {
    let content = json!([{"type": "text", "text": "x", "annotations": {"priority": 1}}, {"type": "hologram", "beam": 7}]);
    let cases = [
        (
            json!({ "content": content }),
            json!({"content": content, "isError": false, "files": []}),
            0,
        ),
        (
            json!({"content": [], "structuredContent": {"z": 1, "a": null}}),
            json!({"content": [], "isError": false, "files": [], "structuredContent": {"z": 1, "a": null}}),
            0,
        ),
        (
            json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
            json!({"content": [{"type": "text", "text": "no"}], "isError": true, "files": []}),
            1,
        ),
    ];
    let server = json!({"name": "testkit", "version": "1.0.0"});
    for (result, mut expected, code) in cases {
        expected["_meta"] = json!({"io.modelcontextprotocol/serverInfo": server});
        let run = replying(&result).run(&["call", "s", "t", "--json"]);
        assert_eq!((run.code, run.err.as_str()), (Some(code), ""), "{run:#?}");
        assert_eq!(run.document(), expected);
    }
}

#[test]
fn a_tool_that_reports_an_error_is_exit_1() {
    let result = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
    replying(&result).run(&["call", "s", "t"]).is(
        1,
        "no such file\n",
        "the tool reported an error\n",
    );
}

#[test]
fn a_server_that_refuses_the_call_is_exit_1() {
    let error = json!({"code": -32602, "message": "a must be a number"});
    let lab = Lab::with([(
        "s",
        Script::default().tool("t", json!([{ "replyError": error }])),
    )]);
    lab.run(&["call", "s", "t", "a=x"]).is(
        1,
        "",
        "error: the server \"s\" refused the call of \"t\": a must be a number (error -32602)\n",
    );
}

#[test]
fn a_call_that_takes_too_long_is_exit_6_and_the_server_is_told() {
    let lab = Lab::new();
    let entry = |timeout: Option<u64>| {
        let script = json!({"tools": [{"name": "t", "do": [{"silence": true}]}], "cancelLog": lab.at("cancelled")});
        let mut entry = lab.scratch.entry("s", &script);
        if let Some(timeout) = timeout {
            entry["timeout"] = json!(timeout);
        }
        json!({"mcpServers": {"s": entry}}).to_string()
    };
    let settings = "MCP_TOOL_TIMEOUT (ms) or the entry's \"timeout\" gives it more time";
    let entrys = "\"timeout\" (ms) in the server's entry gives it more time";
    // The flag's time covers connecting as well, so it gets more.
    let cases: [(&[&str], _, _, _); 3] = [
        (
            &["--timeout", "2500"],
            None,
            None,
            "allow more time with --timeout",
        ),
        (&[], Some(300), None, entrys),
        (&[], None, Some("300"), settings),
    ];
    for (flags, of_entry, variable, hint) in cases {
        lab.scratch.write("cancelled", "");
        lab.scratch.write(".mcp-config.json", entry(of_entry));
        let mut command = lab.command(&[&["call", "s", "t"], flags].concat());
        if let Some(variable) = variable {
            command.env("MCP_TOOL_TIMEOUT", variable);
        }
        let run = lab.finish(&mut command);
        assert_eq!((run.code, run.out.as_str()), (Some(6), ""), "{run:#?}");
        let within = if flags.is_empty() {
            "300 ms"
        } else {
            "2500 ms"
        };
        let begin = format!("error: \"t\" of \"s\" did not answer within {within}");
        assert!(run.err.starts_with(&begin), "{}", run.err);
        assert!(
            run.err.ends_with(&format!(
                " ms; the tool may have run\n  hint: {hint}; see `trunkline logs s`\n"
            )),
            "{}",
            run.err
        );
        assert_eq!(lab.scratch.read("cancelled").lines().count(), 1);
    }
}

#[test]
fn a_timeout_covers_connecting_too() {
    let lab = Lab::with([(
        "s",
        json!({"on": {"server/discover": [], "initialize": []}}),
    )]);
    lab.run(&["call", "s", "t", "--timeout", "200"]).is(
        6,
        "",
        "error: no connection to \"s\" within 200 ms\n  hint: allow more time with --timeout\n",
    );
}

#[test]
fn a_server_lost_during_the_call_is_exit_1_with_its_last_words() {
    let lab = Lab::with([(
        "s",
        Script::default().tool(
            "t",
            json!([{"stderr": "panic: index out of range"}, {"signal": "KILL"}]),
        ),
    )]);
    // Not 3, after which a script may well try again.
    lab.run(&["call", "s", "t"]).is(
        1,
        "",
        "error: the connection to \"s\" was lost during the call of \"t\": the server's process was killed by SIGKILL; \
         the tool may have run\n  stderr (see `trunkline logs s`):\n    | panic: index out of range\n",
    );
}

#[test]
fn questions_are_cancelled_where_nobody_can_answer() {
    let question = json!({"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object"}}});
    let lab = Lab::with([
        (
            "modern",
            json!({"tools": [{"name": "t", "do": [{"inputRequired": {"inputRequests": {"q": question}}}, {"replyInputs": true}]}]}),
        ),
        (
            "legacy",
            json!({"era": "legacy", "tools": [{"name": "t", "do": [{"request": question}, {"replyAnswer": true}]}]}),
        ),
    ]);
    let run = lab.run(&["call", "modern", "t"]);
    assert_eq!(
        run.document()["inputResponses"],
        json!({"q": {"action": "cancel"}})
    );
    let told = "warning: legacy/t asks \"who?\"; cancelled: there is nobody to ask\n  \
                hint: run it on a terminal, or accept with --elicit-defaults\n";
    lab.run(&["call", "legacy", "t"])
        .is(0, "{\"action\":\"cancel\"}\n", told);
}

#[test]
fn the_hosts_own_tools_are_called_like_any_other() {
    let script = json!({"tools": [{"name": "t", "description": "Bakes bread"}], "resources": [{"uri": "a:1", "name": "one", "text": "first"}]});
    let lab = Lab::with([("s", script), ("other", json!({}))]);
    let listed = lab.run(&["call", "ListMcpResources"]);
    assert_eq!(listed.code, Some(0), "{listed:#?}");
    assert!(listed.out.contains("a:1"), "{}", listed.out);
    let read = lab.run(&["call", "ReadMcpResource", "server=s", "uri=a:1"]);
    assert_eq!(read.code, Some(0), "{read:#?}");
    assert!(read.out.contains("first"), "{}", read.out);
    let found = lab.run(&["call", "ToolSearch", "query=bread"]);
    assert!(found.out.contains("mcp__s__t"), "{}", found.out);
    let lab = Lab::with([("s", echo())]);
    lab.run(&["call", "ListMcpResources"]).fails(
        2,
        "there is no \"ListMcpResources\": no server has resources",
        "see `trunkline status`",
    );
}

#[test]
fn no_time_at_all_is_bad_usage() {
    for command in [
        &["call", "s", "t"][..],
        &["read", "s", "a:1"],
        &["prompt", "s", "p"],
    ] {
        let run = Lab::new().run(&[command, &["--timeout", "0"]].concat());
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(run.err.contains("--timeout"), "{run:#?}");
    }
}

#[test]
fn an_undeclared_argument_is_reported() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"loud": {}}}, "do": [{"echo": true}]});
    let lab = Lab::with([("s", Script::default().tool_with(tool))]);
    lab.run(&["call", "s", "t", "lod=x"]).is(
        0,
        "{\"lod\":\"x\"}\n",
        "warning: \"t\" does not declare an argument \"lod\"\n  hint: see `trunkline tools s t` for its arguments\n",
    );
}

#[test]
fn json_keeps_meta_and_an_old_result_is_the_result() {
    let old =
        json!({"toolResult": {"content": [{"type": "text", "text": "broken"}], "isError": true}});
    let lab = Lab::with([(
        "s",
        json!({"tools": [
            {"name": "meta", "do": [{"reply": {"content": [], "_meta": {"k": 1}}}]},
            {"name": "old", "do": [{"reply": old}]},
        ]}),
    )]);
    let run = lab.run(&["call", "s", "meta", "--json"]);
    assert_eq!(run.json()["_meta"]["k"], 1);
    let run = lab.run(&["call", "s", "old"]);
    run.is(1, "broken\n", "the tool reported an error\n");
}
