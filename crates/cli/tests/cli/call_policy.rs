//! The organisation's policy for calls (SEC-7): `policy show`, `policy test`, and calls that it
//! refuses or asks about.

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::managed::Company;
use crate::pty::Session;

/// A company with this policy and these servers, each with one tool that leaves a mark.
fn company(policy: &Value, servers: &[(&str, Value)]) -> Option<Company> {
    let company = Company::new()?;
    company.settings(&json!({ "callPolicy": policy }));
    let script = |tool: &Value| {
        let mut tool = tool.clone();
        tool["name"] = json!("t");
        tool["do"] = json!([{"touch": company.lab.at("called")}, {"replyText": "done"}]);
        Script::default().tool_with(tool)
    };
    let servers = servers.iter().map(|(name, tool)| (*name, script(tool)));
    company.lab.configure(servers);
    Some(company)
}

const FILE: &str = "/etc/claude-code/managed-settings.json";
const CONFIG: [&str; 2] = ["--mcp-config", ".mcp-config.json"];

fn words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&CONFIG, words].concat()
}

#[track_caller]
fn refused(company: &Company, call: &[&str], reason: &str, rule: &str) {
    let run = company.run(&words(&[&["call"], call].concat()));
    let error = format!(
        "\"mcp__{}__t\" may not be called: {reason} ({rule} of {FILE})",
        call[0]
    );
    let hint = "your organisation sets this policy; `trunkline policy show` prints it";
    run.fails(5, &error, hint);
    assert!(!company.lab.at("called").exists());
}

#[test]
fn arguments_outside_of_the_policy_are_refused_in_every_spelling() {
    let policy = json!({"arguments": {"mcp__git__t": {"remote": {"enum": ["origin"]}}}});
    let Some(company) = company(&policy, &[("git", json!({}))]) else {
        return;
    };
    let rule = "callPolicy.arguments[\"mcp__git__t\"].remote";
    let evil = "\"remote\" must be one of \"origin\", not \"evil\"";
    refused(&company, &["git", "t", "remote=evil"], evil, rule);
    refused(
        &company,
        &["git", "t", "--no-validate", "remote=evil"],
        evil,
        rule,
    );
    let missing = "\"remote\" must be one of \"origin\", not null (it is missing)";
    refused(&company, &["git", "t"], missing, rule);
    let test = company.run(&words(&["policy", "test", "git", "t", "remote=evil"]));
    let told = format!("mcp__git__t would be refused\n  denied by {rule} in {FILE}: {evil}\n");
    test.is(5, &told, "");
    let test = company.run(&words(&[
        "policy",
        "test",
        "--json",
        "git",
        "t",
        "remote=origin",
    ]));
    assert_eq!(
        test.json(),
        json!({"tool": "mcp__git__t", "decision": "ask", "reasons": []})
    );
    assert!(!company.lab.at("called").exists(), "a test called the tool");
    let run = company.run(&words(&["call", "git", "t", "remote=origin"]));
    run.is(0, "done\n", "");
}

#[test]
fn an_open_world_tool_is_refused_beside_private_data_even_if_that_server_does_not_run() {
    let policy = json!({"openWorld": {"decision": "deny", "beside": ["crm"]}});
    let servers = [
        ("web", json!({"annotations": {"openWorldHint": true}})),
        ("crm", json!({})),
    ];
    let Some(company) = company(&policy, &servers) else {
        return;
    };
    let why = "it reaches the open world, beside \"crm\", which reads private data";
    refused(&company, &["web", "t"], why, "callPolicy.openWorld");
    refused(
        &company,
        &["web", "t", "--mcp-server", "web"],
        why,
        "callPolicy.openWorld",
    );
    // A model is not shown the tool.
    let shown = company.run(&words(&["tools", "--format", "anthropic"]));
    assert!(!shown.out.contains("mcp__web__t"), "{}", shown.out);
    let listed = company.run(&words(&["tools", "--json"])).json();
    let denied = json!({"rule": "callPolicy.openWorld", "source": FILE});
    assert_eq!(listed[1]["denied"], denied, "{listed}");
    let run = company.run(&words(&["call", "crm", "t"]));
    run.is(0, "done\n", "");
}

#[test]
fn a_destructive_tool_needs_approval_of_every_call_whatever_the_users_rules() {
    let policy = json!({"destructive": "ask"});
    let tool = json!({"annotations": {"destructiveHint": true}});
    let Some(company) = company(&policy, &[("db", tool)]) else {
        return;
    };
    let allow = json!({"permissions": {"allow": ["mcp__db__t"]}});
    company.lab.write_json("home/.claude/settings.json", &allow);
    let why = format!(
        "\"mcp__db__t\" may not be called: it may destroy data, and callPolicy.destructive of {FILE} requires your approval"
    );
    company.run(&words(&["call", "db", "t"])).fails(5, &why, "");
    assert!(!company.lab.at("called").exists());
    for (answer, code) in [("n", 5), ("y", 0)] {
        let mut session = Session::start(&mut company.command(&words(&["call", "db", "t"])));
        session.answer("call the tool? [y/N] ", answer);
        let (ended, shown) = session.end();
        assert_eq!(ended, Some(code), "{shown}");
        assert_eq!(company.lab.at("called").exists(), code == 0);
    }
}

#[test]
fn a_policy_that_is_not_understood_refuses_every_call_and_says_so() {
    let Some(company) = company(&json!({"destuctive": "ask"}), &[("s", json!({}))]) else {
        return;
    };
    let run = company.run(&words(&["call", "s", "t"]));
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert!(
        run.err.contains("unknown key \"destuctive\""),
        "{}",
        run.err
    );
    assert!(!company.lab.at("called").exists());
    let shown = company.run(&words(&["policy", "show"]));
    assert!(
        shown.out.contains("every call is refused: unknown key"),
        "{}",
        shown.out
    );
}

#[test]
fn policy_show_prints_the_policy_and_the_rules_with_their_files() {
    let policy = json!({
        "destructive": {"decision": "ask", "unless": ["mcp__memory"]},
        "openWorld": {"decision": "deny", "beside": ["crm", "mail"], "also": ["mcp__web"]},
        "callsPerMinute": {"mcp__web__*": 30},
        "arguments": {"mcp__git__push": {"remote": {"enum": ["origin"]}}},
    });
    let Some(company) = company(&policy, &[]) else {
        return;
    };
    let rules = json!({"permissions": {"deny": ["mcp__x"]}, "callPolicy": {}});
    company.lab.write_json("home/.claude/settings.json", &rules);
    let shown = company.run(&words(&["policy", "show"]));
    let expected = format!(
        "policy for calls in {FILE}:\n  \
         destructive tools are asked about; except mcp__memory\n  \
         open-world tools are denied beside crm, mail; also mcp__web\n  \
         mcp__web__*: at most 30 calls per minute for each tool\n  \
         mcp__git__push: \"remote\" must fit {{\"enum\":[\"origin\"]}}\n\
         mcp__x is denied in [DIR]/home/.claude/settings.json\n"
    );
    shown.is(
        0,
        &expected,
        "warning: [DIR]/home/.claude/settings.json:7:17: \"callPolicy\" counts only in the managed settings\n",
    );
    let shown = company.run(&words(&["policy", "show", "--json"])).json();
    assert_eq!(shown["callPolicy"]["limits"][0]["perMinute"], 30);
    assert_eq!(shown["permissions"]["deny"][0]["rule"], "mcp__x");
}
