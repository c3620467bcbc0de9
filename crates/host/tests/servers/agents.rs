//! Sub-agents: views of a host over the same connections (AGT-1).

use serde_json::json;
use trunkline::call::CallErrorKind;
use trunkline::permission::{AllowAll, Rules};
use trunkline::{AgentScope, Builtin, Host};
use trunkline_testkit::{Script, processes};

use crate::lab::{Lab, call, eventually, in_time};

fn script() -> Script {
    Script::default()
        .tool("get", json!([{"replyText": "got"}]))
        .tool("put", json!([{"replyText": "put"}]))
}

fn names(host: &Host) -> Vec<String> {
    let pool = host.pool();
    pool.tools().iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn an_agent_sees_what_it_was_given_over_the_same_connections() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("a", script()), lab.server("b", script())])
        .await;
    let agent = host.agent(AgentScope::only(["a"]).without(["put"]));
    assert_eq!(names(&agent), ["mcp__a__get"]);
    assert_eq!(agent.servers().len(), 1);
    assert_eq!(call(&agent, "mcp__a__get", json!({})).await.unwrap(), "got");
    for hidden in ["mcp__a__put", "mcp__b__get"] {
        let error = call(&agent, hidden, json!({})).await.unwrap_err();
        assert!(error.kind() == CallErrorKind::UnknownTool, "{error}");
    }
    // An agent of an agent sees no more than that one.
    let nested = agent.agent(AgentScope::all());
    assert_eq!(names(&nested), ["mcp__a__get"]);
    assert_eq!((lab.starts("a"), lab.starts("b")), (1, 1));

    in_time("the agent to end", agent.shutdown()).await;
    assert_eq!(call(&host, "mcp__a__put", json!({})).await.unwrap(), "put");
    lab.end(host).await;
}

#[tokio::test]
async fn an_agents_own_servers_end_with_it_and_nothing_else_does() {
    let lab = Lab::new();
    let host = lab.host([lab.server("a", script())]).await;
    let own = Script::default().tool("own", json!([{"replyText": "mine"}]));
    let shadow = Builtin::new("a").tool("other", "hides the host's", &json!({}), |_| async {
        Ok("other".into())
    });
    let scope = AgentScope::all()
        .server(lab.server("own", own))
        .builtin(shadow);
    let agent = host.agent(scope);
    in_time("the agent to be ready", agent.ready()).await;
    assert_eq!(names(&agent), ["mcp__a__other", "mcp__own__own"]);
    assert_eq!(names(&host), ["mcp__a__get", "mcp__a__put"]);
    assert_eq!(
        call(&agent, "mcp__own__own", json!({})).await.unwrap(),
        "mine"
    );
    assert_eq!(
        call(&agent, "mcp__a__other", json!({})).await.unwrap(),
        "other"
    );

    // What is not its own it cannot take down.
    let second = host.agent(AgentScope::all());
    in_time("no reconnection", second.reconnect("a"))
        .await
        .unwrap_err();
    in_time("no end", second.disable("a")).await.unwrap_err();
    assert_eq!(lab.starts("a"), 1);

    let process = lab.pid("own");
    drop(agent);
    eventually("the agent's server to be gone", || {
        !processes::alive(process)
    })
    .await;
    assert_eq!(call(&host, "mcp__a__get", json!({})).await.unwrap(), "got");
    assert_eq!(lab.starts("a"), 1);
    drop(second);
    lab.end(host).await;
}

#[tokio::test]
async fn an_agent_has_rules_of_its_own_and_cannot_do_what_is_denied_above() {
    let lab = Lab::new();
    let builder = Host::builder()
        .server(lab.server("a", script()))
        .rules(Rules::default().deny("mcp__a__put"))
        .permit(AllowAll);
    let host = lab.ready(builder).await;
    let bold = host.agent(AgentScope::all().rules(Rules::default().allow("mcp__*")));
    let error = call(&bold, "mcp__a__put", json!({})).await.unwrap_err();
    assert!(error.rule().is_some(), "{error}");
    assert_eq!(call(&bold, "mcp__a__get", json!({})).await.unwrap(), "got");

    let meek = host.agent(AgentScope::all().rules(Rules::default().deny("mcp__a__get")));
    let error = call(&meek, "mcp__a__get", json!({})).await.unwrap_err();
    assert!(error.rule().is_some(), "{error}");
    assert_eq!(call(&host, "mcp__a__get", json!({})).await.unwrap(), "got");
    lab.end(host).await;
}

#[tokio::test]
async fn an_agent_hears_only_of_what_it_sees() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("a", script()), lab.server("b", script())])
        .await;
    let agent = host.agent(AgentScope::only(["a"]));
    let mut events = agent.events();
    in_time("b to be gone", host.disable("b")).await.unwrap();
    in_time("a to be gone", host.disable("a")).await.unwrap();
    let heard = in_time("news", events.next()).await.unwrap();
    let heard: Vec<_> = heard.servers.iter().map(|server| &**server).collect();
    assert_eq!(heard, ["a"]);
    drop(agent);
    lab.end(host).await;
}
