use serde_json::json;
use trunkline_config::PolicyDecision::{Ask, Deny};
use trunkline_config::{Layout, Loader};

use super::*;
use crate::catalog::testing::tool_of;

/// Loads a policy as the managed settings have it.
fn policy(policy: &serde_json::Value) -> CompiledPolicy {
    let dir = tempfile::tempdir().unwrap();
    let mut layout = Layout::under(dir.path());
    layout.managed_dir = dir.path().to_owned();
    let settings = json!({ "callPolicy": policy }).to_string();
    std::fs::write(layout.managed_settings(), settings).unwrap();
    let set = Loader::new(layout, dir.path()).load(&[]);
    CompiledPolicy::new(set.call_policy.unwrap())
}

/// The decisions about a call, with the parts of the policy that make them.
fn judge(
    compiled: &CompiledPolicy,
    tool: &PoolTool,
    arguments: &str,
    running: &[&str],
    recent: usize,
) -> Vec<(PolicyDecision, String)> {
    let arguments = Arguments::Text(trunkline_wire::Json::parse(arguments.to_owned()).unwrap());
    let found = compiled.restrictions(
        PolicyTool::Server(tool),
        Some(&arguments),
        &Surroundings {
            running: &|| running.iter().map(|name| (*name).to_owned()).collect(),
            recent_calls: &|| recent,
            known: running,
        },
    );
    let found = found.into_iter();
    found
        .map(|restriction| {
            let part = restriction.rule.text.trim_start_matches(KEY).to_owned();
            (restriction.decision, part)
        })
        .collect()
}

fn annotated(server: &str, annotations: &serde_json::Value) -> PoolTool {
    tool_of(server, &json!({"name": "t", "annotations": annotations}))
}

