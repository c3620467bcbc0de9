//! The organisation's policy for calls (SEC-7): arguments that hooks change, limits, agents, and
//! calls before the files have been read.

use serde_json::{Value, json};
use trunkline::config::Layout;
use trunkline::permission::{AllowAll, PermissionAnswer, PermissionQuestion};
use trunkline::{AgentScope, Builtin, Host, HostBuilder};

use crate::lab::{Lab, call};

/// Writes managed settings, and returns a host that reads them, with a built-in server `s`.
fn builder(lab: &Lab, settings: &Value) -> HostBuilder {
    let mut layout = Layout::under(lab.at("home"));
    layout.managed_dir = lab.at("managed");
    std::fs::create_dir_all(lab.at("managed")).unwrap();
    std::fs::write(layout.managed_settings(), settings.to_string()).unwrap();
    let schema = json!({"type": "object"});
    let server = Builtin::new("s")
        .tool("t", "", &schema, |_| async { Ok("done".into()) })
        .tool("u", "", &schema, |_| async { Ok("done".into()) });
    Host::builder()
        .builtin(server)
        .permit(AllowAll)
        .discover(layout, &lab.at("."))
        .watch(false)
}

#[tokio::test]
async fn the_policy_holds_before_the_files_have_been_read_and_for_agents() {
    let lab = Lab::new();
    let policy = json!({"callPolicy": {"callsPerMinute": {"mcp__s__t": 0}}});
    let host = builder(&lab, &policy).start();
    host.server("s").unwrap();
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    let rule = &error.policy_rule().unwrap().text;
    assert_eq!(rule, "callPolicy.callsPerMinute[\"mcp__s__t\"]");
    assert!(error.is_refused() && !error.may_have_run());
    call(&host, "mcp__s__u", json!({})).await.unwrap();
    let agent = host.agent(AgentScope::all().permit(AllowAll));
    let error = call(&agent, "mcp__s__t", json!({})).await.unwrap_err();
    assert!(error.policy_rule().is_some());
    lab.end(host).await;
}

#[tokio::test]
async fn calls_per_minute_are_counted_for_each_tool_and_across_agents() {
    let lab = Lab::new();
    let policy = json!({"callPolicy": {"callsPerMinute": {"mcp__s__*": 2}}});
    let host = builder(&lab, &policy).start();
    let agent = host.agent(AgentScope::all().permit(AllowAll));
    call(&host, "mcp__s__t", json!({})).await.unwrap();
    call(&agent, "mcp__s__t", json!({})).await.unwrap();
    for host in [&host, &agent] {
        let error = call(host, "mcp__s__t", json!({})).await.unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains("only 2 calls per minute are allowed"),
            "{told}"
        );
    }
    call(&host, "mcp__s__u", json!({})).await.unwrap();
    lab.end(host).await;
}

#[cfg(unix)]
#[tokio::test]
async fn arguments_that_a_hook_changes_are_checked_again() {
    let lab = Lab::new();
    let change = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"remote":"evil"}}}'"#;
    let settings = json!({
        "callPolicy": {"arguments": {"mcp__s__t": {"remote": {"enum": ["origin"]}}}},
        "hooks": {"PreToolUse": [{"matcher": "mcp__s__t", "hooks": [{"type": "command", "command": change}]}]},
    });
    let host = builder(&lab, &settings).start();
    host.ready().await;
    let error = call(&host, "mcp__s__t", json!({"remote": "origin"})).await;
    let told = error.unwrap_err().to_string();
    assert!(
        told.contains("\"remote\" must be one of \"origin\", not \"evil\""),
        "{told}"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn policy_asks_about_every_call_and_always_does_not_settle_it() {
    let lab = Lab::new();
    let policy = json!({"callPolicy": {"destructive": "ask"}});
    let (asked, mut questions) = tokio::sync::mpsc::unbounded_channel();
    let permit = move |question: PermissionQuestion| {
        asked.send(format!("{:?}", question.reason)).unwrap();
        async { PermissionAnswer::Always }
    };
    let host = builder(&lab, &policy).permit(permit).start();
    host.ready().await;
    for _ in 0..2 {
        call(&host, "mcp__s__t", json!({})).await.unwrap();
        let reason = questions.try_recv().unwrap();
        assert!(reason.starts_with("Policy"), "{reason}");
        questions.try_recv().unwrap_err();
    }
    // A program that decides before it calls has not asked the user.
    lab.end(host).await;
    let host = builder(&lab, &policy).start();
    host.ready().await;
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert!(
        error.to_string().contains("callPolicy.destructive of"),
        "{error}"
    );
    lab.end(host).await;
}