#[test]
fn destructive_tools_need_approval_unless_they_say_or_the_policy_says_that_they_are_not() {
    let compiled = policy(&json!({"destructive": {
        "decision": "ask", "also": ["mcp__a__drop*"], "unless": ["mcp__memory__*"],
    }}));
    let ask = [(Ask, ".destructive".to_owned())];
    for (tool, expected) in [
        (annotated("s", &json!({"destructiveHint": true})), &ask[..]),
        // As MCP defines it.
        (annotated("s", &json!({})), &ask),
        (annotated("s", &json!({"destructiveHint": "no"})), &ask),
        (annotated("s", &json!({"destructiveHint": false})), &[]),
        (annotated("s", &json!({"readOnlyHint": true})), &[]),
        (annotated("memory", &json!({"destructiveHint": true})), &[]),
        // An exception does not reach a server with that prefix.
        (annotated("memory__x", &json!({})), &ask),
        (
            tool_of(
                "a",
                &json!({"name": "drop_it", "annotations": {"readOnlyHint": true}}),
            ),
            &ask,
        ),
    ] {
        assert_eq!(
            judge(&compiled, &tool, "{}", &["s"], 0),
            expected,
            "{tool:?}"
        );
    }
    let twice =
        r#"{"name":"t","annotations":{"readOnlyHint":true},"annotations":{"readOnlyHint":false}}"#;
    let twice = trunkline_wire::Json::parse(twice).unwrap();
    let pool = crate::catalog::Pool::from_lists([(
        "s",
        trunkline_wire::Json::parse(format!(r#"{{"tools":[{}]}}"#, twice.as_str())).unwrap(),
    )]);
    assert_eq!(judge(&compiled, &pool.tools()[0], "{}", &["s"], 0), ask);
}

#[test]
fn open_world_tools_are_refused_beside_servers_that_read_private_data() {
    let compiled = policy(&json!({"openWorld": {
        "decision": "deny", "beside": ["crm", "mcp__my_mail__*"], "also": ["mcp__crm__send"],
        "unless": ["mcp__files"],
    }}));
    let deny = [(Deny, ".openWorld".to_owned())];
    let open = json!({"openWorldHint": true});
    let closed = json!({"openWorldHint": false});
    for (tool, running, expected) in [
        (annotated("web", &open), &["web", "crm"][..], &deny[..]),
        (annotated("web", &json!({})), &["web", "crm"], &deny),
        (annotated("web", &open), &["web", "my mail"], &deny),
        (annotated("web", &open), &["web"], &[]),
        (annotated("web", &open), &["web", "crm2"], &[]),
        (annotated("web", &closed), &["web", "crm"], &[]),
        (annotated("files", &open), &["files", "crm"], &[]),
        // A server is not beside itself, unless the policy names its tool.
        (annotated("crm", &open), &["web", "crm"], &[]),
        (annotated("crm", &open), &["crm", "my mail"], &deny),
        (tool_of("crm", &json!({"name": "send"})), &["crm"], &deny),
    ] {
        let found = judge(&compiled, &tool, "{}", running, 0);
        assert_eq!(found, expected, "{} beside {running:?}", tool.name);
    }
}

#[test]
fn calls_are_limited_by_the_smallest_number() {
    let compiled = policy(&json!({"callsPerMinute": {"*": 5, "mcp__s__*": 2, "mcp__z": 0}}));
    let tool = |server: &str| annotated(server, &json!({}));
    let deny = |part: &str| vec![(Deny, format!(".callsPerMinute[\"{part}\"]"))];
    for (server, recent, expected) in [
        ("s", 1, vec![]),
        ("s", 2, deny("mcp__s__*")),
        ("t", 4, vec![]),
        ("t", 5, deny("*")),
        ("z", 0, deny("mcp__z")),
    ] {
        let found = judge(&compiled, &tool(server), "{}", &[server], recent);
        assert_eq!(found, expected, "{server} after {recent} calls");
    }
}

#[cfg(feature = "validation")]
#[test]
fn arguments_must_fit_their_fragments() {
    let compiled = policy(&json!({"arguments": {
        "mcp__git__t": {"remote": {"enum": ["origin"]}, "branch": {"enum": ["dev", null]}},
        "mcp__typo__*": {"a": {"enmu": [1]}},
        "mcp__bad__*": {"a": {"type": 7}},
    }}));
    for (server, arguments, expected) in [
        ("git", r#"{"remote": "origin"}"#, None),
        ("git", r#"{"rem\u006fte": "origin", "branch": "dev"}"#, None),
        ("git", r#"{"remote": "evil"}"#, Some("remote")),
        ("git", r#"{"rem\u006fte": "evil"}"#, Some("remote")),
        ("git", "{}", Some("remote")),
        (
            "git",
            r#"{"remote": "origin", "branch": "main"}"#,
            Some("branch"),
        ),
        // The server may take the other one.
        (
            "git",
            r#"{"remote": "evil", "remote": "origin"}"#,
            Some("remote"),
        ),
        (
            "git",
            r#"{"remote": "origin", "x": {"a": 1, "a": 2}}"#,
            Some("remote"),
        ),
        ("other", r#"{"remote": "evil"}"#, None),
        // A rule that cannot be used refuses.
        ("typo", r#"{"a": 1}"#, Some("a")),
        ("bad", r#"{"a": 1}"#, Some("a")),
    ] {
        let found = judge(
            &compiled,
            &annotated(server, &json!({})),
            arguments,
            &[server],
            0,
        );
        let found: Vec<_> = found
            .iter()
            .map(|(_, part)| part.rsplit('.').next())
            .collect();
        let expected: Vec<_> = expected.into_iter().map(Some).collect();
        assert_eq!(found, expected, "{arguments} of {server}");
    }
}

#[test]
fn a_refusal_comes_before_a_question() {
    let compiled = policy(&json!({"destructive": "ask", "callsPerMinute": {"*": 1}}));
    let found = judge(&compiled, &annotated("s", &json!({})), "{}", &["s"], 1);
    assert_eq!(found[0].0, Deny);
    assert_eq!(found[1].0, Ask);
}

#[test]
fn a_policy_that_is_not_understood_refuses_every_call() {
    let compiled = policy(&json!({"destuctive": "ask"}));
    let tool = annotated("s", &json!({"readOnlyHint": true}));
    assert_eq!(
        judge(&compiled, &tool, "{}", &["s"], 0),
        [(Deny, String::new())]
    );
}
